"""What the planner must know of an engine that batches whole requests: Triton and TorchServe.

Trap: copies of a model on one GPU each hold the weights again, and each Python process a CUDA context
besides; a plan that counts them once runs out of memory at start.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from servingstack.fields import Whole
from servingstack.units import Duration, GpuId

CUDA_CONTEXT_BYTES = 1_500_000_000
"""Of a process that uses a GPU: context, cuDNN and cuBLAS workspaces (1.0 to 1.5 GB in reports of TorchServe
workers, github.com/pytorch/serve/issues/950)."""


@dataclass(frozen=True, slots=True)
class Batcher:
    """The settings that decide speed and memory; None where the planner decides."""

    max_batch_size: int | None
    queue_delay_s: float | None
    copies: int
    """Of the planned model on each GPU."""
    contexts: int
    """CUDA contexts on each GPU."""
    copy_bytes: int | None
    """GPU memory of one copy's weights; None for the stack's model."""
    other_bytes: int
    """GPU memory of the other models' copies on each GPU."""
    processes: int
    """On the host, per replica."""
    shared_memory: int
    """/dev/shm beyond the planner's own, bytes."""
    batch_path: str
    """Field of the input that pins the batch."""
    delay_path: str


class MeasuredBatch(BaseModel):
    """How long one copy of the model took for a batch, with nothing else on the GPU."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    accelerator: GpuId
    """GPU it was measured on, any case, aliases allowed."""
    batch_size: Whole = Field(ge=1, le=100_000)
    """Requests in the batch."""
    latency: Duration
    """Time from the batch's start to its answers."""
