"""A user's table inside the planner: exact where it was measured, silent about everything else."""

from __future__ import annotations

from typing import Any

import pytest

from servingstack.measured import MeasuredRow, MeasuredTable, Spread
from servingstack.plan import ServingPlan
from servingstack.planner import plan

DOCUMENT: dict[str, Any] = {
    "name": "chat",
    "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 8192},
    "target": {"option": "kubernetes"},
    "traffic": {"requests_per_second": 2, "input_tokens": 512, "output_tokens": 128},
    "hardware": {"accelerators": ["a100-80gb"], "gpus_per_replica": 1},
}


def table(slower: float = 1.0, **changes: Any) -> MeasuredTable:
    """What a plan without a table says of itself, this much slower."""
    rows = [
        MeasuredRow(
            concurrency=point.batch_size,
            requests_per_s=point.requests_per_s / slower,
            ttft_ms=Spread(p50=point.ttft_ms * slower),
            tpot_ms=Spread(p50=point.tpot_ms * slower),
        )
        for point in plan(DOCUMENT).batching.curve
    ]
    known: dict[str, Any] = {"rows": tuple(rows), "input_tokens": 512, "output_tokens": 128}
    return MeasuredTable(**{**known, **changes})


def planned(found: MeasuredTable, **changes: Any) -> ServingPlan:
    return plan(DOCUMENT | {"measured": found.model_dump(mode="json", exclude_none=True)} | changes)


def codes(found: ServingPlan) -> list[str]:
    return [item.code for item in found.warnings if item.path == "measured"]


def test_a_table_that_agrees_changes_nothing_but_the_band_and_the_source() -> None:
    before, after = plan(DOCUMENT), planned(table())
    for known, seen in zip(before.batching.curve, after.batching.curve, strict=False):
        assert seen.tpot_ms == pytest.approx(known.tpot_ms, rel=1e-6)
        assert seen.requests_per_s == pytest.approx(known.requests_per_s, rel=1e-6)
    mean = after.expected.tpot_p50_ms
    assert mean.source.startswith("measured")
    assert (mean.high - mean.low) / mean.value == pytest.approx(0.2, rel=0.01)
    assert codes(after) == []


def test_at_each_measured_concurrency_the_curve_is_the_table() -> None:
    slow = table(1.5)
    by_size = {row.concurrency: row for row in slow.rows}
    for point in planned(slow).batching.curve:
        row = by_size.get(float(point.batch_size))
        if row is not None:
            assert row.tpot_ms is not None
            assert row.ttft_ms is not None
            assert point.tpot_ms == pytest.approx(row.tpot_ms.p50)
            assert point.ttft_ms == pytest.approx(row.ttft_ms.p50)
            assert point.requests_per_s == pytest.approx(row.requests_per_s)


def test_slower_than_estimated_needs_more_replicas_and_says_why() -> None:
    busy = {"traffic": DOCUMENT["traffic"] | {"requests_per_second": 60}}
    before, after = plan(DOCUMENT | busy), planned(table(2.0), **busy)
    assert after.scaling.mean_replicas > 1.5 * before.scaling.mean_replicas
    assert "estimate-was-off" in codes(after)


def test_a_batch_ends_where_the_throughput_was_highest() -> None:
    rows = table().rows
    best = rows[3]
    falling = [row.model_copy(update={"requests_per_s": best.requests_per_s * 0.9}) for row in rows[4:]]
    after = planned(table(rows=(*rows[:4], *falling)))
    assert after.batching.max_num_seqs == best.concurrency
    assert after.batching.limited_by == "the measured table"


@pytest.mark.parametrize(
    "changes", [{"gpus_per_replica": 8}, {"precision": "fp8"}, {"accelerator": "h100-80gb"}]
)
def test_what_was_measured_otherwise_is_not_used_and_said(changes: dict[str, Any]) -> None:
    after = planned(table(2.0, **changes))
    assert after.expected == plan(DOCUMENT).expected
    assert codes(after) == ["measured-table-unused"]


def test_other_traffic_keeps_the_correction_with_a_wider_band() -> None:
    long = {"traffic": DOCUMENT["traffic"] | {"input_tokens": 2048}}
    found = planned(table(1.5), **long).expected.tpot_p50_ms
    assert found.source.startswith("measured")
    assert (found.high - found.low) / found.value == pytest.approx(0.4, rel=0.01)


def test_the_plan_is_the_same_for_sglang_but_for_the_engine() -> None:
    other = plan(DOCUMENT | {"engine": {"kind": "sglang"}})
    assert other.architecture.engine == "sglang"
    assert other.container.command == ("python3", "-m", "sglang.launch_server")
    assert planned(table(), engine={"kind": "sglang"}).expected.tpot_p50_ms.source.startswith("measured")
