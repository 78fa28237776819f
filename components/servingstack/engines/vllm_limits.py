"""What the pinned vLLM image runs on: its digest, the driver it needs, and the GPUs each precision needs.

Trap: what the Python code allows and what the image was compiled for are two limits, and both hold. GPTQ's
code says compute capability 6.0; the image holds no kernel below 7.5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

VERSION = "0.30.0"
"""The pinned release: the newest for which flags, metrics, a public image digest and published measurements
all exist."""
Capability = tuple[int, int]


@dataclass(frozen=True)
class Image:
    """One build of the engine."""

    reference: str
    """By digest."""
    version: str


# The multi-architecture index digest of docker.io/vllm/vllm-openai:v0.30.0, read on 2026-11-30 from ten
# independent public repositories that pin tag and digest together (among them an image scan report and a
# Terraform lab). CUDA 13.0.2: two of them read it from the image's own config. CUDA 13.x needs a driver of
# branch 580 or newer (docs.nvidia.com/deploy/cuda-compatibility, minor version compatibility, table 1).
UPSTREAM = Image(
    reference="docker.io/vllm/vllm-openai@sha256:8a69ffad015f138d7170c4ddc429e230a3bc1c1719f67e14324749df200a4b90",
    version=VERSION,
)

BUILD_CAPABILITIES: tuple[Capability, ...] = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
"""Architectures in the wheel's `_C_stable_libtorch.abi3.so` (its fatbin headers list 75 80 86 89 90 100
120)."""
MIN_CAPABILITY = BUILD_CAPABILITIES[0]
BF16_CAPABILITY: Capability = (8, 0)
"""vllm/platforms/cuda.py:668, check_if_supports_dtype."""
FP8_KV_CAPABILITY: Capability = (8, 9)
"""vllm/v1/attention/backends/triton_attn.py:486: an fp8 cache needs native fp8."""

_QUANT = "vllm/model_executor/layers/quantization/"
_CT = _QUANT + "compressed_tensors/schemes/compressed_tensors_"


@dataclass(frozen=True)
class PrecisionLimit:
    """What a precision of the weights needs from a GPU."""

    minimum: Capability
    """Below it the engine refuses to start."""
    native: Capability
    """From here on the arithmetic itself runs at that precision; below, only the weights are smaller."""
    source: str
    """Line of the release."""


PRECISIONS = {
    "bf16": PrecisionLimit(BF16_CAPABILITY, BF16_CAPABILITY, "vllm/platforms/cuda.py:668"),
    "fp16": PrecisionLimit(MIN_CAPABILITY, MIN_CAPABILITY, "vllm/platforms/cuda.py:261"),
    "fp32": PrecisionLimit(MIN_CAPABILITY, MIN_CAPABILITY, "vllm/platforms/cuda.py:261"),
    # Weight-only through Marlin below 8.9.
    "fp8": PrecisionLimit((7, 5), (8, 9), f"{_QUANT}fp8.py:149; {_CT}w8a8_fp8.py:85"),
    "int8": PrecisionLimit((7, 5), (7, 5), f"{_CT}w8a8_int8.py:37"),
    "awq": PrecisionLimit((7, 5), (7, 5), f"{_QUANT}auto_awq.py:231"),
    # The code says 6.0 (auto_gptq.py:185); Marlin and the build say 7.5.
    "gptq": PrecisionLimit((7, 5), (7, 5), f"{_QUANT}utils/marlin_utils.py:65"),
    "w4a16": PrecisionLimit((7, 5), (7, 5), f"{_CT}wNa16.py:96"),
    "mxfp4": PrecisionLimit((8, 0), (10, 0), f"{_QUANT}mxfp4.py:66"),
    # Weight-only through Marlin below 10.0 (kernels/linear/nvfp4/flashinfer.py:49).
    "nvfp4": PrecisionLimit((7, 5), (10, 0), f"{_QUANT}modelopt.py:754"),
}
"""Precisions that this release serves; bitsandbytes (`bnb4`) left its list of methods."""


def precision_refusal(precision: str, capability: Capability) -> str | None:
    """Why a GPU of that compute capability cannot serve the precision, or None if it can."""
    have = f"{capability[0]}.{capability[1]}"
    if capability < MIN_CAPABILITY:
        return f"vLLM {VERSION} is built for compute capability 7.5 and up; this GPU has {have}"
    limit = PRECISIONS.get(precision)
    if limit is None:
        return f"vLLM {VERSION} does not serve {precision}; it serves {', '.join(PRECISIONS)}"
    if capability < limit.minimum:
        return (
            f"{precision} needs compute capability {limit.minimum[0]}.{limit.minimum[1]}; this GPU has {have}"
        )
    return None


def runs_native(precision: str, capability: Capability) -> bool:
    """Whether arithmetic runs at that precision, not only storage. False for a precision that is not
    served."""
    limit = PRECISIONS.get(precision)
    return limit is not None and capability >= limit.native


def kv_cache_refusal(kv_cache_dtype: str, capability: Capability) -> str | None:
    """Why a GPU cannot keep its KV cache in that type, or None if it can."""
    if kv_cache_dtype.startswith("fp8") and capability < FP8_KV_CAPABILITY:
        return f"an fp8 KV cache needs compute capability 8.9; this GPU has {capability[0]}.{capability[1]}"
    if kv_cache_dtype == "bfloat16" and capability < BF16_CAPABILITY:
        return (
            f"a bfloat16 KV cache needs compute capability 8.0; this GPU has {capability[0]}.{capability[1]}"
        )
    return None


def activation_dtype(precision: str, capability: Capability) -> str:
    """`--dtype`: half where the GPU has no bfloat16 or the weights are fp16, else bfloat16; float for
    fp32."""
    if precision == "fp32":
        return "float"
    return "half" if precision == "fp16" or capability < BF16_CAPABILITY else "bfloat16"


DTYPES = {
    "half": "half", "float16": "half", "bfloat16": "bfloat16", "float": "float", "float32": "float",
}  # fmt: skip
"""Values of `--dtype` by the spelling that the plan uses; `auto` is the planner's own choice."""
CAST = {"half": "fp16", "bfloat16": "bf16", "float": "fp32"}
"""What weights that are not quantised are cast to as they are loaded."""


def dtype_refusal(dtype: str, precision: str, stored: str, capability: Capability) -> str | None:
    """Why weights of that precision cannot be served with such activations, or None if they can."""
    kind = DTYPES.get(dtype)
    if kind == "bfloat16" and capability < BF16_CAPABILITY:
        return f"bfloat16 needs compute capability 8.0; this GPU has {capability[0]}.{capability[1]}"
    if kind == "float" and not precision == stored == "fp32":
        # Quantised weights take 16-bit activations (act_dtypes in data/vllm-0.30.0.quantization.json).
        return f"{dtype} would be wider than {precision}; it is for weights that are stored in fp32"
    if kind == "half" and precision == "mxfp4":  # quantization/mxfp4.py, get_supported_act_dtypes
        return "mxfp4 weights take bfloat16 activations alone"
    return None


def quantization_method(precision: str, stored: str) -> str | None:
    """`--quantization` for serving `precision` from a checkpoint stored as `stored`; None where the engine
    reads it from the checkpoint. Forcing `awq` or `gptq` would only bypass the engine's own choice of the
    fastest kernel.

    Raises ValueError where the engine cannot convert while loading."""
    full = {"bf16", "fp16", "fp32"}
    if precision == stored or (precision in full and stored in full):
        return None
    if precision == "fp8" and stored in full:
        return "fp8"
    raise ValueError(
        f"vLLM cannot load {stored} weights as {precision}; use a checkpoint that is stored as {precision}"
    )


_TAGGED = re.compile(r":v?(\d+\.\d+\.\d+)[^/@]*@sha256:")


def version_of(reference: str) -> str | None:
    """The release that an image reference names in its tag, or the pinned one's; None where it names none."""
    if reference.rpartition("@")[2] == UPSTREAM.reference.rpartition("@")[2]:
        return UPSTREAM.version
    tagged = _TAGGED.search(reference)
    return tagged[1] if tagged else None
