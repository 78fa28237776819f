"""From the plan to the properties of the one resource: plain values, and nothing that is secret."""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan

from .limits import DELETE_WAIT_S, POLL_S
from .section import ReplicateSection


def section(plan: ServingPlan) -> ReplicateSection:
    """Replicate's part of a plan. Raises ValueError for a plan of another option."""
    if plan.replicate is None:
        raise ValueError(f"the plan of {plan.name} is for {plan.architecture.option}, not for Replicate")
    return plan.replicate


def deployment(plan: ServingPlan) -> dict[str, Any]:
    """Properties of the deployment."""
    own = section(plan)
    return {
        "owner": own.owner,
        "name": own.name,
        "model": own.model,
        "version": own.version,
        "hardware": own.hardware,
        "min_instances": own.min_instances,
        "max_instances": own.max_instances,
        "adopt": own.adopt,
        "warm_up": _warm_up(plan),
        "delete_wait_s": DELETE_WAIT_S,
        "poll_s": POLL_S,
    }


def _warm_up(plan: ServingPlan) -> dict[str, Any] | None:
    """A prediction after a deployment; None where no instance is kept, or no input is known."""
    own = section(plan)
    if own.min_instances == 0 or own.warm_up_input is None:
        return None
    return {"input": own.warm_up_input, "timeout_s": plan.container.warm_up.timeout_s}
