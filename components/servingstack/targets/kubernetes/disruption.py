"""Disruption budgets, one for the replicas and one for the front door, whatever their number.

Trap: `minAvailable: 1` at one replica blocks every drain of its node for good. `maxUnavailable: 1` never
does, and with more replicas it takes them one by one.
"""

from __future__ import annotations

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import parts
from servingstack.targets.kubernetes.parts import Body, Manifest, manifest


def objects(plan: ServingPlan) -> list[Manifest]:
    """Both budgets."""
    return [
        _budget(plan, "disruption-budget", plan.names["engine"], parts.engine_component(plan)),
        _budget(plan, "door-disruption-budget", plan.names["door"], parts.DOOR),
    ]


def _budget(plan: ServingPlan, role: str, name: str, component: str) -> Manifest:
    spec: Body = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": parts.selector(plan, component)},
        # A replica that never became ready protects nothing, and must not hold a node (stable since 1.31).
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return manifest(
        role, "policy/v1", "PodDisruptionBudget", parts.metadata(plan, name, component), spec=spec
    )
