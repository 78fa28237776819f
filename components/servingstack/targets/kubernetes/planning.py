"""A cluster's own part of planning: names of objects, and Prometheus as the language of what is watched.

Trap: nothing is completed here. Where the pods go depends on the nodes that were chosen, which only the
planner knows, so `placement` is its business.
"""

from __future__ import annotations

from servingstack.args import ServingStackArgs
from servingstack.errors import Violation
from servingstack.naming import kubernetes_names
from servingstack.plan import ServingPlan
from servingstack.signals import monitoring
from servingstack.targets.kubernetes import overflow


def names(args: ServingStackArgs) -> dict[str, str]:
    """Physical names by role."""
    return kubernetes_names(args.name)


def violations(args: ServingStackArgs) -> list[Violation]:
    """Beyond what the input's own types and the capabilities refuse: what an overflow does not go with."""
    return list(overflow.violations(args))


def complete(draft: ServingPlan, args: ServingStackArgs) -> ServingPlan:
    """The draft is complete, but for an endpoint beside the replicas."""
    asked = args.target.overflow
    return draft if asked is None else overflow.added(draft, asked)


__all__ = ["complete", "monitoring", "names", "violations"]
