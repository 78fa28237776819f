"""What the model families do that their configs do not say.

Trap: config classes have defaults, so a key that is absent still has a value (Gemma ties its embeddings,
Qwen2 has biases on query, key and value). Each entry is held to a published parameter count of its family
by a test; a family that none holds is not listed, but read as a plain decoder that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast


@dataclass(frozen=True)
class Family:
    """How one `model_type` differs from a plain Llama."""

    gated_mlp: bool = True
    """Three matrices in the feed-forward layer instead of two."""
    attention_bias: bool = False
    qkv_bias_only: bool = False
    """The bias is on query, key and value, not on the output."""
    qk_norm: bool = False
    norms: int = 2
    """Norm weights per layer, each as wide as the model."""
    ties_by_default: bool = False
    encoder: bool = False
    position_offset: int = 0
    """Positions that no token takes: RoBERTa counts from behind the padding index."""
    shared_experts: int = 0
    expert_bias: bool = False
    attention_sinks: bool = False
    layer_keys: tuple[str, ...] = ()
    hidden_keys: tuple[str, ...] = ()
    head_keys: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


_LLAMA = Family()
_QWEN2 = Family(attention_bias=True, qkv_bias_only=True)
_QWEN3 = Family(qk_norm=True)
_GEMMA2 = Family(norms=4, ties_by_default=True)
_GEMMA3 = replace(_GEMMA2, qk_norm=True)
_BERT = Family(gated_mlp=False, attention_bias=True, encoder=True, ties_by_default=True)

FAMILIES: dict[str, Family] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "mixtral": _LLAMA,
    "phi3": _LLAMA,
    "qwen2": _QWEN2,
    "qwen2_moe": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "gemma2": _GEMMA2,
    "gemma3_text": _GEMMA3,
    "deepseek_v2": _LLAMA,
    "deepseek_v3": _LLAMA,
    "kimi_k2": _LLAMA,
    "gpt_oss": Family(attention_bias=True, expert_bias=True, attention_sinks=True),
    "llama4_text": replace(
        _LLAMA,
        shared_experts=1,
        assumptions=("chunked layers are counted as full attention, an upper bound",),
    ),
    "mimo": _QWEN2,
    "minimax_m2": _QWEN3,
    "bert": _BERT,
    "roberta": replace(_BERT, position_offset=2),
    "xlm-roberta": replace(_BERT, position_offset=2),
    "distilbert": replace(_BERT, layer_keys=("n_layers",), hidden_keys=("dim",), head_keys=("n_heads",)),
}


def family_of(config: Mapping[str, Any]) -> Family:
    """The family by `model_type`, the language model's own where the config is multimodal. An unknown one
    is read as a plain decoder, and says so among its assumptions."""
    text = config.get("text_config")
    inner = cast("Mapping[str, Any]", text) if isinstance(text, Mapping) else config
    name = str(inner.get("model_type") or config.get("model_type") or "")
    known = FAMILIES.get(name)
    if known is None:
        unknown = f"model_type {name!r} is unknown to the catalog and read as a plain grouped-query decoder"
        known = replace(_LLAMA, assumptions=(unknown,))
    if isinstance(text, Mapping) and not isinstance(config.get("vision_config"), Mapping):
        known = replace(known, assumptions=(*known.assumptions, "only the language model is counted"))
    return known
