"""A `Model` from the keys of a Hugging Face `config.json`, for models outside the catalog.

Trap: the same word means different things in different families. `head_dim` may be declared and then is not
hidden / heads; `sliding_window` is in Qwen2's config but switched off; DeepSeek's `num_key_value_heads`
says nothing about its cache; multimodal models keep the language model's keys under `text_config`. Layers
that are not attention at all (Mamba, linear attention) make the plain formulas wrong: such a model is
marked unreliable instead of being guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from servingstack.errors import InvalidInput

from .families import Family, family_of
from .hf_keys import Keys
from .parameters import Shape, count_parameters
from .quantization import native_precision
from .records import Model, Task

PATH = "model.config"
"""Where the config stands in the input, for error messages."""

_HYBRID_KEYS = (
    # Keys that only configs with non-attention or compressed layers carry, each with a family that has it.
    "full_attention_interval",  # Qwen3-Next, Qwen3.5
    "mamba_d_state",  # Jamba, Bamba, Zamba
    "ssm_state_size",  # Nemotron-H
    "hybrid_override_pattern",  # Nemotron-H
    "attn_layer_period",  # Jamba
    "linear_num_key_heads",  # Qwen3-Next
    "linear_attn_config",  # Kimi-Linear
    "attn_type_list",  # MiniMax-M1: lightning attention in seven of eight layers
    "layers_block_type",  # Bamba, Zamba
    "block_configs",  # DeciLM / Nemotron-Super: another shape per layer
    "index_topk",  # DeepSeek-V3.2, GLM-5: an indexer cache beside the latent
    "compress_ratios",  # DeepSeek-V4
    "global_head_dim",  # Gemma 4: other head width in full layers
    "num_kv_shared_layers",  # Gemma 3n / 4: layers that share a cache
)
_FULL_EVERY = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6}
_ATTENTION_LAYERS = {"full_attention", "attention", "sliding_attention", "chunked_attention"}


def model_from_hf_config(
    model_id: str,
    config: Mapping[str, Any],
    *,
    parameters: int | None = None,
    active_parameters: int | None = None,
    task: Task | None = None,
) -> Model:
    """Read a model's size from the keys of its `config.json`.

    `parameters` and `active_parameters` override the counts, which by default are computed from the shape
    (within 2 % of the published sizes of the families the catalog knows); a total alone scales the active
    ones. `task` default: from the architecture class.

    Raises `InvalidInput` (a ValueError) with every missing or bad key at once."""
    outer = Keys(config, PATH)
    family = family_of(config)
    text = config.get("text_config")
    keys = (
        Keys(cast("Mapping[str, Any]", text), f"{PATH}.text_config") if isinstance(text, Mapping) else outer
    )
    shape = _shape(keys, family)
    context = keys.positive("max_position_embeddings") - family.position_offset
    window, windowed = _window(keys, shape.layers, context)
    precision, group_size = native_precision(outer, keys)
    architecture = _architecture(outer, config)
    violations = {violation.path: violation for violation in (*outer.violations, *keys.violations)}
    if violations:
        raise InvalidInput(violations.values())
    counts = count_parameters(shape, family, config)
    total = counts.total if parameters is None else parameters
    share = total / counts.total
    active = round(counts.active * share) if active_parameters is None else active_parameters
    reason = _unreliable(config, keys)
    return Model(
        id=model_id, base_id=model_id, architecture=architecture, task=task or _task(architecture, family),
        layers=shape.layers, hidden=shape.hidden, heads=shape.heads, kv_heads=shape.kv_heads,
        head_dim=shape.head_dim, intermediate=shape.intermediate, experts=shape.experts,
        experts_per_token=shape.experts_per_token, moe_intermediate=shape.moe_intermediate,
        shared_experts=shape.shared_experts, moe_layers=shape.moe_layers, kv_lora_rank=shape.kv_lora_rank,
        qk_rope_head_dim=shape.qk_rope_head_dim, parameters=total, active_parameters=active,
        expert_parameters=round(counts.experts * share), vocab=shape.vocab,
        tie_embeddings=shape.tie_embeddings,
        max_context=context, sliding_window=window, sliding_layers=windowed, precision=precision,
        group_size=group_size, gated=False, reliable=not reason, unreliable_reason=reason,
        assumptions=family.assumptions, source="config.json keys given", date="", note="",
    )  # fmt: skip


def _shape(keys: Keys, family: Family) -> Shape:
    hidden = keys.positive("hidden_size", *family.hidden_keys)
    heads = keys.positive("num_attention_heads", *family.head_keys)
    mla = keys.optional("kv_lora_rank", 0)
    kv_heads = keys.optional("num_key_value_heads", heads)
    if heads and kv_heads and not mla and heads % kv_heads:
        keys.bad(
            "num_key_value_heads", kv_heads, f"a divisor of num_attention_heads ({heads})", "Copy it again."
        )
    head_dim = keys.optional("head_dim", 0)
    if mla:
        head_dim = keys.positive("qk_nope_head_dim") + keys.positive("qk_rope_head_dim")
    elif not head_dim and heads:
        if hidden % heads:
            keys.bad("head_dim", None, "a positive integer", f"Add it: {hidden} / {heads} is not whole.")
        head_dim = hidden // heads
    experts = keys.optional(
        "num_experts", keys.optional("num_local_experts", keys.optional("n_routed_experts", 0))
    )
    layers = keys.positive("num_hidden_layers", *family.layer_keys)
    per_token = 0
    if experts:
        per_token = keys.positive("num_experts_per_tok", "experts_per_token", "moe_topk", "top_k_experts")
        if per_token > experts:
            keys.bad("num_experts_per_tok", per_token, f"at most the {experts} experts", "Copy it again.")
    dense_width = keys.optional("intermediate_size", keys.optional("hidden_dim", 0))
    if not dense_width and not experts:
        dense_width = keys.positive("intermediate_size", "hidden_dim")
    return Shape(
        layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        v_head_dim=keys.optional("v_head_dim", head_dim),
        intermediate=keys.optional("intermediate_size_mlp", dense_width),
        experts=experts, experts_per_token=per_token,
        moe_intermediate=_expert_width(keys, dense_width) if experts else 0,
        shared_experts=_shared(keys, experts, family), moe_layers=_moe_layers(keys, layers) if experts else 0,
        kv_lora_rank=mla, q_lora_rank=keys.optional("q_lora_rank", 0),
        qk_rope_head_dim=keys.optional("qk_rope_head_dim", 0) if mla else 0,
        vocab=keys.positive("vocab_size"),
        tie_embeddings=keys.boolean("tie_word_embeddings", family.ties_by_default),
        attention_bias=keys.boolean("attention_bias", family.attention_bias),
        shared_width=keys.optional("shared_expert_intermediate_size", 0) if experts else 0,
    )  # fmt: skip


def _expert_width(keys: Keys, dense_width: int) -> int:
    width = keys.optional("moe_intermediate_size", dense_width)
    return width if width else keys.positive("moe_intermediate_size")


def _shared(keys: Keys, experts: int, family: Family) -> int:
    if not experts:
        return 0
    if keys.optional("shared_expert_intermediate_size", 0):
        return 1
    return keys.optional("n_shared_experts", family.shared_experts)


def _moe_layers(keys: Keys, layers: int) -> int:
    """How many of the layers route: all, unless the first are dense or only every n-th routes."""
    step = keys.optional("interleave_moe_layer_step", keys.optional("decoder_sparse_step", 1))
    dense = keys.optional("first_k_dense_replace", 0)
    only_dense = keys.raw("mlp_only_layers")
    dense += len(cast("list[Any]", only_dense)) if isinstance(only_dense, list) else 0
    return layers // step - dense if step else layers - dense


def _window(keys: Keys, layers: int, context: int) -> tuple[int | None, int]:
    """The window and how many layers have it, as each family's config class in transformers reads its
    keys."""
    size = keys.optional("sliding_window", 0)
    # A window as wide as the context is no window (Phi-3-mini-128k has 262144).
    if not size or size >= context or keys.raw("use_sliding_window") is False:
        return None, 0
    windowed = _windowed_layers(keys, layers)
    return (size, windowed) if windowed else (None, 0)


def _windowed_layers(keys: Keys, layers: int) -> int:
    kinds = keys.raw("layer_types")
    if isinstance(kinds, list):
        return sum(kind == "sliding_attention" for kind in cast("list[Any]", kinds))
    kind = str(keys.raw("model_type") or "")
    # Every n-th layer attends in full.
    every = keys.optional("sliding_window_pattern", _FULL_EVERY.get(kind, 0))
    if every:
        return layers - layers // every
    if kind.startswith("qwen"):
        return max(layers - keys.optional("max_window_layers", 0), 0)
    return layers


def _unreliable(config: Mapping[str, Any], keys: Keys) -> str:
    """Why the plain formulas do not hold, or an empty string."""
    kinds = keys.raw("layer_types")
    if isinstance(kinds, list):
        other = sorted({str(kind) for kind in cast("list[Any]", kinds)} - _ATTENTION_LAYERS)
        if other:
            return f"hybrid layers ({', '.join(other)}): their state is no plain key/value cache"
    for key in _HYBRID_KEYS:
        if keys.raw(key) or config.get(key):
            return f"`{key}`: layers whose cache the plain formulas do not describe"
    return ""


def _architecture(outer: Keys, config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    if isinstance(names, list | tuple) and names:
        return str(cast("list[Any]", names)[0])
    outer.bad(
        "architectures",
        names,
        "a list with one class name, such as [LlamaForCausalLM]",
        "Copy it as it stands.",
    )
    return ""


def _task(architecture: str, family: Family) -> Task:
    if architecture.endswith(("ForSequenceClassification", "ForTokenClassification")):
        return "classify"
    if family.encoder or architecture.endswith("Model"):
        return "embed"
    return "generate"
