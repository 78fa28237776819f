"""How one GPU's memory is filled: weights, the engine's own needs, and what is left for the KV cache.

Trap: an engine takes its fraction of what CUDA sees, not of what the product is called, and what it needs
beside the weights grows with the step it is told to run (tokens per step, sequences per batch). Every
constant errs on the safe side: `tests/planner/test_memory.py` holds the estimate at or below each public
measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from servingstack import catalog
from servingstack.catalog import GIB, Gpu, Model
from servingstack.plan import MemoryBar

from .adapters import Room
from .precision import Served

GPU_MEMORY_UTILIZATION = 0.90
"""A little below vLLM's own 0.92 (data/vllm-0.30.0.flags.json): what other processes of the node take is not
known. Handed to the engine, never left to it."""
CONTEXT_BYTES = round(0.6 * GIB)
"""CUDA context and libraries: KAITO's estimator counts 0.6 GiB of non-torch memory."""
GRAPH_BYTES = round(0.5 * GIB)
"""CUDA graphs; vLLM logs 0.4 to 0.6 GiB for models of 8B to 70B (fitted together with SAMPLER_BYTES)."""
NCCL_BYTES = round(0.4 * GIB)
"""Communication buffers per rank: 0.34-0.39 GiB in aiconfigurator 0.12.0."""
SAMPLER_BYTES = 16
"""Per sequence and vocabulary entry while the engine profiles its sampler (logits, a copy, sort and indices).
Fitted to Qwen3-8B on an H100, vLLM 0.30, bf16: 377,024 tokens; 12 would be 0.1 % unsafe."""
WEIGHT_SLACK = 0.005
"""Alignment and padding of weights. KAITO uses 2 %; 70B bf16 on 2 x 80 GB is known to serve 20,000 tokens and
would not with that."""
EXPERT_SLACK = 0.06
"""Expert weights are stored in kernel layouts and need workspaces: fitted to Qwen3-235B-A22B-FP8 on 4 x H100,
8.11 GiB of cache per GPU (github.com/vllm-project/vllm/issues/21348)."""
MULTIMODAL_BYTES = 4 * GIB
"""For models that also read images: towers that the sizes leave out (0.4 to 0.7 billion parameters in 16
bits) and the largest image at the engine's default limit while it profiles."""
ACTIVATION_SHARE = 0.15
"""Most of what the weights leave that a step's activations may take."""
_BIG_GPU_BYTES = 70 * GIB
_STEP_TOKENS = (8192, 2048, 512)


@dataclass(frozen=True, slots=True)
class Footprint:
    """One GPU's memory with everything but the batch decided."""

    usable: int
    """What the engine may take."""
    total: int
    weights: int
    fixed: int
    """Overhead that does not grow with the batch."""
    per_sequence: float
    """Overhead per sequence of the batch."""
    kv_per_token: float
    """Cache of one token on this GPU while no window is reached."""
    model: Model
    adapters: int = 0
    """Room for LoRA adapters, a part of `fixed`."""

    def overhead(self, sequences: int) -> int:
        """Everything but weights and cache."""
        return self.fixed + round(self.per_sequence * sequences)

    def kv_bytes(self, sequences: int) -> int:
        """What is left for the cache; may be negative."""
        return self.usable - self.weights - self.overhead(sequences)

    def sequence_bytes(self, tokens: float) -> float:
        """Cache of one sequence: windowed layers stop growing at their window."""
        model = self.model
        window = model.sliding_window
        if window is None or not model.sliding_layers or tokens <= window:
            return tokens * self.kv_per_token
        share = model.sliding_layers / model.layers
        return self.kv_per_token * (tokens * (1 - share) + window * share)

    def kv_tokens(self, sequences: int, tokens: float) -> int:
        """Tokens of all sequences together that fit, for sequences of that length."""
        per_sequence = self.sequence_bytes(tokens)
        if per_sequence <= 0:
            return 0
        return int(max(self.kv_bytes(sequences), 0) / per_sequence * tokens)

    def most_sequences(self, tokens: float, longest: int) -> int:
        """Most sequences of that length that fit, while one of `longest` still does; 0 if not even one."""
        free = self.usable - self.weights - self.fixed
        by_batch = free / (self.per_sequence + self.sequence_bytes(tokens))
        by_longest = (free - self.sequence_bytes(longest)) / self.per_sequence
        return max(0, int(min(by_batch, by_longest)))

    def bar(self, sequences: int) -> MemoryBar:
        """As the plan shows it."""
        overhead = self.overhead(sequences)
        return MemoryBar(
            total=self.total,
            weights=self.weights,
            kv_cache=max(0, self.usable - self.weights - overhead),
            overhead=overhead - self.adapters,
            reserved=self.total - self.usable,
            adapters=self.adapters,
        )


def default_step_tokens(gpu: Gpu) -> int:
    """Tokens per step as vLLM itself chooses them for a server: 8192 from 70 GiB up unless an A100, else 2048
    (EngineArgs.get_batch_defaults, which measured that more slows an A100 down)."""
    return _STEP_TOKENS[0 if gpu.cuda_bytes >= _BIG_GPU_BYTES and not gpu.id.startswith("a100") else 1]


def default_most_sequences(gpu: Gpu) -> int:
    """Sequences per batch as vLLM itself limits them: 1024 or 256, by the same rule."""
    return 1024 if default_step_tokens(gpu) == _STEP_TOKENS[0] else 256


def weights_total(model: Model, served: Served, scale: float) -> int:
    """Bytes of the weights over all GPUs, as served."""
    return round(catalog.weight_bytes(model, cast(catalog.Precision, served.precision)) * scale)


def kv_per_token_per_gpu(model: Model, tp: int, pp: int, kv_bytes: float) -> float:
    """MLA holds one latent on every tensor-parallel rank; grouped heads below `tp` are replicated."""
    whole = catalog.kv_bytes_per_token(model, kv_bytes) / pp
    return whole if model.mla or not model.kv_heads else whole / min(tp, model.kv_heads)


@dataclass(frozen=True, slots=True)
class Share:
    """One GPU's share of a model, and the engine's settings that decide what it needs."""

    tp: int
    pp: int
    kv_bytes: float
    """Of one cached number."""
    utilization: float
    """gpu_memory_utilization."""
    step_tokens: int
    """max_num_batched_tokens."""
    weights: int
    """Of the whole model, bytes, as served."""
    room: Room | None = None
    """Adapters that may be in a batch; None without any."""


def roomy_step_tokens(model: Model, gpu: Gpu, served: Served, share: Share) -> int:
    """The engine's own tokens per step, or fewer where their activations would take too much of what the
    weights leave. Neither context nor objectives count here: a longer context must not free memory."""
    left = gpu.cuda_bytes * share.utilization
    left -= share.weights / (share.tp * share.pp)
    per_token = activation_bytes_per_token(model, share.tp, served.activation_bytes)
    largest = default_step_tokens(gpu)
    fitting = (
        size for size in _STEP_TOKENS if size <= largest and size * per_token <= ACTIVATION_SHARE * left
    )
    return next(fitting, _STEP_TOKENS[-1])


def footprint(model: Model, gpu: Gpu, served: Served, share: Share) -> Footprint:
    """Fill one GPU, all but the batch."""
    ranks = share.tp * share.pp
    weights = share.weights / ranks
    experts = weights * model.expert_parameters / model.parameters if model.experts else 0.0
    fixed = CONTEXT_BYTES + GRAPH_BYTES + weights * WEIGHT_SLACK + experts * EXPERT_SLACK
    fixed += NCCL_BYTES if ranks > 1 else 0
    fixed += MULTIMODAL_BYTES if model.architecture.endswith("ForConditionalGeneration") else 0
    adapters = 0
    if share.room is not None:
        adapters = share.room.gpu_bytes(model, (share.tp, share.pp), share.step_tokens)
        fixed += adapters + GRAPH_BYTES  # graphs are captured with adapters and without
    fixed += share.step_tokens * activation_bytes_per_token(model, share.tp, served.activation_bytes)
    return Footprint(
        usable=int(gpu.cuda_bytes * share.utilization),
        total=gpu.memory_bytes,
        weights=round(weights),
        fixed=round(fixed),
        per_sequence=float(SAMPLER_BYTES * model.vocab),
        kv_per_token=kv_per_token_per_gpu(model, share.tp, share.pp, share.kv_bytes),
        model=model,
        adapters=adapters,
    )


def activation_bytes_per_token(model: Model, tp: int, dtype_bytes: int) -> float:
    """Peak of a layer: gate, up and their product, and some six vectors as wide as the model. Routed experts
    keep one set per expert that a token visits."""
    dense = 3 * model.intermediate / tp
    routed = model.experts_per_token * (model.hidden + 3 * model.moe_intermediate / tp)
    return (max(dense, routed) + 6 * model.hidden) * dtype_bytes
