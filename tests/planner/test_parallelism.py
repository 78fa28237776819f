"""How a model may be split, and what a pin is told."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from servingstack import catalog
from servingstack.errors import Infeasible, InvalidInput
from servingstack.planner import plan
from servingstack.planner.parallelism import Pins, legal_tp, pipelines, splits

from .build import LLAMA_8B, LLAMA_70B, document, known

QWEN_7B = "Qwen/Qwen2.5-7B-Instruct"


@pytest.mark.parametrize(
    ("heads", "illegal"),
    [(52, 8), (40, 6), (40, 3), (28, 8), (32, 3), (12, 8)],  # the reports behind F003
)
def test_f003_a_size_that_does_not_divide_the_heads_is_illegal(heads: int, illegal: int) -> None:
    model = dataclasses.replace(known(LLAMA_8B), heads=heads, kv_heads=heads)
    assert illegal not in legal_tp(model, "bf16", 16)


def test_f003_28_heads_with_4_key_value_heads_split_over_1_2_and_4_of_8_gpus() -> None:
    # The note also lists 7, 14 and 28, which divide 28; vLLM's models assert that key/value heads divide or
    # are divided (model_executor/models/llama.py), and 18944 columns do not split over 28: those fail at
    # start.
    assert legal_tp(known(QWEN_7B), "bf16", 28) == (1, 2, 4)


def test_f003_a_pinned_8_for_28_heads_lists_what_is_legal_and_the_largest_that_fits() -> None:
    with pytest.raises(InvalidInput) as refused:
        plan(document(QWEN_7B, engine={"kind": "vllm", "tensor_parallel_size": 8}))
    (violation,) = refused.value.violations
    assert violation.path == "engine.tensor_parallel_size"
    assert violation.value == 8
    assert "one of 1, 2, 4" in violation.allowed
    assert "Use 4" in violation.fix


def test_f003_gpus_of_the_node_become_replicas_not_a_larger_split() -> None:
    node = {"accelerator": "h100-80gb", "gpus": 8, "count": 1, "cpu": 180, "memory": "1500Gi"}
    found = plan(document(QWEN_7B, hardware={"nodes": [node]}, traffic={"requests_per_second": 20}))
    assert found.architecture.gpus_per_replica == 1
    assert found.scaling.max_replicas > 1


def test_f003_a_gemma_on_three_gpus_is_not_split_by_three() -> None:
    assert 3 not in legal_tp(known("Qwen/Qwen3-32B"), "bf16", 8)


@pytest.mark.parametrize("model", [LLAMA_8B, LLAMA_70B, "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b"])
def test_f015_the_gpu_count_is_always_the_product_of_the_splits(model: str) -> None:
    architecture = plan(document(model, request_timeout="60s")).architecture
    product = architecture.tensor_parallel_size * architecture.pipeline_parallel_size
    assert architecture.gpus_per_replica == product


def test_f015_a_gpu_count_that_contradicts_the_split_is_refused() -> None:
    with pytest.raises(InvalidInput, match="gpus_per_replica: got 8"):
        plan(
            document(
                engine={"kind": "vllm", "tensor_parallel_size": 1, "pipeline_parallel_size": 1},
                hardware={"gpus_per_replica": 8},
            )
        )


def test_f015_a_split_smuggled_in_as_an_argument_is_refused() -> None:
    with pytest.raises(InvalidInput, match="tensor_parallel_size"):
        plan(document(engine={"kind": "vllm", "extra_args": ["--tensor-parallel-size", "1"]}))


def _f120(model: str) -> dict[str, Any]:
    return document(
        model,
        hardware={"nodes": [{"accelerator": "t4", "gpus": 6, "count": 1, "cpu": 40, "memory": "300Gi"}]},
        model={"max_model_len": 2048},
        traffic={"requests_per_second": 0.1, "output_tokens": 128},
        request_timeout="120s",
    )


def test_f120_32b_in_16_bits_on_six_t4_is_refused_and_told_to_quantise() -> None:
    # Qwen2.5-32B has the 40 heads of the note's Qwen1.5-32B.
    with pytest.raises(Infeasible) as refused:
        plan(_f120("Qwen/Qwen2.5-32B-Instruct"))
    changes = [item.change for item in refused.value.nearest]
    assert any("AWQ" in change or "GPTQ" in change for change in changes)
    assert any("Qwen2.5-32B-Instruct-" in change for change in changes)
    assert not any("QwQ" in change for change in changes)  # the same shape, another model
    # A T4 has no bf16: the weights are cast as they are loaded.
    assert any(line.startswith("4 x t4 with fp16: of 13.1 GiB per GPU") for line in refused.value.considered)


def test_f120_the_int4_repository_runs_as_two_gpus_per_replica() -> None:
    found = plan(_f120("Qwen/Qwen2.5-32B-Instruct-AWQ"))
    assert found.architecture.tensor_parallel_size == 2
    assert found.architecture.pipeline_parallel_size == 1
    assert found.scaling.max_replicas <= 3


def test_blocks_of_a_quantised_mixture_must_stay_whole() -> None:
    model = known("Qwen/Qwen3-235B-A22B-FP8")
    assert model.group_size == 128
    assert model.moe_intermediate == 1536
    assert 8 not in legal_tp(model, "fp8", 8)  # 192 is not a multiple of 128
    assert 4 in legal_tp(model, "fp8", 8)


def test_mxfp4_shards_are_padded_by_the_engine() -> None:
    assert {1, 2, 4, 8} <= set(legal_tp(known("openai/gpt-oss-120b"), "mxfp4", 8))


def test_mla_needs_no_key_value_heads_to_divide() -> None:
    assert {8, 16} <= set(legal_tp(known("deepseek-ai/DeepSeek-V3"), "fp8", 16))


def test_only_sizes_that_divide_the_node_are_tried_unless_pinned() -> None:
    model = dataclasses.replace(known(LLAMA_8B), heads=40, kv_heads=40, intermediate=40 * 128)
    assert splits(model, "bf16", 8, Pins()) == ((1, 1), (2, 1), (4, 1), (8, 1))
    assert splits(model, "bf16", 8, Pins(tp=5)) == ((5, 1),)


def test_a_pipeline_is_used_only_where_no_other_split_reaches_the_count() -> None:
    model = known(LLAMA_8B)
    assert splits(model, "bf16", 8, Pins(gpus=4)) == ((4, 1),)
    assert splits(model, "bf16", 8, Pins(gpus=3)) == ((1, 3),)


def test_a_replica_lives_on_one_node() -> None:
    with pytest.raises(Infeasible, match="a replica lives on one node"):
        plan(
            document(
                LLAMA_70B,
                engine={"kind": "vllm", "tensor_parallel_size": 8},
                hardware={
                    "nodes": [
                        {"accelerator": "h100-80gb", "gpus": 4, "count": 4, "cpu": 90, "memory": "900Gi"}
                    ]
                },
            )
        )


def test_a_size_that_leaves_a_gpu_idle_rescues_a_model_that_no_other_holds() -> None:
    node = {"accelerator": "l40s", "gpus": 3, "count": 2, "cpu": 40, "memory": "300Gi"}
    traffic = {"requests_per_second": 0.1, "output_tokens": 128}
    found = plan(document("Qwen/Qwen3-32B", hardware={"nodes": [node]}, traffic=traffic))
    assert found.architecture.tensor_parallel_size == 2


def test_a_pipeline_within_the_node_comes_last() -> None:
    model = dataclasses.replace(known(QWEN_7B), heads=27, kv_heads=27)
    assert legal_tp(model, "bf16", 2) == (1,)
    assert pipelines(model, "bf16", 3) == ((1, 2), (1, 3))


def test_pcie_makes_a_split_slower_than_nvlink() -> None:
    from .build import paced

    model = known(LLAMA_8B)
    sxm, pcie = catalog.gpu("a100-80gb", "sxm"), catalog.gpu("a100-80gb", "pcie")
    slow = paced(model, pcie, tp=4).prefill(2048, 0, 2048) / paced(model, pcie, tp=1).prefill(2048, 0, 2048)
    fast = paced(model, sxm, tp=4).prefill(2048, 0, 2048) / paced(model, sxm, tp=1).prefill(2048, 0, 2048)
    assert slow > 1.3 * fast
