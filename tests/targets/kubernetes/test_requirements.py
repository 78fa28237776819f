"""What others must have installed: named, and looked up as far as it can be."""

from __future__ import annotations

from tests.recorder import record
from tests.sample import DOCUMENT, sample_plan
from tests.targets.kubernetes.bodies import PLANS, fixed_plan

from servingstack import ServingStack
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets.kubernetes.manifests import manifests
from servingstack.targets.kubernetes.requirements import definitions, needed, requirements

CHECKED = {"check_requirements": True}


def test_every_custom_kind_of_every_plan_is_required() -> None:
    for make in PLANS.values():
        rendered = make()
        known = {name for each in requirements(manifests(rendered)) for name in each.definitions}
        for each in manifests(rendered):
            group = each.api_version.split("/")[0]
            if group in ("keda.sh", "monitoring.coreos.com"):
                assert f"{each.kind.lower()}s.{group}" in known


def test_what_a_stack_does_not_use_it_does_not_need() -> None:
    names = [each.name for each in requirements(manifests(fixed_plan()))]
    assert not any(name.startswith("KEDA") for name in names)
    quiet = sample_plan(monitoring={"dashboards": False})
    names = [each.name for each in requirements(manifests(quiet))]
    assert not any(name.startswith(("Grafana", "DCGM")) for name in names)


def test_what_gpus_need_is_named_though_it_cannot_be_looked_up() -> None:
    names = {each.name: each.definitions for each in requirements(manifests(sample_plan()))}
    assert names["NVIDIA device plugin"] == names["DCGM exporter, honorLabels false"] == ()


def test_a_preview_says_what_the_cluster_must_have_and_for_what() -> None:
    told = needed(manifests(sample_plan()))
    for each in requirements(manifests(sample_plan())):
        assert f"- {each.name}: {each.why}" in told
    shown, deployed = (
        record(lambda: ServingStack("chat", DOCUMENT, lock=sample_plan()) and None, preview=preview).messages
        for preview in (True, False)
    )
    assert any(told in message for message in shown)
    assert not any(told in message for message in deployed)


def test_definitions_are_read_before_anything_is_made_and_only_if_wanted() -> None:
    wanted = _definitions(sample_plan(placement=CHECKED))
    assert wanted == (
        "scaledobjects.keda.sh",
        "servicemonitors.monitoring.coreos.com",
        "prometheusrules.monitoring.coreos.com",
    )
    checked = record(lambda: ServingStack("chat", DOCUMENT, lock=sample_plan(placement=CHECKED)) and None)
    token = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
    assert sorted(checked.reads) == sorted((token, name) for name in wanted)
    assert record(lambda: ServingStack("chat", DOCUMENT, lock=sample_plan()) and None).reads == []


def test_a_fresh_plan_checks_unless_it_is_told_not_to() -> None:
    assert _definitions(plan(DOCUMENT))
    silent = {"option": "kubernetes", "kubernetes": {"check_requirements": False}}
    assert _definitions(plan(DOCUMENT | {"target": silent})) == ()


def _definitions(made: ServingPlan) -> tuple[str, ...]:
    return definitions(made, manifests(made))
