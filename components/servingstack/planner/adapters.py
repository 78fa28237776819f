"""What LoRA adapters of a model take: memory of each GPU and of the host, and disk.

Both engines set aside room for the largest adapter as often as adapters may be in a batch, whether or not one
is loaded: two thin matrices beside every linear layer, the embedding and the output matrix among them.

Trap: only the thin side of a layer is split over the GPUs, so on four of them an adapter takes far more than
a quarter (vllm/lora/layers/column_parallel_linear.py: `lora_a_stacked` has the whole input and rank on every
GPU, unless --fully-sharded-loras).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from servingstack.catalog import Model
from servingstack.engines.lora import LoraRules
from servingstack.errors import Violation

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs

BYTES = 2
"""Of one number: `--lora-dtype auto` is the activations', which are 16 bits wide or would be refused."""
SHRINK_BYTES = 4
"""Of one intermediate number, which the kernels keep in 32 bits (vllm/lora/punica_wrapper/punica_gpu.py)."""
QKV = 3
"""Intermediates of the widest layer: query, key and value at once."""


@dataclass(frozen=True, slots=True)
class Room:
    """Adapters that may be in one batch."""

    slots: int
    rank: int
    """Of the largest, as the engine rounds it up."""
    adapters: int
    """All of them: what the host keeps and the disk holds."""

    def elements(self, model: Model, tp: int, pp: int) -> float:
        """Numbers of one adapter of rank 1 on one GPU."""
        return (_attention(model, tp) + _feed_forward(model, tp)) / pp + _edges(model)

    def gpu_bytes(self, model: Model, split: tuple[int, int], step_tokens: int) -> int:
        """What is set aside on each GPU, with the kernels' intermediates of one step."""
        held = self.slots * self.rank * self.elements(model, *split) * BYTES
        return round(held + QKV * step_tokens * self.rank * SHRINK_BYTES)

    def stored_bytes(self, model: Model) -> int:
        """All adapters, whole: on the disk, and again in the host's memory."""
        return round(self.adapters * self.rank * self.elements(model, 1, 1) * BYTES)


def _attention(model: Model, tp: int) -> float:
    """Query, key and value by columns, the output by rows; of all layers."""
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    columns = 3 * model.hidden + (queries + 2 * max(keys, tp * model.head_dim)) / tp
    return model.layers * (columns + queries / tp + model.hidden)


def _feed_forward(model: Model, tp: int) -> float:
    """Gate and up by columns, down by rows; of a mixture, for every expert that is held."""
    dense = max(0, model.layers - model.moe_layers) if model.experts else model.layers
    found = dense * (3 * model.hidden + 3 * model.intermediate / tp)
    experts = model.experts + model.shared_experts
    routed = experts * (3 * model.hidden + 3 * model.moe_intermediate / tp)
    return found + model.moe_layers * (routed + model.hidden + model.experts)


def _edges(model: Model) -> float:
    """Embedding and output matrix, which no GPU shares."""
    return 2.0 * (model.hidden + model.vocab)


def room_of(args: ServingStackArgs, rules: LoraRules, wanted: int | None) -> Room | None:
    """The room that the input's adapters need; None without any. `wanted`: places in a batch, None for
    all."""
    adapters = args.model.adapters
    if not adapters:
        return None
    places = len(adapters) if wanted is None else min(wanted, len(adapters))
    return Room(rules.slots(places), rules.rank(max(each.rank for each in adapters)), len(adapters))


def violations(
    args: ServingStackArgs, kind: str, rules: LoraRules | None, model: Model
) -> Iterator[Violation]:
    """What keeps adapters from being served."""
    adapters = args.model.adapters
    places = getattr(args.engine, "max_loras", None)
    if places is not None and places > len(adapters):
        allowed = f"at most {len(adapters)}, the adapters of model.adapters" if adapters else "left out"
        yield Violation("engine.max_loras", places, allowed, "Lower it, or leave it out.")
    if not adapters:
        return
    named = ", ".join(each.name for each in adapters)
    path = "model.adapters"
    if rules is None:
        yield Violation(path, named, f"left out for engine {kind}", "Use engine.kind vllm or sglang.")
    elif rules.ranks and max(each.rank for each in adapters) > rules.ranks[-1]:
        worst = max(range(len(adapters)), key=lambda index: adapters[index].rank)
        allowed = f"at most {rules.ranks[-1]}"
        yield Violation(f"{path}[{worst}].rank", adapters[worst].rank, allowed, "Use a smaller adapter.")
    if model.mla:
        allowed = f"left out for {model.id}, whose latent attention no formula here sizes adapters of"
        yield Violation(path, named, allowed, "Merge the adapter into the weights, and serve those.")
    task = model.task if args.model.task is None else args.model.task
    if task != "generate":
        yield Violation(path, named, f"left out for task {task}", "Adapters are served for task generate.")
