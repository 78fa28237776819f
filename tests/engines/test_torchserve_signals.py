"""TorchServe's signals: names that the release exports, queries that parse, rates and never raw counters."""

from __future__ import annotations

import re
from typing import Any

import promql_parser
import pytest

from servingstack.engines import facts
from servingstack.engines.torchserve import VERSION
from servingstack.engines.torchserve_signals import (
    histogram_edge,
    objective_counts,
    signals,
    stalled,
)
from servingstack.errors import InvalidInput
from servingstack.planner import plan

EXPORTED = facts.metrics("torchserve", VERSION)
SELECTOR = 'namespace="serving",job="classifier-engine"'


def test_every_metric_is_one_the_release_exports() -> None:
    for signal in signals().values():
        assert set(signal.metrics) <= set(EXPORTED), signal.id
        for name in signal.metrics:
            assert name in signal.expression


def test_every_query_is_valid_promql_with_the_selector_in_each_series() -> None:
    queries = [signal.query(SELECTOR, "2m") for signal in signals().values()]
    queries += [objective_counts("availability").ratio(SELECTOR, "5m"), stalled(SELECTOR)]
    for query in queries:
        promql_parser.parse(query)
        assert "$" not in query
        assert query.count(SELECTOR) == query.count("{")


class TestF027CountersOfMicroseconds:
    def test_no_query_reads_a_counter_raw(self) -> None:
        for signal in signals().values():
            assert all(EXPORTED[name].kind == "counter" for name in signal.metrics)
            raw = re.sub(r"rate\([^)]*\)", "", signal.query(SELECTOR))
            assert "{" not in raw, signal.id

    def test_a_mean_is_the_rate_of_the_time_over_the_rate_of_the_requests(self) -> None:
        found = signals()["queue_time_mean"].query(SELECTOR, "5m")
        assert found == (
            f"sum(rate(ts_queue_latency_microseconds{{{SELECTOR}}}[5m]))\n/\n"
            f"clamp_min(sum(rate(ts_inference_requests_total{{{SELECTOR}}}[5m])), 1e-9) / 1e6"
        )

    def test_queue_depth_is_the_seconds_waited_per_second_over_all_models(self) -> None:
        found = signals()["queue_depth"].query(SELECTOR)
        assert found == f"sum(rate(ts_queue_latency_microseconds{{{SELECTOR}}}[2m])) / 1e6"


def test_an_error_ratio_without_errors_is_zero_and_not_a_gap() -> None:
    assert "or vector(0)" in signals()["error_rate"].expression


@pytest.mark.parametrize("kind", ["latency", "ttft", "tpot"])
def test_a_latency_objective_is_refused_for_want_of_a_histogram(kind: str) -> None:
    with pytest.raises(ValueError, match=r"needs a histogram \| Leave it out"):
        histogram_edge(kind, 0.1)
    with pytest.raises(ValueError, match="needs a histogram"):
        objective_counts(kind, 0.1)


ASKED: dict[str, Any] = {
    "name": "digits",
    "model": {"id": "digits", "task": "classify", "parameters": "66M", "source": "pvc://models/archives"},
    "hardware": {"accelerators": ["t4"]},
    "target": {"option": "kubernetes"},
    "traffic": {"input_tokens": 128},
    "engine": {
        "kind": "torchserve",
        "image": "registry.example.com/serve:0.12.0-gpu@sha256:" + "a" * 64,
        "archive": "digits.mar",
        "warm_up": {"data": [0]},
    },
}


def test_what_other_engines_show_is_there_or_named_as_missing_with_what_to_watch_instead() -> None:
    watched = plan(ASKED).monitoring
    missing = {item.signal: item.reason for item in watched.unavailable}
    found = {signal.id for signal in watched.signals}
    assert not set(missing) & found
    assert {"latency_p95", "ttft_p95", "tpot_p95", "output_tokens_per_second"} <= set(missing)
    assert {"requests_per_second", "error_rate", "queue_depth", "latency_mean"} <= found
    assert "no histogram" in missing["latency_p95"]
    assert "latency_mean" in missing["latency_p95"]


def test_a_plan_with_a_latency_objective_is_refused_and_one_without_watches_availability() -> None:
    with pytest.raises(InvalidInput) as caught:
        plan({**ASKED, "slo": {"latency_p95": "200ms"}})
    (found,) = caught.value.violations
    assert found.path == "slo.latency_p95"
    assert "latency_mean" in found.fix
    (objective,) = plan(ASKED).monitoring.objectives
    assert objective.id == "availability"
