"""Triton's signals: rates of counters, one queue over all models, the objective's own edge."""

from __future__ import annotations

import re

import pytest
from tests.engines.test_triton_config import _chain
from tests.engines.triton_documents import document, model
from tests.signals.promql import expressions, normal
from tests.signals.test_watch import MATRIX

from servingstack.engines import facts
from servingstack.errors import InvalidInput
from servingstack.planner import plan
from servingstack.watched import Monitoring

COUNTER = re.compile(r"nv_\w+_(us|success|failure|count)\b")


def _watched(*models: dict[str, object], slo: str = "100ms") -> Monitoring:
    return plan(document(*models, slo={"latency_p95": slo, "availability": 99.9})).monitoring


def _query(found: Monitoring, signal: str) -> str:
    return next(entry.query for entry in found.signals if entry.id == signal)


def test_the_matrix_is_complete() -> None:
    found = _watched(model())
    watched, missing = {entry.id for entry in found.signals}, {entry.signal for entry in found.unavailable}
    assert not set(MATRIX) - watched - missing
    assert not watched & missing


def test_every_expression_is_promql_and_every_metric_is_the_releases() -> None:
    found = _watched(model(response_cache=True), model("other"))
    known = facts.metrics("triton", "26.08")
    for purpose, expression in expressions(found).items():
        assert normal(expression), purpose
        for name in re.findall(r"nv_\w+", expression):
            assert re.sub(r"_(bucket|count)$", "", name) in known or name in known, name


def test_the_queue_is_the_gauge_of_waiting_requests_over_all_models_f027() -> None:
    found = _watched(*[model(name) for name in ("one", "two", "three", "four")])
    scaled = _query(found, "queue_depth")
    assert "sum(nv_inference_pending_request_count{" in scaled
    assert "avg" not in scaled
    assert "duration_us" not in scaled
    panel = next(entry for entry in found.signals if entry.id == "queue_depth")
    assert {"one", "two", "three", "four"} <= set(panel.queries)


def test_times_are_rates_over_rates_f027() -> None:
    found = _watched(model(), model("other"))
    for signal in ("queue_time", "compute_time"):
        query = _query(found, signal)
        assert re.search(r"sum\(rate\(nv_\w+_duration_us\{", query)
        assert "clamp_min(sum(rate(nv_inference_request_success{" in query
        assert query.endswith("/ 1e6")


def test_no_counter_is_read_raw_f027() -> None:
    for purpose, expression in expressions(_watched(model())).items():
        for match in COUNTER.finditer(expression):
            if "pending" not in match[0]:
                before = expression[: match.start()]
                assert before.endswith(("rate(", "increase(")), f"{purpose}: {match[0]}"


def test_the_steps_of_an_ensemble_do_not_count_twice() -> None:
    found = _watched(*_chain())
    assert 'model=~"chain"' in _query(found, "latency_p95")
    assert "tokens" not in _query(found, "latency_p95")
    assert "sum(nv_inference_pending_request_count{" in _query(found, "queue_depth")


def test_an_objective_counts_at_its_own_edge_in_milliseconds() -> None:
    found = _watched(model(), slo="37ms")
    objective = next(entry for entry in found.objectives if entry.id == "latency_p95")
    assert objective.histogram_edge_s == pytest.approx(0.037)
    bad = next(rule.expression for rule in found.recording_rules if "latency_p95" in str(rule.labels))
    assert 'le=~"37([.]0)?"' in bad
    assert "nv_inference_first_response_histogram_ms_bucket" in bad


def test_an_objective_on_tokens_is_refused() -> None:
    with pytest.raises(InvalidInput, match="latency"):
        plan(document(model(), slo={"ttft_p95": "100ms"}))


def test_a_replica_that_holds_requests_and_runs_no_batch_pages() -> None:
    alert = next(entry for entry in _watched(model()).alerts if entry.name == "ServingZombieReplica")
    assert "nv_inference_exec_count" in alert.expression
    assert normal(alert.expression)
