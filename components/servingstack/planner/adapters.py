"""What LoRA adapters of a model take: GPU memory, time, and room on the host.

Both engines set aside room for the largest adapter as often as adapters may be in a batch, whether or not one
is loaded: two thin matrices beside every linear layer, the embedding and the output matrix among them.

Trap: only the thin side of a layer is split over the GPUs, so on four of them an adapter takes far more than
a quarter (vllm/lora/layers/column_parallel_linear.py: `lora_a_stacked` has the whole input and rank on every
GPU, unless --fully-sharded-loras).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TypeVar

from servingstack.catalog import Model

from .performance import OTHER_BAND, Speed

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM sets room aside for (vllm/config/lora.py, MaxLoRARanks); each adapter takes the next."""
BYTES = 2
"""Of one number: `--lora-dtype auto` is the activations', which are 16 bits wide or would be refused."""
SLOWER = 11.45 / 7.60
"""Of every step: Llama-2-7B with one adapter of rank 8 on an A100 serves 7.60 requests/s, without one 11.45
(github.com/vllm-project/vllm/pull/11267). Of 2024: the engine of today is faster, by how much nobody has
published for GPUs."""
SHRINK_BYTES = 4
"""Of one intermediate number, which the kernels keep in 32 bits (vllm/lora/punica_wrapper/punica_gpu.py)."""
QKV = 3
"""Intermediates of the widest layer: query, key and value at once."""
GRAPHS = 2
"""Sets of CUDA graphs: with adapters and without (vllm/config/compilation.py, cudagraph_specialize_lora)."""

Timed = TypeVar("Timed", bound=Speed)


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


def rank_of(wanted: int) -> int:
    """The rank that room is set aside for. ValueError above the largest."""
    for rank in RANKS:
        if rank >= wanted:
            return rank
    raise ValueError(f"a rank of at most {RANKS[-1]}")


def slowed(speed: Timed) -> Timed:
    """The model's times with adapters in every batch."""
    return dataclasses.replace(
        speed,
        weight_s=speed.weight_s * SLOWER,
        expert_s=speed.expert_s * SLOWER,
        token_s=speed.token_s * SLOWER,
        step_s=speed.step_s * SLOWER,
        sequence_s=speed.sequence_s * SLOWER,
        band=max(speed.band, OTHER_BAND),
        source=f"{speed.source}; with LoRA {SLOWER:.2f} times slower, one public measurement of 2024",
    )
