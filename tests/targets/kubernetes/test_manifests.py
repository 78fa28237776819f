"""All manifests together: valid for every Kubernetes that is supported, restricted, closed, named and
labelled."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.sample import sample_plan
from tests.targets.kubernetes.bodies import ALL_PLANS, PLANS, by_role, fixed_plan, max_plan, planned, pods

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes.manifests import Manifest, manifests

KUBERNETES = ("1.30", "1.32", "1.34", "1.36", "1.37")
"""1.30 is the first whose API takes `preStop.sleep` without a feature gate (KEP-3960)."""
CUSTOM = ("keda.sh/", "monitoring.coreos.com/")

Make = Callable[[], ServingPlan]
every_plan = pytest.mark.parametrize("make", ALL_PLANS.values(), ids=ALL_PLANS.keys())


def _native(plan: ServingPlan) -> list[Manifest]:
    return [each for each in manifests(plan) if not each.api_version.startswith(CUSTOM)]


@every_plan
@pytest.mark.parametrize("version", KUBERNETES)
def test_each_object_passes_the_strict_schema_of_its_kubernetes(make: Make, version: str) -> None:
    for each in _native(make()):
        kubernetes_validate.validate(each.body, version, strict=True)


@pytest.mark.parametrize("name", planned())
def test_every_plan_of_the_planner_renders_to_what_kubernetes_takes(name: str) -> None:
    for each in _native(planned()[name]):
        kubernetes_validate.validate(each.body, "1.36", strict=True)


def test_the_strict_schema_refuses_what_kubernetes_would_drop_in_silence() -> None:
    body = by_role(sample_plan())["deployment"]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(body | {"spec": body["spec"] | {"replica": 1}}, "1.36", strict=True)


@every_plan
def test_rendering_is_pure_and_leaves_the_plan_alone(make: Make) -> None:
    plan = make()
    before = plan.model_dump_json()
    assert manifests(plan) == manifests(plan)
    assert plan.model_dump_json() == before


@every_plan
def test_roles_and_objects_are_unique_and_names_fit_a_dns_label(make: Make) -> None:
    found = manifests(make())
    assert len({each.role for each in found}) == len(found)
    assert len({(each.kind, each.name) for each in found}) == len(found)
    for each in found:
        assert each.name == each.body["metadata"]["name"]
        assert len(each.name) <= 63


@every_plan
def test_a_name_as_long_as_allowed_still_fits(make: Make) -> None:
    document = {"name": "n" * 40, "model": {"id": "some/model"}, "target": {"option": "kubernetes"}}
    for each in manifests(sample_plan(document)):
        assert len(each.name) <= 63, each


@every_plan
def test_everything_but_what_has_no_namespace_is_in_the_stacks_own(make: Make) -> None:
    for each in manifests(make()):
        if each.kind in ("Namespace", "PriorityClass"):
            assert "namespace" not in each.body["metadata"]
        else:
            assert each.body["metadata"]["namespace"] == "serving"


def test_an_object_without_a_namespace_names_it_so_that_two_stacks_of_one_name_do_not_meet() -> None:
    one = by_role(sample_plan())["priority"]["metadata"]["name"]
    other = by_role(sample_plan(placement={"namespace": "other"}))["priority"]["metadata"]["name"]
    assert one != other


def test_a_created_namespace_is_restricted_and_names_no_stack() -> None:
    labels = by_role(sample_plan())["namespace"]["metadata"]["labels"]
    for mode in ("enforce", "audit", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"
    assert "app.kubernetes.io/name" not in labels


def test_a_namespace_of_somebody_else_is_left_alone() -> None:
    assert "namespace" not in by_role(fixed_plan())


@every_plan
def test_every_pod_meets_pod_security_restricted(make: Make) -> None:
    """The rules as in the Pod Security Standards; the API server itself judges in the engine suite."""
    for template in pods(make()).values():
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert all("hostPath" not in volume for volume in spec.get("volumes", []))
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "hostPort" not in str(container.get("ports", []))


@every_plan
def test_no_pod_gets_a_token_or_the_variables_of_services_f001(make: Make) -> None:
    """F001: a Service's variables were read by an engine as its own setting."""
    for template in pods(make()).values():
        assert template["spec"]["enableServiceLinks"] is False
        assert template["spec"]["automountServiceAccountToken"] is False
    assert by_role(make())["service-account"]["automountServiceAccountToken"] is False


@every_plan
def test_no_service_is_called_like_an_engines_variable_f001(make: Make) -> None:
    for each in manifests(make()):
        if each.kind == "Service":
            assert not each.name.upper().replace("-", "_").startswith("VLLM")


@every_plan
def test_commands_are_lists_and_no_shell_is_called_f013(make: Make) -> None:
    """F013, F014: one string for a command line, or a shell in between."""
    for template in pods(make()).values():
        for container in template["spec"]["containers"]:
            command = container["command"] + container.get("args", [])
            assert all(isinstance(part, str) for part in command)
            assert not {"sh", "bash", "/bin/sh", "/bin/bash", "-c"} & set(command)


@every_plan
def test_every_image_is_pinned_by_digest(make: Make) -> None:
    for template in pods(make()).values():
        for container in template["spec"]["containers"]:
            assert "@sha256:" in container["image"]


@every_plan
def test_every_container_says_what_it_needs(make: Make) -> None:
    for template in pods(make()).values():
        for container in template["spec"]["containers"]:
            assert {"cpu", "memory", "ephemeral-storage"} <= container["resources"]["requests"].keys()
            assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()


@every_plan
def test_selectors_hold_name_and_component_only_and_match_their_pods(make: Make) -> None:
    plan = make()
    for body in by_role(plan).values():
        spec = body.get("spec", {})
        if "template" in spec:
            wanted = spec["selector"]["matchLabels"]
            assert set(wanted) == {"app.kubernetes.io/name", "app.kubernetes.io/component"}
            assert wanted.items() <= spec["template"]["metadata"]["labels"].items()


def test_no_two_workloads_select_each_others_pods() -> None:
    plan = max_plan()
    wanted = [
        tuple(sorted(body["spec"]["selector"]["matchLabels"].items()))
        for body in by_role(plan).values()
        if "template" in body.get("spec", {})
    ]
    assert len(wanted) == len(set(wanted)) == 4


def test_a_users_labels_are_on_every_object() -> None:
    document = {
        "name": "chat", "model": {"id": "some/model"}, "target": {"option": "kubernetes"},
        "labels": {"team": "ml"},
    }  # fmt: skip
    for each in manifests(sample_plan(document)):
        if each.kind != "Namespace":
            assert each.body["metadata"]["labels"]["team"] == "ml"
            assert each.body["metadata"]["labels"]["app.kubernetes.io/name"] == "chat"


@pytest.mark.parametrize("name", ["defaults", "max"])
def test_the_rendering_is_the_reviewed_one(name: str, golden: Callable[[str, str], None]) -> None:
    """Without the long texts inside ConfigMaps and rules, which have tests of their own."""
    shown = [_shortened(each) for each in manifests(PLANS[name]())]
    text = yaml.safe_dump_all(shown, sort_keys=False, width=1000)
    golden(f"manifests/{name}.yaml", re.sub(r"(chat-(?:door|config))-[0-9a-f]{8}\b", r"\1-(hash)", text))


def _shortened(each: Manifest) -> dict[str, Any]:
    body = dict(each.body)
    if each.kind == "ConfigMap":
        body["data"] = sorted(body["data"])
    if each.kind == "PrometheusRule":
        body["spec"] = {group["name"]: len(group["rules"]) for group in body["spec"]["groups"]}
    if each.role == "scaler":
        spec = body["spec"]
        triggers = [
            trigger | {"metadata": trigger["metadata"] | {"query": "(the signal's)"}}
            for trigger in spec["triggers"]
        ]
        body["spec"] = spec | {"triggers": triggers}
    return body
