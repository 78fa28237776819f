"""Candidates of an engine that batches whole requests: what fits a GPU, how large a batch may be, how long it
may wait for company.

Trap: nothing here trades an objective against hardware by itself: a tighter objective shortens the delay and
the batch, and with them what a replica bears, never the other way round.
"""

from __future__ import annotations

import dataclasses

from servingstack.catalog import GIB, Gpu
from servingstack.engines.batcher import CUDA_CONTEXT_BYTES, Batcher

from . import measurement
from .batches import BatchReplica, BatchSpeed, batch_speed, best_size
from .demand import Demand, Limit
from .memory import Footprint, activation_bytes_per_token
from .performance import REQUEST_S
from .precision import Served

MEMORY_SHARE = 0.9
"""Of a GPU's memory; the rest is for allocators and what fragments."""
LARGEST_BATCH = 256
"""Beyond it a batch only adds latency: the arithmetic of a model that is small enough to share a GPU is full
long before."""
GAIN = 1.03
"""A doubled batch that bears less than so many times as much is not worth its latency."""
DELAY_SHARE = 0.25
"""Of what an objective leaves beside a full batch: the rest is for queueing."""
LONGEST_DELAY_S = 0.02
"""Where no objective is near. An assumption: a caller that named none still waits for it at every request."""
DELAY_STEP_S = 1e-4
"""Delays are written in steps of 100 us: a preview must not change for less."""


def of(demand: Demand) -> Batcher:
    """The engine's side. ValueError for an engine that batches token by token."""
    if demand.batcher is None:
        raise ValueError(f"engine {demand.kind.kind} batches token by token")
    return demand.batcher


def footprint(demand: Demand, gpu: Gpu, served: Served, weights: int) -> Footprint:
    """One GPU with every copy of every model, each of the stack's with so many bytes; only the batch is
    open."""
    batcher, model = of(demand), demand.model
    per_request = activation_bytes_per_token(model, 1, served.activation_bytes) * demand.input_tokens
    return Footprint(
        usable=int(gpu.cuda_bytes * MEMORY_SHARE),
        total=gpu.memory_bytes,
        weights=batcher.copies * weights + batcher.other_bytes,
        fixed=batcher.contexts * CUDA_CONTEXT_BYTES,
        per_sequence=batcher.copies * per_request,
        kv_per_token=0.0,
        model=model,
    )


def copy_bytes(demand: Demand, weights: int) -> int:
    """GPU memory of one copy's weights."""
    given = of(demand).copy_bytes
    return weights if given is None else given


def memory_refusal(demand: Demand, gpu: Gpu, foot: Footprint) -> str | None:
    """Why not even a batch of one fits, or None."""
    batcher = of(demand)
    left = foot.usable - foot.weights - foot.fixed
    if left >= foot.per_sequence:
        return None
    copies = f"{batcher.copies} copies" if batcher.copies > 1 else "one copy"
    return (
        f"{gpu.device}: of {foot.usable / GIB:.1f} GiB, {copies} "
        f"of the weights take {foot.weights / GIB:.1f}, CUDA contexts {foot.fixed / GIB:.1f}; a batch of one "
        f"needs {foot.per_sequence / GIB:.1f} more"
    )


def speed_on(demand: Demand, gpu: Gpu, served: Served, weights: int) -> BatchSpeed:
    """Times on a GPU: measured where the input has measurements of it, else by formula."""
    args, model, tokens = demand.args.model, demand.model, demand.input_tokens
    rows = [row for row in args.batch_times if row.accelerator == gpu.device]
    table = tuple((row.batch_size, row.latency.total_seconds()) for row in rows)
    benchmark = measurement.batches(demand, gpu)
    if args.flops_per_request is not None:
        flops = float(args.flops_per_request)
    else:
        attention = 2 * model.layers * model.heads * model.head_dim * tokens * tokens
        flops = 2.0 * model.matmul_parameters * tokens + attention
    found = batch_speed(model, gpu, served, weights, (flops, table or benchmark))
    if demand.args.measured is not None and benchmark and not table:
        return dataclasses.replace(found, source=demand.args.measured.source)
    return found


def opened(demand: Demand, speed: BatchSpeed, foot: Footprint, gpus: int) -> tuple[BatchReplica, str] | str:
    """The largest useful batch, whatever the objectives; a refusal where the pinned one does not fit."""
    batcher, pinned = of(demand), of(demand).max_batch_size
    most = LARGEST_BATCH if foot.per_sequence <= 0 else foot.most_sequences(1, 1)
    delay = 0.0 if batcher.queue_delay_s is None else batcher.queue_delay_s
    replica = BatchReplica(speed, 1, batcher.copies, gpus, delay)
    if pinned is not None:
        if pinned > most:
            return f"a batch of {pinned} does not fit beside the weights; {most} do"
        return dataclasses.replace(replica, batch=pinned), batcher.batch_path
    limited_by = "GPU memory" if most < LARGEST_BATCH else "what a larger batch would gain"
    measured = best_size(speed)
    if measured is not None and measured <= most:
        return dataclasses.replace(replica, batch=measured), "the measured batches"
    while 2 * replica.batch <= min(most, LARGEST_BATCH):
        larger = dataclasses.replace(replica, batch=2 * replica.batch)
        if larger.rate(larger.places) < GAIN * replica.rate(replica.places):
            return replica, "what a larger batch would gain"
        replica = larger
    return replica, limited_by


def narrowed(demand: Demand, replica: BatchReplica, limited_by: str) -> tuple[BatchReplica, str]:
    """The largest batch that keeps every objective while it is full, and the delay that they leave."""
    batcher = of(demand)
    while batcher.max_batch_size is None and replica.batch > 1:
        missed = next((limit for limit in demand.limits if _full(replica) > limit.seconds), None)
        if missed is None:
            break
        replica, limited_by = dataclasses.replace(replica, batch=replica.batch // 2), missed.path
    if batcher.queue_delay_s is None:
        replica = dataclasses.replace(replica, delay_s=delay_of(replica, demand.limits))
    return replica, limited_by


def _full(replica: BatchReplica) -> float:
    return REQUEST_S + replica.delay_s + replica.service(float(replica.places))


def delay_of(replica: BatchReplica, limits: tuple[Limit, ...]) -> float:
    """How long a request may wait for company: a quarter of what the tightest objective leaves beside a full
    batch, at most the time of one, in whole steps. 0 for batches of one."""
    if replica.batch == 1:
        return 0.0
    service = replica.service(float(replica.places))
    left = min(limit.seconds for limit in limits) - REQUEST_S - service
    wanted = max(0.0, min(DELAY_SHARE * left, service, LONGEST_DELAY_S))
    return int(wanted / DELAY_STEP_S + 1e-9) * DELAY_STEP_S
