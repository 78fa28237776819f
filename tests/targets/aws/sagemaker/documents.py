"""Inputs of stacks on SageMaker: the least, one that sets everything, and one of each way to be called."""

from __future__ import annotations

from typing import Any

from tests.targets.plans import merged

QWEN_7B = "Qwen/Qwen2.5-7B-Instruct"
MIXTRAL = "mistralai/Mixtral-8x7B-Instruct-v0.1"
ACCOUNT = "123456789012"

DEFAULTS: dict[str, Any] = {
    "name": "chat",
    "model": {"id": QWEN_7B},
    "target": {"option": "sagemaker", "region": "us-east-1"},
}
MAX: dict[str, Any] = {
    "name": "assistant",
    "model": {
        "id": MIXTRAL,
        "source": "s3://acme-models/mixtral/v1",
        "precision": "bf16",
        "max_model_len": 16_384,
    },
    "target": {
        "option": "sagemaker",
        "cloud": "aws",
        "region": "us-east-1",
        "sagemaker": {
            "mode": "real-time",
            "vpc": True,
            "network_isolation": True,
            "kms_key": True,
            "deployment": "rolling",
            "bake_minutes": 15,
            "data_capture_percent": 5,
            "capture_days": 14,
            "notify_emails": ["on-call@acme.example", "serving@acme.example"],
        },
    },
    "slo": {
        "ttft_p95": "2s", "tpot_p95": "100ms", "latency_p95": "30s", "latency_p99": "50s",
        "availability": 99.9,
    },
    "traffic": {
        "requests_per_second": 4, "peak_requests_per_second": 9, "input_tokens": 800, "output_tokens": 150,
        "shared_prefix_tokens": 300, "ramp": "10m",
    },
    "hardware": {"accelerators": ["h100-80gb-sxm", "a100-80gb-sxm"], "max_gpus": 64, "max_hourly_cost": 900},
    "engine": {
        "kind": "vllm", "max_num_seqs": 48, "gpu_memory_utilization": 0.9, "extra_args": ["--seed=7"],
        "extra_env": {"HF_HUB_DISABLE_TELEMETRY": "1"},
    },
    "scaling": {"min_replicas": 2, "max_replicas": 6},
    "request_timeout": "55s",
    "stream_timeout": "4m",
    "observability": {
        "alerts": {"labels": {"env": "prod"}, "runbook_base_url": "https://runbooks.acme.example"},
    },
    "labels": {"team": "ml"},
    "overrides": {"log-group": {"retention_in_days": 90}},
}  # fmt: skip
QUEUED: dict[str, Any] = {
    "name": "summaries",
    "model": {"id": QWEN_7B, "source": "s3://acme-models/qwen"},
    "target": {
        "option": "sagemaker",
        "region": "us-west-2",
        "sagemaker": {"mode": "asynchronous", "kms_key": True},
    },
    "traffic": {"kind": "batch", "requests_per_second": 0.5, "deadline": "2h"},
    "scaling": {"min_replicas": 0, "max_replicas": 3, "scale_to_zero_after": "20m"},
    "request_timeout": "10m",
}
SUBNETS, GROUPS = ["subnet-0a1b2c3d", "subnet-1a1b2c3d"], ["sg-0a1b2c3d"]
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"
WEIGHTS_KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/99999999-2222-3333-4444-555555555555"
OTHERS_TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:pages"
OTHERS_ROLE = f"arn:aws:iam::{ACCOUNT}:role/serving"
CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "defaults": (DEFAULTS, None),
    "max": (MAX, {"subnet_ids": SUBNETS, "security_group_ids": GROUPS, "kms_key_arn": KEY}),
    "queued": (QUEUED, {"kms_key_arn": KEY}),
}
"""Inputs with the ids that go with them."""


def document(base: dict[str, Any] = DEFAULTS, /, **changes: Any) -> dict[str, Any]:
    """`base` with parts replaced: objects are merged key by key, however deep."""
    return merged(base, changes)


CASES |= {
    "two-warm": (document(scaling={"min_replicas": 2, "max_replicas": 5}), None),
    "fixed": (document(scaling={"min_replicas": 1, "max_replicas": 1}), None),
    "owned-by-others": (
        document(target={"sagemaker": {"own_role": True, "own_topic": True, "vpc": True}}),
        {
            "role_arn": OTHERS_ROLE,
            "alarm_topic_arn": OTHERS_TOPIC,
            "subnet_ids": SUBNETS,
            "security_group_ids": GROUPS,
        },
    ),
    "quiet": (document(observability={"alerts": False, "dashboards": False}), None),
    "queued-warm": (
        document(QUEUED, scaling={"min_replicas": 1, "max_replicas": 3, "scale_to_zero_after": None}),
        {"kms_key_arn": KEY},
    ),
    "weights-with-a-key": (
        document(model={"source": "s3://acme-models/qwen"}, target={"sagemaker": {"weights_key": True}}),
        {"weights_key_arn": WEIGHTS_KEY},
    ),
    "embeds": (
        document(name="search", model={"id": "BAAI/bge-m3", "task": "embed"}, slo={"latency_p95": "1s"}),
        None,
    ),
}
