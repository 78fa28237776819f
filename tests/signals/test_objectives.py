"""Objectives: on edges that the engine's histograms have, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sample import DOCUMENT, sample_plan
from tests.signals.promql import selectors

from servingstack.engines import facts
from servingstack.errors import InvalidInput
from servingstack.signals import edge_warnings
from servingstack.watched import Monitoring


def _monitoring(slo: dict[str, Any], **changes: Any) -> Monitoring:
    return sample_plan(DOCUMENT | {"slo": slo}, **changes).monitoring


def test_availability_is_always_promised_and_measured_in_the_front_door() -> None:
    monitoring = _monitoring({})
    (objective,) = monitoring.objectives
    assert (objective.id, objective.percent, objective.window_days) == ("availability", 99.9, 30)
    short = next(rule for rule in monitoring.recording_rules if rule.labels.get("sloth_window") == "5m")
    bad, total = {frozenset(found.items()): found for found in selectors(short.expression)}.values()
    assert bad == total | {"code": "5xx"}
    assert (total["job"], total["proxy"]) == ("chat", "engine")


@pytest.mark.parametrize(
    ("slo", "edge_s"),
    [
        ({"ttft_p95": "500ms"}, 0.5),
        ({"ttft_p95": "499ms"}, 0.5),
        ({"ttft_p95": "501ms"}, 0.75),
        ({"tpot_p99": "50ms"}, 0.05),
        ({"tpot_p50": "51ms"}, 0.075),
        ({"latency_p99": "30s"}, 30.0),
        ({"latency_p50": "16s"}, 20.0),
        ({"latency_p95": "7680s"}, 7680.0),
    ],
)
def test_a_threshold_takes_the_next_edge_that_the_pinned_engine_has(
    slo: dict[str, str], edge_s: float
) -> None:
    ((name, _),) = slo.items()
    monitoring = _monitoring(slo)
    objective = monitoring.objectives[-1]
    assert (objective.id, objective.percent, objective.histogram_edge_s) == (name, float(name[-2:]), edge_s)
    short = next(
        rule
        for rule in monitoring.recording_rules
        if rule.labels["sloth_slo"] == name and rule.labels.get("sloth_window") == "5m"
    )
    edges = {float(found["le"]): found["__name__"] for found in selectors(short.expression) if "le" in found}
    assert list(edges) == [edge_s]
    metric = facts.metrics("vllm", "0.30.0")[edges[edge_s].removesuffix("_bucket")]
    assert edge_s in metric.buckets


def test_a_threshold_between_two_edges_is_said_and_one_on_an_edge_is_not() -> None:
    (warning,) = edge_warnings(_monitoring({"ttft_p95": "300ms", "tpot_p95": "50ms"}))
    assert warning.path == "slo.ttft_p95"
    assert "300ms" in warning.message
    assert "Ask 500ms" in warning.message


def test_what_the_engine_cannot_count_is_refused_all_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        _monitoring({"tpot_p95": "90s", "latency_p99": "3h", "ttft_p95": "500ms"})
    assert [violation.path for violation in caught.value.violations] == ["slo.tpot_p95", "slo.latency_p99"]
    assert "80 s" in caught.value.violations[0].allowed


def test_an_embedding_has_no_tokens_to_time() -> None:
    with pytest.raises(InvalidInput, match="task embed generates no tokens"):
        _monitoring({"ttft_p95": "500ms"}, architecture={"task": "embed"})
    assert (
        _monitoring({"latency_p95": "1s"}, architecture={"task": "embed"}).objectives[-1].id == "latency_p95"
    )


def test_no_traffic_leaves_no_sample_rather_than_not_a_number() -> None:
    for rule in _monitoring({"ttft_p95": "500ms"}).recording_rules:
        if rule.record == "slo:sli_error:ratio_rate5m":
            assert rule.expression.rstrip().endswith("> 0)")
