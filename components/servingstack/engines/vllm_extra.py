"""What vLLM's pinned release lets a user add to its command line and environment, as data; `extra` says how
it is checked.

Trap: a flag that multiplies GPUs or moves memory (context parallelism, a draft model, offloading) starts well
and breaks the plan's arithmetic in silence, so each such flag is refused with its reason.
"""

from __future__ import annotations

from servingstack.engines.extra import Extras
from servingstack.engines.vllm_limits import VERSION

MANAGED_FLAGS = {
    "model": "model.id",
    "served-model-name": "model.id",
    "revision": "model.revision",
    "tokenizer-revision": "model.revision",
    "code-revision": "model.revision",
    "hf-token": "model.token_secret",
    "max-model-len": "model.max_model_len",
    "enable-lora": "model.adapters",
    "lora-modules": "model.adapters",
    "max-lora-rank": "model.adapters",
    "max-cpu-loras": "model.adapters",
    "max-loras": "engine.max_loras",
    "runner": "model.task",
    "convert": "model.task",
    "tensor-parallel-size": "engine.tensor_parallel_size",
    "pipeline-parallel-size": "engine.pipeline_parallel_size",
    "gpu-memory-utilization": "engine.gpu_memory_utilization",
    "max-num-seqs": "engine.max_num_seqs",
    "max-num-batched-tokens": "engine.max_num_batched_tokens",
    "enable-prefix-caching": "engine.enable_prefix_caching",
    "enable-chunked-prefill": "engine.enable_chunked_prefill",
    "kv-cache-dtype": "engine.kv_cache_dtype",
    "quantization": "model.precision",
    "quantization-config": "model.precision",
    "dtype": "engine.dtype",
    "load-format": "engine.load_format",
    "trust-remote-code": "engine.trust_remote_code",
    "api-key": "api_key_secret",
    "shutdown-timeout": "request_timeout",
    "data-parallel-size": "scaling.min_replicas",
    "data-parallel-size-local": "scaling.min_replicas",
}
"""Flags that have a field of their own."""

REFUSED_FLAGS = {
    "port": "the port is planned; probes, Service and network policy follow it",
    "host": "the engine listens on all addresses of its pod",
    "uds": "probes and the front door need a TCP port",
    "grpc": "the planned protocol is HTTP",
    "headless": "a replica answers requests itself",
    "config": "a file of settings would bypass the plan",
    "download-dir": "weights go to the planned cache",
    "disable-log-stats": "scaling and alerts need the metrics",
    "ssl-keyfile": "TLS ends at the front door; probes speak HTTP",
    "ssl-certfile": "TLS ends at the front door; probes speak HTTP",
    "root-path": "paths are the front door's",
    "cpu-offload-gb": "the planner does not size weights in host memory",
    "offload-group-size": "the planner does not size weights in host memory",
    "kv-offloading-size": "the planner does not size a KV cache in host memory",
    "kv-cache-memory-bytes": "the KV cache is planned from gpu_memory_utilization",
    "num-gpu-blocks-override": "the KV cache is planned from gpu_memory_utilization",
    "decode-context-parallel-size": "the KV cache is planned whole on each rank",
    "prefill-context-parallel-size": "its GPUs would come on top of the planned ones",
    "speculative-config": "a draft model's weights and cache are not planned",
    "spec-method": "a draft model's weights and cache are not planned",
    "spec-model": "a draft model's weights and cache are not planned",
    "spec-tokens": "a draft model's weights and cache are not planned",
    "nnodes": "a replica is planned on one node",
    "node-rank": "a replica is planned on one node",
    "master-addr": "a replica is planned on one node",
    "master-port": "a replica is planned on one node",
}
"""Flags that would contradict the plan and have no field, with the reason."""

MANAGED_ENV = {
    "HF_TOKEN": "model.token_secret",
    "HUGGING_FACE_HUB_TOKEN": "model.token_secret",
    "VLLM_API_KEY": "api_key_secret",
}
REFUSED_ENV = frozenset({"VLLM_PORT", "VLLM_HOST_IP", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})


def cache_environment(cache_path: str) -> tuple[tuple[str, str], ...]:
    """Every directory that vLLM, PyTorch, Triton or the hub would else put under an unwritable home.

    USER and LOGNAME: PyTorch and vLLM ask getpass for a name (vllm/config/vllm.py:807), which fails for a
    user id without an entry in /etc/passwd."""
    return (
        ("HOME", cache_path),
        ("HF_HOME", f"{cache_path}/huggingface"),
        ("VLLM_CACHE_ROOT", f"{cache_path}/vllm"),
        ("VLLM_CONFIG_ROOT", f"{cache_path}/config/vllm"),
        ("TRITON_CACHE_DIR", f"{cache_path}/triton"),
        ("TORCHINDUCTOR_CACHE_DIR", f"{cache_path}/inductor"),
        ("XDG_CACHE_HOME", f"{cache_path}/xdg"),
        ("XDG_CONFIG_HOME", f"{cache_path}/config"),
        ("USER", "vllm"),
        ("LOGNAME", "vllm"),
    )


EXTRAS = Extras(
    engine="vllm",
    name="vLLM",
    version=VERSION,
    managed_flags=MANAGED_FLAGS,
    refused_flags=REFUSED_FLAGS,
    managed_env=MANAGED_ENV,
    refused_env=REFUSED_ENV,
    caches=cache_environment,
    loose=True,
)
