"""What a GPU can run, and what is never chosen in silence."""

from __future__ import annotations

import pytest

from servingstack import catalog
from servingstack.errors import Infeasible, InvalidInput
from servingstack.planner import plan
from servingstack.planner.precision import fallback, requested, served_on

from .build import LLAMA_8B, LLAMA_70B, document, known, on


def _flags(found) -> dict[str, str | None]:
    return {flag.name: flag.value for flag in found.container.flags}


@pytest.mark.parametrize(
    ("model", "gpu", "served"),
    [
        (LLAMA_8B, "t4", ("fp16", "half", True)),
        (LLAMA_8B, "a100-80gb", ("bf16", "bfloat16", True)),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "t4", ("awq", "half", True)),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "l4", ("awq", "bfloat16", True)),
        ("Qwen/Qwen3-235B-A22B-FP8", "a100-80gb", ("fp8", "bfloat16", False)),
        ("Qwen/Qwen3-235B-A22B-FP8", "h100-80gb", ("fp8", "bfloat16", True)),
        ("openai/gpt-oss-20b", "a100-80gb", ("mxfp4", "bfloat16", False)),
    ],
)
def test_f131_each_format_on_each_capability(model: str, gpu: str, served: tuple) -> None:
    found = on(catalog.gpu(gpu), known(model))
    assert (found.precision, found.dtype, found.native) == served
    assert found.quantization is None  # the engine reads it from the checkpoint and picks the fastest kernel


def test_f131_awq_on_a_v100_is_refused() -> None:
    node = {"accelerator": "v100", "gpus": 1, "count": 1, "cpu": 8, "memory": "60Gi"}
    with pytest.raises(Infeasible, match=r"7\.5"):
        plan(document("Qwen/Qwen2.5-7B-Instruct-AWQ", hardware={"nodes": [node]}))


def test_f131_awq_on_a_t4_says_half_and_forces_no_kernel() -> None:
    flags = _flags(plan(document("Qwen/Qwen2.5-7B-Instruct-AWQ", hardware={"accelerators": ["t4"]})))
    assert flags["dtype"] == "half"
    assert "quantization" not in flags


def test_f131_mxfp4_on_a_t4_is_refused() -> None:
    # The note also refuses w4a16 there; the pinned release's own minimum for it is 7.5.
    with pytest.raises(Infeasible, match=r"mxfp4 needs compute capability 8\.0; this GPU has 7\.5"):
        plan(document("openai/gpt-oss-20b", hardware={"accelerators": ["t4"]}))


def test_auto_keeps_what_the_repository_holds_where_that_fits() -> None:
    found = plan(document(LLAMA_70B))
    assert found.architecture.precision == "bf16"
    assert found.architecture.quantization is None


def test_auto_converts_to_fp8_only_where_nothing_else_fits() -> None:
    node = {"accelerator": "h100-80gb", "gpus": 8, "count": 2, "cpu": 180, "memory": "1500Gi"}
    found = plan(document("meta-llama/Llama-3.1-405B-Instruct", hardware={"nodes": [node]}))
    assert found.architecture.precision == "fp8"
    assert _flags(found)["quantization"] == "fp8"
    assert "quantized-while-loading" in {warning.code for warning in found.warnings}


def test_auto_never_takes_awq_or_gptq_by_itself() -> None:
    assert fallback(known(LLAMA_70B), "auto") == "fp8"
    assert fallback(known("Qwen/Qwen2.5-7B-Instruct-AWQ"), "auto") is None


def test_auto_does_not_convert_where_fp8_arithmetic_is_missing() -> None:
    node = {"accelerator": "a100-80gb", "gpus": 1, "count": 4, "cpu": 20, "memory": "200Gi"}
    with pytest.raises(Infeasible):
        plan(document(LLAMA_70B, hardware={"nodes": [node]}))


def test_a_pinned_fp8_is_converted_while_loading() -> None:
    found = plan(document(LLAMA_8B, model={"precision": "fp8"}, hardware={"accelerators": ["l4"]}))
    assert found.architecture.precision == "fp8"
    assert found.architecture.weight_bytes < 10e9


def test_a_pinned_awq_names_the_repository_that_holds_it() -> None:
    with pytest.raises(InvalidInput) as refused:
        plan(document(LLAMA_8B, model={"precision": "awq"}))
    (violation,) = refused.value.violations
    assert violation.path == "model.precision"
    assert "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4" in violation.fix
    assert "auto, bf16, fp16, fp8" in violation.allowed


def test_a_stored_precision_may_be_pinned() -> None:
    assert requested(known("Qwen/Qwen2.5-7B-Instruct-AWQ"), "awq") == "awq"


def test_no_gpu_below_what_the_engine_was_built_for_is_used() -> None:
    refusal = served_on(catalog.gpu("v100"), known(LLAMA_8B), "fp16")
    assert isinstance(refusal, str)
    assert "7.0" in refusal


def _engine(dtype: str) -> dict[str, str]:
    return {"kind": "vllm", "dtype": dtype}


@pytest.mark.parametrize(
    ("model", "dtype", "gpu"),
    [
        (LLAMA_8B, "float32", "h100-80gb"),
        (LLAMA_8B, "float", "l4"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "float32", "l4"),
        ("Qwen/Qwen2.5-1.5B-Instruct", "bfloat16", "t4"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "bfloat16", "t4"),
        ("openai/gpt-oss-20b", "float16", "h100-80gb"),
    ],
)
def test_a_type_that_was_not_sized_or_the_gpu_lacks_is_refused(model: str, dtype: str, gpu: str) -> None:
    with pytest.raises(Infeasible) as refused:
        plan(document(model, engine=_engine(dtype), hardware={"accelerators": [gpu]}))
    assert refused.value.binding.startswith("engine.dtype")
    assert "engine.dtype: left out" in [item.change for item in refused.value.nearest]


def test_what_a_type_was_asked_for_is_what_is_sized_and_said() -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 16,
        "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192,
        "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "float32",
    }  # fmt: skip
    sizes: dict[str, int] = {}
    for dtype in ("auto", "float32", "float16", "bfloat16"):
        found = plan(document("me/wide", model={"config": config}, engine=_engine(dtype)))
        assert _flags(found)["dtype"] == found.architecture.dtype
        sizes[dtype] = found.architecture.weight_bytes
    assert sizes["auto"] == sizes["float32"] == 2 * sizes["float16"] == 2 * sizes["bfloat16"]


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", "half"), ("fp16", "bfloat16")])
def test_a_type_against_the_precision_is_refused(precision: str, dtype: str) -> None:
    with pytest.raises(InvalidInput, match=r"engine\.dtype"):
        plan(document(LLAMA_8B, model={"precision": precision}, engine=_engine(dtype)))


@pytest.mark.parametrize("method", ["awq", "fp8", "compressed-tensors"])
def test_the_precision_is_the_one_way_to_quantise(method: str) -> None:
    with pytest.raises(InvalidInput, match=r"engine\.quantization"):
        plan(document(LLAMA_8B, engine={"kind": "vllm", "quantization": method}))
    with pytest.raises(InvalidInput, match=r"use model\.precision"):
        plan(document(LLAMA_8B, engine={"kind": "vllm", "extra_args": [f"--quantization={method}"]}))
