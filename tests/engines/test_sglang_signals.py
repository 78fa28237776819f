"""Signals: names that the release exports, queries that parse, edges that exist, the same ids as vLLM's."""

from __future__ import annotations

import promql_parser

from servingstack.engines import facts, vllm_signals
from servingstack.engines.sglang_limits import VERSION
from servingstack.engines.sglang_signals import objective_counts, signals, stalled

EXPORTED = facts.metrics("sglang", VERSION)
SELECTOR = 'namespace="serving",service="chat-engine"'
RANKS = {"tp_rank", "pp_rank", "moe_ep_rank"}


def test_every_metric_is_one_the_release_exports_without_further_flags() -> None:
    for signal in signals().values():
        for name in signal.metrics:
            assert EXPORTED[name].default, f"{signal.id} reads {name}"


def test_every_query_is_valid_promql_with_the_selector_in_each_series() -> None:
    for signal in signals().values():
        query = signal.query(SELECTOR, "2m")
        promql_parser.parse(query)
        assert "$" not in query
        assert query.count(SELECTOR) == query.count("{"), signal.id


def test_it_has_the_same_signals_as_vllm_so_that_a_dashboard_fits_both() -> None:
    """Every one of vLLM's, and some that only this engine has."""
    assert set(signals()) >= set(vllm_signals.signals())
    for name, signal in vllm_signals.signals().items():
        assert signals()[name].unit == signal.unit


def test_queue_depth_counts_each_replica_once_however_many_ranks_report() -> None:
    signal = signals()["queue_depth"]
    assert set(EXPORTED["sglang:num_queue_reqs"].labels) >= RANKS
    query = signal.query(SELECTOR)
    assert query == (
        f"sum(max without (tp_rank, pp_rank, moe_ep_rank) (sglang:num_queue_reqs{{{SELECTOR}}}))"
    )
    assert "vector(0)" not in query, "no replicas is no load only where none may run"


def test_time_to_first_token_counts_streamed_requests_alone() -> None:
    assert "is_streaming" in EXPORTED["sglang:time_to_first_token_seconds"].labels
    assert 'is_streaming="true"' in signals()["ttft_p95"].query(SELECTOR)
    assert objective_counts("ttft", 0.5).bad.count('is_streaming="true"') == 2


def test_errors_are_the_5xx_share_of_the_api_and_zero_without_any() -> None:
    query = signals()["error_rate"].query(SELECTOR)
    assert 'status_code=~"5.."' in query
    assert "or vector(0)" in query
    assert {"status_code", "endpoint"} <= set(EXPORTED["sglang:http_responses_total"].labels)


def test_f133_a_replica_that_runs_requests_and_makes_no_tokens_is_seen() -> None:
    query = stalled(SELECTOR)
    promql_parser.parse(query)
    assert "num_running_reqs" in query
    assert "realtime_tokens_total" in query, "the other counters of tokens grow only when a request ends"
    left = set(EXPORTED["sglang:num_running_reqs"].labels) - RANKS
    right = set(EXPORTED["sglang:realtime_tokens_total"].labels) - RANKS - {"mode"}
    assert left == right, "`and` matches on all labels"


def test_known_edges_of_the_pinned_release() -> None:
    assert signals()["ttft_p95"].edges[:6] == (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert 0.04 in signals()["tpot_p95"].edges
    assert signals()["latency_p95"].edges[-1] == 2400.0


def test_availability_is_counted_without_a_threshold() -> None:
    promql_parser.parse(objective_counts("availability").ratio(SELECTOR, "5m"))
