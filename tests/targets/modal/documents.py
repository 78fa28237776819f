"""Inputs of stacks on Modal: the least, and one that sets everything."""

from __future__ import annotations

from typing import Any

from tests.targets.plans import merged

QWEN_7B = "Qwen/Qwen2.5-7B-Instruct"
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"

DEFAULTS: dict[str, Any] = {
    "name": "chat",
    "model": {"id": QWEN_7B, "max_model_len": 4096},
    "target": {"option": "modal"},
}
MAX: dict[str, Any] = {
    "name": "chat-eu",
    "model": {
        "id": LLAMA_8B,
        "source": "modal://weights/llama",
        "precision": "bf16",
        "max_model_len": 8192,
        "token_secret": {"name": "hf-token", "key": "HF_TOKEN"},
    },
    "target": {
        "option": "modal",
        "region": "eu-west",
        "modal": {
            "environment": "prod",
            "registry_secret": "registry",
            "buffer_containers": 1,
            "keep_cache": True,
            "adopt": True,
        },
    },
    "exposure": "public",
    "api_key_secret": {"name": "chat-key", "key": "API_KEY"},
    "slo": {"latency_p95": "60s", "ttft_p95": "3s", "availability": 99.5},
    "traffic": {
        "requests_per_second": 2, "peak_requests_per_second": 6, "input_tokens": 800, "output_tokens": 150,
        "shared_prefix_tokens": 300, "ramp": "10m",
    },
    "hardware": {"accelerators": ["l40s", "h100"], "max_gpus": 8, "max_hourly_cost": 60},
    "engine": {"kind": "vllm", "max_num_seqs": 48},
    "scaling": {"min_replicas": 2, "max_replicas": 4, "scale_in_delay": "10m"},
    "request_timeout": "2m",
    "observability": {
        "alerts": {"labels": {"env": "prod"}, "runbook_base_url": "https://runbooks.acme.example"},
    },
    "labels": {"team": "ml"},
}  # fmt: skip


def document(base: dict[str, Any] = DEFAULTS, /, **changes: Any) -> dict[str, Any]:
    """`base` with parts replaced: objects are merged key by key, however deep."""
    return merged(base, changes)
