"""Pods that share a GPU: who may be on a node with whom.

The scheduler counts turns, it knows nothing of the memory behind them. So pods that share a GPU bear a label
of their group, and keep off nodes where another group's are: then the shares of a group's members are all
that is ever on its GPUs. Members of a group prefer each other's nodes, and two pods of one member never meet.

Trap: the scheduler holds a required anti-affinity in both directions, so a pod without such a rule is kept
off as well, as long as it bears the label; pods of others that use the same nodes do not.
"""

from __future__ import annotations

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import parts
from servingstack.targets.kubernetes.parts import Body

LABEL = "servingstack/gpu-group"
_NODE = "kubernetes.io/hostname"


def labels(plan: ServingPlan) -> dict[str, str]:
    """What a replica's pods are told apart by; empty where each has its GPU alone."""
    group = parts.placement(plan).gpu_group
    return {} if group is None else {LABEL: group}


def affinity(plan: ServingPlan) -> Body | None:
    """Whom a replica's pods keep off, and whom they seek; None where each has its GPU alone."""
    group, part = parts.placement(plan).gpu_group, plan.architecture.gpu_part
    if group is None or part is None:
        return None
    own = {"labelSelector": {"matchLabels": parts.selector(plan, parts.engine_component(plan))}}
    others = [
        {"key": LABEL, "operator": "Exists"},
        {"key": LABEL, "operator": "NotIn", "values": [group]},
    ]
    apart: list[Body] = [
        {"labelSelector": {"matchExpressions": others}, "namespaceSelector": {}, "topologyKey": _NODE}
    ]
    if part.group is None:
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
    apart.append({**own, "topologyKey": _NODE})
    members = {"labelSelector": {"matchLabels": {LABEL: group}}, "topologyKey": _NODE}
    return {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart},
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": members}]
        },
    }
