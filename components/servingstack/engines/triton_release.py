"""What the pinned Triton image is, and what it runs on.

Trap: the backends for LLMs are not in the main image. `vllm` is in `<release>-vllm-python-py3`, `tensorrtllm`
in `<release>-trtllm-python-py3`; the main image would fail at start with "unable to find backend library".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from servingstack.engines.limits import Driver

VERSION = "26.08"
"""NVIDIA's release; Triton itself is 2.72.0 (server r26.08, TRITON_VERSION at 6fa22ae0)."""


@dataclass(frozen=True)
class Image:
    """One build of the engine."""

    reference: str
    """By digest."""
    version: str
    backends: tuple[str, ...]


# Index digest of nvcr.io/nvidia/tritonserver:26.08-py3, read on 2026-11-30 from two independent public
# repositories: one names tag and digest's beginning together, one the whole digest. CUDA 13.4.1, compute
# capability 7.5 and newer (docs.nvidia.com, Triton release notes 26.08).
UPSTREAM = Image(
    reference="nvcr.io/nvidia/tritonserver@sha256:9185ba5b33d2c85c9204b208957b4bbfc6b2b89066efc9192e0f60c2ab58cec0",
    version=VERSION,
    backends=("python", "onnxruntime", "tensorrt", "pytorch"),
)
# nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3, tag and digest together in two public documents of one
# project (Triton 2.71.0, vLLM 0.24.0). No public digest of a newer one was found.
VLLM = Image(
    reference="nvcr.io/nvidia/tritonserver@sha256:31e20bfbc65055d6b85553a00d45342a62c506874aa996c11ae53650151f05b1",
    version="26.07",
    backends=("python", "vllm"),
)
IMAGES = (UPSTREAM, VLLM)
DRIVER = Driver(branch=580)
"""CUDA 13. The image's own entrypoint can bring newer libraries along, and a stack starts the server
itself."""
MIN_CAPABILITY = (7, 5)
"""Release notes 26.08, GPU requirements."""
_TAGGED = re.compile(r":(\d\d\.\d\d)(?:-[a-z0-9-]+)?@sha256:")


def image_for(backends: set[str]) -> Image | None:
    """The pinned image that has all of the backends; None where no one has."""
    return next((image for image in IMAGES if backends <= set(image.backends)), None)


def version_of(reference: str) -> str | None:
    """The release that an image reference names in its tag, or a pinned one's; None where it names none."""
    digest = reference.rpartition("@")[2]
    pinned = next((image for image in IMAGES if image.reference.rpartition("@")[2] == digest), None)
    if pinned is not None:
        return pinned.version
    tagged = _TAGGED.search(reference)
    return tagged[1] if tagged else None


def precision_refusal(precision: str, capability: tuple[int, int]) -> str | None:
    """Why a GPU of that compute capability cannot run the image, or None. What a model is stored in is its
    own backend's business."""
    del precision
    if capability >= MIN_CAPABILITY:
        return None
    return f"Triton {VERSION} needs compute capability 7.5; this GPU has {capability[0]}.{capability[1]}"


def runs_native(precision: str, capability: tuple[int, int]) -> bool:
    """Whether arithmetic runs at that precision: 16 bits and wider always, fp8 from 8.9 on."""
    return precision in ("fp32", "bf16", "fp16", "int8") or (precision == "fp8" and capability >= (8, 9))


def activation_dtype(precision: str, capability: tuple[int, int]) -> str:
    """Type of the activations, by which their memory is counted."""
    if precision == "fp32":
        return "float"
    return "half" if precision == "fp16" or capability < (8, 0) else "bfloat16"


def kv_cache_refusal(kv_cache_dtype: str, capability: tuple[int, int]) -> None:
    """None: whole requests leave no cache."""
    del kv_cache_dtype, capability


def quantization_method(precision: str, stored: str) -> str | None:
    """None: nothing is converted while it is loaded. `model.precision` says what the export is; the catalog's
    row is of another repository."""
    del precision, stored
