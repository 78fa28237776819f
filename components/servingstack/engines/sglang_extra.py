"""What SGLang's pinned release lets a user add to its command line and environment, as data; `extra` says
how it is checked.

Trap: several of its variables switch off what the plan stands on without any error: with
PROMETHEUS_MULTIPROC_DIR set by hand the metrics of all but one process are gone.
"""

from __future__ import annotations

from servingstack.engines.extra import Extras
from servingstack.engines.sglang_limits import VERSION

MANAGED_FLAGS = {
    "model-path": "model.id",
    "served-model-name": "model.id",
    "revision": "model.revision",
    "context-length": "model.max_model_len",
    "enable-lora": "model.adapters",
    "lora-paths": "model.adapters",
    "max-lora-rank": "model.adapters",
    "max-loaded-loras": "model.adapters",
    "lora-target-modules": "model.adapters",
    "max-loras-per-batch": "engine.max_loras",
    "is-embedding": "model.task",
    "tp-size": "engine.tensor_parallel_size",
    "pp-size": "engine.pipeline_parallel_size",
    "mem-fraction-static": "engine.gpu_memory_utilization",
    "max-running-requests": "engine.max_num_seqs",
    "cuda-graph-max-bs-decode": "engine.max_num_seqs",
    "chunked-prefill-size": "engine.max_num_batched_tokens",
    "max-prefill-tokens": "engine.max_num_batched_tokens",
    "disable-radix-cache": "engine.enable_prefix_caching",
    "kv-cache-dtype": "engine.kv_cache_dtype",
    "quantization": "model.precision",
    "dtype": "engine.dtype",
    "load-format": "engine.load_format",
    "trust-remote-code": "engine.trust_remote_code",
    "api-key": "api_key_secret",
    "dp-size": "scaling.min_replicas",
}
"""Flags that have a field of their own."""

REFUSED_FLAGS = {
    "port": "the port is planned; probes, Service and network policy follow it",
    "host": "the engine listens on all addresses of its pod",
    "config": "a file of settings would bypass the plan",
    "download-dir": "weights go to the planned cache",
    "admin-api-key": "management paths stay closed at the front door",
    "grpc-mode": "the planned protocol is HTTP",
    "smg-grpc-mode": "the planned protocol is HTTP",
    "enable-metrics": "it is always on: scaling and alerts need the metrics",
    "bucket-time-to-first-token": "objectives count at the release's own edges",
    "bucket-inter-token-latency": "objectives count at the release's own edges",
    "bucket-e2e-request-latency": "objectives count at the release's own edges",
    "extra-metric-labels": "queries are planned for the release's own labels",
    "max-queued-requests": "the front door bounds the queue",
    "ssl-keyfile": "TLS ends at the front door; probes speak HTTP",
    "ssl-certfile": "TLS ends at the front door; probes speak HTTP",
    "fastapi-root-path": "paths are the front door's",
    "cpu-offload-gb": "the planner does not size weights in host memory",
    "enable-hierarchical-cache": "the planner does not size a KV cache in host memory",
    "max-total-tokens": "the KV cache is planned from gpu_memory_utilization",
    "disaggregation-mode": "a replica reads and answers its prompts itself",
    "nnodes": "a replica is planned on one node",
    "node-rank": "a replica is planned on one node",
    "dist-init-addr": "a replica is planned on one node",
}
"""Flags that would contradict the plan and have no field, with the reason."""

MANAGED_ENV = {"HF_TOKEN": "model.token_secret", "HUGGING_FACE_HUB_TOKEN": "model.token_secret"}
REFUSED_ENV = frozenset(
    {
        "SGLANG_PORT",
        "SGLANG_HOST_IP",
        "SGLANG_GRPC_PORT",
        "SGLANG_RUST_SERVER",
        "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION",
        "PROMETHEUS_MULTIPROC_DIR",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
    }
)


def cache_environment(cache_path: str) -> tuple[tuple[str, str], ...]:
    """Every directory that SGLang, PyTorch, Triton, FlashInfer or the hub would else put under an unwritable
    home. SGLang points Triton, Inductor, CUDA's and FlashInfer's caches below SGLANG_CACHE_DIR by itself
    (environ.py, third_party_cache_defaults); they are said here as well, so that a later default moves
    nothing.

    USER and LOGNAME: PyTorch asks getpass for a name, which fails for a user id without an entry in
    /etc/passwd."""
    own = f"{cache_path}/sglang"
    return (
        ("HOME", cache_path),
        ("HF_HOME", f"{cache_path}/huggingface"),
        ("SGLANG_CACHE_DIR", own),
        ("TRITON_CACHE_DIR", f"{own}/triton"),
        ("TORCHINDUCTOR_CACHE_DIR", f"{own}/inductor"),
        ("CUDA_CACHE_PATH", f"{own}/nv"),
        ("FLASHINFER_WORKSPACE_BASE", own),
        ("XDG_CACHE_HOME", f"{cache_path}/xdg"),
        ("XDG_CONFIG_HOME", f"{cache_path}/config"),
        ("USER", "sglang"),
        ("LOGNAME", "sglang"),
    )


EXTRAS = Extras(
    engine="sglang",
    name="SGLang",
    version=VERSION,
    managed_flags=MANAGED_FLAGS,
    refused_flags=REFUSED_FLAGS,
    managed_env=MANAGED_ENV,
    refused_env=REFUSED_ENV,
    caches=cache_environment,
)
