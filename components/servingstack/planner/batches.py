"""How long a batch of whole requests takes, and what a replica under load makes of it: classifiers, embedders
and anything else that answers at once.

A batch takes what it costs to start (host, kernels), then the longer of reading the weights once and of the
arithmetic of all its requests. Copies on one GPU share it: they overlap the host's part of one batch with the
GPU's part of another, and no more.

Trap: the batcher's delay is part of every request's latency. A plan that leaves it out keeps its objective on
paper.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log

from servingstack.catalog import Gpu, Model

from .demand import Limit
from .load import bisect
from .performance import (
    LAYER_S,
    MEMORY_EFFICIENCY,
    OTHER_BAND,
    REQUEST_S,
    SEQUENCE_S,
    STEP_S,
    correction,
    weight_flops,
)
from .precision import Served
from .queueing import admission_wait, occupancy

MEASURED_BAND = 0.15
"""Of a measured table: other machines, drivers and inputs."""


@dataclass(frozen=True, slots=True)
class BatchSpeed:
    """Times of one copy of a model on one GPU, seconds."""

    model: Model
    start_s: float
    """Of each batch, on the host and for its kernels."""
    host_request_s: float
    """Of each request, on the host."""
    read_s: float
    """To read the weights once."""
    request_s: float
    """Arithmetic of one request."""
    table: tuple[tuple[int, float], ...]
    """Measured: batch size and seconds, rising; empty for none."""
    band: float
    source: str

    def host(self, size: float) -> float:
        """The part that does not need the GPU. A measured time is all GPU: it cannot be told apart."""
        return 0.0 if self.table else self.start_s + size * self.host_request_s

    def gpu(self, size: float) -> float:
        """The part that does."""
        if self.table:
            return _interpolated(self.table, size)
        return max(self.read_s, size * self.request_s)


def _interpolated(table: tuple[tuple[int, float], ...], size: float) -> float:
    """Between measured sizes along the line, above them in proportion, below them as the smallest."""
    sizes = [row[0] for row in table]
    if size <= sizes[0]:
        return table[0][1]
    if size >= sizes[-1]:
        return table[-1][1] * size / sizes[-1]
    right = bisect_left(sizes, size)
    (low, low_s), (high, high_s) = table[right - 1], table[right]
    return low_s + (high_s - low_s) * (size - low) / (high - low)


def batch_speed(
    model: Model, gpu: Gpu, served: Served, weights: int, work: tuple[float, tuple[tuple[int, float], ...]]
) -> BatchSpeed:
    """Times on a GPU; `work` is the arithmetic of one request and what was measured on this GPU."""
    fix = correction(gpu)
    flops, table = work
    ordered = tuple(sorted(table))
    return BatchSpeed(
        model=model,
        start_s=(STEP_S + LAYER_S * model.layers) * fix.slower,
        host_request_s=SEQUENCE_S * fix.slower,
        read_s=weights / (gpu.bandwidth_bytes_per_s * MEMORY_EFFICIENCY / fix.slower),
        request_s=flops / (weight_flops(gpu, served) / fix.slower),
        table=ordered,
        band=MEASURED_BAND if ordered else OTHER_BAND,
        source="measured batches" if ordered else f"roofline, {fix.source}",
    )


def furthest(speed: BatchSpeed) -> tuple[int, float, float] | None:
    """Where the own estimate was off most: a measured size with the measured and the estimated seconds; None
    without a table."""
    own = replace(speed, table=())
    rows = [(size, seconds, own.host(size) + own.gpu(size)) for size, seconds in speed.table]
    return max(rows, key=lambda row: abs(log(row[1] / row[2])), default=None)


def best_size(speed: BatchSpeed) -> int | None:
    """Of a measured table, the size with the highest throughput; None without one."""
    if not speed.table:
        return None
    return max(speed.table, key=lambda row: row[0] / row[1])[0]


def rises(table: tuple[tuple[int, float], ...]) -> bool:
    """Whether larger batches never took less time."""
    return all(low[1] <= high[1] for low, high in pairwise(sorted(table)))


@dataclass(frozen=True, slots=True)
class BatchReplica:
    """One replica: copies on each of its GPUs, each with batches of up to `batch` requests."""

    speed: BatchSpeed
    batch: int
    copies: int
    """On each GPU."""
    gpus: int
    delay_s: float
    """The batcher's longest wait for company."""
    output_tokens: int = 1

    @property
    def places(self) -> int:
        """Requests that run at once."""
        return self.batch * self.copies * self.gpus

    def service(self, in_flight: float) -> float:
        """Time of a batch with so many requests running: as few copies as possible are busy."""
        busy = min(float(self.copies), max(1.0, in_flight / self.gpus))
        size = max(1.0, in_flight / (self.copies * self.gpus))
        return max(busy * self.speed.gpu(size), self.speed.host(size) + self.speed.gpu(size))

    def tpot(self, in_flight: float) -> float:
        """A whole answer is one token: the time of a batch."""
        return self.service(in_flight)

    def rate(self, in_flight: float) -> float:
        """Requests per second finished with so many running."""
        return in_flight / self.service(in_flight)

    def ttft_unqueued(self, in_flight: float) -> float:
        """The answer to a request that finds a free copy and no company: the whole delay, then a batch."""
        return REQUEST_S + self.delay_s + self.service(in_flight)

    def ttft_at(self, in_flight: float, q: float) -> float:
        """The answer at quantile `q`: the delay, the rest of a running batch, the queue, the own batch."""
        service = self.service(in_flight)
        rest = q * service * min(1.0, in_flight / (self.copies * self.gpus))
        queued = admission_wait(in_flight, self.places, service, q)
        own = self.service(occupancy(in_flight, self.places, q))
        return REQUEST_S + self.delay_s + rest + queued + own

    def tpot_at(self, in_flight: float, q: float) -> float:
        """Nothing comes after the first token."""
        del in_flight, q
        return 0.0

    def latency_at(self, in_flight: float, q: float) -> float:
        """Whole request at quantile `q`."""
        return self.ttft_at(in_flight, q)

    def value(self, limit: Limit, in_flight: float) -> float:
        """What an objective measures."""
        return 0.0 if limit.kind == "tpot" else self.ttft_at(in_flight, limit.q)

    def in_flight_at(self, rate: float) -> float:
        """Mean requests running at an arrival rate; `places` where that is too much."""
        if rate >= self.rate(self.places):
            return float(self.places)
        return bisect(lambda busy: self.rate(busy) <= rate, 0.0, float(self.places))
