"""TorchServe's settings as the planner reads them.

Trap: `workers` is per GPU here, and each is a process with its own copy of the model and its own CUDA
context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from servingstack.engines.batcher import Batcher
from servingstack.engines.torchserve import TorchServeSettings

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs


def batcher(args: ServingStackArgs) -> Batcher:
    """What decides speed and memory. TypeError for another engine."""
    settings = args.engine
    if not isinstance(settings, TorchServeSettings):
        raise TypeError(f"engine.kind {settings.kind} is not torchserve")
    gpus = args.hardware.gpus_per_replica
    delay = settings.max_batch_delay
    return Batcher(
        max_batch_size=settings.batch_size,
        queue_delay_s=None if delay is None else delay.total_seconds(),
        copies=settings.workers,
        contexts=settings.workers,
        copy_bytes=None,
        other_bytes=0,
        processes=settings.workers * (1 if gpus is None else gpus),
        shared_memory=0,
        batch_path="engine.batch_size",
        delay_path="engine.max_batch_delay",
    )
