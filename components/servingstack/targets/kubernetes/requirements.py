"""What must be in the cluster before a stack is, since a stack installs nothing but itself.

Trap: without a kind's definition the provider says "no matches for kind" after minutes of retries, in the
middle of an update. So what can be looked up is looked up first; the rest is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import sharing
from servingstack.targets.kubernetes.parts import Manifest, placement


@dataclass(frozen=True)
class Requirement:
    """One thing that others install."""

    name: str
    why: str
    roles: tuple[str, ...]
    """Objects of a stack that need it, any of them."""
    definitions: tuple[str, ...] = ()
    """Custom resource definitions by which its presence is known; empty where it has none."""


SLICE = "nvidia.com/mig-"
_ALL = (
    # fallback.behavior came with 2.17 (kedacore/keda CHANGELOG.md).
    Requirement(
        "KEDA 2.17 or later", "scales the replicas on queue depth", ("scaler",), ("scaledobjects.keda.sh",)
    ),
    Requirement(
        "Prometheus operator",
        "scrapes the replicas and evaluates rules",
        ("engine-monitor", "rules"),
        ("servicemonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com"),
    ),
    Requirement("NVIDIA device plugin", "makes GPUs a resource that pods can ask for", ("deployment",)),
    Requirement(
        "DCGM exporter, honorLabels false",
        "measures GPU utilisation and memory for the dashboard",
        ("dashboard",),
    ),
    Requirement("Grafana with the dashboard sidecar", "shows the dashboard", ("dashboard",)),
    Requirement(
        "a network plugin that enforces NetworkPolicy",
        "keeps others from the engine's unguarded paths",
        ("network-engine",),
    ),
)


def requirements(objects: Sequence[Manifest]) -> tuple[Requirement, ...]:
    """What these objects of a stack need."""
    roles = {each.role for each in objects}
    found = tuple(each for each in _ALL if roles & set(each.roles))
    return (*found, *_of_parts(objects))


def _of_parts(objects: Sequence[Manifest]) -> tuple[Requirement, ...]:
    """What GPUs that are cut or shared take: the deployment says which it asks for."""
    pod = next((each.body["spec"]["template"] for each in objects if each.role == "deployment"), None)
    if pod is None:
        return ()
    asked = {key for each in pod["spec"]["containers"] for key in each["resources"]["limits"]}
    slices = sorted(key.removeprefix(SLICE) for key in asked if key.startswith(SLICE))
    if slices:
        name = f"GPUs cut into slices {', '.join(slices)}, device plugin with MIG strategy mixed"
        return (Requirement(name, "makes MIG slices a resource that pods can ask for", ("deployment",)),)
    if sharing.LABEL not in pod["metadata"]["labels"]:
        return ()
    why = "lets several pods ask for one GPU; without the exporter's option its panels show one of them"
    name = "device plugin with time-slicing, DCGM exporter with --kubernetes-virtual-gpus"
    return (Requirement(name, why, ("deployment",)),)


def definitions(plan: ServingPlan, objects: Sequence[Manifest]) -> tuple[str, ...]:
    """The definitions to look up; none unless the plan says so."""
    if not placement(plan).check_requirements:
        return ()
    return tuple(name for each in requirements(objects) for name in each.definitions)


def needed(objects: Sequence[Manifest]) -> str:
    """What the cluster must have, and for what, in a line each."""
    return "The cluster must have:\n" + "\n".join(
        f"- {each.name}: {each.why}" for each in requirements(objects)
    )
