"""The ScaledObject: one owner of the replica count, on queue depth, safe when Prometheus is not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sample import sample_plan
from tests.targets.kubernetes.bodies import PLANS, by_role, max_plan

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes.manifests import manifests

every_plan = pytest.mark.parametrize("make", PLANS.values(), ids=PLANS.keys())


def _spec(plan: ServingPlan) -> dict[str, Any]:
    return by_role(plan)["scaler"]["spec"]


def test_exactly_one_autoscaler_owns_the_workload_f061() -> None:
    """F061: two autoscalers on one workload pull in both directions."""
    for plan in (sample_plan(), max_plan()):
        kinds = [each.kind for each in manifests(plan)]
        assert kinds.count("ScaledObject") == 1
        assert "HorizontalPodAutoscaler" not in kinds
        target = _spec(plan)["scaleTargetRef"]
        deployment = by_role(plan)["deployment"]
        assert (target["apiVersion"], target["kind"]) == ("apps/v1", "Deployment")
        assert target["name"] == deployment["metadata"]["name"]


def test_bounds_are_the_planned_ones_f061() -> None:
    spec = _spec(sample_plan())
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 4)
    assert spec["minReplicaCount"] <= spec["maxReplicaCount"] >= 1


def test_the_queue_is_a_sum_that_is_divided_by_replicas_f081() -> None:
    """F081: a mean that is divided once more never reaches its threshold."""
    (trigger,) = _spec(sample_plan())["triggers"]
    assert trigger["type"] == "prometheus"
    assert trigger["metricType"] == "AverageValue"
    assert trigger["metadata"]["query"].startswith("sum(")
    assert "avg(" not in trigger["metadata"]["query"]
    assert trigger["metadata"]["threshold"] == "12"


@every_plan
def test_nothing_scales_on_cpu_or_memory(make) -> None:
    for trigger in by_role(make()).get("scaler", {"spec": {"triggers": []}})["spec"]["triggers"]:
        assert trigger["type"] == "prometheus"


def test_every_value_of_a_trigger_is_a_string_f081() -> None:
    """KEDA's metadata is a map of strings."""
    for trigger in _spec(max_plan())["triggers"]:
        assert all(isinstance(value, str) for value in trigger["metadata"].values())


def test_an_outage_of_prometheus_takes_nothing_away_f082() -> None:
    """F082: no data was read as no load, at the peak."""
    spec = _spec(sample_plan())
    assert spec["triggers"][0]["metadata"]["ignoreNullValues"] == "false"
    assert spec["fallback"] == {"failureThreshold": 3, "replicas": 3, "behavior": "currentReplicasIfHigher"}
    assert spec["minReplicaCount"] <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]


def test_at_zero_there_is_no_fallback_that_would_start_replicas_for_nobody_f082() -> None:
    """KEDA leaves the count alone on an error without a fallback
    (pkg/scaling/executor/scale_scaledobjects.go)."""
    spec = _spec(max_plan())
    assert "fallback" not in spec
    assert all(trigger["metadata"]["ignoreNullValues"] == "false" for trigger in spec["triggers"])


def test_scaling_in_is_slow_and_one_by_one_f084() -> None:
    """F084: cooldownPeriod was taken for the delay of every step down."""
    spec = _spec(sample_plan())
    down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    assert down == {
        "stabilizationWindowSeconds": 300,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}],
    }
    assert "cooldownPeriod" not in spec


def test_a_period_that_kubernetes_would_refuse_is_cut_to_its_limit() -> None:
    """A replica that drains for an hour; autoscaling/v2 takes at most 1800 s."""
    behavior = _spec(sample_plan(scaling={"scale_in_period_s": 3630}))["advanced"][
        "horizontalPodAutoscalerConfig"
    ]
    assert behavior["behavior"]["scaleDown"]["policies"][0]["periodSeconds"] == 1800


def test_scaling_out_waits_for_nothing() -> None:
    behavior = _spec(sample_plan())["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleUp"] == {"stabilizationWindowSeconds": 0}


def test_the_step_to_zero_has_its_own_delay_f084() -> None:
    spec = _spec(max_plan())
    assert spec["minReplicaCount"] == 0
    assert spec["cooldownPeriod"] == 1800
    assert spec["pollingInterval"] == 15
    assert "pollingInterval" not in _spec(sample_plan())  # KEDA 2.21 warns where it has no effect


def test_traffic_keeps_the_last_replica_and_never_asks_for_a_second() -> None:
    queue, activity = _spec(max_plan())["triggers"]
    assert (queue["name"], activity["name"]) == ("queue-depth", "activity")
    assert activity["metadata"]["activationThreshold"] == "0"
    assert float(activity["metadata"]["threshold"]) >= 1e6


def test_the_query_is_the_signal_that_the_dashboard_shows_f085() -> None:
    """F085: a query whose labels are on no series is always empty."""
    plan = sample_plan()
    (signal,) = [each for each in plan.monitoring.signals if each.id == plan.scaling.metric]
    query = _spec(plan)["triggers"][0]["metadata"]["query"]
    assert query == signal.query
    for role in ("engine-service", "service"):
        assert f'namespace="serving",job="{by_role(plan)[role]["metadata"]["name"]}"' in query


def test_prometheus_is_named_and_may_ask_for_a_login_f085() -> None:
    (trigger,) = _spec(sample_plan())["triggers"]
    assert trigger["metadata"]["serverAddress"] == "http://prometheus-operated.monitoring.svc:9090"
    assert "authenticationRef" not in trigger
    for guarded in _spec(max_plan())["triggers"]:
        assert guarded["authenticationRef"] == {"name": "prometheus-login"}


def test_a_plan_that_scales_on_something_it_does_not_watch_is_refused() -> None:
    with pytest.raises(ValueError, match="scales on 'nothing', which is none of its signals"):
        manifests(sample_plan(scaling={"metric": "nothing"}))
