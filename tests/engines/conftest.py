"""Decisions to describe a container from, as the planner would hand them over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from servingstack.args import ServingStackArgs
from servingstack.engines.vllm import container
from servingstack.plan import Architecture, Batching, Container, MemoryBar, Timeouts

Describe = Callable[..., Container]


def architecture(**changes: Any) -> Architecture:
    fields: dict[str, Any] = {
        "option": "somewhere",
        "cloud": None,
        "region": None,
        "model": "meta-llama/Meta-Llama-3-8B-Instruct",
        "task": "generate",
        "engine": "vllm",
        "engine_version": "0.30.0",
        "accelerator": "a10g",
        "accelerator_form": "pcie",
        "instance_type": None,
        "gpus_per_replica": 2,
        "gpus_per_node": 4,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "precision": "bf16",
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "max_model_len": 8192,
        "gpu_memory_utilization": 0.9,
        "kv_cache_tokens": 100_000,
        "weight_bytes": 16_060_522_496,
        "memory_per_gpu": MemoryBar(total=1, weights=1, kv_cache=1, overhead=1, reserved=1),
        "cpu_request": 8,
        "memory_request_bytes": 60 * 2**30,
        "memory_limit_bytes": 80 * 2**30,
        "shared_memory_bytes": 2**31,
        "disk_bytes": 2**36,
        "why": "",
    }
    return Architecture(**{**fields, **changes})


def batching(**changes: Any) -> Batching:
    fields: dict[str, Any] = {
        "kind": "continuous",
        "max_num_seqs": 64,
        "max_num_batched_tokens": 32768,
        "prefix_caching": True,
        "chunked_prefill": True,
        "curve": (),
        "limited_by": "ttft_p95",
    }
    return Batching(**{**fields, **changes})


def timeouts() -> Timeouts:
    return Timeouts(
        request_s=30, stream_s=600, queue_s=10, enforced_by="", startup_s=900, drain_s=60, grace_s=90
    )


def args(**changes: Any) -> ServingStackArgs:
    document: dict[str, Any] = {
        "name": "chat",
        "model": {"id": "meta-llama/Meta-Llama-3-8B-Instruct"},
        "target": {},
    }
    return ServingStackArgs.parse({**document, **changes})


@pytest.fixture(scope="session")
def describe() -> Describe:
    """Builds a container: `describe(args={...}, architecture={...}, batching={...})`."""

    def build(**parts: dict[str, Any]) -> Container:
        return container(
            args(**parts.get("args", {})),
            architecture(**parts.get("architecture", {})),
            batching(**parts.get("batching", {})),
            timeouts(),
        )

    return build


@pytest.fixture(scope="session")
def parse() -> Callable[..., ServingStackArgs]:
    """An input with these fields changed."""
    return args
