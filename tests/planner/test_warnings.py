"""Warnings: each is there when it should be, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from servingstack.planner import plan

from .build import LLAMA_8B, document

TOKEN = {"token_secret": {"name": "hf-token"}}
QUIET = document(
    "Qwen/Qwen2.5-7B-Instruct",
    model={"max_model_len": 4096},
    hardware={"accelerators": ["l40s"]},
    traffic={"requests_per_second": 2},
    slo={"ttft_p95": "5s"},
)

CASES: dict[str, dict[str, Any]] = {
    "gated-model-without-token": document(LLAMA_8B),
    "size-from-parameters": document("me/mine", model={"parameters": "7B"}),
    "quantized-while-loading": document(
        LLAMA_8B, model={"precision": "fp8"}, hardware={"accelerators": ["l4"]}
    ),
    "batch-of-one": document(
        LLAMA_8B, engine={"kind": "vllm", "max_num_seqs": 1}, traffic={"requests_per_second": 0.05}
    ),
    "batch-beyond-slo": document(
        LLAMA_8B,
        engine={"kind": "vllm", "max_num_seqs": 128},
        slo={"tpot_p95": "30ms"},
        hardware={"accelerators": ["l40s"]},
        traffic={"requests_per_second": 0.2},
    ),
    "kv-cache-tight": document(
        LLAMA_8B, model={"max_model_len": 20_000}, hardware={"accelerators": ["l4"], "gpus_per_replica": 1}
    ),
    "slo-within-error-band": document(
        LLAMA_8B, slo={"tpot_p95": "105ms"}, hardware={"accelerators": ["l4"], "gpus_per_replica": 1}
    ),
    "cold-start-breaks-slo": document(
        LLAMA_8B, scaling={"min_replicas": 0, "scale_to_zero_after": "10m"}, slo={"ttft_p95": "2s"}
    ),
    "cold-start-breaks-availability": document(
        LLAMA_8B, slo={"availability": 99.995}, traffic={"requests_per_second": 0.1}
    ),
    "min-below-mean": document(
        LLAMA_8B,
        scaling={"min_replicas": 2},
        hardware={"accelerators": ["l4"]},
        traffic={"requests_per_second": 20},
    ),
    "no-warm-replica": document(
        LLAMA_8B,
        warm=0,
        hardware={"accelerators": ["l4"]},
        slo={"ttft_p95": "1s"},
        traffic={"requests_per_second": 8},
    ),
    "gpu-mostly-idle": document(
        "Qwen/Qwen2.5-0.5B-Instruct",
        hardware={"accelerators": ["h100-80gb"]},
        traffic={"requests_per_second": 0.5},
    ),
    "hold-before-cold-start": document(
        LLAMA_8B, scaling={"min_replicas": 0, "scale_to_zero_after": "10m", "hold": "30s"}
    ),
    "scale-in-before-cold-start": document(LLAMA_8B, scaling={"scale_in_delay": "30s"}),
    "memory-limit-above-request": document(
        LLAMA_8B, hardware={"memory_request": "60Gi", "memory_limit": "80Gi"}
    ),
    "prefix-cache-off": document(
        LLAMA_8B,
        traffic={"shared_prefix_tokens": 512},
        engine={"kind": "vllm", "enable_prefix_caching": False},
    ),
    "context-from-traffic": document(LLAMA_8B),
    "nodes-not-known": document(LLAMA_8B),
    "slo-between-histogram-edges": document(LLAMA_8B, slo={"ttft_p95": "444ms"}),
}


CASES |= {
    f"batch-beyond-slo {path}": document(
        engine={"kind": "vllm", "max_num_seqs": 256},
        hardware={"accelerators": ["l4"]},
        traffic={"output_tokens": 512, "requests_per_second": 1},
        **asked,
    )
    for path, asked in {
        "slo.latency_p95": {"slo": {"latency_p95": "40s"}, "request_timeout": "2m"},
        "request_timeout": {"request_timeout": "40s"},
    }.items()
}
CASES |= {
    "cold-start-breaks-slo request_timeout": document(
        scaling={"min_replicas": 0, "scale_to_zero_after": "10m"}
    ),
    "no-warm-replica request_timeout": document(
        warm=0, traffic={"requests_per_second": 10, "peak_requests_per_second": 500, "ramp": "1s"}
    ),
    "gpu-mostly-idle hardware.nodes": document(
        "Qwen/Qwen2.5-0.5B-Instruct",
        hardware={
            "nodes": [{"accelerator": "h200", "gpus": 8, "count": 1, "cpu": 180, "memory": "1500Gi"}],
        },
    ),
}


def _codes(doc: dict[str, Any]) -> set[str]:
    return {warning.code for warning in plan(doc).warnings}


@pytest.mark.parametrize("name", CASES)
def test_the_warning_is_given_with_a_path_and_what_to_do(name: str) -> None:
    code, _, limit = name.partition(" ")
    (warning, *_) = [found for found in plan(CASES[name]).warnings if found.code == code]
    assert warning.path
    assert limit in warning.path + warning.message
    assert len(warning.message) > 40


def test_a_sound_plan_has_no_warnings() -> None:
    assert _codes(QUIET) == set()


def test_a_token_settles_a_gated_model() -> None:
    assert "gated-model-without-token" not in _codes(document(LLAMA_8B, model=TOKEN))
    assert "gated-model-without-token" not in _codes(
        document(LLAMA_8B, model={"source": "pvc://weights/llama"})
    )
    assert "gated-model-without-token" not in _codes(document(LLAMA_8B, model={"gated": False}))


def test_an_idle_gpu_is_told_what_would_do_instead_and_for_how_much() -> None:
    (warning,) = [w for w in plan(CASES["gpu-mostly-idle"]).warnings if w.code == "gpu-mostly-idle"]
    assert "1 x t4 meets every demand at $0.53/h instead of $6.88/h" in warning.message


def test_the_cheapest_gpu_is_not_called_idle() -> None:
    doc = document("Qwen/Qwen2.5-0.5B-Instruct", traffic={"requests_per_second": 0.5})
    assert "gpu-mostly-idle" not in _codes(doc)


def test_a_cold_start_within_every_limit_is_no_warning() -> None:
    zero = {"min_replicas": 0, "scale_to_zero_after": "10m"}
    assert "cold-start-breaks-slo" not in _codes(
        document("Qwen/Qwen2.5-0.5B-Instruct", scaling=zero, request_timeout="10m", slo={"tpot_p95": "1s"})
    )


def test_a_ramp_that_a_cold_start_keeps_up_with_needs_no_warm_replica() -> None:
    traffic = {"requests_per_second": 8, "ramp": "30d"}
    assert "no-warm-replica" not in _codes(document(LLAMA_8B, warm=0, traffic=traffic))


def test_a_context_that_nobody_set_says_which_requests_are_refused() -> None:
    found = plan(document("Qwen/Qwen2.5-7B-Instruct"))
    (warning,) = [w for w in found.warnings if w.code == "context-from-traffic"]
    (length,) = [flag.value for flag in found.container.flags if flag.name == "max-model-len"]
    assert f"Requests above {length} tokens" in warning.message
    assert "32768" in warning.message
    short = document("BAAI/bge-large-en-v1.5", traffic={"input_tokens": 400})  # all 512 of its own
    assert "context-from-traffic" not in _codes(short)


@pytest.mark.parametrize(
    "known",
    [
        {"hardware": {"accelerators": ["l4"]}},
        {"hardware": {"instance_type": "g6.xlarge"}},
        {"hardware": {"nodes": [{"accelerator": "l4", "gpus": 1, "count": 4, "cpu": 8, "memory": "60Gi"}]}},
        {"target": {"option": "kubernetes", "cloud": "aws"}},
    ],
)
def test_nodes_are_known_by_what_is_said_of_them(known: dict[str, Any]) -> None:
    asked = document("Qwen/Qwen2.5-7B-Instruct")
    (warning,) = [w for w in plan(asked).warnings if w.code == "nodes-not-known"]
    assert f"taken to have {plan(asked).architecture.accelerator} nodes" in warning.message
    assert "nodes-not-known" not in _codes({**asked, **known})
