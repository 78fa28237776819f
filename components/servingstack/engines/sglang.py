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
from typing import TYPE_CHECKING, ClassVar, Literal

from servingstack.engines import lora
from servingstack.engines.extra import Extras
from servingstack.engines.limits import TokenLimits
from servingstack.engines.sglang_extra import EXTRAS
from servingstack.engines.sglang_limits import LIMITS, task_refusal
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
from servingstack.errors import Violation
from servingstack.plan import Architecture, Batching, Container, Flag, MemoryBar, Timeouts

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs

PORT = 30000
"""SGLang's own default (arg_groups/fields/serving.py, Serving.port)."""
STOP_S = 5 + 15
"""What stopping takes beside the drain: it polls every 5 s and waits up to 15 s for its schedulers
(managers/tokenizer_manager.py, sigterm_watchdog and _SCHEDULER_EXIT_TIMEOUT_SECS)."""
LARGEST_GRAPH = 512
"""Largest batch that SGLang captures as a CUDA graph by itself (arg_groups/memory_hook.py); 2 MiB each."""


class SglangSettings(TokenSettings):
    """Settings of SGLang. Every one left out is decided by the planner."""

    extras: ClassVar[Extras] = EXTRAS
    limits: ClassVar[TokenLimits] = LIMITS

    kind: Literal["sglang"]
    kv_cache_dtype: Literal["auto", "bfloat16", "fp8_e4m3", "fp8_e5m2"] | None = None
    """Type of the KV cache. Default: that of the activations."""
    image: str | None = None
    """Own image, by digest; a tag before the digest tells the release: `registry/sglang:v0.5.20@sha256:...`.
    Default: the pinned release's image."""


def settings_of(args: ServingStackArgs) -> SglangSettings:
    """The given settings, else all left to the planner."""
    return args.engine if isinstance(args.engine, SglangSettings) else SglangSettings(kind="sglang")


def violations(args: ServingStackArgs) -> list[Violation]:
    """What is wrong between SGLang's settings and the rest of the input."""
    if not isinstance(args.engine, SglangSettings):
        return []
    found = code_violations(args, args.engine)
    if args.model.task is not None and (refusal := task_refusal(args.model.task)) is not None:
        found.append(Violation("model.task", args.model.task, refusal, "Set engine.kind to vllm."))
    return found


def mem_fraction_static(memory: MemoryBar) -> float:
    """`--mem-fraction-static` that leaves weights and KV cache what the plan gives them, to 3 digits, rounded
    down: the planned overhead stays outside it. SGLang takes it of what is free at start, which is the
    driver's total without the CUDA context, so the result errs on the safe side by half a percent."""
    kept = memory.weights + memory.adapters + memory.kv_cache
    return math.floor(1000 * kept / memory.total) / 1000


def container(
    args: ServingStackArgs, architecture: Architecture, batching: Batching, timeouts: Timeouts
) -> Container:
    """The container of one replica, in no cloud's words. Reads decisions, takes none."""
    del timeouts  # the drain has no flag: it lasts as long as requests are in flight
    settings = settings_of(args)
    volume = architecture.weights_directory
    return Container(
        image=settings.released()[0],
        command=("python3", "-m", "sglang.launch_server"),
        flags=(
            *_model_flags(args, architecture, settings, volume),
            Flag(name="tp-size", value=str(architecture.tensor_parallel_size)),
            Flag(name="pp-size", value=str(architecture.pipeline_parallel_size)),
            *_memory_flags(architecture, batching),
            *lora.sglang_flags(architecture),
            Flag(name="host", value="0.0.0.0"),
            Flag(name="port", value=str(PORT)),
            Flag(name="enable-metrics"),
            # Requests are logged by the front door; probes and scrapes would fill this log.
            Flag(name="log-level-http", value="warning"),
            *extra_flags(settings),
        ),
        env=environment(
            args,
            settings,
            volume,
            {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false"},
        ),
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
    return [*flags, *weight_flags(architecture, settings)]


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
