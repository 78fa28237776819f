"""Step times: against published measurements, and in the directions physics allows."""

from __future__ import annotations

import pytest

from servingstack import catalog
from servingstack.planner.load import Replica
from servingstack.planner.performance import FP32_SHARE, OTHER_FP32_SHARE

from .build import known, paced, replica

# (model, gpu, tp, precision, prompt, answer, sequences, measured ms per token, tolerance)
# DeepSeek-V3, MiniMax: closed-loop runs published with aiconfigurator's references; 8B and 0.5B: AccelMark,
# vLLM 0.20.1 on an A100 and 0.7.3 on a T4 and an L4.
TOKEN_TIMES = [
    ("meta-llama/Llama-3.1-8B", "a100-80gb", 1, "bf16", 240, 200, 1, 10.77, 0.10),
    ("Qwen/Qwen2.5-0.5B-Instruct", "a100-80gb", 1, "bf16", 70, 200, 1, 1.83, 0.15),
    ("Qwen/Qwen2.5-0.5B-Instruct", "t4", 1, "bf16", 70, 200, 1, 7.23, 0.15),
    ("Qwen/Qwen2.5-0.5B-Instruct", "l4", 1, "bf16", 70, 200, 1, 6.03, 0.15),
    ("deepseek-ai/DeepSeek-V3", "h200", 8, "fp8", 1024, 1024, 16, 16.63, 0.15),
    ("MiniMaxAI/MiniMax-M2.5", "h100-80gb", 4, "fp8", 1024, 1024, 16, 15.54, 0.15),
    ("MiniMaxAI/MiniMax-M2.5", "h200", 8, "fp8", 1024, 1024, 32, 13.69, 0.15),
]

# silybench-data, Qwen3-8B on an H100 (a3-highgpu-1g), vLLM 0.30, closed loop: (precision, prompt, answer,
# sequences, output tokens/s).
THROUGHPUT = [
    ("fp8", 2048, 2048, 1, 207.6),
    ("fp8", 2048, 2048, 4, 716.2),
    ("fp8", 2048, 2048, 16, 2136.1),
    ("fp8", 2048, 2048, 32, 3086.1),
]


@pytest.mark.parametrize("row", TOKEN_TIMES, ids=[f"{row[0]} on {row[2]} {row[1]}" for row in TOKEN_TIMES])
def test_the_time_per_token_is_near_what_was_measured(row: tuple) -> None:
    model, gpu_id, tp, precision, prompt, answer, sequences, measured, tolerance = row
    gpu = catalog.gpu(gpu_id)
    pace = paced(known(model), gpu, tp=tp, precision=precision)
    found = replica(pace, gpu, prompt=prompt, answer=answer, places=256).tpot(sequences) * 1000
    assert found == pytest.approx(measured, rel=tolerance)


@pytest.mark.parametrize("row", THROUGHPUT)
def test_the_throughput_is_near_what_was_measured(row: tuple) -> None:
    precision, prompt, answer, sequences, measured = row
    gpu = catalog.gpu("h100-80gb")
    pace = paced(known("Qwen/Qwen3-8B"), gpu, precision=precision)
    found = sequences / replica(pace, gpu, prompt=prompt, answer=answer, places=256).tpot(sequences)
    assert found == pytest.approx(measured, rel=0.10)


def _replica(gpu_id: str = "h100-80gb", model: str = "Qwen/Qwen3-8B", tp: int = 1) -> Replica:
    gpu = catalog.gpu(gpu_id)
    return replica(paced(known(model), gpu, tp=tp), gpu, prompt=1024, answer=256, places=128)


def test_everything_rises_with_the_batch() -> None:
    found = _replica()
    sizes = [1, 2, 8, 32, 96]
    for measure in (found.tpot, found.rate, found.ttft_unqueued):
        values = [measure(size) for size in sizes]
        assert values == sorted(values)
    for q in (0.5, 0.95, 0.99):
        assert [found.latency_at(size, q) for size in sizes] == sorted(found.latency_at(s, q) for s in sizes)


def test_a_higher_percentile_is_never_faster() -> None:
    found = _replica()
    for size in (1, 16, 64, 110):
        for measure in (found.ttft_at, found.tpot_at, found.latency_at):
            assert measure(size, 0.5) <= measure(size, 0.95) <= measure(size, 0.99)


def test_a_cached_prefix_lowers_prefill() -> None:
    gpu = catalog.gpu("l4")
    pace = paced(known("meta-llama/Llama-3.1-8B"), gpu)
    assert pace.prefill(256, 768, 2048) < 0.4 * pace.prefill(1024, 0, 2048)


def test_a_mixture_reads_more_experts_the_more_sequences_there_are() -> None:
    pace = paced(known("mistralai/Mixtral-8x7B-Instruct-v0.1"), catalog.gpu("h100-80gb"), tp=2)
    one, many = pace.decode(1, 1), pace.decode(64, 1)
    dense = paced(known("meta-llama/Llama-3.1-70B"), catalog.gpu("h100-80gb"), tp=2)
    assert many / one > 2.2 > dense.decode(64, 1) / dense.decode(1, 1)


def test_decode_is_bound_by_bandwidth_and_prefill_by_arithmetic() -> None:
    # An H200 is an H100 with more bandwidth and as much arithmetic.
    model = known("meta-llama/Llama-3.1-70B")
    h100 = paced(model, catalog.gpu("h100-80gb"), tp=4)
    h200 = paced(model, catalog.gpu("h200"), tp=4)
    assert h200.weight_s < h100.weight_s
    assert h200.token_s >= h100.token_s


def test_fp8_arithmetic_is_faster_only_where_the_gpu_has_it() -> None:
    model = known("Qwen/Qwen3-8B")
    for gpu_id, faster in (("h100-80gb", True), ("l4", True), ("a100-80gb", False)):
        gpu = catalog.gpu(gpu_id)
        wide, narrow = paced(model, gpu), paced(model, gpu, precision="fp8")
        assert (narrow.token_s < 0.9 * wide.token_s) == faster
        assert narrow.weight_s < 0.7 * wide.weight_s


def test_each_estimate_says_its_source_and_a_wider_band_outside_the_fitted_set() -> None:
    fitted = paced(known("Qwen/Qwen3-8B"), catalog.gpu("h100-80gb"))
    other = paced(known("Qwen/Qwen3-8B"), catalog.gpu("l40s"))
    assert fitted.band == 0.15
    assert other.band == 0.35
    assert "Silybench" in fitted.source
    assert "outside the fitted set" in other.source


# Peak fp32 TFLOPS outside the tensor cores, NVIDIA's data sheets.
@pytest.mark.parametrize(
    ("gpu_id", "tflops"), [("t4", 8.1), ("l4", 30.3), ("a100-80gb", 19.5), ("h100-80gb", 67)]
)
def test_arithmetic_in_32_bits_is_as_slow_as_the_gpu_does_it(gpu_id: str, tflops: float) -> None:
    gpu, model = catalog.gpu(gpu_id), known("BAAI/bge-large-en-v1.5")
    assert model.precision == "fp32"
    wide, half = paced(model, gpu), paced(model, gpu, precision="fp16")
    slower = gpu.tflops_16bit / tflops
    assert wide.token_s == pytest.approx(half.token_s * slower, rel=0.01)
    assert wide.attention_s == pytest.approx(half.attention_s * slower, rel=0.01)


def test_a_gpu_without_a_row_is_taken_for_the_slowest_in_32_bits() -> None:
    assert min(FP32_SHARE.values()) > OTHER_FP32_SHARE
