"""Sizes that follow from the model alone.

Trap: with multi-head latent attention the cache is one latent per layer, and every tensor-parallel rank
holds all of it; key/value heads say nothing there. And quantised checkpoints keep embeddings, output matrix
and norms in 16 bits, which for a small model with a large vocabulary is a third of its weight.
"""

from __future__ import annotations

from .records import Model, Precision

# Bits per quantised weight, scales included. Per group of g weights: awq and gptq keep a 16-bit scale and a
# 4-bit zero, compressed-tensors w4a16 a 16-bit scale (symmetric); mxfp4 one 8-bit scale per 32 (OCP
# Microscaling v1.0, section 5.1); nvfp4 one 8-bit scale per 16 (NVIDIA TensorRT Model Optimizer docs);
# bitsandbytes nf4 with a 32-bit scale per 64.
_GROUPED_OVERHEAD_BITS: dict[Precision, int] = {"awq": 20, "gptq": 20, "w4a16": 16}
_FIXED_BITS: dict[Precision, float] = {
    "fp32": 32,
    "bf16": 16,
    "fp16": 16,
    "fp8": 8,
    "int8": 8,
    "mxfp4": 4 + 8 / 32,
    "nvfp4": 4 + 8 / 16,
    "bnb4": 4 + 32 / 64,
}
DEFAULT_GROUP_SIZE = 128
"""Group size of awq, gptq and w4a16 where none is stated: what AutoAWQ, GPTQModel and llm-compressor use by
default."""


def kv_bytes_per_token(model: Model, dtype_bytes: float = 2) -> float:
    """Bytes of cache one token takes over all layers, before it is split between GPUs; 0 for a model
    without a cache.

    With MLA this is held whole by every tensor-parallel rank. Windowed layers are counted as if they had
    none: where `sliding_window` is set, `sliding_layers` of the layers stop growing at the window.
    ValueError for a model whose cache the plain formulas do not describe."""
    if not model.reliable:
        raise ValueError(f"cannot size the cache of {model.id}: {model.unreliable_reason}")
    if model.task != "generate":
        return 0
    if model.mla:
        return (model.kv_lora_rank + model.qk_rope_head_dim) * model.layers * dtype_bytes
    return 2 * model.layers * model.kv_heads * model.head_dim * dtype_bytes


def weight_bits(precision: Precision, group_size: int | None = None) -> float:
    """Bits per quantised weight, its share of scales included. `group_size` default: 128; it matters to
    awq, gptq and w4a16 alone."""
    overhead = _GROUPED_OVERHEAD_BITS.get(precision)
    if overhead is None:
        return _FIXED_BITS[precision]
    if group_size is None:
        group_size = DEFAULT_GROUP_SIZE
    # -1 is the convention for one group per row, whose scales weigh next to nothing.
    return 4 + (overhead / group_size if group_size > 0 else 0)


def weight_bytes(model: Model, precision: Precision | None = None, group_size: int | None = None) -> int:
    """Bytes of the weights in memory, every expert included, over all GPUs. `precision` and `group_size`
    default to the checkpoint's own.

    fp32, bf16 and fp16 hold for every parameter. A quantised precision leaves embeddings and output matrix
    in 16 bits, and mxfp4 quantises the routed experts alone (gpt-oss' `modules_to_not_convert`)."""
    if precision is None:
        precision = model.precision
    if group_size is None and precision == model.precision:
        group_size = model.group_size
    bits = weight_bits(precision, group_size)
    if bits >= 16:
        return round(model.parameters * bits / 8)
    quantised = model.parameters - model.embedding_parameters
    if precision == "mxfp4" and model.experts:
        quantised = model.expert_parameters
    return round(quantised * bits / 8) + (model.parameters - quantised) * 2
