"""A real Prometheus and a real front door: every panel, rule and scaling query has data.

The names of the engine's series are the pinned release's; HAProxy is the real one with the plan's own files.
The label forms are Prometheus' own doing: it scrapes the pages as a monitor would have it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sample import sample_plan
from tests.signals import exporters
from tests.signals.prom import Prometheus, job, rule_file
from tests.signals.promql import expressions, selector_queries, selectors
from tests.targets.kubernetes.door import Door, free_port, proxies

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import front_door
from servingstack.targets.kubernetes.dashboard import rows

PROXIES = proxies()
ZERO = {"min_replicas": 0, "scale_to_zero_after_s": 600, "hold_s": 240}
PATIENCE_S = 45


def door_plan(**changes: Any) -> ServingPlan:
    """The sample, with a front door that can run here."""
    ports = {"replicas": 1, "port": free_port(), "stats_port": free_port()}
    return sample_plan(front_door=ports, container={"port": free_port("127.0.0.2")}, **changes)


@pytest.fixture(scope="module")
def plan() -> ServingPlan:
    return door_plan()


@pytest.fixture(scope="module")
def prometheus(plan: ServingPlan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Scrapes two replicas, the front door, the GPUs and the scaler; ready once there are rates."""
    folder = tmp_path_factory.mktemp("prometheus")
    assert plan.front_door is not None
    door = Door(PROXIES[max(PROXIES)], tmp_path_factory.mktemp("door"), plan)
    pages = {
        "/engine": exporters.engine_page,
        "/gpu": exporters.gpu_page("serving", "chat-engine-7c9d8f6b5d-x2x4z"),
        "/scaler": exporters.scaler_page("serving", plan.names["scaler"]),
    }
    with exporters.serving(pages) as port:
        chat = {"namespace": "serving", "job": plan.names["service"], "pod": "chat-door-1"}
        engine = {"namespace": "serving", "job": plan.names["engine"]}
        jobs = [
            job("engine-1", port, "/engine", **engine, pod="chat-engine-7c9d8f6b5d-x2x4z", instance="1"),
            job("engine-2", port, "/engine", **engine, pod="chat-engine-7c9d8f6b5d-abcde", instance="2"),
            job("door", plan.front_door.stats_port, front_door.METRICS_PATH, **chat),
            job("held", plan.front_door.stats_port, front_door.HELD_PATH, **chat, endpoint="held"),
            job("gpu", port, "/gpu", namespace="gpu-operator", job="dcgm-exporter", pod="dcgm-exporter-1"),
            job("scaler", port, "/scaler", namespace="keda", job="keda-operator", pod="keda-operator-1"),
        ]
        running = Prometheus(folder, jobs, rule_file(plan, folder))
        try:
            door.start_engine()
            _traffic_until_there_is_data(running, door)
            yield running
        finally:
            running.close()
            door.close()


def _traffic_until_there_is_data(running: Prometheus, door: Door) -> None:
    """Requests, until the last of the recorded series is there: the budget, which needs all others."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert door.call().status == 200
        try:
            if len(running.samples("slo:period_error_budget_remaining:ratio")) == 3:
                return
        except OSError:
            pass  # it does not listen yet
        time.sleep(0.2)
    raise AssertionError(f"no error budget within {PATIENCE_S} s")


def test_every_panel_shows_data(prometheus: Prometheus, plan: ServingPlan) -> None:
    empty = [
        f"{row}, {panel.title}, {legend}: {query}"
        for row, panels in rows(plan).items()
        for panel in panels
        for legend, query in panel.series.items()
        if not prometheus.samples(query)
    ]
    assert not empty


def test_every_rule_is_evaluated_without_a_word(prometheus: Prometheus, plan: ServingPlan) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == len(plan.monitoring.recording_rules) + len(plan.monitoring.alerts)
    assert {(rule["health"], rule.get("lastError", "")) for rule in rules} == {("ok", "")}
    # One may be pending for a moment after the start, before the second replica is scraped.
    assert not [rule["name"] for rule in rules if rule.get("state") == "firing"]
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
    assert not [name for name in recorded if not prometheus.samples(name)]


def test_every_selector_of_an_alert_finds_its_series(prometheus: Prometheus, plan: ServingPlan) -> None:
    """F085: an alert on a series that nobody exports is silent for ever."""
    for purpose, expression in expressions(plan.monitoring).items():
        for query in selector_queries(expression):
            assert prometheus.samples(query), f"{purpose}: {query}"


def test_the_scaler_gets_one_number(prometheus: Prometheus, plan: ServingPlan) -> None:
    for changed in (plan, sample_plan(scaling=ZERO)):
        query = next(signal.query for signal in changed.monitoring.signals if signal.id == "queue_depth")
        assert prometheus.samples(query) == [({}, 4.0)]  # two waiting in each replica, none in the front door
    activity = next(
        signal.query for signal in sample_plan(scaling=ZERO).monitoring.signals if signal.id == "activity"
    )
    assert prometheus.value(activity) > 0


def test_gpu_series_are_found_by_the_pod_that_has_the_gpu(prometheus: Prometheus) -> None:
    """F105: the exporter's `pod` is kept as `exported_pod`, and its own pod is `pod`."""
    for labels, _ in prometheus.samples("DCGM_FI_DEV_GPU_UTIL"):
        assert labels["exported_pod"].startswith("chat-engine-")
        assert labels["exported_namespace"] == "serving"
        assert labels["pod"] == "dcgm-exporter-1"


def test_warm_up_counts_nowhere(prometheus: Prometheus, plan: ServingPlan) -> None:
    """Counters above zero at the first scrape are no rate: 50 requests of a minute each are not seen."""
    assert prometheus.value("sum(vllm:time_to_first_token_seconds_sum)") > 60 * exporters.WARM_UP_REQUESTS
    queries = {signal.id: signal.query for signal in plan.monitoring.signals}
    assert prometheus.value(queries["ttft_p99"]) <= exporters.FAST_S
    assert prometheus.value(queries["latency_p99"]) <= 0.3  # the histogram's first edge
    for objective in ("ttft_p95", "tpot_p95"):
        assert prometheus.value(f'slo:sli_error:ratio_rate5m{{sloth_slo="{objective}"}}') == 0


def test_what_is_counted_is_what_happened(prometheus: Prometheus, plan: ServingPlan) -> None:
    queries = {signal.id: signal.query for signal in plan.monitoring.signals}
    assert prometheus.value(queries["replicas"]) == 2
    assert prometheus.value(queries["cost_per_hour"]) == 2 * 2 * 2  # replicas x GPUs x USD 2
    assert prometheus.value(queries["gpu_utilisation"]) == pytest.approx(0.8)
    assert prometheus.value(queries["gpu_memory"]) == pytest.approx(70 / 80)
    assert prometheus.value(queries["kv_cache_usage"]) == pytest.approx(0.4)
    assert prometheus.value(queries["error_rate"]) == 0
    tokens = prometheus.value(queries["output_tokens_per_second"])
    assert tokens == pytest.approx(
        prometheus.value("sum(increase(vllm:generation_tokens_total[5m])) / 300"), rel=0.2
    )


@pytest.mark.parametrize("branch", sorted(PROXIES))
def test_the_front_door_exports_every_series_that_is_asked(branch: str, tmp_path: Path) -> None:
    plan = door_plan(scaling=ZERO)
    door = Door(PROXIES[branch], tmp_path, plan)
    try:
        text = door.get_stats(front_door.METRICS_PATH) + door.get_stats(front_door.HELD_PATH)
    finally:
        door.close()
    asked = {
        (found["__name__"], found.get("proxy", ""), found.get("code", ""))
        for expression in expressions(plan.monitoring).values()
        for found in selectors(expression)
        if found["__name__"].startswith(("haproxy_", "servingstack_"))
    }
    assert len(asked) > 5
    for metric, proxies_asked, code in asked:
        for proxy in proxies_asked.split("|"):
            wanted = [f'proxy="{proxy}"'] * bool(proxy) + [f'code="{code}"'] * bool(code)
            assert re.search(rf"^{metric}(\{{{'.*,'.join(wanted)}.*\}})? \d", text, re.MULTILINE), (
                metric,
                proxy,
                code,
            )
