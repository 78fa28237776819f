"""A plan as the objects of a cluster: pure, complete, in the order in which they are created.

Trap: this is a rendering, not a decision. Whatever is not in the plan or the same for every stack belongs in
the planner, or a locked plan would deploy differently with the next release.
"""

from __future__ import annotations

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import (
    capacity,
    disruption,
    door,
    monitoring,
    network,
    parts,
    scaling,
    workload,
)
from servingstack.targets.kubernetes.parts import Manifest, manifest

_POD_SECURITY = "pod-security.kubernetes.io"
"""Labels of the admission controller that is built into the API server (Kubernetes 1.25 and later)."""


def manifests(plan: ServingPlan) -> tuple[Manifest, ...]:
    """Every object of the stack, without the overrides. Raises ValueError for a plan of another option."""
    own = parts.placement(plan).create_namespace
    return (
        *([namespace(plan)] if own else []),
        *network.objects(plan),
        *workload.objects(plan),
        *door.objects(plan),
        *scaling.objects(plan),
        *disruption.objects(plan),
        *capacity.objects(plan),
        *monitoring.objects(plan),
    )


def namespace(plan: ServingPlan) -> Manifest:
    """The namespace, closed to pods that ask for privileges.

    Its labels name no stack: several stacks may share a namespace, and each of them applies the same
    labels."""
    modes = ("enforce", "audit", "warn")
    labels = {"app.kubernetes.io/managed-by": "pulumi"} | {
        f"{_POD_SECURITY}/{mode}": "restricted" for mode in modes
    }
    return manifest(
        "namespace", "v1", "Namespace", {"name": parts.placement(plan).namespace, "labels": labels}
    )


__all__ = ["Manifest", "manifests"]
