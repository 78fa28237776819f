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

from typing import TYPE_CHECKING, ClassVar, Literal

from servingstack.engines import lora
from servingstack.engines.extra import Extras
from servingstack.engines.limits import TokenLimits
from servingstack.engines.token_container import (
    CACHE_PATH,
    MODEL_PATH,
    code_violations,
    environment,
    extra_flags,
    public_paths,
    warm_up,
    weight_flags,
)
from servingstack.engines.token_settings import TokenSettings
from servingstack.engines.vllm_extra import EXTRAS
from servingstack.engines.vllm_limits import LIMITS
from servingstack.errors import Violation
from servingstack.plan import Architecture, Batching, Container, Flag, Timeouts

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs

PORT = 8000
"""vLLM's own default (launchers/cli_args.py, FrontendArgs.port)."""


class VllmSettings(TokenSettings):
    """Settings of vLLM. Every one left out is decided by the planner."""

    extras: ClassVar[Extras] = EXTRAS
    limits: ClassVar[TokenLimits] = LIMITS
    api_key_variable: ClassVar[str | None] = "VLLM_API_KEY"

    kind: Literal["vllm"]
    kv_cache_dtype: Literal["auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"] | None = None
    """Type of the KV cache. Default: that of the activations."""
    image: str | None = None
    """Own image, by digest; a tag before the digest tells the release: `registry/vllm:v0.30.0@sha256:...`.
    For a driver older than 580, vLLM publishes CUDA 12.9 builds as `v0.30.0-cu129`. Default: the pinned
    release's image."""


def settings_of(args: ServingStackArgs) -> VllmSettings:
    """The given settings, else all left to the planner."""
    return args.engine if isinstance(args.engine, VllmSettings) else VllmSettings(kind="vllm")


def violations(args: ServingStackArgs) -> list[Violation]:
    """What is wrong between vLLM's settings and the rest of the input."""
    return code_violations(args, settings_of(args))


def container(
    args: ServingStackArgs, architecture: Architecture, batching: Batching, timeouts: Timeouts
) -> Container:
    """The container of one replica, in no cloud's words. Reads decisions, takes none."""
    settings = settings_of(args)
    volume = architecture.weights_directory
    return Container(
        image=settings.released()[0],
        # The model is positional: `--model` is deprecated under `vllm serve`.
        command=("vllm", "serve", volume if volume is not None else architecture.model),
        flags=(
            *_model_flags(args, architecture, settings, volume),
            *_parallel_flags(architecture),
            *_memory_flags(architecture, batching),
            *lora.vllm_flags(architecture),
            *_server_flags(timeouts),
            *extra_flags(settings),
        ),
        env=environment(args, settings, volume, {"VLLM_NO_USAGE_STATS": "1"}),
        port=PORT,
        metrics_path="/metrics",
        health_path="/health",
        cache_path=CACHE_PATH,
        model_path=MODEL_PATH if volume is not None else None,
        writable_paths=("/tmp",),
        warm_up=warm_up(architecture),
        public_paths=public_paths(architecture.task),
        downloads=lora.downloads(args.model.adapters, CACHE_PATH),
    )


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
    return [*flags, *weight_flags(architecture, settings)]


def _parallel_flags(architecture: Architecture) -> list[Flag]:
    return [
        Flag(name="tensor-parallel-size", value=str(architecture.tensor_parallel_size)),
        Flag(name="pipeline-parallel-size", value=str(architecture.pipeline_parallel_size)),
    ]


def _memory_flags(architecture: Architecture, batching: Batching) -> list[Flag]:
    flags = [
        Flag(name="max-model-len", value=str(architecture.max_model_len)),
        Flag(name="gpu-memory-utilization", value=f"{architecture.gpu_memory_utilization:g}"),
        *_kv_cache_flags(architecture),
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


def _kv_cache_flags(architecture: Architecture) -> list[Flag]:
    """The cache's size, where others use the same GPU: the engine would else take what is left of its share
    after it has watched the GPU's free memory, and a neighbour that starts meanwhile makes that too little,
    one that ends makes the start fail (v1/worker/gpu_worker.py, determine_available_memory)."""
    part = architecture.gpu_part
    if part is None or part.kind != "turn":
        return []
    return [Flag(name="kv-cache-memory-bytes", value=str(architecture.memory_per_gpu.kv_cache))]


def _server_flags(timeouts: Timeouts) -> list[Flag]:
    return [
        Flag(name="port", value=str(PORT)),
        Flag(name="shutdown-timeout", value=str(timeouts.drain_s)),
        Flag(name="disable-fastapi-docs"),
        Flag(name="disable-access-log-for-endpoints", value="/health,/metrics"),
    ]
