"""What is watched and alerted on: every query is run on rows, every metric and rule held to Azure's own
lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.mgmt.monitor import models as monitor
from tests.sample import sample_plan
from tests.targets.azure.container_apps.beside import Beside
from tests.targets.azure.container_apps.documents import MAX, document
from tests.targets.azure.kql import Workspace
from tests.targets.kubernetes.door import free_port, proxies, wait_until

from servingstack.errors import InvalidInput
from servingstack.planner import plan
from servingstack.signals.drafts import Severity
from servingstack.targets.azure.container_apps import logs, promises, workbook
from servingstack.targets.azure.container_apps.refs import Given, Ref
from servingstack.targets.azure.container_apps.rules import duration, rule_role
from servingstack.watched import Alert

ROOT = Path(__file__).parents[4]
# learn.microsoft.com/azure/azure-monitor/reference/supported-metrics/microsoft-app-containerapps-metrics, by
# name: how each can be aggregated.
SUPPORTED = {
    "Requests": {"Average", "Total", "Maximum", "Minimum"},
    "Replicas": {"Average", "Total", "Maximum", "Minimum"},
    "RestartCount": {"Average", "Total", "Maximum", "Minimum"},
    "GpuUtilizationPercentage": {"Average", "Maximum", "Minimum"},
}
# terraform-provider-azurerm, monitor_scheduled_query_rules_alert_v2: windowSize and evaluationFrequency.
QUERY_WINDOWS = {
    "PT1M",
    "PT5M",
    "PT10M",
    "PT15M",
    "PT30M",
    "PT45M",
    "PT1H",
    "PT2H",
    "PT3H",
    "PT4H",
    "PT5H",
    "PT6H",
    "P1D",
    "P2D",
}
METRIC_WINDOWS = {"PT1M", "PT5M", "PT15M", "PT30M", "PT1H", "PT6H", "PT12H", "P1D"}
PLAN = plan(MAX)
APP = PLAN.names["app"]
EMBED = document(
    model={"id": "BAAI/bge-m3"}, slo={"latency_p99": "1s"}, traffic={"input_tokens": 256, "output_tokens": 1}
)


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    found = Workspace()
    yield found
    found.close()


def alert(name: str, severity: str = "page") -> Alert:
    (found,) = [each for each in PLAN.monitoring.alerts if (each.name, each.severity) == (name, severity)]
    return found


def query(name: str, severity: str = "page") -> str:
    return alert(name, severity).conditions[0].expression


def signal(name: str) -> str:
    (found,) = [each for each in PLAN.monitoring.signals if each.id == name]
    return found.query


def answers(count: int, status: int = 200, ms: int = 100, **more: Any) -> list[dict[str, Any]]:
    """Requests at the ingress."""
    row = {"ContainerAppName": APP, "StatusCode": status, "RequestDuration": ms, "ReplicaName": "a"}
    return [row | more] * count


def served(count: int, **more: Any) -> list[dict[str, Any]]:
    """Lines of the door."""
    line = {
        "status": 200,
        "backend": "engine",
        "queue_ms": 0,
        "first_byte_ms": 90,
        "total_ms": 900,
        "waiting": 0,
        "in_flight": 1,
        "end": "--",
        "ttft_ms": "100",
        "last_ms": "500",
        "events": "21",
    } | more
    row = {"ContainerAppName": APP, "ContainerName": "front-door", "Log": json.dumps(line)}
    return [row] * count


HTTP, CONSOLE = logs.HTTP, logs.CONSOLE


def test_every_query_runs_on_the_tables_that_the_service_fills(workspace: Workspace) -> None:
    workspace.add(HTTP, answers(3))
    workspace.add(CONSOLE, served(3))
    for each in PLAN.monitoring.signals:
        if not each.metrics:
            workspace.rows(each.query)
    for each in PLAN.monitoring.alerts:
        for condition in each.conditions:
            if not condition.metrics:
                workspace.rows(condition.expression)


def test_a_query_of_a_column_that_there_is_not_would_be_seen(workspace: Workspace) -> None:
    with pytest.raises(Exception, match="StatusText"):
        workspace.rows(f"{HTTP} | where StatusText == 'x'")


def test_no_alert_fires_without_rows_and_none_on_a_good_day(workspace: Workspace) -> None:
    rules = [each for each in PLAN.monitoring.alerts if not each.conditions[0].metrics]
    for each in rules:
        assert not workspace.fires(each.conditions[0].expression), each.name
    for hours in (0, 1, 3, 20, 40):
        workspace.add(HTTP, answers(50), ago=timedelta(hours=hours))
        workspace.add(CONSOLE, served(50), ago=timedelta(hours=hours))
    for each in rules:
        assert not workspace.fires(each.conditions[0].expression), each.name


def test_an_outage_of_minutes_pages_and_ends_with_the_harm(workspace: Workspace) -> None:
    workspace.add(HTTP, answers(900), ago=timedelta(minutes=40))
    workspace.add(HTTP, answers(90), ago=timedelta(minutes=3))
    workspace.add(HTTP, answers(20, status=503), ago=timedelta(minutes=2))
    assert workspace.fires(query("ServingAvailabilityBurn"))  # 2 % of the hour against a budget of 0.1 %
    quiet = Workspace()
    quiet.add(HTTP, answers(900), ago=timedelta(minutes=50))
    quiet.add(HTTP, answers(20, status=503), ago=timedelta(minutes=40))
    quiet.add(HTTP, answers(90), ago=timedelta(minutes=3))
    assert not quiet.fires(query("ServingAvailabilityBurn"))
    quiet.close()


@pytest.mark.parametrize(
    ("short", "long", "factor", "severity"),
    [(*window, severity) for severity, windows in promises.BURN_RATES.items() for window in windows],
)
def test_each_pair_of_windows_fires_just_above_its_rate_and_not_below(
    workspace: Workspace, short: str, long: str, factor: float, severity: Severity
) -> None:
    """Rows stand inside both windows of the pair, and good ones before the quick pair's long window keep the
    slow pair still."""
    counted = promises.Counted(f"{HTTP}\n| where ContainerAppName == '{APP}'", "true", "StatusCode >= 500")
    minutes = {"5m": 4, "30m": 20, "2h": 100, "6h": 300}[short]
    total, budget = 10_000, 0.001
    most = round(total * factor * budget)
    at = timedelta(minutes=minutes)
    workspace.add(HTTP, answers(total - most), ago=at)
    workspace.add(HTTP, answers(most, status=500), ago=at)
    if before := {"1h": 2, "1d": 30}.get(long):
        workspace.add(HTTP, answers(3 * total), ago=timedelta(hours=before))
    text = promises.burn_query(counted, 99.9, severity)
    assert not workspace.fires(text)
    workspace.add(HTTP, answers(most // 5 + 1, status=500), ago=at)
    assert workspace.fires(text)
    assert promises.LOOK_BACK_S[severity] >= {"1h": 3600, "6h": 21600, "1d": 86400, "2d": 172800}[long]


def test_the_factors_use_the_same_share_of_the_months_budget_as_everywhere() -> None:
    """2 % in an hour, 5 % in six, 10 % in a day and in the longest window."""
    hours = {"1h": 1, "6h": 6, "1d": 24, "2d": 48}
    shares = [
        factor * hours[long] / (30 * 24)
        for windows in promises.BURN_RATES.values()
        for _, long, factor in windows
    ]
    assert shares == pytest.approx([0.02, 0.05, 0.10, 0.10])


def test_refusals_and_clients_that_left_are_neither_good_nor_bad(workspace: Workspace) -> None:
    workspace.add(HTTP, answers(100))
    before = workspace.values(signal("error_rate"))
    for status in (0, 401, 404, 405, 408, 413, 429):
        workspace.add(HTTP, answers(500, status=status))
    assert workspace.values(signal("error_rate")) == before == [0.0]
    assert not workspace.fires(query("ServingAvailabilityBurn"))


def test_another_app_of_the_environment_counts_nowhere(workspace: Workspace) -> None:
    workspace.add(HTTP, answers(500, status=500, ContainerAppName="other"))
    workspace.add(CONSOLE, [row | {"ContainerAppName": "other"} for row in served(5, ttft_ms="9000")])
    workspace.add(CONSOLE, [row | {"ContainerName": "engine"} for row in served(5, ttft_ms="9000")])
    for each in PLAN.monitoring.alerts:
        if not each.conditions[0].metrics:
            assert not workspace.fires(each.conditions[0].expression), each.name
    assert workspace.values(signal("ttft_p95")) == []


def test_what_the_engine_writes_is_no_line_of_the_door(workspace: Workspace) -> None:
    row = {"ContainerAppName": APP, "ContainerName": "front-door", "Log": "[NOTICE] haproxy version 2.8"}
    workspace.add(CONSOLE, [row])
    assert workspace.values(signal("front_door_wait")) == []


def test_slow_first_tokens_slow_tokens_and_slow_answers_each_page(workspace: Workspace) -> None:
    slow = {
        "ServingTtftP95Burn": (CONSOLE, served(100, ttft_ms="1500", last_ms="1900")),
        "ServingTpotP95Burn": (CONSOLE, served(100, ttft_ms="100", last_ms="4100")),
        "ServingLatencyP99Burn": (HTTP, answers(100, ms=31_000)),
    }
    for name, (table, rows) in slow.items():
        fresh = Workspace()
        fresh.add(table, rows, ago=timedelta(minutes=2))
        fired = {each.name for each in PLAN.monitoring.alerts if _logged(each) and fresh.fires(_text(each))}
        assert fired == {name}
        fresh.close()


def _logged(each: Alert) -> bool:
    return not each.conditions[0].metrics


def _text(each: Alert) -> str:
    return each.conditions[0].expression


def test_no_replica_a_full_queue_and_a_stalled_replica_page_by_themselves(workspace: Workspace) -> None:
    workspace.add(HTTP, answers(3, status=503))
    assert workspace.fires(query("ServingNoReadyReplica"))
    workspace.add(HTTP, answers(1))
    assert not workspace.fires(query("ServingNoReadyReplica"))
    workspace.add(HTTP, answers(100))
    workspace.add(HTTP, answers(5, status=429))
    assert not workspace.fires(query("ServingQueueFull"))
    workspace.add(HTTP, answers(5, status=429))
    assert workspace.fires(query("ServingQueueFull"))
    workspace.add(HTTP, answers(2, status=504, ReplicaName="b"))
    assert not workspace.fires(query("ServingZombieReplica"))
    workspace.add(HTTP, answers(1, status=504, ReplicaName="b"))
    (row,) = workspace.rows(query("ServingZombieReplica"))
    assert row["ReplicaName"] == "b"


def test_what_a_real_door_writes_is_what_the_queries_read(workspace: Workspace, tmp_path: Path) -> None:
    """From HAProxy's own lines to the panels, without a row that anybody wrote by hand."""
    made = sample_plan(
        front_door={"replicas": 1, "port": free_port(), "stats_port": free_port(), "max_concurrent": 1},
        timeouts={"request_s": 5, "stream_s": 9, "queue_s": 4, "drain_s": 3},
        container={"port": free_port()},
    )
    door = Beside(next(iter(proxies().values())), tmp_path, made)
    try:
        door.engines[0].piece = b"data: x\n\n"
        calls = door.calls(*[{"stream": [0.3] + [0.1] * 10}] * 2, {"wait": 0.2})
        assert [each.status for each in calls.answers()] == [200] * 3
        assert door.call(path="/metrics").status == 404
        wait_until(lambda: len(door.lines()) == 4, "four lines")
        lines = (tmp_path / "log").read_text().splitlines()
    finally:
        door.close()
    workspace.add(
        CONSOLE,
        [{"ContainerAppName": APP, "ContainerName": "front-door", "Log": line} for line in lines],
    )
    (ttft,) = workspace.values(signal("ttft_p95"))
    (tpot,) = workspace.values(signal("tpot_p95"))
    (wait,) = workspace.values(signal("front_door_wait"))
    (events,) = workspace.values(signal("streamed_events_per_second"))
    assert ttft is not None
    assert tpot is not None
    assert wait is not None
    assert events == pytest.approx(22 / 300)
    assert 0.29 < ttft < 2.5  # from the door, a wait for the first stream included
    assert 0.09 < tpot < 0.13
    assert wait > 0.1  # the third waited for two streams, the second for one


def test_costs_follow_the_replicas(workspace: Workspace) -> None:
    row = {"Resource": APP.upper(), "MetricName": "Replicas", "Maximum": 3.0}
    workspace.add("AzureMetrics", [row])
    assert PLAN.cost.machine_hourly_usd is not None
    assert workspace.values(signal("cost_per_hour")) == [
        pytest.approx(3 * PLAN.cost.machine_hourly_usd, rel=1e-5)
    ]


def test_every_metric_is_one_that_the_service_has_with_that_aggregation_f058_f109() -> None:
    seen = [found for each in PLAN.monitoring.signals for found in each.metrics.values()]
    seen += [
        found
        for each in PLAN.monitoring.alerts
        for part in each.conditions
        for found in part.metrics.values()
    ]
    assert {found.name for found in seen} >= {"Requests", "Replicas", "GpuUtilizationPercentage"}
    for found in seen:
        assert found.namespace == "microsoft.app/containerapps"
        assert found.statistic in SUPPORTED[found.name]
        assert found.statistic in {each.value for each in monitor.AggregationTypeEnum}


def test_every_window_is_one_that_azure_takes() -> None:
    for each in PLAN.monitoring.alerts:
        (condition,) = each.conditions
        windows = METRIC_WINDOWS if condition.metrics else QUERY_WINDOWS
        assert duration(condition.period_s) in windows, each.name
    assert (duration(300), duration(7200), duration(86_400)) == ("PT5M", "PT2H", "P1D")


def test_every_alert_has_a_name_of_its_own_and_a_runbook_that_is_there() -> None:
    roles = [rule_role(each) for each in PLAN.monitoring.alerts]
    assert len(roles) == len(set(roles))
    for each in PLAN.monitoring.alerts:
        assert (ROOT / each.runbook).is_file()
        assert each.runbook_url == f"https://runbooks.example.com/{Path(each.runbook).name}"
        assert each.labels == {"team": "search", "stack": "chat"}


def test_every_objective_has_a_page_and_a_ticket() -> None:
    pairs = {(each.name, each.severity) for each in PLAN.monitoring.alerts if each.name.endswith("Burn")}
    names = {"Availability", "TtftP95", "TpotP95", "LatencyP99"}
    assert pairs == {(f"Serving{name}Burn", severity) for name in names for severity in ("page", "ticket")}


def test_nothing_watches_cpu_or_memory_and_what_is_missing_has_a_reason() -> None:
    text = json.dumps(PLAN.monitoring.model_dump(mode="json")["alerts"]).lower()
    assert "cpu" not in text
    assert "memory" not in text
    missing = {each.signal: each.reason for each in PLAN.monitoring.unavailable}
    assert {"gpu_memory", "kv_cache_usage", "output_tokens_per_second"} <= set(missing)
    assert all(len(reason) > 30 for reason in missing.values())


def test_a_model_without_tokens_is_asked_for_none() -> None:
    found = plan(EMBED)
    assert not [each for each in found.monitoring.signals if each.id.startswith(("ttft", "tpot", "streamed"))]
    reasons = {each.signal: each.reason for each in found.monitoring.unavailable}
    assert "generates no tokens" in reasons["ttft_p95"]
    assert "generates no tokens" in reasons["output_tokens_per_second"]
    with pytest.raises(InvalidInput, match=r"slo\.latency_\* alone"):
        plan({**EMBED, "slo": {"ttft_p95": "1s"}})


def test_alerts_and_dashboard_can_be_left_out() -> None:
    found = plan(document(observability={"alerts": False, "dashboards": False}))
    assert found.monitoring.alerts == ()
    assert found.monitoring.dashboards is False
    assert found.container_apps is not None
    assert found.container_apps.create_action_group is False


def test_a_resting_stack_may_answer_late_before_anyone_is_woken() -> None:
    resting = {"min_replicas": 0, "scale_to_zero_after": "10m", "hold": "60s"}
    found = plan(document(scaling=resting))
    (rule,) = [each for each in found.monitoring.alerts if each.name == "ServingNoReadyReplica"]
    assert rule.conditions[0].period_s > 300 + found.scaling.cold_start.total_s
    assert "ServingReplicasBelowMinimum" not in {each.name for each in found.monitoring.alerts}


def test_the_workbook_shows_every_signal_once_and_names_its_resources() -> None:
    content = workbook.content(PLAN)
    panels = {item["name"]: item["content"] for item in content["items"] if item["type"] in (3, 10)}
    assert set(panels) == {each.id for each in PLAN.monitoring.signals}
    assert len(panels) == len([item for item in content["items"] if item["type"] in (3, 10)])
    for each in PLAN.monitoring.signals:
        panel = panels[each.id]
        assert panel["timeContextFromParameter"] == "TimeRange"
        if each.metrics:
            (found,) = each.metrics.values()
            assert panel["metrics"][0]["metric"] == f"microsoft.app/containerapps--{found.name}"
            assert panel["resourceIds"] == [Ref("app")]
        else:
            assert panel["query"] == each.query
            assert panel["crossComponentResources"] == [Given("workspace_id")]
    texts = " ".join(item["content"]["json"] for item in content["items"] if item["type"] == 1)
    for each in PLAN.monitoring.unavailable:
        assert each.signal in texts
    (times,) = [item for item in content["items"] if item["type"] == 9]
    assert times["content"]["parameters"][0]["name"] == "TimeRange"
