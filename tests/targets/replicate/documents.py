"""Inputs of stacks on Replicate: the least, and one that sets everything."""

from __future__ import annotations

from typing import Any

from tests.targets.plans import merged

VERSION = "da77bc59ee60423279fd632efb4795ab731d9e3ca9705ef3341091fb989b7eaf"

DEFAULTS: dict[str, Any] = {
    "name": "draw",
    "model": {"id": "stability-ai/sdxl", "revision": VERSION},
    "target": {"option": "replicate", "replicate": {"owner": "acme"}},
    "hardware": {"instance_type": "gpu-l40s"},
    "scaling": {"min_replicas": 1, "max_replicas": 3},
}
TABLE: dict[str, Any] = {
    "accelerator": "a100-80gb",
    "rows": [
        {
            "concurrency": 4,
            "requests_per_s": 1.5,
            "output_tokens_per_s": 380,
            "ttft_ms": {"p50": 210, "p95": 480},
            "latency_ms": {"p50": 2000, "p95": 5000},
        },
        {"concurrency": 8, "requests_per_s": 2.0, "latency_ms": {"p50": 3600, "p95": 9000}},
    ],
}
MAX: dict[str, Any] = {
    "name": "chat",
    "model": {"id": "acme/llama-8b", "revision": VERSION, "task": "generate"},
    "target": {
        "option": "replicate",
        "replicate": {
            "owner": "acme",
            "concurrency": 4,
            "warm_up_input": {"prompt": "Say hello."},
            "adopt": True,
        },
    },
    "slo": {"latency_p95": "10s", "ttft_p95": "1s"},
    "traffic": {"requests_per_second": 2, "peak_requests_per_second": 4},
    "hardware": {"accelerators": ["a100-80gb", "h100"], "gpus_per_replica": 1, "max_hourly_cost": 60},
    "measured": TABLE,
    "request_timeout": "45s",
}


def document(base: dict[str, Any] = DEFAULTS, /, **changes: Any) -> dict[str, Any]:
    """`base` with parts replaced: objects are merged key by key, however deep."""
    return merged(base, changes)
