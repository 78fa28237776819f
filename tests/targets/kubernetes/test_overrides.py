"""Overrides: merged where nothing is managed, refused with the right field where the plan decides."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sample import sample_plan
from tests.targets.kubernetes.bodies import PLANS

from servingstack.errors import InvalidInput
from servingstack.targets.kubernetes.manifests import manifests
from servingstack.targets.kubernetes.overrides import MANAGED, apply, merged


def _applied(overrides: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each.role: each.body for each in apply(manifests(sample_plan()), overrides)}


def _refused(overrides: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        _applied(overrides)
    return [f"{each.path} | {each.fix}" for each in caught.value.violations]


def test_an_override_is_merged_deeply_and_leaves_the_rest_alone() -> None:
    change = {"metadata": {"annotations": {"team.example.com/owner": "ml"}}}
    found = _applied({"deployment": change})
    before = {each.role: each.body for each in manifests(sample_plan())}
    assert found["deployment"]["metadata"]["annotations"] == change["metadata"]["annotations"]
    assert found["deployment"]["spec"] == before["deployment"]["spec"]
    assert found["door"] == before["door"]


def test_lists_replace_and_the_original_is_never_changed() -> None:
    base = {"a": [1, 2], "b": {"c": 1}}
    assert merged(base, {"a": [3], "b": {"d": 2}}) == {"a": [3], "b": {"c": 1, "d": 2}}
    assert base == {"a": [1, 2], "b": {"c": 1}}


def test_an_unmanaged_part_of_the_pod_can_be_set() -> None:
    affinity = {"nodeAffinity": {}}
    found = _applied({"deployment": {"spec": {"template": {"spec": {"affinity": affinity}}}}})
    assert found["deployment"]["spec"]["template"]["spec"]["affinity"] == affinity


def test_an_unknown_role_is_told_from_those_there_are() -> None:
    (message,) = _refused({"deploymnt": {"spec": {}}})
    assert message == "overrides.deploymnt | Did you mean `deployment`?"


@pytest.mark.parametrize(
    ("role", "change", "message"),
    [
        ("deployment", {"spec": {"replicas": 3}}, "spec.replicas | Set scaling.min_replicas."),
        ("scaler", {"spec": {"maxReplicaCount": 9}}, "spec.maxReplicaCount | Set scaling.max_replicas."),
        ("service", {"metadata": {"name": "x"}}, "metadata.name | Names follow from the stack's `name`."),
    ],
)  # fmt: skip
def test_a_managed_field_is_refused_with_the_field_that_decides_it(role, change, message) -> None:
    assert _refused({role: change}) == [f"overrides.{role}.{message}"]


def test_replacing_the_whole_around_a_managed_field_is_refused_too() -> None:
    (message,) = _refused({"deployment": {"spec": {"template": {"spec": None}}}})
    assert message.startswith("overrides.deployment.spec.template.spec |")


def test_everything_wrong_is_told_at_once() -> None:
    overrides = {
        "nobody": {"x": 1},
        "deployment": {"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}},
    }
    assert len(_refused(overrides)) == 3


def test_every_managed_role_exists_in_some_stack() -> None:
    roles = {each.role for make in PLANS.values() for each in manifests(make())}
    assert MANAGED.keys() - {"*"} <= roles


POD = "spec.template.spec"


@pytest.mark.parametrize(
    ("role", "path", "value"),
    [
        ("deployment", "spec.template.metadata.labels.app..kubernetes..io/name", "x"),
        ("door", "spec.template.metadata.labels.app..kubernetes..io/component", "x"),
        ("deployment", "spec.template.metadata.labels", None),
        ("engine-service", "metadata.labels.app..kubernetes..io/component", "x"),
        ("engine-service", "spec.publishNotReadyAddresses", True),
        ("engine-service", "spec.type", "LoadBalancer"),
        ("service", "spec.type", "LoadBalancer"),
        ("disruption-budget", "spec.maxUnavailable", 0),
        ("door-disruption-budget", "spec.minAvailable", 2),
        ("network-deny", "spec.policyTypes", ["Ingress"]),
        ("network-engine", "spec.ingress", [{}]),
        ("network-door", "spec.egress", [{}]),
        ("engine-monitor", "spec.endpoints", []),
        ("door-monitor", "spec.selector.matchLabels", {}),
        ("rules", "spec.groups", []),
        ("deployment", f"{POD}.hostNetwork", True),
        ("door", f"{POD}.hostPID", True),
        ("deployment", f"{POD}.serviceAccountName", "admin"),
        ("deployment", f"{POD}.initContainers", []),
        ("service-account", "automountServiceAccountToken", True),
        ("scaler", "spec.fallback.replicas", 0),
        ("scaler", "spec.idleReplicaCount", 0),
        ("scaler", "spec.advanced", None),
        ("scaler", "metadata.annotations.autoscaling..keda..sh/paused-replicas", "0"),
    ],
)
def test_what_would_break_a_promise_is_refused(role: str, path: str, value: object) -> None:
    change: Any = value
    for part in reversed(path.replace("..", "\0").split(".")):
        change = {part.replace("\0", "."): change}
    assert _refused({role: change})


def test_a_refused_value_that_is_a_credential_is_not_repeated() -> None:
    token = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
    with pytest.raises(InvalidInput) as caught:
        _applied({"dashboard": {"data": {token: token}}})
    assert "abcdefghij" not in str(caught.value)


def test_an_annotation_a_label_and_a_pull_secret_of_ones_own_are_still_welcome() -> None:
    spec = {"metadata": {"labels": {"team": "ml"}}, "spec": {"imagePullSecrets": [{"name": "own"}]}}
    change = {"metadata": {"labels": {"team": "ml"}}, "spec": {"template": spec}}
    found = _applied({"deployment": change, "service": {"metadata": {"annotations": {"a": "b"}}}})
    assert found["deployment"]["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "own"}]
