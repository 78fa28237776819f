"""Signals: names that the release exports, queries that parse, edges that exist."""

from __future__ import annotations

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servingstack.engines import facts
from servingstack.engines.signal import edge_at_or_above, le
from servingstack.engines.vllm_limits import VERSION
from servingstack.engines.vllm_signals import (
    metric_names,
    signals,
    stalled,
)

EXPORTED = facts.metrics("vllm", VERSION)
SELECTOR = 'namespace="serving",service="chat-engine"'


def test_every_metric_is_one_the_release_exports_without_further_flags() -> None:
    for signal in signals().values():
        for name in signal.metrics:
            assert EXPORTED[name].default, f"{signal.id} reads {name}"


@pytest.mark.parametrize("version", [VERSION, "0.8.5", "0.10.2", None])
def test_every_query_is_valid_promql_with_the_selector_in_each_series(version: str | None) -> None:
    for signal in signals(version).values():
        query = signal.query(SELECTOR, "2m")
        promql_parser.parse(query)
        assert "$" not in query
        assert query.count(SELECTOR) == query.count("{"), signal.id


def test_the_signals_a_dashboard_needs_are_there() -> None:
    needed = {f"{kind}_{p}" for kind in ("latency", "ttft", "tpot") for p in ("p50", "p95", "p99")}
    needed |= {"requests_per_second", "output_tokens_per_second", "queue_depth", "running"}
    needed |= {"kv_cache_usage", "preemptions", "prefix_cache_hit_rate"}
    assert needed <= set(signals())


def test_queue_depth_is_the_sum_of_waiting_requests() -> None:
    assert signals()["queue_depth"].query(SELECTOR) == f"sum(vllm:num_requests_waiting{{{SELECTOR}}})"


class TestF079NamesByRelease:
    def test_a_new_release_has_the_new_names_and_an_old_one_the_old(self) -> None:
        assert metric_names("kv_cache_usage", "0.11.0") == ("vllm:kv_cache_usage_perc",)
        assert metric_names("kv_cache_usage", "0.8.5") == ("vllm:gpu_cache_usage_perc",)
        assert metric_names("prefix_cache_hits", VERSION) == ("vllm:prefix_cache_hits_total",)

    def test_an_unknown_release_is_asked_for_both(self) -> None:
        query = signals(None)["kv_cache_usage"].query(SELECTOR)
        assert "vllm:kv_cache_usage_perc" in query
        assert " or max(vllm:gpu_cache_usage_perc" in query

    def test_no_removed_name_is_in_the_pinned_releases_queries(self) -> None:
        text = " ".join(signal.expression for signal in signals().values())
        for gone in ("gpu_cache_usage_perc", "num_requests_swapped", "gpu_prefix_cache", ":time_per_output"):
            assert gone not in text

    def test_cache_use_is_a_share_of_one(self) -> None:
        assert signals()["kv_cache_usage"].unit == "ratio"


def test_f133_a_replica_that_runs_requests_and_makes_no_tokens_is_seen() -> None:
    query = stalled(SELECTOR)
    promql_parser.parse(query)
    assert "num_requests_running" in query
    assert "generation_tokens_total" in query
    assert EXPORTED["vllm:num_requests_running"].kind == "gauge"
    assert EXPORTED["vllm:generation_tokens_total"].kind == "counter"


def test_f118_the_cache_is_watched_and_not_the_memory_that_vllm_takes_at_start_anyway() -> None:
    assert "kv_cache_usage" in signals()
    assert not [signal for signal in signals() if "memory" in signal]


def test_edges_are_written_as_the_exporter_writes_them() -> None:
    assert [le(edge) for edge in (0.5, 1, 10.0, 0.001, 2560)] == ["0.5", "1.0", "10.0", "0.001", "2560.0"]


@given(st.floats(0.001, 2560))
def test_the_edge_is_never_below_the_threshold_and_no_edge_lies_between(threshold: float) -> None:
    edges = signals()["ttft_p95"].edges
    edge = edge_at_or_above(edges, threshold)
    assert edge is not None
    assert edge >= threshold * (1 - 1e-9)
    assert not [other for other in edges if threshold <= other < edge]


def test_known_edges_of_the_pinned_release() -> None:
    assert signals()["latency_p95"].edges[:4] == (0.3, 0.5, 0.8, 1.0)
    assert signals()["ttft_p95"].edges[-1] == 2560.0
    assert 0.05 in signals()["tpot_p95"].edges
