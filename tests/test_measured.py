"""Benchmark files of every tool become one table, which wins over the own estimate where it applies."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from servingstack.errors import InvalidInput
from servingstack.measured import (
    MEASURED_BAND,
    OTHER_SHAPE_BAND,
    Estimated,
    MeasuredRow,
    MeasuredTable,
    Spread,
    band,
    bench_path,
    calibrate,
    interpolate,
    mismatch,
    violations,
)
from servingstack.measured_formats import parse, read

# What `vllm bench serve --save-result` of 0.30.0 writes (benchmarks/serve.py), but for fields nobody reads.
VLLM: dict[str, Any] = {
    "date": "20261130-104500", "endpoint_type": "openai", "backend": "openai", "label": None,
    "model_id": "Qwen/Qwen2.5-7B-Instruct", "tokenizer_id": "Qwen/Qwen2.5-7B-Instruct", "num_prompts": 64,
    "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 8, "duration": 20.0, "completed": 64,
    "failed": 0, "total_input_tokens": 65536, "total_output_tokens": 16384, "request_throughput": 3.2,
    "request_goodput": None, "output_throughput": 819.2, "total_token_throughput": 4096.0,
    "mean_ttft_ms": 120.0, "median_ttft_ms": 110.0, "std_ttft_ms": 10.0, "p99_ttft_ms": 180.0,
    "mean_tpot_ms": 9.3, "median_tpot_ms": 9.2, "std_tpot_ms": 0.2, "p99_tpot_ms": 10.1,
    "mean_e2el_ms": 2491.0, "median_e2el_ms": 2480.0, "std_e2el_ms": 5.0, "p95_e2el_ms": 2600.0,
}  # fmt: skip

# sglang.benchmark.serving of 0.5.20 (one line of its output file).
SGLANG: dict[str, Any] = {
    "tag": None, "backend": "sglang-oai", "dataset_name": "random-ids", "request_rate": float("inf"),
    "max_concurrency": 16, "duration": 10.0, "completed": 100, "total_input_tokens": 102400,
    "total_output_tokens": 25600, "request_throughput": 5.0, "output_throughput": 1280.0,
    "mean_e2e_latency_ms": 3200.0, "median_e2e_latency_ms": 3100.0, "p95_e2e_latency_ms": 3600.0,
    "mean_ttft_ms": 150.0, "median_ttft_ms": 140.0, "p95_ttft_ms": 200.0, "p99_ttft_ms": 220.0,
    "mean_tpot_ms": 11.9, "median_tpot_ms": 11.8, "p95_tpot_ms": 12.5, "p99_tpot_ms": 12.9,
}  # fmt: skip

# profile_export_aiperf.json of AIPerf 0.13.0 (common/models/export_models.py).
AIPERF: dict[str, Any] = {
    "schema_version": "1.4", "aiperf_version": "0.13.0",
    "input_config": {
        "phases": [{"name": "warmup", "concurrency": 1}, {"name": "profiling", "concurrency": 4}]
    },
    "start_time": "2026-11-30T10:45:00",
    "request_throughput": {"unit": "requests/sec", "avg": 2.0},
    "request_latency": {"unit": "ms", "avg": 2000.0, "p50": 1990.0, "p95": 2100.0, "p99": 2200.0},
    "request_count": {"unit": "requests", "avg": 80.0},
    "time_to_first_token": {"unit": "ms", "avg": 90.0, "p50": 88.0, "p95": 130.0, "p99": 150.0},
    "inter_token_latency": {"unit": "ms", "avg": 7.5, "p50": 7.4, "p95": 8.0, "p99": 8.4},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 512.0},
    "input_sequence_length": {"unit": "tokens", "avg": 1024.0},
    "output_sequence_length": {"unit": "tokens", "avg": 256.0},
}  # fmt: skip

GENAI_CSV = """\
Metric,avg,min,max,p99,p95,p90,p75,p50,p25,p10,p5,p1
Time To First Token (ms),90.10,80.00,160.00,150.00,130.00,120.00,95.00,88.00,85.00,82.00,81.00,80.50
Inter Token Latency (ms),7.50,7.00,9.00,8.40,8.00,7.90,7.60,7.40,7.30,7.20,7.10,7.00
Request Latency (ms),"2,000.00","1,900.00","2,300.00","2,200.00","2,100.00",1,1,"1,990.00",1,1,1,1
Output Sequence Length (tokens),256.00,256.00,256.00,256.00,256.00,256,256,256,256,256,256,256
Input Sequence Length (tokens),1024.00,1024,1024,1024,1024,1024,1024,1024,1024,1024,1024,1024

Metric,Value
Output Token Throughput (tokens/sec),"1,024.00"
Request Throughput (per sec),4.00
Request Count (count),80.00
"""

# triton-inference-server/client, src/c++/perf_analyzer/docs/measurements_metrics.md, as printed there.
PERF_ANALYZER = """\
Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,\
Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency
1,69.2,225,2148,64,206,11781,19,0,13891,18795,19753,21018
3,84.2,237,1768,21673,209,11742,17,0,35398,43984,47085,51701
4,84.2,279,1604,33669,233,11731,18,1,47045,56545,59225,64886
2,87.2,235,1973,9151,190,11346,17,0,21874,28557,29768,34766
"""


class TestEveryToolsFile:
    def test_vllms_result(self) -> None:
        table = parse(json.dumps(VLLM), "x.json")
        [row] = table.rows
        assert (table.format, table.model, table.date) == (
            "vllm-bench",
            "Qwen/Qwen2.5-7B-Instruct",
            "2026-11-30",
        )
        assert (table.input_tokens, table.output_tokens) == (1024, 256)
        assert (row.concurrency, row.requests_per_s, row.output_tokens_per_s) == (8, 3.2, 819.2)
        assert row.ttft_ms == Spread(mean=120, p50=110, p99=180)
        assert row.tpot_ms == Spread(mean=9.3, p50=9.2, p99=10.1)
        assert row.latency_ms == Spread(mean=2491, p50=2480, p95=2600)
        assert (row.requests, row.failed) == (64, 0)

    def test_vllms_results_one_a_line_in_the_log_of_a_job(self) -> None:
        lines = [json.dumps(VLLM | {"max_concurrency": c}) for c in (16, 1, 4)]
        text = "\n".join(["Starting initial single prompt test run...", *lines, "{broken", "done"])
        assert [row.concurrency for row in parse(text, "log").rows] == [1, 4, 16]

    def test_an_unlimited_run_gets_its_concurrency_by_littles_law_and_says_so(self) -> None:
        table = parse(json.dumps(VLLM | {"max_concurrency": None}), "x.json")
        assert table.rows[0].concurrency == pytest.approx(3.2 * 2.491)
        assert table.notes == ("concurrency computed as requests/s x mean latency",)

    def test_sglangs_result(self) -> None:
        table = parse(json.dumps(SGLANG), "x.jsonl")
        [row] = table.rows
        assert table.format == "sglang-bench"
        assert row.latency_ms == Spread(mean=3200, p50=3100, p95=3600)
        assert row.ttft_ms == Spread(mean=150, p50=140, p95=200, p99=220)
        assert (table.input_tokens, table.output_tokens) == (1024, 256)

    def test_aiperfs_export(self) -> None:
        table = parse(json.dumps(AIPERF), "x.json")
        [row] = table.rows
        assert (table.format, table.date) == ("aiperf", "2026-11-30")
        assert row.concurrency == 4, "of the profiling phase, not of the warm-up"
        assert row.ttft_ms == Spread(mean=90, p50=88, p95=130, p99=150)
        assert row.tpot_ms == Spread(mean=7.5, p50=7.4, p95=8, p99=8.4)
        assert (table.input_tokens, table.output_tokens, row.requests) == (1024, 256, 80)

    def test_genai_perfs_export_is_aiperfs_without_its_version(self) -> None:
        config = {"perf_analyzer": {"stimulus": {"concurrency": 10}}, "model_names": ["gpt2"]}
        record = {k: v for k, v in AIPERF.items() if k != "aiperf_version"} | {"input_config": config}
        table = parse(json.dumps(record), "x_genai_perf.json")
        assert (table.format, table.model, table.rows[0].concurrency) == ("genai-perf", "gpt2", 10)

    def test_genai_perfs_csv(self) -> None:
        table = parse(GENAI_CSV, "x.csv")
        [row] = table.rows
        assert table.format == "genai-perf"
        assert row.concurrency == pytest.approx(8), "4 requests/s x 2 s"
        assert table.notes, "what was computed is said"
        assert row.latency_ms == Spread(mean=2000, p50=1990, p95=2100, p99=2200)
        assert row.output_tokens_per_s == 1024
        assert row.requests == 80

    def test_perf_analyzers_csv_in_microseconds_sorted_by_throughput(self) -> None:
        table = parse(PERF_ANALYZER, "perf.csv")
        assert [row.concurrency for row in table.rows] == [1, 2, 3, 4]
        assert table.rows[1].requests_per_s == 87.2
        assert table.rows[0].latency_ms == Spread(p50=13.891, p95=19.753, p99=21.018)
        assert table.rows[0].ttft_ms is None

    def test_the_own_file_comes_back_as_it_was_written(self) -> None:
        table = _table(accelerator="a100-80gb", gpus_per_replica=2, date="2026-11-30")
        assert parse(table.model_dump_json(), "bench.dev.chat.json") == table

    @pytest.mark.parametrize(
        "text", ["", "hello", "{}", "[]", '{"a": 1}', "a,b\n1,2\n", '{"request_throughput": "fast"}']
    )
    def test_anything_else_is_refused_with_what_is_known(self, text: str) -> None:
        with pytest.raises(InvalidInput, match="perf_analyzer CSV"):
            parse(text, "x")

    def test_a_file_that_lacks_something_is_refused_and_says_what(self) -> None:
        broken = {k: v for k, v in VLLM.items() if k != "max_concurrency" and "e2el" not in k}
        with pytest.raises(InvalidInput, match="neither a concurrency nor a latency"):
            parse(json.dumps(broken), "x.json")
        with pytest.raises(InvalidInput, match=r"measured: got 'x\.json'"):
            parse(json.dumps({"servingstack_bench": 1, "rows": []}), "x.json")

    @given(st.text(max_size=300))
    def test_no_text_crashes_the_reader(self, text: str) -> None:
        with contextlib.suppress(InvalidInput):
            parse(text, "x")


class TestSeveralFiles:
    def test_one_per_concurrency_become_one_table(self, tmp_path: Path) -> None:
        paths: list[Path] = []
        for concurrency in (32, 2, 8):
            path = tmp_path / f"c{concurrency}.json"
            phases = [{"name": "profiling", "concurrency": concurrency}]
            path.write_text(json.dumps(AIPERF | {"input_config": {"phases": phases}}))
            paths.append(path)
        assert [row.concurrency for row in read(paths).rows] == [2, 8, 32]

    def test_of_two_runs_the_slower_counts(self, tmp_path: Path) -> None:
        for name, rate in (("a", 3.2), ("b", 3.0)):
            (tmp_path / name).write_text(json.dumps(VLLM | {"request_throughput": rate}))
        assert read([tmp_path / "a", tmp_path / "b"]).rows[0].requests_per_s == 3.0

    def test_files_of_different_models_are_refused(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / name).write_text(json.dumps(VLLM | {"model_id": name}))
        with pytest.raises(InvalidInput, match=r"measured\.model.*the same in every file"):
            read([tmp_path / "a", tmp_path / "b"])

    def test_every_wrong_file_is_named_at_once(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("nothing")
        with pytest.raises(InvalidInput) as refused:
            read([tmp_path / "a", tmp_path / "gone"])
        assert [item.value for item in refused.value.violations] == [
            str(tmp_path / "a"),
            str(tmp_path / "gone"),
        ]


def _row(concurrency: float, ttft: float = 100, tpot: float = 10, rate: float | None = None) -> MeasuredRow:
    latency = ttft + 255 * tpot
    return MeasuredRow(
        concurrency=concurrency,
        requests_per_s=1000 * concurrency / latency if rate is None else rate,
        ttft_ms=Spread(p50=ttft),
        tpot_ms=Spread(p50=tpot),
        latency_ms=Spread(p50=latency),
    )


def _table(**changes: Any) -> MeasuredTable:
    fields: dict[str, Any] = {
        "rows": (_row(1), _row(4, tpot=12), _row(16, ttft=200, tpot=16)),
        "input_tokens": 1024,
        "output_tokens": 256,
    }
    return MeasuredTable(**{**fields, **changes})


def _model(concurrency: float) -> Estimated:
    """An own estimate that is 20 % too slow, whatever the concurrency."""
    table = _table()
    ttft = table.at(lambda row: row.ttft_ms.p50 if row.ttft_ms else None, concurrency)
    tpot = table.at(lambda row: row.tpot_ms.p50 if row.tpot_ms else None, concurrency)
    assert ttft is not None
    assert tpot is not None
    return Estimated(ttft_ms=ttft * 1.25, tpot_ms=tpot * 1.25, latency_ms=None, requests_per_s=None)


class TestTheTableWins:
    def test_where_it_was_measured_the_corrected_estimate_is_the_measurement(self) -> None:
        found = calibrate(_table(), _model)
        for row in _table().rows:
            own = _model(row.concurrency)
            assert row.tpot_ms is not None
            assert own.tpot_ms is not None
            assert own.tpot_ms * found.factor("tpot", row.concurrency) == pytest.approx(row.tpot_ms.p50)

    @given(st.floats(0.5, 64))
    def test_between_and_beyond_the_factor_stays_within_what_was_seen(self, concurrency: float) -> None:
        assert calibrate(_table(), _model).factor("ttft", concurrency) == pytest.approx(0.8)

    def test_what_was_not_measured_or_estimated_is_left_alone(self) -> None:
        found = calibrate(_table(), _model)
        assert found.factor("rate", 4) == 1.0
        assert found.factor("latency", 4) == 1.0

    def test_it_shows_where_the_own_estimate_was_off_worst_first(self) -> None:
        def estimate(concurrency: float) -> Estimated:
            return Estimated(ttft_ms=100, tpot_ms=10, latency_ms=None, requests_per_s=None)

        said = calibrate(_table(), estimate).sentences()
        assert said == [
            "ttft at concurrency 16: measured 200 ms, estimated 100 (100% more than estimated)",
            "tpot at concurrency 16: measured 16 ms, estimated 10 (60% more than estimated)",
        ]

    def test_a_good_estimate_is_not_worth_a_line(self) -> None:
        def estimate(concurrency: float) -> Estimated:
            row = next(row for row in _table().rows if row.concurrency == concurrency)
            assert row.tpot_ms is not None
            assert row.tpot_ms.p50 is not None
            return Estimated(None, row.tpot_ms.p50 * 1.05, None, row.requests_per_s)

        assert calibrate(_table(), estimate).sentences() == []

    def test_too_slow_by_half_weighs_as_much_as_too_fast_by_twice(self) -> None:
        table = _table(rows=(_row(1, tpot=5), _row(2, tpot=19)))
        worst = calibrate(table, lambda _: Estimated(None, 10, None, None)).worst()["tpot"]
        assert worst.concurrency == 1

    def test_its_band_is_narrow_for_the_same_traffic_and_wider_for_another(self) -> None:
        assert band(_table(), 1024, 256) == MEASURED_BAND
        assert band(_table(), 1000, 250) == MEASURED_BAND
        assert band(_table(), 4096, 256) == OTHER_SHAPE_BAND
        assert band(_table(input_tokens=None, output_tokens=None), 9, 9) == MEASURED_BAND

    def test_its_source_says_that_it_was_measured_when_and_how_far(self) -> None:
        assert _table(date="2026-11-30").source == "measured (servingstack, 2026-11-30), concurrency 1 to 16"


class TestWhereItApplies:
    CANDIDATE: ClassVar[dict[str, Any]] = {
        "model": "x/y", "accelerator": "a100-80gb", "gpus_per_replica": 2, "precision": "bf16"
    }  # fmt: skip

    def test_a_table_that_says_nothing_of_its_conditions_applies(self) -> None:
        assert mismatch(_table(), **self.CANDIDATE) is None

    @pytest.mark.parametrize(
        ("field", "other"), [("accelerator", "h100-80gb"), ("gpus_per_replica", 1), ("precision", "fp8")]
    )
    def test_another_gpu_split_or_precision_was_not_measured(self, field: str, other: Any) -> None:
        same = _table(**self.CANDIDATE)
        assert mismatch(same, **self.CANDIDATE) is None
        said = mismatch(_table(**self.CANDIDATE | {field: other}), **self.CANDIDATE)
        assert said is not None
        assert field in said
        assert str(other) in said

    def test_a_gpus_alias_is_the_gpu(self) -> None:
        assert _table(accelerator="A100").accelerator == "a100-80gb"

    def test_a_table_without_its_gpu_needs_one_from_the_hardware(self) -> None:
        assert violations(_table(), "x/y", ["l4"]) == []
        [found] = violations(_table(), "x/y", ["l4", "t4"])
        assert found.path == "measured.accelerator"
        assert [item.path for item in violations(_table(model="a/b"), "x/y", ["l4"])] == ["measured.model"]


class TestInterpolation:
    POINTS = ((1.0, 10.0), (4.0, 20.0), (16.0, 40.0))

    def test_it_is_straight_over_the_logarithm(self) -> None:
        assert interpolate(self.POINTS, 2) == pytest.approx(15)
        assert interpolate(self.POINTS, 8) == pytest.approx(30)

    def test_it_never_extrapolates(self) -> None:
        assert interpolate(self.POINTS, 0.1) == 10
        assert interpolate(self.POINTS, 1000) == 40

    def test_no_points_are_an_error(self) -> None:
        with pytest.raises(ValueError, match="no points"):
            interpolate((), 1)


def test_rows_that_do_not_rise_are_refused() -> None:
    with pytest.raises(ValidationError, match="rising concurrency"):
        _table(rows=(_row(4), _row(1)))


def test_the_file_lies_beside_the_lock_file() -> None:
    from servingstack.lock import lock_path

    stack_file = Path("stacks/Pulumi.dev.yaml")
    assert bench_path(stack_file, "chat") == Path("stacks/bench.dev.chat.json")
    assert bench_path(stack_file, "chat").parent == lock_path(stack_file).parent
    assert bench_path(Path("examples/chat-70b.yaml"), "chat") == Path("examples/bench.chat-70b.chat.json")
