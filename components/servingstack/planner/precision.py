"""Which precision is served on which GPU.

Trap: `auto` never changes what a repository holds as long as that fits somewhere, since a lower precision
changes the answers. Only fp8 can be made while loading; awq and gptq need a repository of their own."""

from __future__ import annotations

from dataclasses import dataclass

from servingstack import catalog
from servingstack.catalog import Gpu, Model
from servingstack.engines import vllm_limits
from servingstack.engines.limits import CAST, DTYPES
from servingstack.engines.registry import Limits
from servingstack.errors import InvalidInput, Violation

FULL = ("bf16", "fp16", "fp32")


@dataclass(frozen=True, slots=True)
class Served:
    """Weights as a GPU serves them."""

    precision: str
    quantization: str | None
    """The engine's name, where it must be told."""
    dtype: str
    """Of activations."""
    native: bool
    """Whether the arithmetic runs at that precision, or only storage does."""

    @property
    def activation_bytes(self) -> int:
        return 4 if self.dtype == "float" else 2


def requested(model: Model, wanted: str, limits: Limits = vllm_limits.LIMITS) -> str:
    """The precision to try first. Raises `InvalidInput` for one that cannot be had from this repository."""
    stored = model.precision
    if wanted in ("auto", stored):
        return stored
    try:
        limits.quantization_method(wanted, stored)
    except ValueError as error:
        raise InvalidInput([_unobtainable(model, wanted, str(error))]) from None
    return wanted


def siblings(model: Model) -> list[Model]:
    """Repositories that hold the same model at other precisions. A shared shape is not enough: a fine-tune of
    another name answers differently."""
    own = model.id.rsplit("/", 1)[-1].lower()
    found = (catalog.model(name) for name in catalog.model_ids() if own in name.lower())
    return [other for other in found if other is not None and other.base_id == model.base_id]


def _unobtainable(model: Model, wanted: str, why: str) -> Violation:
    others = [other.id for other in siblings(model) if other.precision == wanted]
    fix = (
        f"Set model.id to {others[0]}."
        if others
        else "Set model.id to a repository that holds it, with its config."
    )
    possible = ["auto", model.precision]
    if model.precision in FULL:
        possible += [name for name in ("bf16", "fp16", "fp8") if name != model.precision]
    return Violation("model.precision", wanted, f"{', '.join(possible)} for {model.id} ({why})", fix)


def fallback(model: Model, wanted: str) -> str | None:
    """What `auto` may fall back to where the stored precision fits nowhere; None where there is nothing."""
    return "fp8" if wanted == "auto" and model.precision in FULL else None


def cast_on(gpu: Gpu, precision: str) -> str:
    """Without bf16 arithmetic the same weights are cast to half as they are loaded."""
    return "fp16" if precision == "bf16" and not gpu.supports_bf16 else precision


def served_on(
    gpu: Gpu, model: Model, precision: str, asked: str | None = None, limits: Limits = vllm_limits.LIMITS
) -> Served | str:
    """How a GPU serves the precision, with the type of activations that was asked for, or why it cannot."""
    capability = gpu.compute_capability
    dtype = None if asked is None else DTYPES.get(asked)
    actual = cast_on(gpu, precision)
    if dtype is not None and precision in FULL:
        actual = CAST[dtype]
    refusal = limits.precision_refusal(actual, capability)
    if refusal is not None:
        return refusal
    return Served(
        precision=actual,
        quantization=limits.quantization_method(actual, model.precision),
        dtype=limits.activation_dtype(actual, capability) if dtype is None else dtype,
        native=limits.runs_native(actual, capability),
    )
