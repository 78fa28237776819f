"""Inputs of stacks on Cloud Run: the least, and one that sets everything."""

from __future__ import annotations

from typing import Any

from tests.targets.plans import merged

QWEN_7B = "Qwen/Qwen2.5-7B-Instruct"
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"

DEFAULTS: dict[str, Any] = {
    "name": "chat",
    "model": {"id": QWEN_7B, "source": "gs://models/qwen", "max_model_len": 4096},
    "target": {"option": "cloud-run", "region": "us-central1"},
}
MAX: dict[str, Any] = {
    "name": "chat-eu",
    "model": {
        "id": LLAMA_8B,
        "revision": "0123456789abcdef",
        "precision": "bf16",
        "max_model_len": 8192,
        "token_secret": {"name": "hf-token", "key": "3"},
    },
    "target": {
        "option": "cloud-run",
        "cloud": "gcp",
        "region": "europe-west4",
        "cloud_run": {
            "invokers": ["allUsers", "serviceAccount:web@acme.iam.gserviceaccount.com"],
            "zonal_redundancy": True,
            "vpc_egress": "all-traffic",
            "image_repository": "europe-west4-docker.pkg.dev/acme/hub",
            "session_affinity": True,
            "binary_authorization": True,
            "deletion_protection": True,
            "uptime_check": True,
        },
    },
    "exposure": "public",
    "api_key_secret": {"name": "chat-key"},
    "slo": {"latency_p50": "10s", "latency_p95": "60s", "ttft_p95": "3s", "availability": 99.5},
    "traffic": {
        "requests_per_second": 2, "peak_requests_per_second": 6, "input_tokens": 800, "output_tokens": 150,
        "shared_prefix_tokens": 300, "ramp": "10m",
    },
    "hardware": {
        "accelerators": ["rtx-pro-6000"], "max_gpus": 8, "max_hourly_cost": 60,
        "instance_type": "nvidia-rtx-pro-6000+20cpu-80gib",
    },
    "engine": {"kind": "vllm", "max_num_seqs": 48, "kv_cache_dtype": "fp8"},
    "scaling": {"min_replicas": 2, "max_replicas": 4},
    "warm": "auto",
    "request_timeout": "2m",
    "observability": {
        "alerts": {"labels": {"env": "prod"}, "runbook_base_url": "https://runbooks.acme.example"},
    },
    "labels": {"team": "ml"},
    "overrides": {"service": {"template": {"annotations": {"acme.example/owner": "ml"}}}},
}  # fmt: skip
IN_IMAGE: dict[str, Any] = {
    "model": {"source": "image://models/qwen"},
    "engine": {
        "kind": "vllm",
        "image": "us-central1-docker.pkg.dev/acme/engines/qwen:v0.30.0@sha256:" + "b" * 64,
    },
}
COLLECTOR = "us-docker.pkg.dev/cloud-ops-agents-artifacts/cloud-run-gmp-sidecar/sidecar@sha256:" + "c" * 64
COLLECTED: dict[str, Any] = {
    "target": {"cloud_run": {"collector_image": COLLECTOR}},
    "slo": {"ttft_p95": "2s", "tpot_p95": "100ms", "latency_p95": "30s"},
}
EXISTING: dict[str, Any] = {
    "project": "acme",
    "subnetwork": "projects/acme/regions/europe-west4/subnetworks/serving",
    "notification_channels": ["projects/acme/notificationChannels/1"],
}


def document(base: dict[str, Any] = DEFAULTS, /, **changes: Any) -> dict[str, Any]:
    """`base` with parts replaced: objects are merged key by key, however deep."""
    return merged(base, changes)
