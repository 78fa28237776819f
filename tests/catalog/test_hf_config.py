"""Models outside the catalog: Hugging Face config keys, read and refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servingstack import catalog
from servingstack.catalog import model_from_hf_config
from servingstack.errors import InvalidInput

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
REQUIRED = [
    "architectures",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "vocab_size",
]


def test_a_config_gives_the_same_shape_as_the_catalogs_row() -> None:
    read = model_from_hf_config("mine/tuned-8b", LLAMA_8B)
    row = catalog.model("meta-llama/Llama-3.1-8B")
    assert row is not None
    assert read.parameters == row.parameters == 8_030_261_248
    for name in (
        "layers",
        "hidden",
        "heads",
        "kv_heads",
        "head_dim",
        "vocab",
        "max_context",
        "precision",
        "task",
    ):
        assert getattr(read, name) == getattr(row, name), name
    assert read.id == read.base_id == "mine/tuned-8b"
    assert read.assumptions == ()
    assert catalog.kv_bytes_per_token(read) == 131072


@given(st.sets(st.sampled_from(REQUIRED), min_size=1))
def test_all_missing_keys_are_named_at_once(missing: set[str]) -> None:
    config = {key: value for key, value in LLAMA_8B.items() if key not in missing}
    with pytest.raises(InvalidInput) as caught:
        model_from_hf_config("mine/model", config)
    assert {violation.path for violation in caught.value.violations} == {
        f"model.config.{key}" for key in missing
    }
    for violation in caught.value.violations:
        assert violation.value is None
        assert violation.allowed
        assert violation.fix


@given(st.sets(st.sampled_from(REQUIRED[1:]), min_size=1), st.sampled_from([-1, 0, 2.5, "many", True, []]))
def test_all_bad_values_are_named_at_once(bad: set[str], value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        model_from_hf_config("mine/model", LLAMA_8B | dict.fromkeys(bad, value))
    found = {violation.path: violation.value for violation in caught.value.violations}
    assert {f"model.config.{key}" for key in bad} <= set(found)
    assert all(found[f"model.config.{key}"] == value for key in bad)


def test_an_error_is_a_value_error_that_reads_as_path_value_allowed_fix() -> None:
    with pytest.raises(ValueError, match=r"model\.config\.num_key_value_heads: got 5; allowed: a divisor of"):
        model_from_hf_config("mine/model", LLAMA_8B | {"num_key_value_heads": 5})


def test_head_width_is_the_configs_own_before_it_is_computed() -> None:
    assert model_from_hf_config("m/m", LLAMA_8B | {"head_dim": 256}).head_dim == 256
    assert model_from_hf_config("m/m", LLAMA_8B | {"head_dim": None}).head_dim == 128
    with pytest.raises(InvalidInput, match="head_dim"):
        model_from_hf_config("m/m", LLAMA_8B | {"hidden_size": 4097})


def test_without_key_value_heads_every_head_has_its_own() -> None:
    assert model_from_hf_config("m/m", LLAMA_8B | {"num_key_value_heads": None}).kv_heads == 32


def test_a_multimodal_config_is_read_from_its_language_model() -> None:
    text = {key: value for key, value in LLAMA_8B.items() if key not in ("architectures", "torch_dtype")}
    outer = {
        "architectures": ["Mistral3ForConditionalGeneration"],
        "model_type": "mistral3",
        "torch_dtype": "bfloat16",
        "text_config": text,
        "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 4096},
    }
    model = model_from_hf_config("m/m", outer)
    assert model.layers == 32
    # 24 layers of 4 x 1024 x 1024 and 2 x 1024 x 4096.
    assert model.parameters == 8_030_261_248 + 24 * (4 * 1024**2 + 2 * 1024 * 4096)
    with pytest.raises(InvalidInput, match=r"model\.config\.text_config\.vocab_size"):
        model_from_hf_config("m/m", outer | {"text_config": {**text, "vocab_size": None}})


DEEPSEEK_V2_LITE: dict[str, Any] = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "first_k_dense_replace": 1,
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_attention_heads": 16,
    "num_experts_per_tok": 6,
    "num_hidden_layers": 27,
    "num_key_value_heads": 16,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 102400,
}


def test_f115_an_mla_mixture_without_a_compressed_query_is_counted() -> None:
    """DeepSeek-V2-Lite's card says 15.7e9, 2.4e9 of them active without the embedding."""
    model = model_from_hf_config("deepseek-ai/DeepSeek-V2-Lite", DEEPSEEK_V2_LITE)
    assert model.parameters / 1e9 == pytest.approx(15.7, rel=0.01)
    assert model.matmul_parameters / 1e9 == pytest.approx(2.4, rel=0.05)
    assert catalog.kv_bytes_per_token(model) == (512 + 64) * 27 * 2
    assert (model.experts, model.experts_per_token, model.shared_experts, model.moe_layers) == (64, 6, 2, 26)


def test_mla_needs_its_own_widths() -> None:
    config = {
        key: value for key, value in DEEPSEEK_V2_LITE.items() if key not in ("qk_nope_head_dim", "vocab_size")
    }
    with pytest.raises(InvalidInput) as caught:
        model_from_hf_config("m/m", config)
    paths = {violation.path for violation in caught.value.violations}
    assert paths == {"model.config.qk_nope_head_dim", "model.config.vocab_size"}


def test_a_mixture_says_how_many_experts_a_token_uses() -> None:
    mixture = LLAMA_8B | {"num_local_experts": 8}
    with pytest.raises(InvalidInput, match="num_experts_per_tok"):
        model_from_hf_config("m/m", mixture)
    with pytest.raises(InvalidInput, match="at most the 8 experts"):
        model_from_hf_config("m/m", mixture | {"num_experts_per_tok": 9})


@pytest.mark.parametrize(
    ("quantization", "precision", "group"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "gptq", 32),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "gptq", None),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8", 128),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 128),
        ({"quant_method": "fp8"}, "fp8", None),
        ({"quant_method": "mxfp4"}, "mxfp4", 32),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 16),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bnb4", None),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
            None,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "int"}}},
            },
            "int8",
            None,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}}},
            },
            "w4a16",
            128,
        ),
    ],
)
def test_the_precision_is_the_weights_own(
    quantization: dict[str, Any], precision: str, group: int | None
) -> None:
    model = model_from_hf_config("m/m", LLAMA_8B | {"quantization_config": quantization})
    assert (model.precision, model.group_size) == (precision, group)


@pytest.mark.parametrize(
    ("quantization", "path"),
    [
        ({"quant_method": "hqq"}, "model.config.quantization_config.quant_method"),
        ({}, "model.config.quantization_config.quant_method"),
        ({"quant_method": "awq", "bits": 3}, "model.config.quantization_config.bits"),
        ({"quant_method": "compressed-tensors"}, "model.config.quantization_config.config_groups"),
    ],
)
def test_a_quantisation_that_is_not_known_is_refused_by_its_key(
    quantization: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        model_from_hf_config("m/m", LLAMA_8B | {"quantization_config": quantization})
    assert [violation.path for violation in caught.value.violations] == [path]


@pytest.mark.parametrize(
    ("keys", "precision"),
    [
        ({"torch_dtype": "float16"}, "fp16"),
        ({"torch_dtype": None, "dtype": "float32"}, "fp32"),
        ({"torch_dtype": "torch.bfloat16"}, "bf16"),
        ({"torch_dtype": None}, "bf16"),
    ],
)
def test_the_precision_of_a_plain_checkpoint(keys: dict[str, Any], precision: str) -> None:
    assert model_from_hf_config("m/m", LLAMA_8B | keys).precision == precision


@pytest.mark.parametrize(
    ("keys", "window", "layers"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, 4096, 32),
        ({"model_type": "mistral", "sliding_window": None}, None, 0),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, None, 0),
        (
            {
                "model_type": "qwen2",
                "sliding_window": 4096,
                "use_sliding_window": True,
                "max_window_layers": 28,
            },
            4096,
            4,
        ),
        ({"model_type": "gemma2", "sliding_window": 4096}, 4096, 16),
        ({"model_type": "gemma3_text", "sliding_window": 1024}, 1024, 27),
        ({"model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 2}, 512, 16),
        ({"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 16}, 128, 16),
        ({"sliding_window": 128, "layer_types": ["full_attention"] * 32}, None, 0),
        ({"sliding_window": 131072}, None, 0),
    ],
)
def test_which_layers_have_a_window(keys: dict[str, Any], window: int | None, layers: int) -> None:
    model = model_from_hf_config("m/m", LLAMA_8B | keys)
    assert (model.sliding_window, model.sliding_layers) == (window, layers)


@pytest.mark.parametrize(
    "keys",
    [
        {"layer_types": ["linear_attention"] * 24 + ["full_attention"] * 8},
        {"model_type": "minimax_m1", "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 4},
        {"model_type": "jamba", "attn_layer_period": 8, "mamba_d_state": 16},
        {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*"},
        {"model_type": "deepseek_v32", "index_topk": 2048},
    ],
)
def test_f115_layers_that_are_not_plain_attention_make_a_model_unreliable(keys: dict[str, Any]) -> None:
    model = model_from_hf_config("m/m", LLAMA_8B | keys)
    assert not model.reliable
    with pytest.raises(ValueError, match="cannot size the cache of m/m"):
        catalog.kv_bytes_per_token(model)


def test_an_unknown_family_is_read_as_a_plain_decoder_and_says_so() -> None:
    model = model_from_hf_config("m/m", LLAMA_8B | {"model_type": "brand_new"})
    assert model.reliable
    assert model.assumptions == (
        "model_type 'brand_new' is unknown to the catalog and read as a plain grouped-query decoder",
    )


def test_a_shared_expert_with_a_gate_is_counted() -> None:
    """Qwen1.5-MoE-A2.7B's card: 14.3e9 parameters, 2.7e9 of them active."""
    config = {
        "architectures": ["Qwen2MoeForCausalLM"],
        "model_type": "qwen2_moe",
        "decoder_sparse_step": 1,
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "max_position_embeddings": 8192,
        "moe_intermediate_size": 1408,
        "num_attention_heads": 16,
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "num_hidden_layers": 24,
        "num_key_value_heads": 16,
        "shared_expert_intermediate_size": 5632,
        "vocab_size": 151936,
    }
    model = model_from_hf_config("Qwen/Qwen1.5-MoE-A2.7B", config)
    assert model.parameters / 1e9 == pytest.approx(14.3, rel=0.01)
    assert model.active_parameters / 1e9 == pytest.approx(2.7, rel=0.02)
    assert model.shared_experts == 1


def test_every_family_has_a_model_whose_size_is_tested() -> None:
    """So that a wrong entry is a wrong count: the shipped rows' families, and those of this file."""
    from servingstack.catalog.families import FAMILIES

    counted = {
        "llama", "mistral", "mixtral", "phi3", "qwen2", "qwen2_moe", "qwen2_5_vl", "qwen3", "qwen3_moe",
        "gemma2", "gemma3_text", "deepseek_v2", "deepseek_v3", "kimi_k2", "gpt_oss", "llama4_text", "mimo",
        "minimax_m2", "bert", "roberta", "xlm-roberta", "distilbert",
    }  # fmt: skip
    same_language_model = {"qwen2_vl": "qwen2", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe"}
    assert set(FAMILIES) == counted | set(same_language_model)
    for name, like in same_language_model.items():
        assert FAMILIES[name] == FAMILIES[like]


def test_counts_can_be_given() -> None:
    given_total = model_from_hf_config("m/m", LLAMA_8B, parameters=9_000_000_000)
    assert (given_total.parameters, given_total.active_parameters) == (9_000_000_000, 9_000_000_000)
    both = model_from_hf_config("m/m", LLAMA_8B, parameters=9_000_000_000, active_parameters=1_000_000_000)
    assert both.active_parameters == 1_000_000_000


@pytest.mark.parametrize(
    ("architecture", "model_type", "task"),
    [
        ("BertModel", "bert", "embed"),
        ("BertForSequenceClassification", "bert", "classify"),
        ("XLMRobertaForSequenceClassification", "xlm-roberta", "classify"),
        ("LlamaForCausalLM", "llama", "generate"),
        ("Qwen2ForSequenceClassification", "qwen2", "classify"),
    ],
)
def test_the_task_follows_from_the_class(architecture: str, model_type: str, task: str) -> None:
    config = LLAMA_8B | {"architectures": [architecture], "model_type": model_type}
    assert model_from_hf_config("m/m", config).task == task
    assert model_from_hf_config("m/m", config, task="embed").task == "embed"


def test_a_bert_is_counted_with_its_positions_and_pooler() -> None:
    """bert-base-uncased: 109 482 240 parameters, as its weights hold without the masked-language head."""
    bert = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": 768,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
        "type_vocab_size": 2,
        "vocab_size": 30522,
    }
    assert model_from_hf_config("m/bert", bert).parameters == 109_482_240


@st.composite
def decoders(draw: st.DrawFn) -> dict[str, Any]:
    """A decoder's config that could exist, dense or a mixture."""
    kv_heads = draw(st.sampled_from([1, 2, 4, 8]))
    heads = kv_heads * draw(st.sampled_from([1, 2, 4, 8]))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": draw(st.sampled_from(["llama", "qwen2", "qwen3", "gemma2", "mistral"])),
        "hidden_size": heads * draw(st.sampled_from([64, 128])),
        "intermediate_size": draw(st.integers(1, 30000)),
        "num_hidden_layers": draw(st.integers(1, 100)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": draw(st.integers(1000, 300000)),
        "max_position_embeddings": draw(st.integers(512, 200000)),
        "tie_word_embeddings": draw(st.booleans()),
    }
    if draw(st.booleans()):
        experts = draw(st.integers(2, 128))
        config |= {"num_experts": experts, "num_experts_per_tok": draw(st.integers(1, experts))}
        config |= {"moe_intermediate_size": draw(st.integers(1, 5000))}
    return config


@given(decoders())
def test_any_decoder_is_read_whole(config: dict[str, Any]) -> None:
    model = model_from_hf_config("m/m", config)
    assert 0 < model.active_parameters <= model.parameters
    assert model.embedding_parameters < model.parameters
    assert model.expert_parameters <= model.parameters - model.embedding_parameters
    assert catalog.kv_bytes_per_token(model, 2) == 4 * model.layers * model.kv_heads * model.head_dim
    # Tying the embeddings saves exactly one of them.
    untied = model_from_hf_config("m/m", config | {"tie_word_embeddings": False})
    tied = model_from_hf_config("m/m", config | {"tie_word_embeddings": True})
    assert untied.parameters - tied.parameters == model.vocab * model.hidden


@given(decoders())
def test_a_nested_config_is_read_like_a_flat_one(config: dict[str, Any]) -> None:
    flat = model_from_hf_config("m/m", config)
    inner = {key: value for key, value in config.items() if key != "architectures"}
    nested = model_from_hf_config("m/m", {"architectures": config["architectures"], "text_config": inner})
    assert nested.parameters == flat.parameters
    assert nested.assumptions == ("only the language model is counted",)


@given(decoders(), st.integers(2, 4))
def test_more_layers_are_more_parameters_and_more_cache(config: dict[str, Any], times: int) -> None:
    small = model_from_hf_config("m/m", config)
    large = model_from_hf_config("m/m", config | {"num_hidden_layers": small.layers * times})
    assert large.parameters > small.parameters
    assert catalog.kv_bytes_per_token(large) == times * catalog.kv_bytes_per_token(small)
