"""The precision of a checkpoint, from `quantization_config` and `torch_dtype`.

Trap: `torch_dtype` of a quantised checkpoint is the precision of its activations; the weights' is in
`quantization_config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from .hf_keys import Keys
from .records import Precision

_DTYPES: dict[str, Precision] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_METHODS = "awq, gptq, fp8, fbgemm_fp8, mxfp4, compressed-tensors, modelopt, bitsandbytes"


def native_precision(outer: Keys, inner: Keys) -> tuple[Precision, int | None]:
    """Precision of the weights and their group or block size. bf16 where the config is silent, as
    checkpoints of the known families are."""
    quantised = outer.raw("quantization_config") or inner.raw("quantization_config")
    if isinstance(quantised, Mapping):
        return _quantised(outer, cast("Mapping[str, Any]", quantised))
    for keys, name in ((outer, "torch_dtype"), (outer, "dtype"), (inner, "torch_dtype"), (inner, "dtype")):
        value = keys.raw(name)
        if value is not None:
            found = _DTYPES.get(str(value).removeprefix("torch."))
            if found is None:
                keys.bad(name, value, ", ".join(_DTYPES), "Correct it, or leave it out for bfloat16.")
            return found or "bf16", None
    return "bf16", None


def _quantised(keys: Keys, config: Mapping[str, Any]) -> tuple[Precision, int | None]:
    method = str(config.get("quant_method") or "").lower()
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8", _group(config.get("weight_block_size"))
    if method in ("awq", "gptq"):
        return _by_bits(keys, config, cast(Precision, method)), _group(config.get("group_size"))
    if method == "compressed-tensors":
        return _compressed(keys, config)
    if method == "mxfp4":
        return "mxfp4", 32
    found: Precision = "bf16"
    if method.startswith("modelopt"):
        found = "nvfp4" if "FP4" in str(config.get("quant_algo")).upper() else "fp8"
    elif method == "bitsandbytes":
        found = "bnb4" if config.get("load_in_4bit") else "int8"
    else:
        keys.bad(
            "quantization_config.quant_method", method or None, _METHODS, "Use a checkpoint in one of these."
        )
    return found, 16 if found == "nvfp4" else None


def _group(value: Any) -> int | None:
    """A group size, or the first of a block's two; None for -1, which means no groups."""
    first = value
    if isinstance(value, list) and value:
        first = cast("list[Any]", value)[0]
    return first if isinstance(first, int) and first > 0 else None


def _by_bits(keys: Keys, config: Mapping[str, Any], method: Precision) -> Precision:
    bits = config.get("bits", config.get("w_bit", 4))
    if bits == 8 and method == "gptq":
        return "int8"
    if bits != 4:
        keys.bad("quantization_config.bits", bits, "4 (8 with gptq)", "Use a checkpoint with that many bits.")
    return method


def _compressed(keys: Keys, config: Mapping[str, Any]) -> tuple[Precision, int | None]:
    """compressed-tensors: the first group's weight scheme stands for all."""
    groups = config.get("config_groups")
    weights: Mapping[str, Any] = {}
    if isinstance(groups, Mapping) and groups:
        first = next(iter(cast("Mapping[str, Any]", groups).values()))
        weights = cast("Mapping[str, Any]", first).get("weights") or {} if isinstance(first, Mapping) else {}
    bits, kind, size = weights.get("num_bits"), weights.get("type"), _group(weights.get("group_size"))
    if bits == 8:
        return ("fp8" if kind == "float" else "int8"), size
    if bits == 4:
        return ("nvfp4" if kind == "float" else "w4a16"), size
    keys.bad(
        "quantization_config.config_groups", bits, "a group whose weights have 4 or 8 num_bits",
        "Copy quantization_config whole.",
    )  # fmt: skip
    return "bf16", None
