"""The one place where a user's `overrides` meet the rendered objects: deep-merged by role, lists replaced.

Trap: an override of something the plan decides would make plan, dashboard and cluster say different things.
Such fields are managed: they are refused here, with the input's own field for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from servingstack.errors import InvalidInput, Violation
from servingstack.naming import standard_labels
from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes.manifests import manifests
from servingstack.targets.kubernetes.parts import Manifest

_PLANNED = "Set the field of the input that decides it."
_IDENTITY = {
    "apiVersion": "It follows from the role.",
    "kind": "It follows from the role.",
    "metadata.name": "Names follow from the stack's `name`.",
    "metadata.namespace": "Set target.kubernetes.namespace.",
    "spec.selector": "Selectors follow from the stack's `name`; they are immutable.",
    **{
        f"metadata.labels.{label}": "It says whose an object is; monitors select by it."
        for label in standard_labels("", "")
    },
}
_CLOSED = "Pods keep to Pod Security `restricted`."
_POD = {
    **{
        f"spec.template.metadata.labels.{label}": "Selectors, network policies and queries read it."
        for label in standard_labels("", "")
    },
    "spec.template.spec.hostNetwork": f"{_CLOSED} Network policies do not hold there.",
    "spec.template.spec.hostPID": _CLOSED,
    "spec.template.spec.hostIPC": _CLOSED,
    "spec.template.spec.hostUsers": _CLOSED,
    "spec.template.spec.initContainers": "Use a transform of the workload.",
    "spec.template.spec.ephemeralContainers": "Use `kubectl debug`.",
    "spec.template.spec.serviceAccountName": "No pod of the stack talks to the cluster's API.",
    "spec.template.spec.serviceAccount": "No pod of the stack talks to the cluster's API.",
    "spec.template.spec.topologySpreadConstraints": "Set target.kubernetes.topology_key.",
    "spec.template.spec.restartPolicy": "A replica that ends is started again.",
    "spec.template.spec.containers": "Use the engine's own settings, `extra_args` for one, or a transform.",
    "spec.template.spec.automountServiceAccountToken": "No pod of the stack talks to the cluster's API.",
    "spec.template.spec.enableServiceLinks": "A Service's variables can be read as the engine's settings.",
    "spec.template.spec.securityContext": _CLOSED,
    "spec.template.spec.terminationGracePeriodSeconds": _PLANNED,
    "spec.template.spec.volumes": "Use a transform of the Deployment.",
}
MANAGED: dict[str, dict[str, str]] = {
    "*": _IDENTITY,
    "namespace": {"metadata.labels": "The namespace keeps to Pod Security `restricted`."},
    "deployment": _POD
    | {
        "spec.replicas": "Set scaling.min_replicas.",
        "spec.strategy": "Set rollout.surge.",
        "spec.progressDeadlineSeconds": _PLANNED,
    },
    "door": _POD | {"spec.replicas": _PLANNED, "spec.strategy": "The front door rolls without a gap."},
    "placeholder": _POD | {"spec.replicas": "Set `warm`."},
    "prepull": _POD,
    "service-account": {"automountServiceAccountToken": "No pod of the stack talks to the cluster's API."},
    "service": {
        "spec.type": "Set `exposure`.",
        "spec.externalIPs": "Set `exposure`.",
        "spec.ports": "The port is in the endpoint output and in the network policy.",
    },
    "engine-service": {
        "spec.ports": "The port is the engine's.",
        "spec.clusterIP": "The front door needs each replica.",
        "spec.type": "Only the front door may be reached.",
        "spec.externalIPs": "Only the front door may be reached.",
        "spec.publishNotReadyAddresses": "A replica that is not warm takes no request.",
    },
    "scaler": {
        "spec.scaleTargetRef": "There is one workload to scale.",
        "spec.minReplicaCount": "Set scaling.min_replicas.",
        "spec.maxReplicaCount": "Set scaling.max_replicas.",
        "spec.triggers": "Set scaling.queue_depth.",
        "spec.cooldownPeriod": "Set scaling.scale_to_zero_after.",
        "spec.idleReplicaCount": "Set scaling.min_replicas.",
        "spec.fallback": _PLANNED,
        "spec.advanced": "Set scaling.scale_in_delay.",
        "metadata.annotations.autoscaling.keda.sh/paused": "Set scaling.min_replicas and max_replicas alike.",
        "metadata.annotations.autoscaling.keda.sh/paused-replicas": "Set scaling.min_replicas.",
    },
    **{
        role: {"spec": "Set monitoring_namespace or ingress_namespace; another policy can only let in more."}
        for role in ("network-deny", "network-engine", "network-door")
    },
    **{
        role: {"spec": "One replica at a time may go, so that a drain of a node neither blocks nor empties."}
        for role in ("disruption-budget", "door-disruption-budget")
    },
    **{
        role: {"spec": "Objectives and scaling read what it scrapes; set monitor_labels to have it selected."}
        for role in ("engine-monitor", "door-monitor")
    },
    "rules": {
        "spec": "Set slo, or observability.alerts; rules of your own go in a PrometheusRule of your own."
    },
    "weights": {
        "spec.storageClassName": "Set target.kubernetes.weights_storage_class.",
        "spec.accessModes": "Set target.kubernetes.weights_access_mode.",
        "spec.resources": _PLANNED,
    },
    "priority": {
        "value": "Replicas push placeholders away.",
        "globalDefault": "It is the placeholder's alone.",
    },
    "warm-up": {"data": "Set the engine's own settings."},
    "door-config": {"data": _PLANNED},
    "dashboard": {"data": "Dashboards are generated; copy it in Grafana to change it."},
}
"""Fields that the plan owns, by role (`*`: every role), each with what to use instead."""


def check(plan: ServingPlan) -> None:
    """Raises `InvalidInput` for overrides that the plan's resources do not take: no SDK is asked for it."""
    apply(manifests(plan), plan.overrides)


def apply(manifests: Sequence[Manifest], overrides: Mapping[str, Mapping[str, Any]]) -> tuple[Manifest, ...]:
    """The manifests with the overrides merged in. Raises `InvalidInput` with everything that is wrong with
    them."""
    if wrong := list(_violations(manifests, overrides)):
        raise InvalidInput(wrong)
    return tuple(
        dataclasses.replace(each, body=merged(each.body, overrides[each.role]))
        if each.role in overrides
        else each
        for each in manifests
    )


def merged(base: Any, change: Any) -> Any:
    """`change` over `base`: objects are merged key by key, everything else is replaced."""
    if not (isinstance(base, dict) and isinstance(change, Mapping)):
        return change
    return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}


def _violations(
    manifests: Sequence[Manifest], overrides: Mapping[str, Mapping[str, Any]]
) -> Iterator[Violation]:
    roles = [each.role for each in manifests]
    for role, change in overrides.items():
        if role not in roles:
            close = get_close_matches(role, roles, n=1)
            fix = f"Did you mean `{close[0]}`?" if close else "Use one of them, or remove it."
            yield Violation(f"overrides.{role}", None, f"a role of this stack: {', '.join(roles)}", fix)
            continue
        managed = MANAGED["*"] | MANAGED.get(role, {})
        for path, value in _leaves(change):
            owner = next((own for own in managed if _touches(path, own)), None)
            if owner is not None:
                allowed = f"anything but what the plan owns ({owner})"
                yield Violation(f"overrides.{role}.{path}", value, allowed, managed[owner])


def _leaves(change: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in change.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, path)
        else:
            yield path, value


def _touches(path: str, owned: str) -> bool:
    """Whether setting `path` changes something under `owned`, or replaces the whole around it."""
    return path == owned or path.startswith(f"{owned}.") or owned.startswith(f"{path}.")
