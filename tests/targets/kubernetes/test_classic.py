"""The classic hand-written deployment, field by field: what a platform team has today is what the library
renders.

The expected values are from that deployment, not from this code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.targets.kubernetes.bodies import arguments, by_role, engine

from servingstack import documents
from servingstack.planner import plan

EXAMPLE = Path(__file__).parents[3] / "examples" / "llm-inference.yaml"


@pytest.fixture(scope="module")
def classic() -> Any:
    (entry,) = documents.read(EXAMPLE).stacks
    return plan(entry.args)


def test_it_has_two_replicas_and_nobody_scales_them(classic: Any) -> None:
    assert by_role(classic)["deployment"]["spec"]["replicas"] == 2
    assert "scaler" not in by_role(classic)


def test_each_replica_has_two_gpus_and_the_memory_that_was_asked_for(classic: Any) -> None:
    resources = engine(classic)["resources"]
    assert resources["limits"]["nvidia.com/gpu"] == "2"
    assert resources["requests"]["memory"] == "60Gi"
    assert resources["limits"]["memory"] == "80Gi"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tensor-parallel-size", 2),
        ("gpu-memory-utilization", 0.9),
        ("max-model-len", 8192),
        ("max-num-batched-tokens", 32768),
    ],
)
def test_the_engine_is_told_what_was_pinned(classic: Any, name: str, value: float) -> None:
    assert float(arguments(classic)[name]) == value


def test_prefix_caching_is_on_and_the_model_is_the_one_asked_for(classic: Any) -> None:
    assert arguments(classic)["enable-prefix-caching"] == ""
    assert engine(classic)["command"] == ["vllm", "serve", "meta-llama/Meta-Llama-3-8B-Instruct"]


def test_the_token_comes_from_the_existing_secret_f011(classic: Any) -> None:
    (token,) = [variable for variable in engine(classic)["env"] if variable["name"] == "HF_TOKEN"]
    assert token["valueFrom"] == {"secretKeyRef": {"name": "hf-token", "key": "token"}}


def test_a_replica_is_ready_when_get_health_says_so_f006(classic: Any) -> None:
    probe = engine(classic)["readinessProbe"]["httpGet"]
    assert (probe["path"], probe["port"]) == ("/health", 8000)
