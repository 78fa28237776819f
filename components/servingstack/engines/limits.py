"""Which GPUs run an engine that batches token by token, and at which precisions.

Trap: what the Python code allows and what the image was compiled for are two limits, and both hold. GPTQ's
code in vLLM says compute capability 6.0; the image holds no kernel below 7.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Capability = tuple[int, int]
BF16_CAPABILITY: Capability = (8, 0)
"""vllm/platforms/cuda.py:668, check_if_supports_dtype."""
FULL = frozenset({"bf16", "fp16", "fp32"})
"""Weights that are not quantised: each can be cast to another as it is loaded."""
_TAGGED = re.compile(r":v?(\d+\.\d+\.\d+)[^/@]*@sha256:")


@dataclass(frozen=True)
class Image:
    """One build of an engine."""

    reference: str
    """By digest."""
    version: str


@dataclass(frozen=True)
class Driver:
    """What an image asks of a machine's NVIDIA driver."""

    branch: int
    """Oldest that runs it as it is."""
    older: tuple[tuple[str, str], ...] = ()
    """Variables that let it run on an older one of a data centre's GPU; none where nothing does."""
    oldest: int = 0
    """Oldest branch with those variables."""


@dataclass(frozen=True)
class PrecisionLimit:
    """What a precision of the weights needs from a GPU."""

    minimum: Capability
    """Below it the engine refuses to start."""
    native: Capability
    """From here on the arithmetic itself runs at that precision; below, only the weights are smaller."""
    source: str
    """Line of the release."""


@dataclass(frozen=True)
class TokenLimits:
    """The limits of one pinned release."""

    name: str
    """As users know the engine: `vLLM`."""
    image: Image
    minimum: Capability
    """Lowest compute capability that the image was compiled for."""
    precisions: Mapping[str, PrecisionLimit]
    """Precisions that the release serves."""
    fp8_kv: Capability
    """From here on a KV cache may be fp8."""
    instead: str = ""
    """Said to a GPU below `minimum`: who serves it."""

    def precision_refusal(self, precision: str, capability: Capability) -> str | None:
        """Why a GPU of that compute capability cannot serve the precision, or None if it can."""
        release = f"{self.name} {self.image.version}"
        if capability < self.minimum:
            built = f"{release} is built for compute capability {_dotted(self.minimum)} and up"
            return f"{built}; this GPU has {_dotted(capability)}{self.instead}"
        limit = self.precisions.get(precision)
        if limit is None:
            return f"{release} does not serve {precision}; it serves {', '.join(self.precisions)}"
        return _short_of(precision, limit.minimum, capability)

    def runs_native(self, precision: str, capability: Capability) -> bool:
        """Whether arithmetic runs at that precision, not only storage. False for a precision that is not
        served."""
        limit = self.precisions.get(precision)
        return limit is not None and capability >= limit.native

    def kv_cache_refusal(self, kv_cache_dtype: str, capability: Capability) -> str | None:
        """Why a GPU cannot keep its KV cache in that type, or None if it can."""
        if kv_cache_dtype.startswith("fp8"):
            return _short_of("an fp8 KV cache", self.fp8_kv, capability)
        if kv_cache_dtype == "bfloat16":
            return _short_of("a bfloat16 KV cache", BF16_CAPABILITY, capability)
        return None

    @staticmethod
    def activation_dtype(precision: str, capability: Capability) -> str:
        """`--dtype`: half where the GPU has no bfloat16 or the weights are fp16, else bfloat16; float for
        fp32."""
        if precision == "fp32":
            return "float"
        return "half" if precision == "fp16" or capability < BF16_CAPABILITY else "bfloat16"

    def quantization_method(self, precision: str, stored: str) -> str | None:
        """`--quantization` for serving `precision` from a checkpoint stored as `stored`; None where the
        engine reads it from the checkpoint. Forcing `awq` or `gptq` would only bypass the engine's own choice
        of the fastest kernel.

        Raises ValueError where the engine cannot convert while loading."""
        if precision == stored or {precision, stored} <= FULL:
            return None
        if precision == "fp8" and stored in FULL:
            return "fp8"
        raise ValueError(
            f"{self.name} cannot load {stored} weights as {precision}; use a checkpoint that is stored as "
            f"{precision}"
        )

    def version_of(self, reference: str) -> str | None:
        """The release that an image reference names in its tag, or the pinned one's; None where it names
        none."""
        if reference.rpartition("@")[2] == self.image.reference.rpartition("@")[2]:
            return self.image.version
        tagged = _TAGGED.search(reference)
        return tagged[1] if tagged else None


def _dotted(capability: Capability) -> str:
    return f"{capability[0]}.{capability[1]}"


def _short_of(what: str, minimum: Capability, capability: Capability) -> str | None:
    if capability >= minimum:
        return None
    return f"{what} needs compute capability {_dotted(minimum)}; this GPU has {_dotted(capability)}"


DTYPES = {
    "half": "half", "float16": "half", "bfloat16": "bfloat16", "float": "float", "float32": "float",
}  # fmt: skip
"""Values of `--dtype` by the spelling that the plan uses; `auto` is the planner's own choice."""
CAST = {"half": "fp16", "bfloat16": "bf16", "float": "fp32"}
"""What weights that are not quantised are cast to as they are loaded."""


def dtype_refusal(dtype: str, precision: str, stored: str, capability: Capability) -> str | None:
    """Why weights of that precision cannot be served with such activations, or None if they can."""
    kind = DTYPES.get(dtype)
    if kind == "bfloat16" and (refusal := _short_of("bfloat16", BF16_CAPABILITY, capability)) is not None:
        return refusal
    if kind == "float" and not precision == stored == "fp32":
        # Quantised weights take 16-bit activations (act_dtypes in data/vllm-0.30.0.quantization.json).
        return f"{dtype} would be wider than {precision}; it is for weights that are stored in fp32"
    if kind == "half" and precision == "mxfp4":  # quantization/mxfp4.py, get_supported_act_dtypes
        return "mxfp4 weights take bfloat16 activations alone"
    return None
