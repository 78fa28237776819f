"""What must be in the cluster before a stack is, since a stack installs nothing but itself.

Trap: without a kind's definition the provider says "no matches for kind" after minutes of retries, in the
middle of an update. So what can be looked up is looked up first; the rest is named.
"""

from __future__ import annotations

from dataclasses import dataclass

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes.manifests import manifests


@dataclass(frozen=True)
class Requirement:
    """One thing that others install."""

    name: str
    why: str
    definitions: tuple[str, ...] = ()
    """Custom resource definitions by which its presence is known; empty where it has none."""


_ALL = (
    # fallback.behavior came with 2.17 (kedacore/keda CHANGELOG.md).
    Requirement("KEDA 2.17 or later", "scales the replicas on queue depth", ("scaledobjects.keda.sh",)),
    Requirement(
        "Prometheus operator",
        "scrapes the replicas and evaluates rules",
        ("servicemonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com"),
    ),
    Requirement("NVIDIA device plugin", "makes GPUs a resource that pods can ask for"),
    Requirement("DCGM exporter", "measures GPU utilisation and memory for the dashboard"),
    Requirement("Grafana with the dashboard sidecar", "shows the dashboard"),
    Requirement(
        "a network plugin that enforces NetworkPolicy", "keeps others from the engine's unguarded paths"
    ),
)


def requirements(plan: ServingPlan) -> tuple[Requirement, ...]:
    """What this plan needs: of what has kinds, only the kinds it uses."""
    used = {f"{each.kind.lower()}s.{each.api_version.split('/')[0]}" for each in manifests(plan)}
    return tuple(
        each
        for each in _ALL
        if (not each.definitions or used & set(each.definitions))
        and (plan.monitoring.dashboards or not each.name.startswith("Grafana"))
    )


def definitions(plan: ServingPlan) -> tuple[str, ...]:
    """The definitions to look up; none unless the plan says so."""
    if plan.placement is None or not plan.placement.check_requirements:
        return ()
    return tuple(name for each in requirements(plan) for name in each.definitions)
