"""What a user may hand to SGLang past the typed settings: extra arguments and extra environment variables.

Trap: SGLang's parser is plain argparse, which completes unique beginnings: `--mem-frac=0.5` would set
`--mem-fraction-static` past the plan. Only names that the release spells out in full are let through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from . import facts

MANAGED_FLAGS = {
    "model-path": "model.id",
    "served-model-name": "model.id",
    "revision": "model.revision",
    "context-length": "model.max_model_len",
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
_SECRET_NAME = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIAL)", re.IGNORECASE)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"-\d+(\.\d+)?")


def flag_name(argument: str, known: Mapping[str, facts.FlagInfo]) -> str:
    """The flag an argument sets: by its name, an alias (`--model`), or negated."""
    head = argument.partition("=")[0]
    name = head.removeprefix("--")
    positive = name.removeprefix("no-")
    if name not in known and positive in known and known[positive].kind == "bool":
        return positive
    return next((flag.name for flag in known.values() if head in flag.aliases), name)


def check_extra_args(arguments: Sequence[str], version: str) -> list[str]:
    """Everything wrong with extra arguments, as sentences. Empty if nothing is."""
    known = facts.flags("sglang", version)
    wrong: list[str] = []
    takes_value = False
    for argument in arguments:
        if not _is_flag(argument):
            if not takes_value:
                wrong.append(f"{argument!r} follows no flag that takes one more value")
            takes_value = False
        elif " " in argument.partition("=")[0]:
            wrong.append(f"{argument!r} is several arguments in one; give each its own element")
            takes_value = False
        else:
            name = flag_name(argument, known)
            wrong += _flag_problems(argument, name, known)
            alone = name in known and known[name].kind in facts.FLAGLESS_KINDS
            takes_value = not alone and "=" not in argument
    return wrong


def extra_flags(arguments: Sequence[str]) -> list[tuple[str, str | None]]:
    """Checked arguments as (name without hyphens, value): `--a=b` and `--a b` alike."""
    found: list[tuple[str, str | None]] = []
    for argument in arguments:
        if not _is_flag(argument):
            found[-1] = (found[-1][0], argument)
            continue
        head, inline, value = argument.partition("=")
        found.append((head.removeprefix("--"), value if inline else None))
    return found


def _is_flag(argument: str) -> bool:
    return argument.startswith("-") and not _NUMBER.fullmatch(argument)


def _flag_problems(argument: str, name: str, known: Mapping[str, facts.FlagInfo]) -> list[str]:
    spelt = argument.partition("=")[0]
    if name in MANAGED_FLAGS:
        return [f"{spelt} has a field of its own: use {MANAGED_FLAGS[name]}"]
    if name in REFUSED_FLAGS:
        return [f"{spelt} would contradict the plan: {REFUSED_FLAGS[name]}"]
    if not spelt.startswith("--") or name not in known:
        return [f"{spelt} is no flag of this SGLang release. {facts.closest(name, list(known))}".rstrip()]
    return []


def check_extra_env(variables: Mapping[str, str], version: str) -> list[str]:
    """Everything wrong with extra environment variables, as sentences. Empty if nothing is."""
    known = facts.environment("sglang", version)
    planned = {name for name, _ in cache_environment("/")}
    wrong: list[str] = []
    for name in variables:
        if not _ENV_NAME.fullmatch(name):
            wrong.append(f"{name!r} is no name of an environment variable")
        elif name in MANAGED_ENV:
            wrong.append(f"{name} is a secret: use {MANAGED_ENV[name]}")
        elif name in REFUSED_ENV or name in planned:
            wrong.append(f"{name} is set by the plan")
        elif _SECRET_NAME.search(name) and name not in known:
            wrong.append(f"{name} looks like a secret, and this text lands in the state in clear")
        elif name.startswith("SGLANG_") and name not in known:
            wrong.append(
                f"{name} is no variable of this SGLang release. {facts.closest(name, sorted(known))}".rstrip()
            )
    return wrong


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


def service_variable_collision(service: str, version: str) -> str | None:
    """The engine's variable that a Kubernetes Service of that name would overwrite in every pod of its
    namespace. SGLang warns of such a value and takes its default (environ.py, EnvField.get), where vLLM
    dies."""
    stem = service.upper().replace("-", "_")
    known = facts.environment("sglang", version)
    return next(
        (f"{stem}{end}" for end in ("_PORT", "_SERVICE_HOST", "_SERVICE_PORT") if f"{stem}{end}" in known),
        None,
    )
