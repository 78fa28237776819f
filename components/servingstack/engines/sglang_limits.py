"""What the pinned SGLang image runs on: its digest, the driver it needs, and the GPUs each precision needs.

Trap: SGLang's code says compute capability 7.5 in places (awq, int8), but the kernels of its image start at
8.0. A T4 or V100 that vLLM serves is refused here.
"""

from __future__ import annotations

from servingstack.engines.limits import Capability, Driver, Image, PrecisionLimit, TokenLimits
from servingstack.plan import Flag

VERSION = "0.5.20"
"""The pinned release: the newest for which flags, metrics and a public image digest all exist."""

# The multi-architecture index digest of docker.io/lmsysorg/sglang:v0.5.20, read on 2026-11-30 from public
# repositories that pin tag and digest together (a runtime contract that names linux/amd64
# b27fce60bc5494c118c4910702812bcfa8cee67abcdd1ff8b0902f21647552f4 under it, and a profiler's test); a third
# builds on that amd64 manifest. torch 2.13.0+cu130 inside; CUDA 13.x needs a driver of branch 580 or newer
# (docs.nvidia.com/deploy/cuda-compatibility, minor version compatibility, table 1).
UPSTREAM = Image(
    reference="docker.io/lmsysorg/sglang@sha256:06e4f2ed21afde4ff513cda65070124e727ba23ccaeff7712b8c40e1097d611f",
    version=VERSION,
)
DRIVER = Driver(branch=580)
# As for vLLM, and without any file system that it knows (github.com/sgl-project/sglang/pull/37806).
WHOLE_FILES = (Flag(name="weight-loader-disable-mmap"),)

BUILD_CAPABILITIES: tuple[Capability, ...] = ((8, 0), (8, 9), (9, 0), (10, 0), (12, 0))
"""Architectures in `sgl_kernel/sm90/common_ops.abi3.so` of sglang-kernel 0.4.7, which this release requires
(its fatbin headers list 80 89 90 100 120; 8.6 runs the code of 8.0)."""
MIN_CAPABILITY = BUILD_CAPABILITIES[0]

_QUANT = "sglang/srt/layers/quantization/"
_CT = _QUANT + "compressed_tensors/schemes/compressed_tensors_"
_KERNELS = "sglang-kernel 0.4.7, common_ops"

PRECISIONS = {
    "bf16": PrecisionLimit((8, 0), (8, 0), _KERNELS),
    "fp16": PrecisionLimit((8, 0), (8, 0), _KERNELS),
    "fp32": PrecisionLimit((8, 0), (8, 0), _KERNELS),
    # Weight-only through Marlin below 8.9.
    "fp8": PrecisionLimit((8, 0), (8, 9), f"{_QUANT}fp8.py:322; {_CT}w8a16_fp8.py:37"),
    "int8": PrecisionLimit((8, 0), (8, 0), f"{_CT}w8a8_int8.py:99"),
    "awq": PrecisionLimit((8, 0), (8, 0), f"{_QUANT}awq/awq.py:308"),
    "gptq": PrecisionLimit((8, 0), (8, 0), f"{_QUANT}gptq/gptq.py:387"),
    "w4a16": PrecisionLimit((8, 0), (8, 0), f"{_CT}wNa16.py:96"),
    "mxfp4": PrecisionLimit((8, 0), (10, 0), f"{_QUANT}mxfp4.py:321"),
    "nvfp4": PrecisionLimit((8, 0), (10, 0), f"{_QUANT}modelopt_quant.py:1498"),
}
"""Precisions that this release serves."""

LIMITS = TokenLimits(
    name="SGLang",
    image=UPSTREAM,
    minimum=MIN_CAPABILITY,
    precisions=PRECISIONS,
    # Below it a GPU has no fp8 arithmetic. The release names only a CUDA version
    # (arg_groups/fields/model.py, Model.kv_cache_dtype); the plan stays on the safe side, with vLLM's limit.
    fp8_kv=(8, 9),
    instead=" (vLLM serves it from 7.5)",
)


def task_refusal(task: str) -> str | None:
    """Why the engine does not serve a task here, or None if it does."""
    if task in ("generate", "embed"):
        return None
    return f"SGLang serves generate and embed here; {task} is served by vLLM (engine.kind: vllm) or Triton"
