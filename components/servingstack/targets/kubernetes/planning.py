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


def names(args: ServingStackArgs) -> dict[str, str]:
    """Physical names by role."""
    return kubernetes_names(args.name)


def violations(args: ServingStackArgs) -> list[Violation]:
    """Nothing beyond what the input's own types and the capabilities refuse."""
    del args
    return []


def complete(draft: ServingPlan, args: ServingStackArgs) -> ServingPlan:
    """The draft is complete."""
    del args
    return draft


__all__ = ["complete", "monitoring", "names", "violations"]
