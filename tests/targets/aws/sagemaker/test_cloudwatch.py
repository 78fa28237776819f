"""What is watched in CloudWatch: units, namespaces, dimensions, statistics; and what an alarm sees.

`evaluated` computes an alarm's expression over made-up series as CloudWatch would, with Python's arithmetic.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.targets.aws.sagemaker.documents import CASES, DEFAULTS, MAX, QUEUED, document
from tests.targets.aws.sagemaker.runs import by_role, run

from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets.aws.sagemaker.metrics import MICROSECONDS
from servingstack.watched import Metric, Signal

INVOCATIONS = {
    "Invocations", "Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors", "ModelLatency",
    "OverheadLatency", "ConcurrentRequestsPerModel", "ModelSetupTime", "InvocationsPerInstance",
}  # fmt: skip
"""Published under AWS/SageMaker by EndpointName and VariantName (dg/monitoring-cloudwatch)."""
QUEUE_VARIANT = {
    "InvocationFailures", "ExpiredRequests", "TimeInBacklog", "ResponseUploadFailures",
    "RequestDownloadFailures", "ModelLatency", "Invocation4XXErrors", "Invocation5XXErrors",
}  # fmt: skip
QUEUE = {
    "ApproximateBacklogSize", "ApproximateBacklogSizePerInstance", "ApproximateAgeOfOldestRequest",
    "HasBacklogWithoutCapacity",
}  # fmt: skip
"""Under AWS/SageMaker by EndpointName alone (dg/async-inference-monitor)."""
INSTANCES = {
    "GPUUtilization",
    "GPUMemoryUtilization",
    "MemoryUtilization",
    "DiskUtilization",
    "CPUUtilization",
}
"""Under /aws/sagemaker/Endpoints."""
LATENCIES = {"ModelLatency", "OverheadLatency", "TimeInBacklog"}
"""Microseconds."""
STATISTIC = re.compile(r"Sum|Average|Maximum|Minimum|SampleCount|p\d{2}|PR\(0:\d+\)")


@pytest.fixture(scope="module")
def plans() -> dict[str, ServingPlan]:
    return {name: plan(given) for name, (given, _) in CASES.items()}


def every_metric(found: ServingPlan) -> list[Metric]:
    watched = [metric for signal in found.monitoring.signals for metric in signal.metrics.values()]
    alarmed = [
        metric
        for alert in found.monitoring.alerts
        for condition in alert.conditions
        for metric in condition.metrics.values()
    ]
    return [*watched, *alarmed]


def signal(found: ServingPlan, name: str) -> Signal:
    (one,) = [each for each in found.monitoring.signals if each.id == name]
    return one


def queued(found: ServingPlan) -> bool:
    return found.sagemaker is not None and found.sagemaker.mode == "asynchronous"


@pytest.mark.parametrize("name", CASES)
def test_every_series_is_one_that_is_published_with_these_dimensions(
    plans: dict[str, ServingPlan], name: str
) -> None:
    """F101: a metric in the wrong namespace or with other dimensions has no data and says nothing."""
    found = plans[name]
    for metric in every_metric(found):
        assert STATISTIC.fullmatch(metric.statistic), metric
        keys = set(metric.dimensions)
        if metric.namespace == "/aws/sagemaker/Endpoints":
            assert metric.name in INSTANCES
            assert keys == {"EndpointName", "VariantName"}
        elif metric.name in QUEUE:
            assert queued(found)
            assert keys == {"EndpointName"}
        else:
            assert metric.namespace == "AWS/SageMaker"
            assert metric.name in (QUEUE_VARIANT if queued(found) else INVOCATIONS)
            assert keys == {"EndpointName", "VariantName"}
        assert metric.dimensions["EndpointName"] == found.names["endpoint"]


@pytest.mark.parametrize("name", CASES)
def test_a_latency_is_turned_from_microseconds_into_seconds(plans: dict[str, ServingPlan], name: str) -> None:
    """F100: as milliseconds it would be a thousandfold off."""
    for metric in every_metric(plans[name]):
        if metric.name in LATENCIES and metric.statistic != "SampleCount" and "PR" not in metric.statistic:
            assert metric.scale == MICROSECONDS
        elif metric.namespace == "AWS/SageMaker":
            assert metric.scale == 1


def test_a_percentile_is_a_statistic_of_the_series_and_never_of_means(plans: dict[str, ServingPlan]) -> None:
    """F102."""
    for percentile in ("p50", "p95", "p99"):
        watched = signal(plans["defaults"], f"latency_{percentile}")
        assert {metric.statistic for metric in watched.metrics.values()} == {percentile}


def test_gpu_use_is_a_share_of_all_gpus_of_the_instance(plans: dict[str, ServingPlan]) -> None:
    """F101: the service sums over the GPUs, 0 to 800 % with eight."""
    one, eight = plans["defaults"], plans["max"]
    assert one.architecture.gpus_per_node == 1
    assert eight.architecture.gpus_per_node == 8
    for found, scale in ((one, 0.01), (eight, 0.01 / 8)):
        (metric,) = signal(found, "gpu_utilisation").metrics.values()
        assert metric.scale == pytest.approx(scale)
        (memory,) = signal(found, "host_memory").metrics.values()
        assert memory.scale == 0.01


def test_scaling_follows_what_is_in_flight_in_the_series_that_is_shown(plans: dict[str, ServingPlan]) -> None:
    found = plans["defaults"]
    tracked = found.sagemaker.tracking if found.sagemaker is not None else None
    assert tracked is not None
    (metric,) = signal(found, "in_flight").metrics.values()
    assert metric.name == tracked.metric
    assert tracked.target == found.scaling.threshold


def test_a_queue_wakes_on_what_waits_since_nothing_is_tracked_without_an_instance() -> None:
    """Without an instance there is no backlog per instance, so target tracking cannot start the first one."""
    found = by_role(run("queued"))
    alarm = found["wake-alarm"].inputs
    assert alarm["metricName"] == "HasBacklogWithoutCapacity"
    assert (alarm["threshold"], alarm["evaluationPeriods"]) == (1, 1)
    step = found["wake-policy"].inputs["stepScalingPolicyConfiguration"]
    assert step["adjustmentType"] == "ChangeInCapacity"
    assert step["stepAdjustments"] == [{"metricIntervalLowerBound": "0", "scalingAdjustment": 1}]
    tracking = found["scaling-policy"].inputs["targetTrackingScalingPolicyConfiguration"]
    metric = tracking["customizedMetricSpecification"]
    assert metric["metricName"] == "ApproximateBacklogSizePerInstance"
    assert metric["dimensions"] == [{"name": "EndpointName", "value": "summaries-async"}]
    assert "wake-alarm" not in by_role(run("queued-warm")), "one instance is always there"


@pytest.mark.parametrize("name", CASES)
def test_every_objective_has_pages_and_tickets_and_every_alert_a_page_to_read(
    plans: dict[str, ServingPlan], name: str
) -> None:
    found = plans[name]
    if name == "quiet":
        assert found.monitoring.alerts == ()
        return
    for objective in found.monitoring.objectives:
        title = "".join(part.capitalize() for part in objective.id.split("_"))
        severities = {
            each.severity for each in found.monitoring.alerts if each.name.startswith(f"Serving{title}Burn")
        }
        assert "ticket" in severities, objective.id
    for alert in found.monitoring.alerts:
        assert alert.summary
        assert alert.runbook.startswith("docs/runbooks/")
        assert alert.labels["stack"] == found.name


def evaluated(condition: dict[str, Any], series: dict[str, float]) -> bool:
    """Whether an alarm on metrics is in alarm where these series keep these values."""
    values: dict[str, Any] = {"FILL": lambda value, _: value, "IF": lambda test, yes, no: yes if test else no}
    result = None
    for query in condition["metricQueries"]:
        if "metric" in query:
            metric = query["metric"]
            values[query["id"]] = series[f"{metric['metricName']} {metric['stat'].partition('(')[0]}"]
        else:
            result = eval(query["expression"], {"__builtins__": {}}, values)
    compared = {
        "GreaterThanThreshold": lambda value: value > condition["threshold"],
        "GreaterThanOrEqualToThreshold": lambda value: value >= condition["threshold"],
    }
    return compared[condition["comparisonOperator"]](result)


def firing(name: str, series: dict[str, float]) -> set[str]:
    """Alerts whose every part is in alarm."""
    found = by_role(run(name))
    parts: dict[str, list[bool]] = {}
    for role, each in found.items():
        if role.startswith("alarm-") and "metricQueries" in each.inputs:
            alert = re.sub(r"-\d$", "", role.removeprefix("alarm-"))
            parts.setdefault(alert, []).append(evaluated(each.inputs, series))
    return {alert for alert, held in parts.items() if all(held)}


GOOD = {
    "Invocations Sum": 600.0, "Invocation5XXErrors Sum": 0.0, "Invocation5XXErrors Average": 0.0,
    "ModelLatency PR": 100.0, "ModelLatency SampleCount": 600.0, "ConcurrentRequestsPerModel Average": 0.5,
    "ModelLatency p95": 2e6, "ApproximateAgeOfOldestRequest Maximum": 5.0,
    "HasBacklogWithoutCapacity Maximum": 0.0, "ResponseUploadFailures Sum": 0.0,
    "RequestDownloadFailures Sum": 0.0, "ExpiredRequests Sum": 0.0, "InvocationFailures Sum": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in CASES if name != "quiet"])
def test_nothing_fires_while_all_is_well(name: str) -> None:
    assert firing(name, GOOD) == set()


def test_errors_slow_answers_and_a_full_fleet_each_fire_their_own_alerts() -> None:
    broken = firing("max", GOOD | {"Invocation5XXErrors Sum": 60.0, "Invocation5XXErrors Average": 0.1})
    assert broken
    assert all(each.startswith("ServingAvailabilityBurn") for each in broken)
    slow = firing("max", GOOD | {"ModelLatency PR": 20.0})
    assert slow
    assert all(each.startswith(("ServingLatencyP95Burn", "ServingLatencyP99Burn")) for each in slow)
    assert {each[:21] for each in slow} == {"ServingLatencyP95Burn", "ServingLatencyP99Burn"}
    assert firing("max", GOOD | {"ConcurrentRequestsPerModel Average": 500.0}) == {"ServingReplicasAtMaximum"}


def test_a_budget_that_is_kept_fires_nothing() -> None:
    """99.9 %: one in two thousand is within it."""
    assert (
        firing("max", GOOD | {"Invocation5XXErrors Sum": 0.3, "Invocation5XXErrors Average": 0.0005}) == set()
    )


def test_no_traffic_is_no_broken_promise() -> None:
    """A division by no requests has no result, and a missing point is not breaching."""
    for role, each in by_role(run("max")).items():
        if "metricQueries" in each.inputs:
            assert each.inputs["treatMissingData"] == "notBreaching", role


def test_a_queue_pages_for_its_age_and_for_having_no_instance() -> None:
    old = firing("queued", GOOD | {"ApproximateAgeOfOldestRequest Maximum": 7300.0})
    assert old == {"ServingBacklogTooOld"}
    alone = firing("queued", GOOD | {"HasBacklogWithoutCapacity Maximum": 1.0})
    assert alone == {"ServingBacklogWithoutCapacity"}
    lost = firing("queued", GOOD | {"ExpiredRequests Sum": 1.0})
    assert lost == {"ServingExpiredRequests"}


def test_a_rollback_alarm_sees_errors_and_slow_answers_within_minutes() -> None:
    found = by_role(run("max"))
    assert not evaluated(found["rollback-errors"].inputs, GOOD)
    assert evaluated(found["rollback-errors"].inputs, GOOD | {"Invocation5XXErrors Average": 0.2})
    assert evaluated(found["rollback-latency"].inputs, GOOD | {"ModelLatency p95": 55e6})
    for role in ("rollback-errors", "rollback-latency"):
        inputs = found[role].inputs
        assert (inputs["evaluationPeriods"], inputs["datapointsToAlarm"]) == (3, 2)
        assert "alarmActions" not in inputs, "the service itself acts"


def test_an_alert_of_several_conditions_speaks_once_and_its_parts_are_silent() -> None:
    found = by_role(run("max"))
    composites = {role: each for role, each in found.items() if each.type.endswith(":CompositeAlarm")}
    assert composites
    for role, each in composites.items():
        names = re.findall(r'ALARM\("([^"]+)"\)', each.inputs["alarmRule"])
        parts = {
            other.inputs["name"]: other for key, other in found.items() if re.fullmatch(rf"{role}-\d", key)
        }
        assert set(names) == set(parts)
        assert each.inputs["alarmActions"]
        assert not [part for part in parts.values() if "alarmActions" in part.inputs]


def test_alarms_reach_the_topic_and_the_addresses() -> None:
    found = by_role(run("max"))
    topic = found["alarm-ServingReplicasAtMaximum"].inputs["alarmActions"]
    assert topic == found["alarm-ServingReplicasAtMaximum"].inputs["okActions"]
    addresses = [each.inputs["endpoint"] for role, each in found.items() if role.startswith("topic-email-")]
    assert addresses == MAX["target"]["sagemaker"]["notify_emails"]
    warned = {each.code for each in plan(DEFAULTS).warnings}
    assert "alarms-reach-nobody" in warned
    assert "alarms-reach-nobody" not in {each.code for each in plan(MAX).warnings}


def test_objectives_on_tokens_are_asked_of_the_engine_and_absence_is_told() -> None:
    """A PromQL alarm is quiet while its series is absent: so its absence has an alarm of its own."""
    found = by_role(run("max"))
    queries = {
        role: each.inputs["evaluationCriteria"]["promqlCriteria"]["query"]
        for role, each in found.items()
        if "evaluationCriteria" in each.inputs
    }
    assert any("TtftP95" in role for role in queries)
    assert any("TpotP95" in role for role in queries)
    assert queries["alarm-ServingEngineSeriesAbsent"].startswith("absent(")
    for query in queries.values():
        assert '"aws.sagemaker.endpoint.name"="assistant"' in query
    assert "alarm-ServingEngineSeriesAbsent" not in by_role(run("defaults"))
    assert "objectives-need-detailed-observability" in {each.code for each in plan(MAX).warnings}


def test_what_the_service_does_not_count_is_named_with_its_reason(plans: dict[str, ServingPlan]) -> None:
    required = {"replicas", "cost_per_hour", "ttft_p95", "tpot_p95", "output_tokens_per_second"}
    for found in plans.values():
        shown = {each.id for each in found.monitoring.signals}
        missing = {each.signal: each.reason for each in found.monitoring.unavailable}
        assert not shown & set(missing)
        assert required <= set(missing)
        assert all(reason.endswith(".") for reason in missing.values())
    assert "queue_depth" in {each.id for each in plans["queued"].monitoring.signals}


@pytest.mark.parametrize("name", ["queued", "queued-warm"])
def test_a_queue_has_no_alarm_on_series_that_only_real_time_endpoints_have(
    plans: dict[str, ServingPlan], name: str
) -> None:
    """A PromQL alarm without its series is OK for ever: it is named as unavailable instead."""
    found = plans[name].monitoring
    assert all(condition.metrics for alert in found.alerts for condition in alert.conditions)
    reasons = {each.signal: each.reason for each in found.unavailable}
    assert "asynchronous" in reasons["stalled_replicas"]
    assert "asynchronous" in reasons["ttft_p95"]
    assert "stalled_replicas" not in {each.signal for each in plans["defaults"].monitoring.unavailable}


def board(name: str) -> dict[str, Any]:
    return json.loads(by_role(run(name))["dashboard"].inputs["dashboardBody"])


@pytest.mark.parametrize("name", [name for name in CASES if name != "quiet"])
def test_the_dashboard_shows_every_signal_in_its_unit_and_fits_its_grid(
    plans: dict[str, ServingPlan], name: str
) -> None:
    found, widgets = plans[name], board(name)["widgets"]
    taken: set[tuple[int, int]] = set()
    for widget in widgets:
        cells = {
            (x, y)
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, "panels lie over each other"
        taken |= cells
    panels = [each["properties"] for each in widgets if each["type"] == "metric"]
    assert {panel["region"] for panel in panels} == {found.architecture.region}
    text = json.dumps(panels)
    for each in found.monitoring.signals:
        for metric in each.metrics.values():
            assert metric.name in text, each.id
    for panel in panels:
        ids = [entry[-1]["id"] for entry in panel["metrics"]]
        assert len(ids) == len(set(ids))
        for entry in panel["metrics"]:
            if isinstance(entry[0], dict):
                used = set(re.findall(r"[a-z_]+\d+", entry[0]["expression"]))
                assert used <= set(ids), panel["title"]
            else:
                assert entry[-1]["visible"] is False, "the expression is shown, in the signal's unit"


def test_a_dashboard_says_what_is_promised_and_what_is_not_there() -> None:
    (head, *_) = board("max")["widgets"]
    text = head["properties"]["markdown"]
    assert "99.9" in text
    assert "ttft_p95" in text
    assert "dashboard" not in by_role(run("quiet"))


def test_latency_objectives_are_ranks_and_no_latency_is_promised_of_a_queue() -> None:
    ranks = {
        query["metric"]["stat"]
        for each in by_role(run("max")).values()
        for query in each.inputs.get("metricQueries", [])
        if query.get("metric", {}).get("stat", "").startswith("PR")
    }
    assert ranks == {"PR(0:30000000)", "PR(0:50000000)"}
    assert [each.id for each in plan(QUEUED).monitoring.objectives] == ["availability"]
    asked = document(slo={"latency_p95": "20s"})
    assert "latency_p95" in {each.id for each in plan(asked).monitoring.objectives}
