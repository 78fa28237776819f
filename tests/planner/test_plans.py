"""Whole plans: golden files, each with the assertions that a reviewer would make."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from servingstack.errors import Infeasible
from servingstack.plan import ServingPlan
from servingstack.planner import plan

from .build import LLAMA_8B, LLAMA_70B, document

Golden = Callable[[str, str], None]

CLASSIC = document(
    "meta-llama/Meta-Llama-3-8B-Instruct",
    model={"max_model_len": 8192, "token_secret": {"name": "hf-token", "key": "token"}},
    engine={
        "kind": "vllm",
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.90,
        "max_num_batched_tokens": 32768,
    },
    hardware={"gpus_per_replica": 2, "memory_request": "60Gi", "memory_limit": "80Gi"},
    scaling={"min_replicas": 2, "max_replicas": 2},
)
TIGHT_70B = document(
    LLAMA_70B,
    slo={"ttft_p95": "500ms", "tpot_p95": "50ms", "availability": 99.9},
    traffic={
        "requests_per_second": 8,
        "peak_requests_per_second": 20,
        "input_tokens": 1024,
        "output_tokens": 256,
        "ramp": "5m",
    },
)
BATCH_SMALL = document(
    "Qwen/Qwen2.5-1.5B-Instruct",
    traffic={
        "kind": "batch",
        "requests_per_second": 5,
        "input_tokens": 2000,
        "output_tokens": 100,
        "deadline": "1h",
    },
    request_timeout="10m",
)
DEEPSEEK = document(
    "deepseek-ai/DeepSeek-V3",
    slo={"ttft_p95": "2s", "tpot_p95": "60ms"},
    hardware={
        "nodes": [{"accelerator": "h200", "gpus": 8, "count": 2, "cpu": 180, "memory": "1800Gi"}],
    },
)
TO_ZERO = document(
    LLAMA_8B,
    scaling={"min_replicas": 0, "scale_to_zero_after": "15m"},
    traffic={"kind": "experiment", "requests_per_second": 0.2},
)
ON_AWS = document(
    LLAMA_8B,
    target={"option": "kubernetes", "cloud": "aws", "region": "us-east-1"},
    slo={"ttft_p95": "1s", "tpot_p95": "100ms"},
    traffic={"requests_per_second": 2, "shared_prefix_tokens": 512},
)
DEFAULTS = document(LLAMA_8B)
MAX = document(
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    name="chat-eu",
    model={
        "revision": "0123456789abcdef",
        "precision": "bf16",
        "max_model_len": 16_384,
        "token_secret": {"name": "hf-token", "key": "token"},
    },
    slo={
        "ttft_p50": "600ms", "ttft_p95": "2500ms", "ttft_p99": "5s", "tpot_p95": "100ms",
        "latency_p95": "30s", "availability": 99.5,
    },
    traffic={
        "requests_per_second": 2, "peak_requests_per_second": 3, "input_tokens": 2000,
        "output_tokens": 200, "shared_prefix_tokens": 1000, "ramp": "15m",
    },
    hardware={
        "nodes": [
            {
                "accelerator": "H100", "form": "sxm", "gpus": 8, "count": 3, "cpu": 180,
                "memory": "1800Gi", "hourly_price": 40, "selector": {"pool": "h100"},
                "scale_from_zero": True,
            }
        ],
        "max_gpus": 24, "max_hourly_cost": 120, "gpus_per_replica": 4, "cpu_request": 12,
        "memory_request": "96Gi", "memory_limit": "96Gi",
    },
    target={
        "option": "kubernetes",
        "kubernetes": {
            "namespace": "llm", "create_namespace": False, "prometheus": "http://prometheus.obs.svc:9090",
            "prometheus_auth": "keda-prometheus", "monitoring_namespace": "obs",
            "monitor_labels": {"release": "prometheus"}, "weights_storage_class": "fast",
            "weights_access_mode": "ReadWriteMany", "ingress_namespace": "gateway",
            "topology_key": "kubernetes.io/hostname", "prepull_images": True,
        },
    },
    engine={
        "kind": "vllm", "tensor_parallel_size": 4, "pipeline_parallel_size": 1,
        "gpu_memory_utilization": 0.92, "max_num_seqs": 48, "max_num_batched_tokens": 4096,
        "enable_prefix_caching": True, "enable_chunked_prefill": True, "kv_cache_dtype": "fp8",
    },
    scaling={"min_replicas": 2, "max_replicas": 4, "queue_depth": 6, "scale_in_delay": "20m"},
    warm="auto",
    request_timeout="60s",
    stream_timeout="15m",
    api_key_secret={"name": "chat-key", "key": "key"},
    rollout={"surge": True},
    labels={"team": "search"},
    overrides={"deployment": {"metadata": {"annotations": {"example.com/owner": "search"}}}},
)  # fmt: skip
PACKED = document(
    "Qwen/Qwen2.5-1.5B-Instruct",
    colocate="small",
    slo={"ttft_p95": "2s"},
    traffic={"requests_per_second": 0.5},
    hardware={
        "nodes": [
            {
                "accelerator": "l4", "gpus": 1, "count": 3, "cpu": 30, "memory": "110Gi",
                "hourly_price": 0.8, "sharing": {"time_slices": 4, "renamed": True},
            }
        ],
    },
)  # fmt: skip
SLICED_WITH_ADAPTERS = document(
    "Qwen/Qwen2.5-1.5B-Instruct",
    model={
        "adapters": [
            {"name": "sql", "source": "acme/qwen-sql", "rank": 16, "revision": "0123abc"},
            {"name": "legal", "source": "pvc://tuned/legal", "rank": 32},
        ],
    },
    slo={"ttft_p95": "2s"},
    hardware={
        "nodes": [
            {
                "accelerator": "a100-80gb", "gpus": 4, "count": 1, "cpu": 90, "memory": "800Gi",
                "hourly_price": 14.0, "mig": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
            }
        ],
    },
)  # fmt: skip
GOLDENS: dict[str, dict[str, Any]] = {
    "kubernetes-defaults": DEFAULTS,
    "kubernetes-max": MAX,
    "llama-8b-classic": CLASSIC,
    "llama-70b-tight-ttft": TIGHT_70B,
    "qwen-1.5b-batch": BATCH_SMALL,
    "deepseek-v3-8xh200": DEEPSEEK,
    "llama-8b-to-zero": TO_ZERO,
    "llama-8b-aws": ON_AWS,
    "qwen-1.5b-packed": PACKED,
    "qwen-1.5b-slice-adapters": SLICED_WITH_ADAPTERS,
}


def _text(found: ServingPlan) -> str:
    """Without what other modules own: the container, the queries and their rules have goldens of their
    own."""
    shown = found.model_dump(mode="json", exclude={"container", "monitoring", "library_version", "args_key"})
    return json.dumps(shown, indent=1, sort_keys=True) + "\n"


@pytest.mark.parametrize("name", GOLDENS)
def test_the_plan_is_the_golden_one(name: str, golden: Golden) -> None:
    golden(f"plans/{name}.json", _text(plan(GOLDENS[name])))


def test_nothing_but_a_model_gives_a_plan_of_one_small_replica() -> None:
    found = plan(DEFAULTS)
    assert found.architecture.accelerator in {"l4", "a10g", "l40s"}
    assert found.timeouts.request_s == 30
    assert found.exposure == "private"
    assert found.placement is not None
    assert found.placement.namespace == "serving"


def test_every_field_that_is_given_is_in_the_plan() -> None:
    found = plan(MAX)
    architecture, scaling, placement, door = (
        found.architecture, found.scaling, found.placement, found.front_door,
    )  # fmt: skip
    assert placement is not None
    assert door is not None
    assert (architecture.tensor_parallel_size, architecture.gpu_memory_utilization) == (4, 0.92)
    assert (architecture.kv_cache_dtype, architecture.max_model_len) == ("fp8", 16_384)
    assert architecture.cpu_request == 12
    assert (found.batching.max_num_seqs, found.batching.max_num_batched_tokens) == (48, 4096)
    assert (scaling.min_replicas, scaling.max_replicas, scaling.threshold) == (2, 4, 6)
    assert (scaling.scale_in_delay_s, scaling.placeholder_pods) == (1200, 1)
    assert (found.rollout.max_surge, found.rollout.max_unavailable) == (1, 0)
    assert (found.timeouts.request_s, found.timeouts.stream_s) == (60, 900)
    assert (placement.namespace, placement.node_selector) == ("llm", {"pool": "h100"})
    assert (placement.weights_storage_class, placement.topology_key) == ("fast", "kubernetes.io/hostname")
    assert (door.api_key_secret_name, door.api_key_secret_key) == ("chat-key", "key")
    assert (found.cost.basis, found.cost.per_gpu_hour_usd) == ("own", 5)
    assert found.cost.peak_hourly_usd <= 120
    assert found.labels["team"] == "search"
    assert "deployment" in found.overrides


def test_a_tight_first_token_on_a_70b_takes_a100_or_h100_class() -> None:
    found = plan(TIGHT_70B)
    assert found.architecture.accelerator in {"a100-80gb", "h100-80gb", "h100-nvl", "h200"}
    assert found.architecture.tensor_parallel_size >= 4
    assert found.expected.ttft_p95_ms.value <= 500
    assert found.expected.tpot_p95_ms.value <= 50
    assert found.scaling.warm_replicas >= 1
    assert {row.accelerator for row in found.alternatives} >= {"l4", "a100-80gb"}


def test_batch_work_on_a_small_model_takes_t4_or_l4_class() -> None:
    found = plan(BATCH_SMALL)
    assert found.architecture.accelerator in {"t4", "l4"}
    assert found.architecture.gpus_per_replica == 1
    assert found.scaling.warm_replicas == 0
    assert found.expected.utilisation_at_mean > 0.3


def test_a_member_of_a_group_takes_a_share_and_pays_it() -> None:
    found = plan(PACKED)
    part, place = found.architecture.gpu_part, found.placement
    assert part is not None
    assert place is not None
    assert (part.kind, part.turns, part.group) == ("turn", 4, "small")
    assert found.cost.per_gpu_hour_usd == pytest.approx(0.8 * part.price_share)
    assert (place.gpu_resource, place.gpu_group) == ("nvidia.com/gpu.shared", "serving-small")
    assert found.architecture.gpu_memory_utilization == pytest.approx(0.9 * part.memory_share)
    assert "shared-gpu-without-isolation" in {warning.code for warning in found.warnings}


def test_adapters_share_one_slice_with_their_base() -> None:
    found = plan(SLICED_WITH_ADAPTERS)
    assert found.summary()["gpu"] == "a100-80gb 1g.10gb", "what a preview shows to change"
    assert found.summary()["adapters"] == "sql, legal"
    part, place = found.architecture.gpu_part, found.placement
    assert part is not None
    assert place is not None
    assert (part.kind, part.name) == ("mig", "1g.10gb")
    assert place.gpu_resource == "nvidia.com/mig-1g.10gb"
    assert place.adapter_claims == {"tuned": "/adapters/tuned"}
    assert [adapter.name for adapter in found.architecture.adapters] == ["sql", "legal"]
    assert found.architecture.memory_per_gpu.adapters > 0
    assert found.cost.per_gpu_hour_usd == pytest.approx(14.0 / 4 / 8), (
        "of eight memory slices, all of them cut"
    )


def test_the_classic_deployment_is_planned_as_it_was_pinned() -> None:
    found = plan(CLASSIC)
    architecture, gib = found.architecture, 1024**3
    assert architecture.tensor_parallel_size == architecture.gpus_per_replica == 2
    assert architecture.gpu_memory_utilization == 0.90
    assert architecture.max_model_len == 8192
    assert found.batching.max_num_batched_tokens == 32768
    assert (architecture.memory_request_bytes, architecture.memory_limit_bytes) == (60 * gib, 80 * gib)
    assert (found.scaling.min_replicas, found.scaling.max_replicas) == (2, 2)
    assert not found.scaling.autoscaled
    assert (found.rollout.max_surge, found.rollout.max_unavailable) == (0, 1)
    codes = {warning.code for warning in found.warnings}
    assert "memory-limit-above-request" in codes
    assert "gated-model-without-token" not in codes


def test_deepseek_takes_all_eight_gpus_and_is_not_autoscaled_beyond_its_nodes() -> None:
    found = plan(DEEPSEEK)
    assert found.architecture.tensor_parallel_size == 8
    assert found.architecture.precision == "fp8"
    assert found.architecture.memory_per_gpu.weights == pytest.approx(84e9, rel=0.02)
    assert (found.scaling.max_replicas, found.scaling.surge_replicas) == (1, 1)


def test_scale_to_zero_holds_requests_for_a_cold_start() -> None:
    found = plan(TO_ZERO)
    assert found.scaling.min_replicas == 0
    assert found.scaling.hold_s is not None
    assert found.scaling.hold_s >= found.scaling.cold_start.total_s
    assert found.cost.hourly_usd == 0
    assert found.rollout.max_surge == 1


def test_a_cloud_is_priced_by_its_own_machines() -> None:
    found = plan(ON_AWS)
    assert found.architecture.cloud == "aws"
    assert found.architecture.region == "us-east-1"
    assert found.architecture.instance_type is not None
    assert found.cost.basis == "on-demand"
    assert found.cost.price_date >= "2026-01"


# Ten models: what an expert would expect, as (gpus that are fine, gpus per replica that are fine).
TEN = {
    "0.5B on a T4": (
        document("Qwen/Qwen2.5-0.5B-Instruct", hardware={"accelerators": ["t4"]}),
        {"t4"},
        {1},
    ),
    "8B chat": (document(slo={"ttft_p95": "1s", "tpot_p95": "100ms"}), {"l4", "a10g", "l40s"}, {1, 2}),
    "7B awq on a T4": (
        document("Qwen/Qwen2.5-7B-Instruct-AWQ", hardware={"accelerators": ["t4"]}),
        {"t4"},
        {1},
    ),
    "32B": (
        document("Qwen/Qwen3-32B", slo={"ttft_p95": "1s", "tpot_p95": "50ms"}),
        {"a100-80gb", "h100-80gb", "l40s", "a100-40gb", "rtx-pro-6000"},
        {1, 2, 4},
    ),
    "70B with a tight first token": (TIGHT_70B, {"a100-80gb", "h100-80gb", "h100-nvl", "h200"}, {2, 4, 8}),
    "Mixtral": (
        document("mistralai/Mixtral-8x7B-Instruct-v0.1", slo={"tpot_p95": "60ms"}),
        {"a100-80gb", "h100-80gb", "rtx-pro-6000", "l40s"},
        {2, 4},
    ),
    "gpt-oss-120b": (
        document("openai/gpt-oss-120b", slo={"tpot_p95": "40ms"}),
        {"a100-80gb", "h100-80gb", "rtx-pro-6000"},
        {1},
    ),
    "235B fp8": (
        document("Qwen/Qwen3-235B-A22B-FP8", slo={"ttft_p95": "2s", "tpot_p95": "60ms"}),
        {"a100-80gb", "h100-80gb", "h200"},
        {2, 4},
    ),
    "405B": (
        document(
            "meta-llama/Llama-3.1-405B-Instruct",
            slo={"tpot_p95": "80ms"},
            traffic={"requests_per_second": 0.5},
            request_timeout="60s",
        ),
        {"h200", "b200", "b300"},
        {4, 8},
    ),
    "DeepSeek-V3": (DEEPSEEK, {"h200"}, {8}),
}


@pytest.mark.parametrize("name", TEN)
def test_ten_models_get_plans_that_an_expert_would_sign(name: str) -> None:
    doc, accelerators, sizes = TEN[name]
    found = plan(doc)
    assert found.architecture.accelerator in accelerators
    assert found.architecture.gpus_per_replica in sizes
    assert found.batching.max_num_seqs > 1
    assert found.scaling.max_replicas >= found.scaling.peak_replicas


@pytest.mark.parametrize(
    ("doc", "limit"),
    [
        (
            document(
                "mistralai/Mixtral-8x7B-Instruct-v0.1",
                hardware={"accelerators": ["a100-80gb"], "gpus_per_replica": 1},
            ),
            "weights take 87.0",
        ),
        (
            document("deepseek-ai/DeepSeek-V3", hardware={"accelerators": ["h100-80gb"]}),
            "weights take 78.3",
        ),
        (document(LLAMA_70B, hardware={"accelerators": ["t4"]}), "t4"),
        (document(LLAMA_70B, slo={"ttft_p95": "15ms"}), "slo.ttft_p95"),
    ],
)
def test_what_cannot_be_is_refused_with_its_limit(doc: dict[str, Any], limit: str) -> None:
    with pytest.raises(Infeasible) as refused:
        plan(doc)
    assert limit in refused.value.binding
    assert refused.value.nearest


def test_the_batch_of_an_embedder_keeps_the_objective_of_its_requests() -> None:
    found = plan(
        document(
            "BAAI/bge-large-en-v1.5",
            hardware={"accelerators": ["l4"]},
            traffic={"requests_per_second": 20, "input_tokens": 128},
            slo={"latency_p95": "50ms"},
        )
    )
    batching = found.batching
    assert batching.limited_by == "slo.latency_p95"
    (chosen,) = [point for point in batching.curve if point.batch_size == batching.max_num_seqs]
    assert chosen.within_slo
    assert chosen.tpot_ms < chosen.ttft_ms <= 50
    assert found.expected.latency_p95_ms.value <= 50
    beyond = [point for point in batching.curve if point.batch_size > batching.max_num_seqs]
    assert beyond
    assert not any(point.within_slo for point in beyond)
