"""Queries are PromQL, name series that Cloud Run has, and fire on a bad hour and not on a good one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from tests.signals.prom import promtool, rule_test
from tests.signals.promql import selectors
from tests.targets.gcp.cloud_run.documents import COLLECTED, DEFAULTS, MAX, document
from tests.targets.gcp.google_api import problems, schema

from servingstack.errors import InvalidInput
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.signals.burn_rates import BURN_RATES
from servingstack.targets.gcp.cloud_run import dashboard, scope

SLO = document(
    slo={"latency_p95": "10s", "availability": 99.9}, scaling={"min_replicas": 1, "max_replicas": 3}
)
ROOT = Path(__file__).parents[4]
# As public collectors of Cloud Run's metrics list them (Elastic, Datadog and Observe integrations;
# repositories that read the GPU metrics): what the product may name.
KNOWN = {
    "request_count", "request_latencies", "request_latency/pending", "pending_queue/pending_requests",
    "container/instance_count", "container/max_request_concurrencies", "container/startup_latencies",
    "container/gpu/utilizations", "container/gpu/memory_utilizations",
}  # fmt: skip


@pytest.fixture(scope="module")
def planned() -> ServingPlan:
    return plan(SLO)


def queries(found: ServingPlan) -> list[str]:
    """Every PromQL expression of a plan."""
    watched = found.monitoring
    of_signals = [
        text for each in watched.signals if not each.metrics for text in (each.query, *each.queries.values())
    ]
    return [*of_signals, *(alert.expression for alert in watched.alerts)]


def test_every_query_is_promql_over_this_service_alone(planned: ServingPlan) -> None:
    for query in queries(planned):
        promql_parser.parse(query)
        for each in selectors(query):
            assert each["service_name"] == "chat"
            assert each["location"] == "us-central1"
            assert each["monitored_resource"] == "cloud_run_revision"


def test_every_series_is_one_that_cloud_run_has_f107(planned: ServingPlan) -> None:
    names = {scope.promql_name(name) for name in KNOWN}
    for query in queries(planned):
        for each in selectors(query):
            assert re.sub(r"_(bucket|sum|count)$", "", each["__name__"]) in names or each["__name__"] in names
    for signal in planned.monitoring.signals:
        assert {metric.name for metric in signal.metrics.values()} <= KNOWN


def test_names_are_mapped_as_cloud_monitoring_maps_them() -> None:
    assert scope.promql_name("request_count") == "run_googleapis_com:request_count"
    assert scope.promql_name("container/gpu/utilizations") == "run_googleapis_com:container_gpu_utilizations"


def test_aligners_and_reducers_are_those_of_the_api(planned: ServingPlan) -> None:
    aligners = schema("monitoring.v1", "Aggregation")["properties"]["perSeriesAligner"]["enum"]
    for signal in planned.monitoring.signals:
        assert {metric.statistic for metric in signal.metrics.values()} <= set(aligners)


def test_a_percentile_is_never_a_mean_f107(planned: ServingPlan) -> None:
    shown = {signal.id: signal for signal in planned.monitoring.signals}
    for name, q in (("p50", "0.5"), ("p95", "0.95"), ("p99", "0.99")):
        assert f"histogram_quantile({q}," in shown[f"latency_{name}"].query
        assert shown[f"latency_{name}"].query.endswith("/ 1000")  # milliseconds to seconds


def test_what_cannot_be_seen_is_named_with_its_reason(planned: ServingPlan) -> None:
    missing = {each.signal: each.reason for each in planned.monitoring.unavailable}
    assert {"ttft_p95", "tpot_p95", "output_tokens_per_second"} <= missing.keys()
    assert all("engine's own metrics" in reason for reason in missing.values())
    assert not missing.keys() & {signal.id for signal in planned.monitoring.signals}


def test_with_a_collector_the_engines_own_metrics_are_watched_and_promised() -> None:
    found = plan(document(**COLLECTED))
    shown = {signal.id: signal for signal in found.monitoring.signals}
    assert not found.monitoring.unavailable
    assert "slo-not-measured" not in {warning.code for warning in found.warnings}
    assert {"ttft_p95", "tpot_p95", "latency_p95"} <= {each.id for each in found.monitoring.objectives}
    burning = {each.name: each.expression for each in found.monitoring.alerts}
    for query in (shown["ttft_p95"].query, shown["kv_cache_usage"].query, burning["ServingTtftP95Burn"]):
        promql_parser.parse(query)
        for each in selectors(query):
            assert each["__name__"].startswith("vllm:")
            assert (each["cluster"], each["namespace"], each["location"]) == (
                "__run__",
                "chat",
                "us-central1",
            )
            assert "le" not in each  # Google writes edges in its own way
    assert "> 2" in burning["ServingTtftP95Burn"]
    assert {"ServingKvCacheThrash", "ServingZombieReplica"} <= burning.keys()
    titles = {tile["widget"]["title"] for tile in dashboard.dashboard(found)["mosaicLayout"]["tiles"]}
    assert {"Time to the first token", "Time per token", "Tokens per second"} <= titles
    assert not problems("monitoring.v1", "Dashboard", dashboard.dashboard(found))


def test_an_objective_beyond_the_engines_histogram_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"slo\.ttft_p95"):
        plan(document(**{**COLLECTED, "slo": {"ttft_p95": "59m"}}, request_timeout="1h"))


def test_a_model_without_tokens_has_none_to_time() -> None:
    """An embedding's missing signals are its task's, whether or not a collector runs."""
    model = {"id": "BAAI/bge-m3", "task": "embed", "source": "hf", "max_model_len": 512}
    found = plan(document(model=model, traffic={"output_tokens": 1, "input_tokens": 256}))
    missing = {each.signal: each.reason for each in found.monitoring.unavailable}
    assert "generates no tokens" in missing["ttft_p95"]


def test_every_alert_has_a_severity_a_summary_and_a_runbook_that_is_there(planned: ServingPlan) -> None:
    for alert in planned.monitoring.alerts:
        assert (ROOT / alert.runbook).is_file(), alert.runbook
        assert planned.name in alert.summary
    pages = {alert.name for alert in planned.monitoring.alerts if alert.severity == "page"}
    assert {"ServingAvailabilityBurn", "ServingQueueFull", "ServingNoReadyReplica"} <= pages


def test_a_stack_at_zero_has_no_alert_on_its_absence() -> None:
    found = plan(document(scaling={"min_replicas": 0, "scale_to_zero_after": "10m"}))
    assert "ServingReplicasBelowMinimum" not in {alert.name for alert in found.monitoring.alerts}


def test_a_burn_rate_that_cannot_be_reached_is_left_out() -> None:
    """A median may be missed by half of the requests: nothing burns that budget six times as fast."""
    found = plan(document(slo={"latency_p50": "10s"}))
    named = {(alert.name, alert.severity) for alert in found.monitoring.alerts}
    assert ("ServingLatencyP50Burn", "ticket") in named
    assert ("ServingLatencyP50Burn", "page") not in named


def test_a_latency_burn_compares_the_quantile_that_leaves_its_share_of_slow_requests(
    planned: ServingPlan,
) -> None:
    (page,) = [
        a for a in planned.monitoring.alerts if a.name == "ServingLatencyP95Burn" and a.severity == "page"
    ]
    for short, long, factor in BURN_RATES["page"]:
        q = round(1 - float(factor) * 0.05, 6)
        for window in (short, long):
            assert re.search(rf"histogram_quantile\({q:g}, .*\[{window}\]", page.expression)
    assert "> 10000" in page.expression


# ---- the expressions, run ----

_SELECT = '{monitored_resource="cloud_run_revision",service_name="chat",location="us-central1"'


def _series(**values: str) -> dict[str, str]:
    """Input series: requests by class, latencies by edge, instances, waiting."""
    found = {
        f'run_googleapis_com:request_count{_SELECT},response_code="200",response_code_class="2xx"}}': values[
            "good"
        ],
        f'run_googleapis_com:container_instance_count{_SELECT},state="active"}}': values.get(
            "active", "1x4400"
        ),
        f"run_googleapis_com:pending_queue_pending_requests{_SELECT}}}": values.get("waiting", "0x4400"),
    }
    if "bad" in values:
        key = f'run_googleapis_com:request_count{_SELECT},response_code="500",response_code_class="5xx"}}'
        found[key] = values["bad"]
    if "refused" in values:
        key = f'run_googleapis_com:request_count{_SELECT},response_code="429",response_code_class="4xx"}}'
        found[key] = values["refused"]
    for edge, rate in (
        ("5000", values.get("quick", values["good"])),
        ("20000", values["good"]),
        ("+Inf", values["good"]),
    ):
        found[f'run_googleapis_com:request_latencies_bucket{_SELECT},le="{edge}"}}'] = rate
    return found


def _run(found: ServingPlan, folder: Path, *cases: dict[str, Any]) -> None:
    rules = [
        {"alert": a.name, "expr": a.expression, "for": f"{a.for_s}s", "labels": {"severity": a.severity}}
        for a in found.monitoring.alerts
    ]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "cloud-run", "rules": rules}]}))
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": list(cases)}
    (folder / "tests.yaml").write_text(yaml.safe_dump(tests))
    promtool("test", "rules", "tests.yaml", cwd=folder)


def test_a_quiet_day_and_a_good_one_wake_nobody(planned: ServingPlan, tmp_path: Path) -> None:
    _run(
        planned,
        tmp_path,
        rule_test("good", _series(good="0+60x400"), {90: set(), 400: set()}),
        rule_test("quiet", _series(good="0x400"), {90: set(), 400: set()}),
    )


def test_server_errors_page_within_minutes_and_stop_soon_after(planned: ServingPlan, tmp_path: Path) -> None:
    burns = {"ServingAvailabilityBurn page", "ServingAvailabilityBurn ticket"}
    bad = "0x600 6+6x60 366x300"  # a tenth of the requests for an hour
    _run(
        planned,
        tmp_path,
        rule_test(
            "broken",
            _series(good="0+60x1000", bad=bad),
            {600: set(), 655: burns, 720: {"ServingAvailabilityBurn ticket"}},
        ),
    )


def test_uptime_checks_that_fail_page_and_those_of_one_checker_do_not(tmp_path: Path) -> None:
    found = plan(MAX)
    (alert,) = [each for each in found.monitoring.alerts if each.name == "ServingUnreachable"]
    watched = found.model_copy(
        update={"monitoring": found.monitoring.model_copy(update={"alerts": (alert,)})}
    )
    select = selectors(alert.expression)[0]
    assert select["monitored_resource"] == "uptime_url"

    def series(*checkers: str) -> dict[str, str]:
        return {
            f'{select["__name__"]}{{monitored_resource="uptime_url",check_id="{select["check_id"]}",'
            f'checker_location="{index}"}}': values
            for index, values in enumerate(checkers)
        }

    _run(
        watched,
        tmp_path,
        rule_test("well", series("1x60", "1x60", "1x60"), {50: set()}),
        rule_test("one-checker", series("1x60", "1x60", "0x60"), {50: set()}),
        rule_test("down", series("0x60", "0x60", "1x60"), {3: set(), 50: {"ServingUnreachable page"}}),
    )


def test_slow_answers_page(planned: ServingPlan, tmp_path: Path) -> None:
    """All of them between 5 and 20 s, where 95 % within 10 s are promised."""
    series = _series(good="0+60x500", quick="0x500")
    burns = {"ServingLatencyP95Burn page", "ServingLatencyP95Burn ticket"}
    _run(planned, tmp_path, rule_test("slow", series, {400: burns}))


def test_first_tokens_that_come_late_page_where_they_are_collected(tmp_path: Path) -> None:
    """All between 2.5 and 5 s, where 95 % within 2 s are promised; then an instance that makes none."""
    found = plan(document(**COLLECTED, scaling={"min_replicas": 1, "max_replicas": 3}))
    where = '{cluster="__run__",namespace="chat",location="us-central1"'
    late = {
        f'vllm:time_to_first_token_seconds_bucket{where},le="{edge}"}}': rate
        for edge, rate in (("2.5", "0x500"), ("5.0", "0+60x500"), ("+Inf", "0+60x500"))
    }
    stuck = {
        f'vllm:num_requests_running{where},instance="a"}}': "3x500",
        f'vllm:generation_tokens_total{where},instance="a"}}': "0+500x200 100000x300",
    }
    good = _series(good="0+60x500")
    burns = {"ServingTtftP95Burn page", "ServingTtftP95Burn ticket"}
    _run(
        found,
        tmp_path,
        rule_test("late", {**good, **late}, {400: burns}),
        rule_test("stuck", {**good, **stuck}, {150: set(), 240: {"ServingZombieReplica page"}}),
    )


def test_refusals_page_and_are_no_server_errors(planned: ServingPlan, tmp_path: Path) -> None:
    series = _series(good="0+60x200", refused="0+12x200")
    _run(planned, tmp_path, rule_test("refused", series, {120: {"ServingQueueFull page"}}))


def test_requests_that_wait_without_an_instance_page(planned: ServingPlan, tmp_path: Path) -> None:
    series = _series(good="0x300", active="0x300", waiting="0x100 3x200")
    fired = {"ServingNoReadyReplica page", "ServingReplicasBelowMinimum ticket"}
    _run(
        planned,
        tmp_path,
        rule_test("stuck", series, {90: {"ServingReplicasBelowMinimum ticket"}, 130: fired}),
    )


def test_a_full_fleet_with_a_queue_is_a_ticket(planned: ServingPlan, tmp_path: Path) -> None:
    most = planned.scaling.max_replicas
    series = _series(good="0+60x200", active=f"{most}x200", waiting="5x200")
    _run(planned, tmp_path, rule_test("full", series, {100: {"ServingReplicasAtMaximum ticket"}}))


# ---- the dashboard ----


def test_the_dashboard_has_a_panel_for_each_signal_and_is_what_the_api_takes(planned: ServingPlan) -> None:
    board = dashboard.dashboard(planned)
    assert problems("monitoring.v1", "Dashboard", board) == []
    text = str(board)
    for signal in planned.monitoring.signals:
        expected = (
            [metric.name for metric in signal.metrics.values()]
            or list(signal.queries.values())
            or [signal.query]
        )
        for each in expected:
            assert repr(each)[1:-1] in text or each in text, signal.id
    assert "most of an instance" in text
    assert "latency_p95 promised" in text


def test_no_tile_overlaps_another_or_leaves_the_grid(planned: ServingPlan) -> None:
    board = dashboard.dashboard(planned)["mosaicLayout"]
    taken: set[tuple[int, int]] = set()
    for tile in board["tiles"]:
        x, y = tile.get("xPos", 0), tile.get("yPos", 0)
        cells = {(x + i, y + j) for i in range(tile["width"]) for j in range(tile["height"])}
        assert not cells & taken
        assert max(column for column, _ in cells) < board["columns"]
        taken |= cells


def test_without_alerts_nothing_is_alerted_and_the_dashboard_stays() -> None:
    found = plan(document(DEFAULTS, observability={"alerts": False}))
    assert found.monitoring.alerts == ()
    assert found.monitoring.dashboards
