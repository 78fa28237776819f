"""vLLM: its settings, and the container it runs in.

Traps, each seen in production:
- A Service called `vllm` makes the kubelet inject VLLM_PORT=tcp://..., which vLLM reads as its own setting
  and dies of. The port is a flag, never that variable.
- The image has no home for an unprivileged user, so every cache goes under one writable directory.
- SIGTERM aborts what is in flight unless --shutdown-timeout says how long to drain. While draining, vLLM
  still accepts connections and answers new requests with an abort (v1/engine/core.py,
  _reject_add_in_shutdown), so a replica must leave the Service *before* it gets SIGTERM: the target waits
  first, then lets it drain.
- /health answers 503 once the engine process is dead (serve/instrumentator/health.py); it does not see every
  fault of a GPU, hence the alert on requests that run and tokens that do not come (`vllm_signals.stalled`).

Warm-up counts nowhere. vLLM cannot reset its counters, so warm-up requests stay in them. They are sent before
the pod is ready, and Prometheus must scrape ready pods only (the monitor's relabelling keeps them): then the
first sample of a series already holds the warm-up, and `rate` and `increase` only ever see differences
between samples. This is true as long as Prometheus does not inject a zero at a counter's creation time
(`created-timestamp-zero-ingestion`, off by default). The front door never sees warm-up requests at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from servingstack.engines.vllm_extra import cache_environment, check_extra_args, check_extra_env, extra_flags
from servingstack.engines.vllm_limits import UPSTREAM, VERSION, version_of
from servingstack.errors import Violation
from servingstack.fields import Frozen, Number, Whole, YesNo
from servingstack.plan import Architecture, Batching, Container, EnvVar, Flag, Timeouts, WarmUp

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs

PORT = 8000
"""vLLM's own default (launchers/cli_args.py, FrontendArgs.port)."""
CACHE_PATH = "/cache"
MODEL_PATH = "/models"
WARM_UP_REQUESTS = 3
"""Enough to compile what is compiled lazily: the first of each kind pays, the last proves it."""
WARM_UP_TIMEOUT_S = 120.0
WARM_UP_PROMPT = "Warm-up: say in one sentence why the sky is blue."
WARM_UP_TOKENS = 16
SHORTEST_CONTEXT = len(WARM_UP_PROMPT) + 2 + WARM_UP_TOKENS
"""Shortest max_model_len that holds a warm-up request, were each letter a token, with a beginning and an end
about them: vLLM answers a longer one with 400, and the replica would never be ready."""
_IMAGE = re.compile(r"[a-z0-9][a-z0-9./:_-]*@sha256:[0-9a-f]{64}")
_SETTINGS = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class VllmSettings(BaseModel):
    """Settings of vLLM. Every one left out is decided by the planner."""

    model_config = _SETTINGS
    kind: Literal["vllm"]
    tensor_parallel_size: Whole | None = Field(default=None, ge=1, le=1024)
    """GPUs over which each layer is split. Default: the cheapest split that fits and keeps the SLO."""
    pipeline_parallel_size: Whole | None = Field(default=None, ge=1, le=1024)
    """Groups of GPUs over which the layers are spread. Default 1 unless the model fits no other way."""
    gpu_memory_utilization: Number | None = Field(default=None, gt=0.1, le=0.98)
    """Share of a GPU's memory that vLLM takes for itself. Default 0.90."""
    max_num_seqs: Whole | None = Field(default=None, ge=1, le=100_000)
    """Most sequences in a batch. Default: the largest batch that keeps the SLO."""
    max_num_batched_tokens: Whole | None = Field(default=None, ge=1, le=10_000_000)
    """Most tokens in a step. Default: vLLM's own for such a GPU, or fewer where their activations would take
    too much memory; at least `max_num_seqs`."""
    enable_prefix_caching: YesNo = True
    """Whether equal beginnings of prompts are computed once. Default yes."""
    enable_chunked_prefill: YesNo = True
    """Whether long prompts are cut so that others keep decoding. Default yes."""
    kv_cache_dtype: Literal["auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"] | None = None
    """Type of the KV cache. Default: that of the activations."""
    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] | None = None
    """Type of the activations, to which weights that are not quantised are cast. Default: bfloat16, or half
    on GPUs without it."""
    load_format: Literal["auto", "safetensors", "runai_streamer", "fastsafetensors"] | None = None
    """How weights are read. Default `auto`."""
    trust_remote_code: YesNo = False
    """Whether code from the model's repository may run; needs `model.revision`. Default no."""
    image: str | None = None
    """Own image, by digest; a tag before the digest tells the release: `registry/vllm:v0.30.0@sha256:...`.
    For a driver older than 580, vLLM publishes CUDA 12.9 builds as `v0.30.0-cu129`. Default: the pinned
    release's image."""
    extra_args: tuple[str, ...] = ()
    """More flags of `vllm serve`, one element each: `["--enable-auto-tool-choice",
    "--tool-call-parser=hermes"]`. Flags with a field of their own are refused. Default: none."""
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
                "an image by digest, `name:v0.30.0@sha256:<64 hex digits>` | "
                "Pin the digest: a tag such as `latest` moves."
            )
        return value

    @field_validator("extra_args")
    @classmethod
    def _arguments_are_free(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := check_extra_args(value, VERSION) if value else []:
            raise ValueError(f"flags of vLLM {VERSION} that no field covers | {'; '.join(wrong)}")
        return value

    @field_validator("extra_env")
    @classmethod
    def _variables_are_free(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        if wrong := check_extra_env(value, VERSION) if value else []:
            raise ValueError(f"variables that neither the plan nor a secret holds | {'; '.join(wrong)}")
        return value


def engine_image(settings: VllmSettings) -> tuple[str, str | None]:
    """Image reference and its release; None for an own image whose tag names no release."""
    if settings.image is None:
        return UPSTREAM.reference, UPSTREAM.version
    return settings.image, version_of(settings.image)


def violations(args: ServingStackArgs) -> list[Violation]:
    """What is wrong between vLLM's settings and the rest of the input."""
    settings = args.engine
    if not isinstance(settings, VllmSettings) or not settings.trust_remote_code or args.model.revision:
        return []
    fix = "Set model.revision to the commit whose code you have read."
    return [Violation("engine.trust_remote_code", True, "true only with model.revision", fix)]


def container(
    args: ServingStackArgs, architecture: Architecture, batching: Batching, timeouts: Timeouts
) -> Container:
    """The container of one replica, in no cloud's words. Reads decisions, takes none."""
    settings = args.engine if isinstance(args.engine, VllmSettings) else VllmSettings(kind="vllm")
    volume = _volume_path(args.model.source)
    return Container(
        image=engine_image(settings)[0],
        # The model is positional: `--model` is deprecated under `vllm serve`.
        command=("vllm", "serve", volume if volume is not None else architecture.model),
        flags=(
            *_model_flags(args, architecture, settings, volume),
            *_parallel_flags(architecture),
            *_memory_flags(architecture, batching),
            *_server_flags(timeouts),
            *(Flag(name=name, value=value) for name, value in extra_flags(settings.extra_args, VERSION)),
        ),
        env=_environment(args, settings, volume),
        port=PORT,
        metrics_path="/metrics",
        health_path="/health",
        cache_path=CACHE_PATH,
        model_path=MODEL_PATH if volume is not None else None,
        writable_paths=("/tmp",),
        warm_up=_warm_up(architecture),
        public_paths=_PUBLIC_PATHS[architecture.task if architecture.task in _PUBLIC_PATHS else "generate"],
    )


# Of the release's routes, those that serve; /invocations, /tokenize, /pooling, /abort_requests and the like
# stay closed, since --api-key guards only /v1, /v2, /inference and /cohere
# (serve/middleware/authenticate.py).
_PUBLIC_PATHS = {
    "generate": ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/models", "/health"),
    "embed": ("/v1/embeddings", "/v1/models", "/health"),
    "classify": ("/classify", "/v1/models", "/health"),
}


def _volume_path(source: str) -> str | None:
    """Path of the weights in the container for `pvc://claim/path`; None for the hub."""
    if not source.startswith("pvc://"):
        return None
    path = source.removeprefix("pvc://").partition("/")[2].strip("/")
    return f"{MODEL_PATH}/{path}" if path else MODEL_PATH


def _model_flags(
    args: ServingStackArgs, architecture: Architecture, settings: VllmSettings, volume: str | None
) -> list[Flag]:
    flags = [Flag(name="served-model-name", value=architecture.model)]
    if volume is None and args.model.revision is not None:
        # The tokenizer follows the revision (config/model.py:563); remote code does not.
        flags.append(Flag(name="revision", value=args.model.revision))
        if settings.trust_remote_code:
            flags.append(Flag(name="code-revision", value=args.model.revision))
    if architecture.task in ("embed", "classify"):
        flags += [Flag(name="runner", value="pooling"), Flag(name="convert", value=architecture.task)]
    flags.append(Flag(name="dtype", value=architecture.dtype))
    if architecture.quantization is not None:
        flags.append(Flag(name="quantization", value=architecture.quantization))
    if settings.load_format is not None:
        flags.append(Flag(name="load-format", value=settings.load_format))
    if settings.trust_remote_code:
        flags.append(Flag(name="trust-remote-code"))
    return flags


def _parallel_flags(architecture: Architecture) -> list[Flag]:
    return [
        Flag(name="tensor-parallel-size", value=str(architecture.tensor_parallel_size)),
        Flag(name="pipeline-parallel-size", value=str(architecture.pipeline_parallel_size)),
    ]


def _memory_flags(architecture: Architecture, batching: Batching) -> list[Flag]:
    flags = [
        Flag(name="max-model-len", value=str(architecture.max_model_len)),
        Flag(name="gpu-memory-utilization", value=f"{architecture.gpu_memory_utilization:g}"),
        Flag(name="kv-cache-dtype", value=architecture.kv_cache_dtype),
        Flag(name="max-num-seqs", value=str(batching.max_num_seqs)),
        Flag(name="max-num-batched-tokens", value=str(batching.max_num_batched_tokens)),
    ]
    if architecture.task in ("embed", "classify"):
        return flags  # pooling models differ in what they can; vLLM knows, and switches off what it must
    # Said either way: a default that a later release changes must not change a deployment.
    prefix, chunked = batching.prefix_caching, batching.chunked_prefill
    flags.append(Flag(name="enable-prefix-caching" if prefix else "no-enable-prefix-caching"))
    flags.append(Flag(name="enable-chunked-prefill" if chunked else "no-enable-chunked-prefill"))
    return flags


def _server_flags(timeouts: Timeouts) -> list[Flag]:
    return [
        Flag(name="port", value=str(PORT)),
        Flag(name="shutdown-timeout", value=str(timeouts.drain_s)),
        Flag(name="disable-fastapi-docs"),
        Flag(name="disable-access-log-for-endpoints", value="/health,/metrics"),
    ]


def _environment(args: ServingStackArgs, settings: VllmSettings, volume: str | None) -> tuple[EnvVar, ...]:
    env = [EnvVar(name=name, value=value) for name, value in cache_environment(CACHE_PATH)]
    env.append(EnvVar(name="VLLM_NO_USAGE_STATS", value="1"))
    if volume is not None:
        # A mounted snapshot is complete; asking the hub would hang where there is no way out.
        env.append(EnvVar(name="HF_HUB_OFFLINE", value="1"))
    elif args.model.token_secret is not None:
        secret = args.model.token_secret
        env.append(EnvVar(name="HF_TOKEN", secret_name=secret.name, secret_key=secret.key))
    if args.api_key_secret is not None:
        secret = args.api_key_secret
        env.append(EnvVar(name="VLLM_API_KEY", secret_name=secret.name, secret_key=secret.key))
    env += [EnvVar(name=name, value=value) for name, value in settings.extra_env.items()]
    return tuple(env)


def _warm_up(architecture: Architecture) -> WarmUp:
    prompt = WARM_UP_PROMPT
    path, body = (
        "/v1/completions",
        {"model": architecture.model, "prompt": prompt, "max_tokens": WARM_UP_TOKENS, "temperature": 0},
    )
    if architecture.task == "embed":
        path, body = "/v1/embeddings", {"model": architecture.model, "input": prompt}
    elif architecture.task == "classify":
        path, body = "/classify", {"model": architecture.model, "input": prompt}
    return WarmUp(path=path, body=body, requests=WARM_UP_REQUESTS, timeout_s=WARM_UP_TIMEOUT_S)
