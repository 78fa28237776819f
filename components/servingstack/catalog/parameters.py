"""Parameters by formula, from the shape of a model.

Trap: memory needs every expert, speed only those a token passes through; both are counted.
Multi-token-prediction layers are not part of serving and are left out, so DeepSeek-V3 counts 671e9 here
although its repository holds 685e9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from .families import Family


@dataclass(frozen=True)
class Shape:
    """The numbers of a config that decide its size."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    intermediate: int
    experts: int
    experts_per_token: int
    moe_intermediate: int
    shared_experts: int
    moe_layers: int
    kv_lora_rank: int
    q_lora_rank: int
    qk_rope_head_dim: int
    vocab: int
    tie_embeddings: bool
    attention_bias: bool
    shared_width: int


@dataclass(frozen=True)
class Counts:
    """Parameters: all, those active for one token, and the routed experts' part of all."""

    total: int
    active: int
    experts: int


def count_parameters(shape: Shape, family: Family, config: Mapping[str, Any]) -> Counts:
    """Count a decoder or an encoder."""
    if family.encoder:
        total = _encoder(shape, config)
        return Counts(total, total, 0)
    attention = _mla(shape) if shape.kv_lora_rank else _attention(shape, family)
    norms = family.norms * shape.hidden
    dense = _mlp(shape.hidden, shape.intermediate, family)
    one_expert = _mlp(shape.hidden, shape.moe_intermediate, family)
    if family.expert_bias:
        one_expert += 2 * shape.moe_intermediate + shape.hidden
    always = shape.hidden * shape.experts + _mlp(shape.hidden, _shared_width(shape), family)
    if shape.shared_width:
        always += shape.hidden  # the gate that weighs the shared expert (qwen2_moe)
    dense_layers = shape.layers - shape.moe_layers
    common = (
        shape.vocab * shape.hidden * (1 if shape.tie_embeddings else 2)
        + shape.hidden
        + shape.layers * (attention + norms)
        + dense_layers * dense
        + shape.moe_layers * always
        + _vision(config)
    )
    experts = shape.moe_layers * shape.experts * one_expert
    return Counts(
        total=common + experts,
        active=common + shape.moe_layers * shape.experts_per_token * one_expert,
        experts=experts,
    )


def _mlp(hidden: int, width: int, family: Family) -> int:
    return (3 if family.gated_mlp else 2) * hidden * width


def _shared_width(shape: Shape) -> int:
    return shape.shared_width if shape.shared_width else shape.shared_experts * shape.moe_intermediate


def _attention(shape: Shape, family: Family) -> int:
    queries, values = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    size = shape.hidden * (2 * queries + 2 * values)
    if shape.attention_bias:
        size += queries + 2 * values + (0 if family.qkv_bias_only else shape.hidden)
    if family.qk_norm:
        size += 2 * shape.head_dim
    if family.attention_sinks:
        size += shape.heads
    return size


def _mla(shape: Shape) -> int:
    nope = shape.head_dim - shape.qk_rope_head_dim
    if shape.q_lora_rank:
        queries = shape.q_lora_rank * (shape.hidden + 1 + shape.heads * shape.head_dim)
    else:
        queries = shape.hidden * shape.heads * shape.head_dim
    down = shape.hidden * (shape.kv_lora_rank + shape.qk_rope_head_dim) + shape.kv_lora_rank
    up = shape.kv_lora_rank * shape.heads * (nope + shape.v_head_dim)
    return queries + down + up + shape.heads * shape.v_head_dim * shape.hidden


def _vision(config: Mapping[str, Any]) -> int:
    """The blocks of a vision tower beside the language model; embeddings and projector, a few percent of
    it, are not counted."""
    tower = config.get("vision_config")
    if not isinstance(tower, Mapping):
        return 0
    numbers = cast("Mapping[str, Any]", tower)
    hidden, width = numbers.get("hidden_size"), numbers.get("intermediate_size")
    layers = numbers.get("num_hidden_layers", numbers.get("depth"))
    if not (isinstance(hidden, int) and isinstance(width, int) and isinstance(layers, int)):
        return 0
    matrices = 3 if numbers.get("model_type") in ("qwen2_5_vl", "pixtral") else 2
    return layers * (4 * hidden * hidden + matrices * hidden * width)


def _encoder(shape: Shape, config: Mapping[str, Any]) -> int:
    """BERT and its kin: learned positions, biases everywhere, two norms with a bias per layer, a pooler."""
    hidden, width = shape.hidden, shape.intermediate
    positions = int(config.get("max_position_embeddings") or 512)
    types = int(config.get("type_vocab_size") or 0)
    embeddings = (shape.vocab + positions + types) * hidden + 2 * hidden
    layer = 4 * (hidden * hidden + hidden) + 2 * hidden * width + width + hidden + 4 * hidden
    return embeddings + shape.layers * layer + hidden * hidden + hidden
