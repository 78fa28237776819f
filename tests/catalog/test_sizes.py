"""Weights by precision: against checkpoint sizes, and in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servingstack import catalog

GENERATE = [model for model in catalog.models() if model.task == "generate"]


@pytest.mark.parametrize(
    ("model_id", "gigabytes"),
    # Sizes of the safetensors files in the repositories.
    [
        ("openai/gpt-oss-120b", 65.2),
        ("openai/gpt-oss-20b", 13.8),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", 5.58),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", 39.8),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", 9.08),
        ("meta-llama/Llama-3.1-8B-Instruct", 16.06),
    ],
)
def test_weights_weigh_what_the_repositories_hold(model_id: str, gigabytes: float) -> None:
    model = catalog.model(model_id)
    assert model is not None
    assert catalog.weight_bytes(model) / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_a_quantised_small_model_keeps_its_large_vocabulary_in_16_bits() -> None:
    """Four bits do not make a quarter: of Qwen2.5-0.5B's parameters 28 % are the embedding."""
    model = catalog.model("Qwen/Qwen2.5-0.5B-Instruct")
    assert model is not None
    assert model.embedding_parameters / model.parameters == pytest.approx(0.276, abs=0.01)
    assert catalog.weight_bytes(model, "awq") / catalog.weight_bytes(model, "bf16") == pytest.approx(
        0.46, abs=0.02
    )


def test_four_bits_with_scales_are_more_than_four_bits() -> None:
    assert catalog.weight_bits("awq") == pytest.approx(4.156, abs=0.001)
    assert catalog.weight_bits("w4a16", 128) == 4.125
    assert catalog.weight_bits("gptq", 32) == 4.625
    assert catalog.weight_bits("gptq", -1) == 4
    assert catalog.weight_bits("mxfp4") == 4.25
    assert catalog.weight_bits("nvfp4") == 4.5


def test_only_the_experts_of_gpt_oss_are_in_four_bits() -> None:
    model = catalog.model("openai/gpt-oss-120b")
    assert model is not None
    rest = model.parameters - model.expert_parameters
    assert catalog.weight_bytes(model) == pytest.approx(model.expert_parameters * 4.25 / 8 + rest * 2)


@given(st.sampled_from(GENERATE))
def test_fewer_bits_never_weigh_more(model: catalog.Model) -> None:
    order: list[catalog.Precision] = ["fp32", "bf16", "fp8", "nvfp4", "awq"]
    sizes = [catalog.weight_bytes(model, precision) for precision in order]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 2 * sizes[1] == 4 * model.parameters
    assert sizes[-1] > model.parameters * 4 / 8


@given(st.sampled_from(GENERATE))
def test_what_a_token_is_multiplied_with_leaves_out_the_looked_up_embedding(model: catalog.Model) -> None:
    looked_up = model.active_parameters - model.matmul_parameters
    assert looked_up == (0 if model.tie_embeddings else model.vocab * model.hidden)


@given(st.sampled_from([model for model in GENERATE if model.reliable]), st.sampled_from([0.5, 1, 2, 4]))
def test_the_cache_scales_with_its_type(model: catalog.Model, dtype_bytes: float) -> None:
    assert (
        catalog.kv_bytes_per_token(model, dtype_bytes) == catalog.kv_bytes_per_token(model, 1) * dtype_bytes
    )
