"""What the pinned vLLM image runs on: its digest, the driver it needs, and the GPUs each precision needs.

Trap: the image runs on CUDA 13, which a node's driver below branch 580 refuses at start; nothing in the
cluster's API says which driver a node has.
"""

from __future__ import annotations

from servingstack.engines.limits import (
    BF16_CAPABILITY,
    Capability,
    Driver,
    Image,
    PrecisionLimit,
    TokenLimits,
)
from servingstack.plan import Flag

VERSION = "0.30.0"
"""The pinned release: the newest for which flags, metrics, a public image digest and published measurements
all exist."""

# The multi-architecture index digest of docker.io/vllm/vllm-openai:v0.30.0, read on 2026-11-30 from ten
# independent public repositories that pin tag and digest together (among them an image scan report and a
# Terraform lab). CUDA 13.0.2: two of them read it from the image's own config. CUDA 13.x needs a driver of
# branch 580 or newer (docs.nvidia.com/deploy/cuda-compatibility, minor version compatibility, table 1).
UPSTREAM = Image(
    reference="docker.io/vllm/vllm-openai@sha256:8a69ffad015f138d7170c4ddc429e230a3bc1c1719f67e14324749df200a4b90",
    version=VERSION,
)

# With the variable, the image's own libcuda is used (vllm/envs.py): its base, nvidia/cuda:13.0, brings
# cuda-compat-13 along, which runs on branch 535 and newer (github.com/dstackai/dstack/pull/4007).
DRIVER = Driver(branch=580, older=(("VLLM_ENABLE_CUDA_COMPATIBILITY", "1"),), oldest=535)

# The default maps files and reads them at random; it fetches them ahead on NFS and Lustre alone
# (model_executor/model_loader/weight_utils.py; github.com/vllm-project/vllm/pull/39422, 47412 and 51339).
WHOLE_FILES = (Flag(name="safetensors-load-strategy", value="eager"),)

BUILD_CAPABILITIES: tuple[Capability, ...] = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
"""Architectures in the wheel's `_C_stable_libtorch.abi3.so` (its fatbin headers list 75 80 86 89 90 100
120)."""
MIN_CAPABILITY = BUILD_CAPABILITIES[0]

_QUANT = "vllm/model_executor/layers/quantization/"
_CT = _QUANT + "compressed_tensors/schemes/compressed_tensors_"

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

LIMITS = TokenLimits(
    name="vLLM",
    image=UPSTREAM,
    minimum=MIN_CAPABILITY,
    precisions=PRECISIONS,
    fp8_kv=(8, 9),  # vllm/v1/attention/backends/triton_attn.py:486: an fp8 cache needs native fp8
)
