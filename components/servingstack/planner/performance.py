"""How long a step takes: decode is bound by memory, prefill by arithmetic, and a split model by its links
too.

A roofline with six constants, fitted to one model on one GPU (Qwen3-8B on an H100, vLLM 0.30: 71 points, 6 %
mean error) and corrected per GPU where measurements exist. Each estimate therefore carries a band.

Trap: a mixture of experts reads, per step, every expert that any sequence of the batch visits. At batch 1
that is the active parameters, at batch 64 nearly all of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from servingstack.catalog import Gpu, Model

from .memory import kv_per_token_per_gpu
from .precision import Served

MEMORY_EFFICIENCY = 0.80
"""Share of peak bandwidth that reading weights reaches; also aiconfigurator's constant."""
KV_EFFICIENCY = 0.88
COMPUTE_EFFICIENCY = {"16bit": 0.70, "fp8": 0.51}
"""Share of peak arithmetic. fp8 fitted alone gives 0.51; bf16 alone 0.73, with fp8 0.67."""
FP32_SHARE = {
    "t4": 8.1 / 65, "l4": 30.3 / 121, "a10": 31.2 / 125, "a10g": 31.2 / 70, "l40s": 91.6 / 362,
    "a100-40gb": 19.5 / 312, "a100-80gb": 19.5 / 312, "h100-80gb": 66.9 / 989.4, "h200": 66.9 / 989.4,
    "b200": 75 / 2250, "gb200": 80 / 2500,
}  # fmt: skip
"""Arithmetic in 32 bits as a share of the dense 16-bit one. The engines run it outside the tensor cores:
vLLM's VLLM_FLOAT32_MATMUL_PRECISION and torch's own default are "highest", which leaves TF32 off. Peaks: T4
and A10 at sysrqmts.com, L4 at fpsbench.com, L40S at hmc-tech.com; A100, H100 and H200 at
glennklockwood.com/garden, which cites NVIDIA. B200 and GB200 as NVIDIA's table says today (zdszero.github.io,
of HGX B200 and GB200 NVL72 side by side); its first one had 80 and 90. An A10G is faster than an A10 outside
its tensor cores and slower inside (baseten.co, nvidia-a10-vs-a10g-for-ml-model-inference): an A10's it is."""
OTHER_FP32_SHARE = 1 / 32
"""Of a GPU without a row: below each of them."""
STEP_S = 0.87e-3
LAYER_S = 20e-6
SEQUENCE_S = 16e-6
MOE_LAYER_S = 40e-6
"""Routing and smaller kernels of a mixture: eight public points (DeepSeek-V3, MiniMax-M2.5, Qwen3-235B on
H100, H200, B200) are within 25 % with it and up to 35 % too fast without."""
REQUEST_S = 8e-3
"""API server, tokenizer and the way there and back: 4-6 ms beyond prefill on an H100, 9 ms on an A100's
host."""
NVLINK_LATENCY_S = 10e-6
PCIE_LATENCY_S = 30e-6
"""Per all-reduce of a small message."""
LINK_EFFICIENCY = {"nvlink": 0.7, "pcie": 0.5}
PIPELINE_EFFICIENCY = 0.85
"""Stages wait for each other where micro-batches are uneven."""
ADAPTERS_SLOWER = 11.45 / 7.60
"""Of every step with LoRA: Llama-2-7B with one adapter of rank 8 on an A100 serves 7.60 requests/s, without
one 11.45 (github.com/vllm-project/vllm/pull/11267). Of 2024: today's engine is faster, by how much on a GPU
nobody has published."""
FITTED_BAND = 0.15
OTHER_BAND = 0.35


@dataclass(frozen=True, slots=True)
class Correction:
    """How much slower a GPU is than the roofline says, from measurements."""

    slower: float
    fitted: bool
    source: str


_ACCELMARK = "AccelMark batch-1 points, vLLM 0.7.3"
CORRECTIONS: dict[str, Correction] = {
    "h100-80gb": Correction(1.0, True, "Silybench Qwen3-8B, vLLM 0.30: 71 points"),
    "a100-80gb": Correction(1.0, True, "AccelMark, vLLM 0.20.1: 0.5B and 8B within 7 %"),
    "a100-40gb": Correction(1.1, False, f"{_ACCELMARK}: 18 % slower, part of it the old engine"),
    "b200": Correction(1.15, False, "mixtures within 25 % (slower than measured), dense models unmeasured"),
    "b300": Correction(
        1.15, False, "one mixture within 30 % (slower than measured), dense models unmeasured"
    ),
    "l4": Correction(1.15, False, f"{_ACCELMARK}: 13 % slower"),
    "l40s": Correction(1.12, False, "TensorRT-LLM 0.6 tables: 12 % slower"),
    "t4": Correction(1.4, False, f"{_ACCELMARK}: 30 % slower"),
    "a10": Correction(1.4, False, "KAITO: 29 % slower"),
    "a10g": Correction(1.4, False, "taken from the A10, which has the same memory"),
}
_UNMEASURED = Correction(1.15, False, "not measured: roofline with a margin")


@dataclass(frozen=True, slots=True)
class Speed:
    """A model split over GPUs, ready to be asked for times. Seconds throughout."""

    model: Model
    tp: int
    pp: int
    weight_s: float
    """To read the weights that every step reads, split over the GPUs."""
    expert_s: float
    """To read all routed experts."""
    token_s: float
    """Arithmetic of one token."""
    attention_s: float
    """Arithmetic of one token attending to one other, over all layers."""
    kv_token_s: float
    """To read one token of cache."""
    hop_token_s: float
    """All-reduce time per token."""
    step_s: float
    """Of every step: scheduling, kernels, latency of the links."""
    sequence_s: float
    """Of every sequence in a step."""
    band: float
    source: str

    def _weights(self, sequences: float) -> float:
        model = self.model
        if not model.experts:
            return self.weight_s
        hit = 1 - (1 - model.experts_per_token / model.experts) ** max(sequences, 1.0)
        return self.weight_s + self.expert_s * hit

    def _kv(self, sequences: float, tokens: float) -> float:
        model = self.model
        if model.sliding_window is not None and model.sliding_layers and tokens > model.sliding_window:
            share = model.sliding_layers / model.layers
            tokens = tokens * (1 - share) + model.sliding_window * share
        return sequences * tokens * self.kv_token_s

    def decode(self, sequences: float, tokens: float) -> float:
        """One step in which so many sequences, of so many tokens each, get their next token."""
        micro = sequences / self.pp
        busy = max(self._weights(micro), micro * self.token_s) + self._kv(micro, tokens)
        step = busy + self.step_s + micro * (self.sequence_s + self.hop_token_s)
        return step if self.pp == 1 else step / PIPELINE_EFFICIENCY

    def beside(self, sequences: float, tokens: float) -> float:
        """What decoding sequences add to a step that is busy with a prompt."""
        micro = sequences / self.pp
        return self._kv(micro, tokens) + micro * (self.sequence_s + self.token_s + self.hop_token_s)

    def prefill_work(self, new: int, cached: int) -> float:
        """What a prompt of `new` tokens after `cached` ones adds to steps that run anyway."""
        attended = new * cached + new * new / 2
        return new * (self.token_s + self.hop_token_s) + attended * self.attention_s

    def prefill(self, new: int, cached: int, step_tokens: int) -> float:
        """To read such a prompt alone, in chunks of `step_tokens`."""
        chunks = -(-new // step_tokens)
        hops = new * self.hop_token_s
        arithmetic = self.prefill_work(new, cached) - hops
        return max(arithmetic, chunks * self._weights(new)) + hops + chunks * self.step_s


def correction(gpu: Gpu) -> Correction:
    """The GPU's row, or the margin of one that was not measured. No part of a GPU was."""
    found = CORRECTIONS.get(gpu.id, _UNMEASURED)
    if not gpu.part:
        return found
    return Correction(found.slower, False, f"{found.source}; scaled to {gpu.part} of it, not measured")


def with_adapters(speed: Speed) -> Speed:
    """The model's times with a LoRA adapter in every batch."""
    return dataclasses.replace(
        speed,
        weight_s=speed.weight_s * ADAPTERS_SLOWER,
        expert_s=speed.expert_s * ADAPTERS_SLOWER,
        token_s=speed.token_s * ADAPTERS_SLOWER,
        step_s=speed.step_s * ADAPTERS_SLOWER,
        sequence_s=speed.sequence_s * ADAPTERS_SLOWER,
        band=max(speed.band, OTHER_BAND),
        source=f"{speed.source}; LoRA {ADAPTERS_SLOWER:.2f} times slower, by one public measurement of 2024",
    )


@dataclass(frozen=True, slots=True)
class Wiring:
    """How a model is split, and what its parts are joined by."""

    tp: int
    pp: int
    weights: int
    """All of them, bytes."""
    kv_bytes: float
    """Of one cached number."""
    link_bytes_per_s: float
    interconnect: str


def speed(model: Model, gpu: Gpu, served: Served, wiring: Wiring) -> Speed:
    """Times of a model that is split over `tp` GPUs in each of `pp` stages."""
    fix, tp = correction(gpu), wiring.tp
    bandwidth = gpu.bandwidth_bytes_per_s * MEMORY_EFFICIENCY / fix.slower * tp
    arithmetic, attention = (flops / fix.slower * tp for flops in _flops(gpu, served))
    expert_share = model.expert_parameters / model.parameters if model.experts else 0.0
    looked_up = 0 if model.tie_embeddings or model.task != "generate" else model.vocab * model.hidden
    read = max(0.0, wiring.weights * (1 - expert_share) - looked_up * served.activation_bytes)
    link = wiring.link_bytes_per_s * LINK_EFFICIENCY[wiring.interconnect]
    latency = NVLINK_LATENCY_S if wiring.interconnect == "nvlink" else PCIE_LATENCY_S
    hops = 2 * model.layers if tp > 1 else 0
    host = STEP_S + LAYER_S * model.layers + MOE_LAYER_S * model.moe_layers
    cache = kv_per_token_per_gpu(model, tp, 1, wiring.kv_bytes)
    fitted = fix.fitted and not model.experts and tp <= 2 and wiring.pp == 1
    return Speed(
        model=model,
        tp=tp,
        pp=wiring.pp,
        weight_s=read / bandwidth,
        expert_s=wiring.weights * expert_share / bandwidth,
        token_s=2 * model.matmul_parameters / arithmetic,
        attention_s=4 * model.layers * model.heads * model.head_dim / attention,
        kv_token_s=cache / (gpu.bandwidth_bytes_per_s * KV_EFFICIENCY / fix.slower),
        hop_token_s=hops * 2 * (tp - 1) / tp * model.hidden * served.activation_bytes / link,
        step_s=host * fix.slower + hops * latency,
        sequence_s=SEQUENCE_S * fix.slower,
        band=FITTED_BAND if fitted else OTHER_BAND,
        source=f"roofline, {fix.source}{'' if fitted else '; outside the fitted set'}",
    )


def _flops(gpu: Gpu, served: Served) -> tuple[float, float]:
    """Arithmetic per second for weights and for attention, which runs in the type of the activations."""
    wide = gpu.tflops_16bit * 1e12 * COMPUTE_EFFICIENCY["16bit"]
    if served.dtype == "float":
        wide *= FP32_SHARE.get(gpu.id, OTHER_FP32_SHARE)
    if served.precision in ("fp8", "int8") and served.native and gpu.tflops_fp8 is not None:
        return gpu.tflops_fp8 * 1e12 * COMPUTE_EFFICIENCY["fp8"], wide
    return wide, wide


def weight_flops(gpu: Gpu, served: Served) -> float:
    """Arithmetic per second for weights, 1/s."""
    return _flops(gpu, served)[0]
