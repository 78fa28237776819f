"""Over how many GPUs a model can be split: never simply all GPUs of a node.

Trap: a tensor-parallel size that divides the heads can still be illegal. Key/value heads must divide or be
divided, a feed-forward shard must be whole, and with quantisation a whole number of groups (Qwen3-235B in fp8
has blocks of 128 and experts 1536 wide, so 8 shards of 192 fail).
"""

from __future__ import annotations

from dataclasses import dataclass

from servingstack.catalog import Model

MAX_TP = 64


def tp_refusal(model: Model, tp: int, precision: str) -> str | None:
    """Why the model cannot be split into `tp` shards, or None if it can."""
    if model.heads % tp:
        return f"{model.heads} attention heads are not divisible by {tp}"
    # vLLM 0.30 model_executor/models/llama.py asserts this; MLA keeps one latent on every rank instead.
    if not model.mla and model.kv_heads % tp and tp % model.kv_heads:
        return f"{model.kv_heads} key/value heads neither divide nor are divided by {tp}"
    if precision == "mxfp4":  # vLLM pads each shard to whole blocks (model_executor/models/gpt_oss.py)
        return None
    group = model.group_size if precision == model.precision and model.group_size else 1
    # Also over one GPU: gate and up are one matrix, whose first half must be whole blocks (vLLM 0.30
    # quantization/utils/fp8_utils.py, validate_fp8_block_shape), and AWQ checks the unsplit width too.
    for name, width in (("feed-forward", model.intermediate), ("expert", model.moe_intermediate)):
        if width and (width % tp or (width // tp) % group):
            unit = f" in groups of {group}" if group > 1 else ""
            return f"{name} width {width} does not split{unit} over {tp}"
    return None


def legal_tp(model: Model, precision: str, most: int = MAX_TP) -> tuple[int, ...]:
    """Every legal tensor-parallel size up to `most`."""
    return tuple(tp for tp in range(1, most + 1) if tp_refusal(model, tp, precision) is None)


@dataclass(frozen=True, slots=True)
class Pins:
    """What the user fixed of the split."""

    tp: int | None = None
    pp: int | None = None
    gpus: int | None = None

    @property
    def free(self) -> bool:
        return self.tp is None and self.pp is None and self.gpus is None


def splits(model: Model, precision: str, gpus_per_node: int, pins: Pins) -> tuple[tuple[int, int], ...]:
    """(tp, pp) to try within one node. Without pins: legal sizes that divide the node, so that what is left
    makes whole replicas; pipelines only where pinned, or where `gpus` can be reached no other way."""
    legal = legal_tp(model, precision, gpus_per_node)
    if pins.free:
        return tuple((shards, 1) for shards in legal if gpus_per_node % shards == 0)
    found: list[tuple[int, int]] = []
    for shards in legal:
        if pins.tp is not None and shards != pins.tp:
            continue
        stages = pins.pp if pins.pp is not None else _stages(shards, pins.gpus)
        if stages is None or (pins.gpus is not None and shards * stages != pins.gpus):
            continue
        if stages <= model.layers and shards * stages <= gpus_per_node:
            found.append((shards, stages))
    if pins.gpus is not None and pins.pp is None and found:
        return (min(found, key=lambda split: split[1]),)
    return tuple(found)


def uneven(model: Model, precision: str, gpus_per_node: int) -> tuple[tuple[int, int], ...]:
    """Legal sizes that leave GPUs of the node idle, for a model that no other size holds."""
    return tuple(
        (shards, 1) for shards in legal_tp(model, precision, gpus_per_node) if gpus_per_node % shards
    )


def _stages(shards: int, gpus: int | None) -> int | None:
    if gpus is None:
        return 1
    return gpus // shards if gpus % shards == 0 else None


def pipelines(model: Model, precision: str, gpus_per_node: int) -> tuple[tuple[int, int], ...]:
    """(tp, pp) with more than one stage, for a node where no tensor-parallel size alone holds the model."""
    return tuple(
        (shards, stages)
        for shards in legal_tp(model, precision, gpus_per_node)
        for stages in range(2, gpus_per_node // shards + 1)
        if stages <= model.layers
    )
