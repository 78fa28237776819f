"""The user's measured table over the own model, for the candidates that it was measured on.

Trap: only those. A table of one GPU laid over another would make whichever was measured look unlike the rest;
the others keep their estimates, with the bands that those have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

from servingstack import measured
from servingstack.catalog import Gpu
from servingstack.measured import Calibration, Estimated
from servingstack.plan import PlanWarning

from .batches import BatchReplica, furthest
from .demand import Demand
from .load import Replica
from .performance import Speed
from .precision import Served

OF_A_PART = "it is taken to be of whole GPUs, and a part of one is planned, {}"
"""No table can say that it was measured on a slice."""
ROOM = "the measured table"
"""What limits a batch that may not grow beyond what was measured."""


def calibrated(demand: Demand, replica: Replica, gpu: Gpu, gpus: int, served: Served) -> Replica:
    """The replica with its speed as measured, or as it is where no table applies."""
    table = demand.args.measured
    if table is None or refusal(demand, gpu, gpus, served.precision) is not None:
        return replica
    band = measured.band(table, demand.input_tokens, demand.output_tokens)
    known = replace(replica.speed, band=band, source=table.source)
    return replace(replica, speed=known, measured=_calibration(demand, replica))


def refusal(demand: Demand, gpu: Gpu, gpus: int, precision: str) -> str | None:
    """Why the table says nothing about a candidate; None where it does, or where there is none."""
    table, model = demand.args.measured, demand.args.model.id
    if table is None:
        return None
    if gpu.part:
        return OF_A_PART.format(gpu.device)
    return measured.mismatch(
        table, model=model, accelerator=gpu.id, gpus_per_replica=gpus, precision=precision
    )


def room(replica: Replica) -> int | None:
    """Most requests in flight that were worth it when measured; None without a table."""
    return None if replica.measured is None else max(1, int(replica.measured.table.useful))


def batches(demand: Demand, gpu: Gpu) -> tuple[tuple[int, float], ...]:
    """Batch sizes and seconds on a GPU out of the table, rising; empty where it says nothing of them.

    How many requests were in a batch is Little's law over the model's own time: requests per second x its
    seconds. A copy that idles between batches had larger ones than that, so the times err to the safe
    side."""
    table = demand.args.measured
    if table is None or batches_refusal(demand, gpu) is not None:
        return ()
    gpus = 1 if table.gpus_per_replica is None else table.gpus_per_replica
    slowest: dict[int, float] = {}
    for row in table.rows:
        if row.batch_ms is not None:
            size = max(1, round(row.requests_per_s * row.batch_ms / 1000 / gpus))
            slowest[size] = max(slowest.get(size, 0.0), row.batch_ms / 1000)
    sizes = sorted(slowest)
    rising = accumulate((slowest[size] for size in sizes), max)
    return tuple(zip(sizes, rising, strict=True))


def batches_refusal(demand: Demand, gpu: Gpu) -> str | None:
    """Why the table says nothing of an engine's batches of whole requests; None where it does, or where there
    is none."""
    table, batcher = demand.args.measured, demand.batcher
    if table is None or batcher is None:
        return None
    if gpu.part or table.accelerator not in (None, gpu.id):
        measured_on = f"the table was measured with accelerator {table.accelerator} where {gpu.id} is planned"
        return OF_A_PART.format(gpu.device) if gpu.part else measured_on
    if all(row.batch_ms is None for row in table.rows):
        return "it says nothing of the model's own time in a batch; perf_analyzer's CSV from a Triton does"
    if batcher.copies > 1:
        return "copies on one GPU slow each other, and the table cannot tell how much; use model.batch_times"
    if any(row.accelerator == gpu.id for row in demand.args.model.batch_times):
        return "model.batch_times, which are of single batches, win over it"
    return None


def _calibration(demand: Demand, replica: Replica) -> Calibration:
    table = demand.args.measured
    if table is None:
        raise ValueError("no table to calibrate with")
    prompt = demand.input_tokens if table.input_tokens is None else round(table.input_tokens)
    answer = demand.output_tokens if table.output_tokens is None else max(1, round(table.output_tokens))
    cached = demand.cached_tokens if table.input_tokens is None else 0  # benchmarks send no shared prefix
    own = _at(replica, replica.speed, prompt, cached, answer)

    def estimate(concurrency: float) -> Estimated:
        ttft, tpot = own.ttft_unqueued(concurrency), own.tpot(concurrency)
        whole = ttft + (own.output_tokens - 1) * tpot
        return Estimated(ttft * 1000, tpot * 1000, whole * 1000, own.rate(concurrency))

    return measured.calibrate(table, estimate)


def _at(replica: Replica, speed: Speed, prompt: int, cached: int, answer: int) -> Replica:
    """The same replica under traffic of other lengths."""
    return replace(
        replica,
        input_tokens=prompt,
        cached_tokens=cached,
        output_tokens=answer,
        prefill_s=speed.prefill(prompt - cached, cached, replica.step_tokens),
        work_s=speed.prefill_work(prompt - cached, cached),
    )


def warnings_of(replica: object, why_not: str | None) -> Iterator[PlanWarning]:
    """Where the own estimate was off, and a table that the choice does not use."""
    if why_not is not None:
        message = (
            f"The measured table is not used: {why_not}. Measure what is planned, or pin what was measured."
        )
        yield PlanWarning(code="measured-table-unused", path="measured", message=message)
    if isinstance(replica, BatchReplica) and (far := furthest(replica.speed)) is not None:
        size, was, own = far
        if abs(math.log(was / own)) > math.log(1 + measured.NOTEWORTHY):
            said = (
                f"a batch of {size} took {was * 1000:.3g} ms, the planner's own estimate is {own * 1000:.3g}"
            )
            message = f"The measured times are used: {said} ms."
            yield PlanWarning(code="estimate-was-off", path="measured", message=message)
    if isinstance(replica, Replica) and replica.measured is not None:
        for said in replica.measured.sentences():
            message = f"The measured table is used. The planner's own estimate was off: {said}."
            yield PlanWarning(code="estimate-was-off", path="measured", message=message)
