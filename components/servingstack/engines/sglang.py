"""SGLang: its settings, and the container it runs in. Settings carry the plan's names, which are vLLM's, so
that a stack changes engine by changing `kind`; each docstring names the flag it becomes.

Traps:
- It listens on 127.0.0.1 unless told otherwise, so probes and the front door would find nothing.
- Metrics are off unless `--enable-metrics`; without them nothing scales and every panel is empty.
- `/health` by default makes the engine generate a token and never answers in less than a second
  (entrypoints/http_server.py, health_generate), which a probe's time limit must not depend on. The plan
  switches that off: `/health` is then 503 until SGLang's own warm-up is done and while it drains, 200
  otherwise. A dead scheduler ends the whole process; one that hangs is what the alert on requests without
  tokens sees, and `/health_generate` still tests by generating.
- `--mem-fraction-static` is not vLLM's gpu_memory_utilization. It is the share of the memory free at start
  that weights and KV cache take together; activations, CUDA graphs and buffers come on top. vLLM's share
  includes them. The plan speaks of the latter; `mem_fraction_static` converts.
- On SIGTERM it turns `/health` to 503 and answers what is in flight, without a time limit of its own; new
  requests are still served. It looks every 5 s, and waits up to 15 s for its schedulers, so the grace period
  must hold that beside the drain.
- The API key is a flag and nothing else (no environment variable), so it would stand in the pod's arguments.
  The front door checks it; the network policy lets nobody else in.

Warm-up counts nowhere, by the same argument as for vLLM: counters cannot be reset, but only ready pods are
scraped, and rates see differences alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from servingstack.engines.sglang_extra import (
    cache_environment,
    check_extra_args,
    check_extra_env,
    extra_flags,
)
from servingstack.engines.sglang_limits import UPSTREAM, VERSION, task_refusal, version_of
from servingstack.errors import Violation
from servingstack.fields import Frozen, Number, Whole, YesNo
from servingstack.plan import (
    Architecture,
    Batching,
    Container,
    EnvVar,
    Flag,
    MemoryBar,
    Timeouts,
    WarmUp,
)

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs

PORT = 30000
"""SGLang's own default (arg_groups/fields/serving.py, Serving.port)."""
CACHE_PATH = "/cache"
MODEL_PATH = "/models"
WARM_UP_REQUESTS = 3
"""As for vLLM: the first of each kind compiles, the last proves it. SGLang's own one comes before."""
WARM_UP_TIMEOUT_S = 120.0
STOP_S = 5 + 15
"""What stopping takes beside the drain: it polls every 5 s and waits up to 15 s for its schedulers
(managers/tokenizer_manager.py, sigterm_watchdog and _SCHEDULER_EXIT_TIMEOUT_SECS)."""
LARGEST_GRAPH = 512
"""Largest batch that SGLang captures as a CUDA graph by itself (arg_groups/memory_hook.py); 2 MiB each."""
_IMAGE = re.compile(r"[a-z0-9][a-z0-9./:_-]*@sha256:[0-9a-f]{64}")
_SETTINGS = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=False)


class SglangSettings(BaseModel):
    """Settings of SGLang. Every one left out is decided by the planner."""

    model_config = _SETTINGS
    kind: Literal["sglang"]
    tensor_parallel_size: Whole | None = Field(default=None, ge=1, le=1024)
    """GPUs over which each layer is split (`--tp-size`). Default: the fewest that fit and keep the SLO."""
    pipeline_parallel_size: Whole | None = Field(default=None, ge=1, le=1024)
    """Groups of GPUs over which the layers are spread (`--pp-size`). Default 1 unless the model fits no other
    way."""
    gpu_memory_utilization: Number | None = Field(default=None, gt=0.1, le=0.98)
    """Share of a GPU's memory that the engine takes in all, activations and CUDA graphs included; becomes the
    smaller `--mem-fraction-static`. Default: the planner's, from the GPU's memory."""
    max_num_seqs: Whole | None = Field(default=None, ge=1, le=100_000)
    """Most sequences in a batch (`--max-running-requests`). Default: the largest batch that keeps the SLO."""
    max_num_batched_tokens: Whole | None = Field(default=None, ge=1, le=10_000_000)
    """Most tokens of prompts in a step (`--chunked-prefill-size`). Default: from the time-to-first-token
    objective."""
    enable_prefix_caching: YesNo = True
    """Whether equal beginnings of prompts are computed once (the radix cache; no is `--disable-radix-cache`).
    Default yes."""
    enable_chunked_prefill: YesNo = True
    """Whether long prompts are cut so that others keep decoding (no is `--chunked-prefill-size=-1`). Default
    yes."""
    kv_cache_dtype: Literal["auto", "bfloat16", "fp8_e4m3", "fp8_e5m2"] | None = None
    """Type of the KV cache. Default: that of the activations."""
    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] | None = None
    """Type of the activations. Default: bfloat16, or half for fp16 weights."""
    load_format: Literal["auto", "safetensors", "runai_streamer", "fastsafetensors"] | None = None
    """How weights are read. Default `auto`."""
    trust_remote_code: YesNo = False
    """Whether code from the model's repository may run; needs `model.revision`. Default no."""
    image: str | None = None
    """Own image, by digest; a tag before the digest tells the release: `registry/sglang:v0.5.20@sha256:...`.
    Default: the pinned release's image."""
    extra_args: tuple[str, ...] = ()
    """More flags of the server, one element each: `["--reasoning-parser=qwen3", "--schedule-policy=lpm"]`.
    Flags with a field of their own are refused. Default: none."""
    extra_env: Annotated[Mapping[str, str], Frozen] = Field(default_factory=dict[str, str])
    """More environment variables; no secrets. Default: none."""

    @field_validator("extra_args", mode="before")
    @classmethod
    def _arguments_are_a_list(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("a list with one argument per element | Write a list instead of one string.")
        return value

    @field_validator("image")
    @classmethod
    def _image_has_a_digest(cls, value: str | None) -> str | None:
        if value is not None and not _IMAGE.fullmatch(value):
            raise ValueError(
                f"an image by digest, `name:v{VERSION}@sha256:<64 hex digits>` | "
                "Pin the digest: a tag such as `latest` moves."
            )
        return value

    @field_validator("extra_args")
    @classmethod
    def _arguments_are_free(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := check_extra_args(value, VERSION) if value else []:
            raise ValueError(f"flags of SGLang {VERSION} that no field covers | {'; '.join(wrong)}")
        return value

    @field_validator("extra_env")
    @classmethod
    def _variables_are_free(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        if wrong := check_extra_env(value, VERSION) if value else []:
            raise ValueError(f"variables that neither the plan nor a secret holds | {'; '.join(wrong)}")
        return value


def engine_image(settings: SglangSettings) -> tuple[str, str | None]:
    """Image reference and its release; None for an own image whose tag names no release."""
    if settings.image is None:
        return UPSTREAM.reference, UPSTREAM.version
    return settings.image, version_of(settings.image)


def violations(args: ServingStackArgs) -> list[Violation]:
    """What is wrong between SGLang's settings and the rest of the input."""
    settings: object = args.engine
    if not isinstance(settings, SglangSettings):
        return []
    found: list[Violation] = []
    if settings.trust_remote_code and not args.model.revision:
        fix = "Set model.revision to the commit whose code you have read."
        found.append(Violation("engine.trust_remote_code", True, "true only with model.revision", fix))
    if args.model.task is not None and (refusal := task_refusal(args.model.task)) is not None:
        found.append(Violation("model.task", args.model.task, refusal, "Set engine.kind to vllm."))
    return found


def mem_fraction_static(memory: MemoryBar) -> float:
    """`--mem-fraction-static` that leaves weights and KV cache what the plan gives them, to 3 digits, rounded
    down: the planned overhead stays outside it. SGLang takes it of what is free at start, which is the
    driver's total without the CUDA context, so the result errs on the safe side by half a percent."""
    return math.floor(1000 * (memory.weights + memory.kv_cache) / memory.total) / 1000


def container(
    args: ServingStackArgs, architecture: Architecture, batching: Batching, timeouts: Timeouts
) -> Container:
    """The container of one replica, in no cloud's words. Reads decisions, takes none."""
    del timeouts  # the drain has no flag: it lasts as long as requests are in flight
    given: object = args.engine
    settings = given if isinstance(given, SglangSettings) else SglangSettings(kind="sglang")
    volume = _volume_path(args.model.source)
    return Container(
        image=engine_image(settings)[0],
        command=("python3", "-m", "sglang.launch_server"),
        flags=(
            *_model_flags(args, architecture, settings, volume),
            Flag(name="tp-size", value=str(architecture.tensor_parallel_size)),
            Flag(name="pp-size", value=str(architecture.pipeline_parallel_size)),
            *_memory_flags(architecture, batching),
            Flag(name="host", value="0.0.0.0"),
            Flag(name="port", value=str(PORT)),
            Flag(name="enable-metrics"),
            # Requests are logged by the front door; probes and scrapes would fill this log.
            Flag(name="log-level-http", value="warning"),
            *(Flag(name=name, value=value) for name, value in extra_flags(settings.extra_args)),
        ),
        env=_environment(args, settings, volume),
        port=PORT,
        metrics_path="/metrics",
        health_path="/health",
        cache_path=CACHE_PATH,
        model_path=MODEL_PATH if volume is not None else None,
        writable_paths=("/tmp",),
        warm_up=_warm_up(architecture),
        public_paths=_PUBLIC_PATHS["embed" if architecture.task == "embed" else "generate"],
    )


# Of the release's routes, those that serve. /flush_cache, /update_weights_from_disk, /pause_generation,
# /abort_request, /invocations and the like stay closed.
_PUBLIC_PATHS = {
    "generate": ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/models", "/health"),
    "embed": ("/v1/embeddings", "/v1/models", "/health"),
}


def _volume_path(source: str) -> str | None:
    """Path of the weights in the container for `pvc://claim/path`; None for the hub."""
    if not source.startswith("pvc://"):
        return None
    path = source.removeprefix("pvc://").partition("/")[2].strip("/")
    return f"{MODEL_PATH}/{path}" if path else MODEL_PATH


def _model_flags(
    args: ServingStackArgs, architecture: Architecture, settings: SglangSettings, volume: str | None
) -> list[Flag]:
    flags = [
        Flag(name="model-path", value=volume if volume is not None else architecture.model),
        Flag(name="served-model-name", value=architecture.model),
    ]
    if volume is None and args.model.revision is not None:
        flags.append(Flag(name="revision", value=args.model.revision))
    if architecture.task == "embed":
        flags.append(Flag(name="is-embedding"))
    flags.append(Flag(name="dtype", value=architecture.dtype))
    if architecture.quantization is not None:
        flags.append(Flag(name="quantization", value=architecture.quantization))
    if settings.load_format is not None:
        flags.append(Flag(name="load-format", value=settings.load_format))
    if settings.trust_remote_code:
        flags.append(Flag(name="trust-remote-code"))
    return flags


def _memory_flags(architecture: Architecture, batching: Batching) -> list[Flag]:
    step = batching.max_num_batched_tokens
    flags = [
        Flag(name="context-length", value=str(architecture.max_model_len)),
        Flag(name="mem-fraction-static", value=f"{mem_fraction_static(architecture.memory_per_gpu):g}"),
        Flag(name="kv-cache-dtype", value=_kv_cache_dtype(architecture.kv_cache_dtype)),
        Flag(name="max-running-requests", value=str(batching.max_num_seqs)),
        # A batch above the largest graph runs without one, much slower than planned; SGLang's own limit is 32
        # or 48 on GPUs below 60 GB.
        Flag(name="cuda-graph-max-bs-decode", value=str(min(batching.max_num_seqs, LARGEST_GRAPH))),
        Flag(name="chunked-prefill-size", value=str(step) if batching.chunked_prefill else "-1"),
        Flag(name="max-prefill-tokens", value=str(step)),
    ]
    if not batching.prefix_caching:
        flags.append(Flag(name="disable-radix-cache"))
    return flags


def _kv_cache_dtype(name: str) -> str:
    """SGLang's name for the plan's: it has no plain `fp8`, and no `float16` beside `auto`."""
    return {"fp8": "fp8_e4m3", "float16": "auto"}.get(name, name)


def _environment(args: ServingStackArgs, settings: SglangSettings, volume: str | None) -> tuple[EnvVar, ...]:
    env = [EnvVar(name=name, value=value) for name, value in cache_environment(CACHE_PATH)]
    env.append(EnvVar(name="SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", value="false"))
    if volume is not None:
        # A mounted snapshot is complete; asking the hub would hang where there is no way out.
        env.append(EnvVar(name="HF_HUB_OFFLINE", value="1"))
    elif args.model.token_secret is not None:
        secret = args.model.token_secret
        env.append(EnvVar(name="HF_TOKEN", secret_name=secret.name, secret_key=secret.key))
    env += [EnvVar(name=name, value=value) for name, value in settings.extra_env.items()]
    return tuple(env)


def _warm_up(architecture: Architecture) -> WarmUp:
    prompt = "Warm-up: say in one sentence why the sky is blue."
    if architecture.task == "embed":
        path, body = "/v1/embeddings", {"model": architecture.model, "input": prompt}
    else:
        path, body = (
            "/v1/completions",
            {"model": architecture.model, "prompt": prompt, "max_tokens": 16, "temperature": 0},
        )
    return WarmUp(path=path, body=body, requests=WARM_UP_REQUESTS, timeout_s=WARM_UP_TIMEOUT_S)
