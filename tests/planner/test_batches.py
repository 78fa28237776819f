"""Whole requests in batches: curves, measured tables, the delay in the budget, copies that share a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines.triton_documents import document, model
from tests.planner.build import known, on

from servingstack import catalog
from servingstack.errors import Infeasible
from servingstack.measured_formats import parse
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.planner.batches import BatchReplica, BatchSpeed, batch_speed
from servingstack.planner.performance import REQUEST_S

MEASURED = ((1, 0.004), (8, 0.006), (16, 0.010), (32, 0.020), (64, 0.050))


def _speed(table: tuple[tuple[int, float], ...] = (), flops: float = 1.7e10) -> BatchSpeed:
    shape, gpu = known("meta-llama/Llama-3.2-1B-Instruct"), catalog.gpu("l4")
    return batch_speed(shape, gpu, on(gpu, shape), 132_000_000, (flops, table))


def _replica(**changes: Any) -> BatchReplica:
    fields = {"speed": _speed(MEASURED), "batch": 32, "copies": 1, "gpus": 1, "delay_s": 0.0, **changes}
    return BatchReplica(**fields)


def _planned(*models: dict[str, Any], **parts: Any) -> ServingPlan:
    return plan(document(*(models if models else (model(),)), **parts))


def test_a_measured_batch_takes_what_was_measured() -> None:
    replica = _replica()
    for size, seconds in MEASURED[:4]:
        assert replica.service(float(size)) == pytest.approx(seconds)
    assert replica.service(12.0) == pytest.approx(0.008)


def test_the_table_wins_and_says_so() -> None:
    rows = [{"accelerator": "L4", "batch_size": size, "latency": f"{s * 1000:g}ms"} for size, s in MEASURED]
    found = _planned(model={"batch_times": rows})
    # 8 in 6 ms is the most per second: larger batches only wait.
    assert found.batching.max_num_seqs in (8, 16, 32)
    best = max(MEASURED, key=lambda row: row[0] / row[1])
    assert found.batching.max_num_seqs == best[0]
    assert found.expected.requests_per_s.value == pytest.approx(best[0] / best[1], rel=0.01)
    assert found.expected.latency_p95_ms.source == "measured batches"


# Four concurrencies of a Triton whose batcher fills: times as perf_analyzer writes them, microseconds.
_HEAD = (
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
    "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency\n"
)
_ROWS = ((1, 250, 3_900), (8, 1330, 5_900), (16, 1600, 9_900), (64, 1590, 40_000))
PERF_ANALYZER = _HEAD + "".join(
    f"{c},{rate},20,100,0,60,{infer},40,0,{infer},{infer},{infer},{infer}\n" for c, rate, infer in _ROWS
)


def _benched(text: str = PERF_ANALYZER, **fields: Any) -> dict[str, Any]:
    """The table of a document, with the GPU that the file does not say."""
    return {
        **parse(text, "perf.csv").model_dump(mode="json", exclude_none=True),
        "accelerator": "l4",
        **fields,
    }


def test_perf_analyzers_times_of_the_model_are_the_batches_and_say_so() -> None:
    """Little's law over the server's compute time: 1330/s x 6 ms are 8 in a batch."""
    found = _planned(measured=_benched())
    # 16 in 10 ms bear as much as 64 in 40: the largest batch that was still worth it.
    assert found.batching.max_num_seqs == 16
    assert found.expected.requests_per_s.value == pytest.approx(1600, rel=0.01)
    assert found.expected.latency_p95_ms.source == "measured (perf-analyzer), concurrency 1 to 64"
    assert "measured-table-unused" not in [warning.code for warning in found.warnings]
    off = next(warning for warning in found.warnings if warning.code == "estimate-was-off")
    assert "a batch of" in off.message
    assert "estimate" in off.message


@pytest.mark.parametrize(
    ("models", "table", "why"),
    [
        ((model(),), _benched(accelerator="h100-80gb"), "measured with accelerator"),
        (
            (model(),),
            _benched("Concurrency,Inferences/Second,p50 latency\n1,100,9000\n"),
            "nothing of the model",
        ),
        ((model(instance_group=[{"count": 2}]),), _benched(), "copies on one GPU"),
    ],
)
def test_a_benchmark_that_says_nothing_of_the_batches_is_not_used_and_said(
    models: tuple[dict[str, Any], ...], table: dict[str, Any], why: str
) -> None:
    found = _planned(*models, measured=table)
    unused = next(warning for warning in found.warnings if warning.code == "measured-table-unused")
    assert why in unused.message
    assert found.expected.latency_p95_ms.source.startswith("roofline")


def test_measured_batches_win_over_a_benchmark() -> None:
    rows = [{"accelerator": "L4", "batch_size": 4, "latency": "4ms"}]
    found = _planned(model={"batch_times": rows}, measured=_benched())
    assert found.expected.latency_p95_ms.source == "measured batches"


def test_a_table_of_another_gpu_says_nothing() -> None:
    rows = [{"accelerator": "h100", "batch_size": 1, "latency": "9s"}]
    assert _planned(model={"batch_times": rows}).expected.latency_p95_ms.source.startswith("roofline")


def test_the_delay_is_part_of_the_latency() -> None:
    short, long = (_replica(delay_s=delay) for delay in (0.0, 0.005))
    for quantile in (0.5, 0.95, 0.99):
        assert long.latency_at(4.0, quantile) - short.latency_at(4.0, quantile) == pytest.approx(0.005)
    assert short.ttft_unqueued(1.0) == pytest.approx(REQUEST_S + 0.004)


def test_a_pinned_delay_that_breaks_the_objective_is_refused() -> None:
    slow = model(dynamic_batching={"max_queue_delay": "200ms"})
    with pytest.raises(Infeasible, match="latency_p95"):
        _planned(slow, slo={"latency_p95": "100ms"})


def test_the_planned_delay_leaves_room_for_the_batch() -> None:
    for objective in (30, 50, 100, 400):
        found = _planned(slo={"latency_p95": f"{objective}ms"})
        point = next(row for row in found.batching.curve if row.batch_size == found.batching.max_num_seqs)
        assert point.ttft_ms <= objective
        assert found.batching.queue_delay_ms <= objective / 4
        assert found.expected.latency_p95_ms.value <= objective


def test_copies_share_a_gpu_and_only_overlap_the_host() -> None:
    one, two = (_replica(speed=_speed(), copies=copies, batch=32) for copies in (1, 2))
    assert one.rate(32.0) <= two.rate(64.0) <= 2 * one.rate(32.0)
    measured = _replica(copies=2)  # what was measured cannot be told apart: the GPU is taken to be full
    assert measured.rate(64.0) == pytest.approx(_replica().rate(32.0))


def test_copies_on_another_gpu_double_the_rate() -> None:
    one, two = (_replica(gpus=gpus) for gpus in (1, 2))
    assert two.rate(64.0) == pytest.approx(2 * one.rate(32.0))


def test_reading_the_weights_bounds_a_small_batch_and_arithmetic_a_large_one() -> None:
    speed = _speed()
    assert speed.gpu(1) == pytest.approx(max(speed.read_s, speed.request_s))
    assert speed.gpu(256) == pytest.approx(256 * speed.request_s)


@settings(max_examples=60, deadline=None)
@given(
    batch=st.sampled_from([1, 4, 32]),
    copies=st.integers(1, 4),
    gpus=st.integers(1, 2),
    delay=st.floats(0, 0.02),
    busy=st.floats(0.05, 0.95),
)
def test_more_load_is_never_faster_and_never_bears_less(
    batch: int, copies: int, gpus: int, delay: float, busy: float
) -> None:
    replica = _replica(speed=_speed(), batch=batch, copies=copies, gpus=gpus, delay_s=delay)
    load, more = busy * replica.places, min(replica.places, busy * 1.05 * replica.places)
    assert replica.rate(load) <= replica.rate(more) * (1 + 1e-9)
    for quantile in (0.5, 0.95, 0.99):
        assert replica.latency_at(load, quantile) <= replica.latency_at(more, quantile) * (1 + 1e-9)


def test_a_tighter_objective_never_makes_it_cheaper() -> None:
    costs = [
        _planned(
            slo={"latency_p95": f"{objective}ms"},
            traffic={"requests_per_second": 5000, "input_tokens": 256},
            hardware={},
        ).cost.hourly_usd
        for objective in (20, 40, 80, 160, 1000)
    ]
    assert costs == sorted(costs, reverse=True)


def test_the_flops_of_a_request_can_be_said() -> None:
    small, large = (_planned(model={"flops_per_request": flops}) for flops in ("8B", "800B"))
    assert large.expected.requests_per_s.value < small.expected.requests_per_s.value / 20


def test_a_plan_names_what_it_decided_of_the_batcher() -> None:
    named = {row.path for row in _planned().assumed}
    assert {
        "engine.models[0].max_batch_size",
        "engine.models[0].dynamic_batching.max_queue_delay",
    } <= named
    assert not {path for path in named if "tensor_parallel" in path or "kv_cache" in path}


def test_an_unbatched_model_is_planned_one_by_one_and_warned_of() -> None:
    found = _planned(model(max_batch_size=0))
    assert found.batching.max_num_seqs == 1
    assert "unbatched-model" in {warning.code for warning in found.warnings}
