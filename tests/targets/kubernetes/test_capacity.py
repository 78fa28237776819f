"""Warm capacity: images on GPU nodes, and nodes held by pods that give way; and budgets for disruptions."""

from __future__ import annotations

import pytest
from tests.sample import sample_plan
from tests.targets.kubernetes.bodies import PLANS, by_role, fixed_plan, max_plan, pods


def test_placeholders_take_what_a_replica_takes() -> None:
    plan = sample_plan()
    (waiting,) = pods(plan)["placeholder"]["spec"]["containers"]
    (engine,) = pods(plan)["deployment"]["spec"]["containers"]
    assert by_role(plan)["placeholder"]["spec"]["replicas"] == 1
    assert waiting["resources"]["limits"]["nvidia.com/gpu"] == engine["resources"]["limits"]["nvidia.com/gpu"]
    for name in ("cpu", "memory"):
        assert waiting["resources"]["requests"][name] == engine["resources"]["requests"][name]


def test_placeholders_give_way_at_once_and_still_make_nodes_start() -> None:
    """Below -10, cluster-autoscaler starts no node for a pod (--expendable-pods-priority-cutoff)."""
    plan = sample_plan()
    spec = pods(plan)["placeholder"]["spec"]
    priority = by_role(plan)["priority"]
    assert spec["priorityClassName"] == priority["metadata"]["name"]
    assert -10 <= priority["value"] < 0
    assert priority["preemptionPolicy"] == "Never"
    assert spec["terminationGracePeriodSeconds"] == 0
    assert "priorityClassName" not in pods(plan)["deployment"]["spec"]


def test_without_planned_placeholders_there_are_neither_pods_nor_a_priority() -> None:
    assert not {"placeholder", "priority"} & by_role(fixed_plan()).keys()


def test_the_engines_image_is_pulled_onto_gpu_nodes_and_takes_no_gpu() -> None:
    plan = sample_plan()
    spec = pods(plan)["prepull"]["spec"]
    (container,) = spec["containers"]
    (engine,) = pods(plan)["deployment"]["spec"]["containers"]
    assert container["image"] == engine["image"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]


def test_images_go_to_gpu_nodes_only_however_these_are_known() -> None:
    assert pods(max_plan())["prepull"]["spec"]["nodeSelector"] == {"pool": "gpu"}
    affinity = pods(sample_plan())["prepull"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    keys = {term["matchExpressions"][0]["key"] for term in terms}
    assert "nvidia.com/gpu.present" in keys
    assert all(
        len(term["matchExpressions"]) == 1 for term in terms
    )  # terms are alternatives, expressions are not


def test_images_are_pulled_ahead_only_if_that_is_wanted() -> None:
    assert "prepull" not in by_role(fixed_plan())


@pytest.mark.parametrize("make", PLANS.values(), ids=PLANS.keys())
def test_a_drain_takes_one_replica_and_is_never_blocked_f134(make) -> None:
    """F134 asks for minAvailable; at one replica that blocks drains for good, so it is maxUnavailable here,
    which keeps all but one in the same way."""
    found = by_role(make())
    for role, workload in (("disruption-budget", "deployment"), ("door-disruption-budget", "door")):
        spec = found[role]["spec"]
        assert spec["maxUnavailable"] == 1
        assert "minAvailable" not in spec
        assert spec["selector"] == found[workload]["spec"]["selector"]
