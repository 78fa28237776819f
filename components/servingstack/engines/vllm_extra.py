"""What a user may hand to vLLM past the typed settings: extra arguments and extra environment variables.

Trap: vLLM's parser takes `--tensor_parallel_size`, `-tp=2`, `--no-enable-prefix-caching` and
`--compilation-config.mode 3`; a check that compares plain spellings lets a managed flag through, and then the
pod holds eight GPUs while the engine uses one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from . import facts

MANAGED_FLAGS = {
    "model": "model.id",
    "served-model-name": "model.id",
    "revision": "model.revision",
    "tokenizer-revision": "model.revision",
    "code-revision": "model.revision",
    "hf-token": "model.token_secret",
    "max-model-len": "model.max_model_len",
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
_SECRET_NAME = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIAL)", re.IGNORECASE)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"-\d+(\.\d+)?")


def flag_name(argument: str, known: Mapping[str, facts.FlagInfo]) -> str:
    """The flag an argument sets, as the engine's parser reads it: short, underscored, dotted, negated, with
    `=`."""
    head = argument.partition("=")[0]
    if argument.startswith("-O") and not argument.startswith("--"):
        return "optimization-level"
    if not head.startswith("--"):
        return next((flag.name for flag in known.values() if head in flag.aliases), head)
    name = head.removeprefix("--").partition(".")[0].replace("_", "-")
    positive = name.removeprefix("no-")
    if name not in known and positive in known and known[positive].kind == "bool":
        return positive
    return name


def check_extra_args(arguments: Sequence[str], version: str) -> list[str]:
    """Everything wrong with extra arguments, as sentences. Empty if nothing is."""
    known = facts.flags("vllm", version)
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
            takes_value = not alone and "=" not in argument and not argument.startswith("-O")
    return wrong


def extra_flags(arguments: Sequence[str], version: str) -> list[tuple[str, str | None]]:
    """Checked arguments as (name without hyphens, value): `--a=b`, `--a b`, `-a b` and `-O3` alike."""
    known = facts.flags("vllm", version) if arguments else {}
    found: list[tuple[str, str | None]] = []
    for argument in arguments:
        if not _is_flag(argument):
            found[-1] = (found[-1][0], argument)
            continue
        head, inline, value = argument.partition("=")
        if argument.startswith("-O"):
            value, inline = argument.removeprefix("-O").removeprefix("="), "="
        name = head.removeprefix("--") if head.startswith("--") else flag_name(argument, known)
        found.append((name, value if inline else None))
    return found


def _is_flag(argument: str) -> bool:
    return argument.startswith("-") and not _NUMBER.fullmatch(argument)


def _flag_problems(argument: str, name: str, known: Mapping[str, facts.FlagInfo]) -> list[str]:
    spelt = argument.partition("=")[0]
    if name in MANAGED_FLAGS:
        return [f"{spelt} has a field of its own: use {MANAGED_FLAGS[name]}"]
    if name in REFUSED_FLAGS:
        return [f"{spelt} would contradict the plan: {REFUSED_FLAGS[name]}"]
    if name not in known and name != "optimization-level":
        return [f"{spelt} is no flag of this vLLM release. {facts.closest(name, list(known))}".rstrip()]
    return []


def check_extra_env(variables: Mapping[str, str], version: str) -> list[str]:
    """Everything wrong with extra environment variables, as sentences. Empty if nothing is."""
    known = facts.environment("vllm", version)
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
        elif name.startswith("VLLM_") and name not in known:
            wrong.append(
                f"{name} is no variable of this vLLM release. {facts.closest(name, sorted(known))}".rstrip()
            )
    return wrong


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
