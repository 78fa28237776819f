"""The engines of this release, and which one serves a stack. To add one, add a row.

Trap: `auto` chooses by what an engine can load, not only by what it is fast at: a bucket with a Triton
repository is nothing to vLLM, and weights on the hub are nothing to Triton. TorchServe gets no security
patches and is never chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from servingstack import catalog
from servingstack.engines import (
    lora,
    sglang,
    sglang_limits,
    sglang_signals,
    torchserve,
    torchserve_batcher,
    torchserve_signals,
    triton,
    triton_batcher,
    triton_release,
    vllm,
    vllm_limits,
    vllm_signals,
)
from servingstack.engines.batcher import Batcher
from servingstack.engines.limits import Driver
from servingstack.engines.lora import LoraRules
from servingstack.engines.sglang import SglangSettings
from servingstack.engines.signal import EngineTables
from servingstack.engines.torchserve import TorchServeSettings
from servingstack.engines.vllm import VllmSettings
from servingstack.errors import Violation
from servingstack.plan import Architecture, Batching, Container, Flag, PlanWarning, Timeouts

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs

Tuning: TypeAlias = VllmSettings | SglangSettings
"""Settings of an engine that batches token by token; both call them alike."""


class Limits(Protocol):
    """Which precisions an engine serves on which GPU."""

    @staticmethod
    def precision_refusal(precision: str, capability: tuple[int, int]) -> str | None: ...
    @staticmethod
    def runs_native(precision: str, capability: tuple[int, int]) -> bool: ...
    @staticmethod
    def activation_dtype(precision: str, capability: tuple[int, int]) -> str: ...
    @staticmethod
    def kv_cache_refusal(kv_cache_dtype: str, capability: tuple[int, int]) -> str | None: ...
    @staticmethod
    def quantization_method(precision: str, stored: str) -> str | None: ...


@dataclass(frozen=True)
class Engine:
    """One engine: functions of the input and of what was decided."""

    kind: str
    tasks: tuple[str, ...]
    container: Callable[[ServingStackArgs, Architecture, Batching, Timeouts], Container]
    violations: Callable[[ServingStackArgs], list[Violation]]
    image: Callable[[ServingStackArgs], tuple[str, str | None]]
    """Reference and release."""
    tables: Callable[[ServingStackArgs], EngineTables]
    limits: Limits
    batcher: Callable[[ServingStackArgs], Batcher] | None = None
    """None for an engine that batches token by token."""
    warnings: Callable[[ServingStackArgs], tuple[PlanWarning, ...]] = lambda _: ()
    whole_files: tuple[Flag, ...] = ()
    """What has weights read file by file, where small reads are slow; none where nothing does."""
    lora: LoraRules | None = None
    """How it counts LoRA adapters; None for an engine that serves none."""
    shares_gpu: bool = True
    """Whether its share of a GPU's memory is a share of all of it, whatever is free when it starts."""
    driver: Callable[[ServingStackArgs], Driver | None] = lambda _: None
    """What the image asks of a driver; None where it was not looked up, as of an own image."""
    reads: tuple[str, ...] = ("hf",)
    """Sources of the model that it fetches by itself, by scheme; all others an option must bring."""
    stop_s: int = 0
    """What stopping takes beside the drain, where that is known; the plan leaves at least 15 s."""


def tuning(args: ServingStackArgs) -> Tuning:
    """Settings of token-by-token batching: the given ones, else all left to the planner."""
    given = args.engine
    return given if isinstance(given, VllmSettings | SglangSettings) else vllm.settings_of(args)


def _torchserve_image(args: ServingStackArgs) -> tuple[str, str | None]:
    if not isinstance(args.engine, TorchServeSettings):
        raise TypeError("TorchServe is never chosen by itself: it has no default settings")
    return torchserve.engine_image(args.engine)


ENGINES: dict[str, Engine] = {
    engine.kind: engine
    for engine in (
        Engine(
            kind="vllm",
            tasks=("generate", "embed", "classify"),
            container=vllm.container,
            violations=vllm.violations,
            image=lambda args: vllm.settings_of(args).released(),
            tables=lambda _: vllm_signals,
            limits=vllm_limits.LIMITS,
            whole_files=vllm_limits.WHOLE_FILES,
            lora=lora.VLLM,
            driver=lambda args: vllm_limits.DRIVER if vllm.settings_of(args).image is None else None,
        ),
        Engine(
            kind="sglang",
            tasks=("generate", "embed"),
            container=sglang.container,
            violations=sglang.violations,
            image=lambda args: sglang.settings_of(args).released(),
            tables=lambda _: sglang_signals,
            limits=sglang_limits.LIMITS,
            whole_files=sglang_limits.WHOLE_FILES,
            lora=lora.SGLANG,
            # --mem-fraction-static is of what is free at start (model_executor/model_runner.py,
            # pre_model_load_memory), so the order of starts would decide who gets how much.
            shares_gpu=False,
            driver=lambda args: sglang_limits.DRIVER if sglang.settings_of(args).image is None else None,
            stop_s=sglang.STOP_S,
        ),
        Engine(
            kind="triton",
            tasks=("embed", "classify", "other"),
            container=triton.container,
            violations=triton.violations,
            image=lambda args: triton.engine_image(triton.settings_of(args)),
            tables=triton.tables,
            reads=("files", *triton.STORES),
            limits=triton_release,
            driver=lambda args: triton_release.DRIVER if triton.settings_of(args).image is None else None,
            batcher=triton_batcher.batcher,
            warnings=triton_batcher.warnings,
        ),
        Engine(
            kind="torchserve",
            tasks=torchserve.TASKS,
            container=torchserve.container,
            violations=torchserve.violations,
            image=_torchserve_image,
            tables=lambda _: torchserve_signals,
            reads=(),
            limits=triton_release,
            batcher=torchserve_batcher.batcher,
            warnings=torchserve.warnings,
        ),
    )
}


def engine_of(args: ServingStackArgs, directories: Collection[str] = ()) -> Engine:
    """The engine that serves the stack, on an option that brings the sources of these schemes as
    directories."""
    return ENGINES[kind_of(args, directories)]


def kind_of(args: ServingStackArgs, directories: Collection[str] = ()) -> str:
    """Its kind. `auto` is Triton for a model repository in a bucket and for a task that vLLM has not, else
    vLLM; a bucket holds weights where the option brings it as a directory, or the model is one of weights."""
    if args.engine.kind != "auto":
        return args.engine.kind
    scheme = triton.scheme_of(args.model.source)
    stored = scheme in triton.STORES and scheme not in directories and not _of_weights(args)
    repository = args.model.source == "files" or stored
    return "triton" if repository or args.model.task == "other" else "vllm"


def _of_weights(args: ServingStackArgs) -> bool:
    """Whether the model is known by its weights: the catalog's, one with its config.json, one that generates.
    Else the same bucket would hold weights on one option and a model repository on the next."""
    model = args.model
    if catalog.model(model.id) is None and model.config is None:
        return model.task == "generate"
    return model.task is None or model.task in ENGINES["vllm"].tasks
