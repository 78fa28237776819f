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
from servingstack.targets.kubernetes.parts import Manifest

_PLANNED = "Set the field of the input that decides it."
_IDENTITY = {
    "apiVersion": "It follows from the role.",
    "kind": "It follows from the role.",
    "metadata.name": "Names follow from the stack's `name`.",
    "metadata.namespace": "Set target.kubernetes.namespace.",
    "spec.selector": "Selectors follow from the stack's `name`; they are immutable.",
}
_POD = {
    "spec.template.spec.containers": "Use the engine's own settings, `extra_args` for one, or a transform.",
    "spec.template.spec.automountServiceAccountToken": "No pod of the stack talks to the cluster's API.",
    "spec.template.spec.enableServiceLinks": "A Service's variables can be read as the engine's settings.",
    "spec.template.spec.securityContext": "Pods keep to Pod Security `restricted`.",
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
    "service": {"spec.ports": "The port is in the endpoint output and in the network policy."},
    "engine-service": {
        "spec.ports": "The port is the engine's.",
        "spec.clusterIP": "The front door needs each replica.",
    },
    "scaler": {
        "spec.scaleTargetRef": "There is one workload to scale.",
        "spec.minReplicaCount": "Set scaling.min_replicas.",
        "spec.maxReplicaCount": "Set scaling.max_replicas.",
        "spec.triggers": "Set scaling.queue_depth.",
        "spec.cooldownPeriod": "Set scaling.scale_to_zero_after.",
    },
    "weights": {"spec.storageClassName": "Set target.kubernetes.weights_storage_class."},
    "warm-up": {"data": "Set the engine's own settings."},
    "door-config": {"data": _PLANNED},
    "dashboard": {"data": "Dashboards are generated; copy it in Grafana to change it."},
}
"""Fields that the plan owns, by role (`*`: every role), each with what to use instead."""


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
