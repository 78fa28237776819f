"""Models: sizes that others published, field notes on the cache, ids and aliases."""

from __future__ import annotations

import pytest

from servingstack import catalog
from servingstack.catalog import Model


def known(model_id: str) -> Model:
    found = catalog.model(model_id)
    assert found is not None, model_id
    return found


@pytest.mark.parametrize(
    ("model_id", "billions", "active"),
    # As the publishers' model cards state them.
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", 0.49, 0.49),
        ("Qwen/Qwen2.5-1.5B-Instruct", 1.54, 1.54),
        ("Qwen/Qwen2.5-3B-Instruct", 3.09, 3.09),
        ("Qwen/Qwen2.5-7B-Instruct", 7.61, 7.61),
        ("Qwen/Qwen2.5-14B-Instruct", 14.7, 14.7),
        ("Qwen/Qwen2.5-32B-Instruct", 32.5, 32.5),
        ("Qwen/Qwen2.5-72B-Instruct", 72.7, 72.7),
        ("Qwen/Qwen3-8B", 8.2, 8.2),
        ("Qwen/Qwen3-14B", 14.8, 14.8),
        ("Qwen/Qwen3-32B", 32.8, 32.8),
        ("Qwen/Qwen3-30B-A3B", 30.5, 3.3),
        ("Qwen/Qwen3-235B-A22B", 235, 22),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 8.29, 8.29),
        ("meta-llama/Llama-3.2-1B-Instruct", 1.23, 1.23),
        ("meta-llama/Llama-3.2-3B-Instruct", 3.21, 3.21),
        ("meta-llama/Llama-3.1-8B-Instruct", 8.03, 8.03),
        ("meta-llama/Llama-3.3-70B-Instruct", 70.6, 70.6),
        ("meta-llama/Llama-3.1-405B-Instruct", 405.85, 405.85),
        ("meta-llama/Llama-2-7b-chat-hf", 6.74, 6.74),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1.1, 1.1),
        ("mistralai/Mistral-7B-Instruct-v0.3", 7.25, 7.25),
        ("mistralai/Mistral-Small-24B-Instruct-2501", 23.6, 23.6),
        ("mistralai/Mistral-Large-Instruct-2407", 123, 123),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46.7, 12.9),
        ("mistralai/Mixtral-8x22B-Instruct-v0.1", 141, 39),
        ("google/gemma-2-2b-it", 2.61, 2.61),
        ("google/gemma-2-9b-it", 9.24, 9.24),
        ("google/gemma-2-27b-it", 27.2, 27.2),
        ("google/gemma-3-4b-it", 4.3, 4.3),
        ("google/gemma-3-27b-it", 27.4, 27.4),
        ("microsoft/Phi-3-mini-4k-instruct", 3.82, 3.82),
        ("microsoft/phi-4", 14.7, 14.7),
        ("microsoft/Phi-4-mini-instruct", 3.84, 3.84),
        ("deepseek-ai/DeepSeek-V3", 671, 37),
        ("openai/gpt-oss-120b", 116.8, 5.7),
        ("moonshotai/Kimi-K2-Instruct", 1026, 32.9),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 109, 17),
        ("MiniMaxAI/MiniMax-M2.5", 230, 10.9),
        ("XiaomiMiMo/MiMo-7B-Base", 7.6, 7.6),
        ("FacebookAI/roberta-base", 0.125, 0.125),
        ("BAAI/bge-large-en-v1.5", 0.335, 0.335),
        ("sentence-transformers/all-MiniLM-L6-v2", 0.0227, 0.0227),
        ("distilbert/distilbert-base-uncased-finetuned-sst-2-english", 0.067, 0.067),
    ],
)
def test_parameters_are_within_2_percent_of_what_is_published(
    model_id: str, billions: float, active: float
) -> None:
    model = known(model_id)
    assert model.parameters / 1e9 == pytest.approx(billions, rel=0.02)
    assert model.active_parameters / 1e9 == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize(
    ("model_id", "parameters"),
    [
        ("mistralai/Mistral-Nemo-Instruct-2407", 12_247_782_400),  # github.com/ollama/ollama/issues/8277
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", 1_777_088_000),  # llama.cpp's model_n_params
        ("Qwen/Qwen2.5-0.5B-Instruct", 494_032_768),  # safetensors' own count
        ("meta-llama/Llama-3.1-70B-Instruct", 70_553_706_496),  # safetensors' own count
        ("BAAI/bge-reranker-v2-m3", 567_755_777 - 1025),  # safetensors' count less the last layer of the head
    ],
)
def test_parameters_equal_what_others_counted_in_the_weights(model_id: str, parameters: int) -> None:
    assert known(model_id).parameters == parameters


@pytest.mark.parametrize(
    ("model_id", "per_token"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 131072),  # F116
        ("meta-llama/Llama-3.1-70B-Instruct", 327680),  # F112, F116
        ("Qwen/Qwen3-32B", 262144),  # F116: head_dim 128 although 5120 / 64 is 80
        ("mistralai/Mistral-7B-Instruct-v0.3", 131072),  # F116
        ("Qwen/Qwen3-235B-A22B-FP8", 192512),  # F114
        ("deepseek-ai/DeepSeek-V3", 70272),  # F115: MLA, not 2 x layers x heads x width
        ("microsoft/Phi-4-mini-instruct", 131072),  # KAITO's documentation
    ],
)
def test_cache_per_token_in_16_bits(model_id: str, per_token: int) -> None:
    assert catalog.kv_bytes_per_token(known(model_id), 2) == per_token
    assert catalog.kv_bytes_per_token(known(model_id), 1) == per_token / 2


def test_f114_a_measured_pool_of_8_11_gib_on_four_gpus_holds_178880_tokens() -> None:
    per_gpu = catalog.kv_bytes_per_token(known("Qwen/Qwen3-235B-A22B"), 2) / 4
    assert 8.11 * catalog.GIB / per_gpu == pytest.approx(178_880, rel=0.02)


def test_f115_an_mla_model_is_told_apart_by_its_latent_not_by_its_heads() -> None:
    deepseek = known("deepseek-ai/DeepSeek-V3")
    assert deepseek.mla
    assert (deepseek.kv_lora_rank, deepseek.qk_rope_head_dim) == (512, 64)
    assert deepseek.head_dim == 128 + 64
    assert not known("Qwen/Qwen3-32B").mla


def test_f115_a_hybrid_cache_is_refused_instead_of_guessed() -> None:
    hybrid = known("Qwen/Qwen3.5-27B")
    assert not hybrid.reliable
    with pytest.raises(ValueError, match=r"cannot size the cache of Qwen/Qwen3\.5-27B: hybrid layers"):
        catalog.kv_bytes_per_token(hybrid)
    unreliable = {model.id for model in catalog.models() if not model.reliable}
    assert {"zai-org/GLM-5", "google/gemma-4-26B-A4B", "deepseek-ai/DeepSeek-V4-Flash"} <= unreliable


def test_f116_heads_and_width_are_the_configs_own() -> None:
    nemo = known("mistralai/Mistral-Nemo-Instruct-2407")
    assert nemo.head_dim == 128
    assert nemo.hidden // nemo.heads == 160


def test_f117_memory_counts_every_expert() -> None:
    mixtral = known("mistralai/Mixtral-8x7B-Instruct-v0.1")
    assert catalog.weight_bytes(mixtral, "bf16") == pytest.approx(93.4e9, rel=0.01)
    assert catalog.weight_bytes(mixtral, "bf16") > 80e9
    assert catalog.weight_bytes(known("mistralai/Mixtral-8x22B-v0.1"), "bf16") == pytest.approx(
        282e9, rel=0.01
    )


def test_f112_and_f130_weights_in_gib() -> None:
    assert catalog.weight_bytes(known("meta-llama/Llama-3.1-70B-Instruct")) / catalog.GIB == pytest.approx(
        131.4, 0.01
    )
    assert catalog.weight_bytes(known("meta-llama/Llama-3.1-8B-Instruct")) / catalog.GIB == pytest.approx(
        15.0, 0.01
    )
    assert catalog.weight_bytes(known("Qwen/Qwen3-235B-A22B-FP8")) == pytest.approx(235e9, rel=0.01)  # F114
    # KAITO's documentation: 7.15 GiB.
    assert catalog.weight_bytes(known("microsoft/Phi-4-mini-instruct")) / catalog.GIB == pytest.approx(
        7.15, 0.01
    )


def test_windows_say_how_many_layers_have_them() -> None:
    windows = {
        "mistralai/Mistral-7B-Instruct-v0.1": (4096, 32, 32),
        "mistralai/Mistral-7B-Instruct-v0.3": (None, 0, 32),
        "google/gemma-2-9b-it": (4096, 21, 42),
        "google/gemma-3-27b-it": (1024, 52, 62),
        "openai/gpt-oss-120b": (128, 18, 36),
        # Its config says 262144, which is wider than the context: no window.
        "microsoft/Phi-3-mini-128k-instruct": (None, 0, 32),
        # Its config names a window and switches it off.
        "Qwen/Qwen2.5-7B-Instruct": (None, 0, 28),
    }
    for model_id, wanted in windows.items():
        model = known(model_id)
        assert (model.sliding_window, model.sliding_layers, model.layers) == wanted, model_id


@pytest.mark.parametrize("size", ["8B", "70B", "405B"])
def test_llama_3_1_has_one_shape_under_every_spelling(size: str) -> None:
    for name in ("Llama-3.1-{}", "Llama-3.1-{}-Instruct", "Meta-Llama-3.1-{}", "Meta-Llama-3.1-{}-Instruct"):
        model = known(f"meta-llama/{name.format(size)}")
        assert model.base_id == f"meta-llama/Llama-3.1-{size}"
        assert model.max_context == 131072
        assert model.gated
        assert model.precision == "bf16"


@pytest.mark.parametrize(
    "name", ["Meta-Llama-3-8B-Instruct", "Llama-3-8B-Instruct", "META-LLAMA-3-8b-instruct"]
)
def test_llama_3_has_the_shape_of_3_1_and_a_context_of_its_own(name: str) -> None:
    model = known(f"meta-llama/{name}")
    assert model.base_id == "meta-llama/Llama-3.1-8B"
    assert model.max_context == 8192
    assert known("meta-llama/Meta-Llama-3-70B-Instruct").max_context == 8192
    assert known("meta-llama/Llama-3.3-70B-Instruct").max_context == 131072


@pytest.mark.parametrize(
    ("model_id", "base", "precision", "group"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct", "awq", 128),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-7B-Instruct", "gptq", 128),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-7B-Instruct", "int8", 128),
        ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B", "fp8", 128),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8", "meta-llama/Llama-3.1-70B", "fp8", None),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "meta-llama/Llama-3.1-8B", "w4a16", 128),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "meta-llama/Llama-3.1-8B", "int8", None),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "meta-llama/Llama-3.1-70B", "awq", 128),
        ("nvidia/Qwen3-235B-A22B-NVFP4", "Qwen/Qwen3-235B-A22B", "nvfp4", 16),
        ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3", "fp8", 128),
        ("openai/gpt-oss-20b", "openai/gpt-oss-20b", "mxfp4", 32),
    ],
)
def test_a_quantised_repository_gives_its_base_and_its_precision(
    model_id: str, base: str, precision: str, group: int | None
) -> None:
    model = known(model_id)
    assert (model.base_id, model.precision, model.group_size) == (base, precision, group)
    assert model.id == model_id
    assert model.parameters == known(base).parameters


def test_copies_that_others_publish_are_not_gated() -> None:
    assert known("google/gemma-3-27b-it").gated
    assert not known("unsloth/gemma-3-27b-it").gated
    assert not known("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8").gated
    assert not known("deepseek-ai/DeepSeek-R1-Distill-Llama-70B").gated


def test_every_row_is_a_shape_that_can_exist() -> None:
    assert len(catalog.models()) >= 30
    for model in map(known, catalog.model_ids()):
        assert model.precision in catalog.PRECISIONS
        assert 0 < model.active_parameters <= model.parameters, model.id
        assert (model.experts > 0) == (model.active_parameters < model.parameters), model.id
        assert 0 <= model.expert_parameters < model.parameters
        assert model.mla or model.heads % model.kv_heads == 0, model.id
        assert 0 <= model.sliding_layers <= model.layers
        assert (model.sliding_window is None) == (model.sliding_layers == 0)
        assert model.max_context >= 512
        assert model.source
        assert model.reliable == (model.unreliable_reason == "")


def test_encoders_have_no_cache() -> None:
    for model in catalog.models():
        if model.task != "generate":
            assert catalog.kv_bytes_per_token(model) == 0
    assert {model.task for model in catalog.models()} == {"generate", "embed", "classify"}
    # RoBERTa's positions start behind the padding index.
    assert known("BAAI/bge-m3").max_context == 8192
    assert known("FacebookAI/roberta-base").max_context == 512


def test_ids_are_matched_in_any_case_and_unknown_ones_are_none() -> None:
    assert known("QWEN/qwen3-8b").id == "Qwen/Qwen3-8B"
    assert catalog.model("Qwen/Qwen9-8B") is None
    assert catalog.model("") is None


def test_an_unknown_id_gets_suggestions_by_the_whole_and_by_the_name_alone() -> None:
    assert catalog.suggest_models("meta-llama/Llama-3.1-8B-Instrct")[0] == "meta-llama/Llama-3.1-8B-Instruct"
    assert "Qwen/Qwen2.5-7B-Instruct" in catalog.suggest_models("Qwen2.5-7B-Instruct")
    assert len(catalog.suggest_models("llama", limit=2)) <= 2
    assert catalog.suggest_models("zzzzzzzzzzzz") == []
