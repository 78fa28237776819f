"""A replica under load: what its users see with so many requests in flight, and how many it can serve.

The load is described by the mean number of sequences in the batch, since everything rises with it: step time,
throughput, waiting. That makes each search here a bisection.

Trap: throughput keeps rising a little as the batch grows while latency rises a lot; the last percents cost
everything. A replica is therefore planned at a share of what it could do at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from servingstack.measured import Calibration, Quantity

from .demand import Limit
from .performance import REQUEST_S, Speed
from .queueing import admission_wait, deviation, occupancy, prefill_wait

SATURATION = 0.72
"""Share of the highest throughput that is planned for. Measured engines miss the model by 10 to 35 %, and
queues grow without bound at 1."""
SHARED_STEP = 1.2
"""Prompts that are read in one step get their first token together, when the last of them is read. From a
simulation step by step (`tests/planner/simulation.py`), which the formulas follow within 20 %."""
_STEPS = 18
"""Halvings: to 4 millionths of the range."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica: its speed, its traffic's shape and its batch limit."""

    speed: Speed
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    step_tokens: int
    places: int
    """max_num_seqs."""
    prefill_s: float
    """To read a prompt alone."""
    work_s: float
    """What reading a prompt adds to steps that run anyway."""
    measured: Calibration | None = None
    """A user's table, which corrects every estimate below."""
    pools: bool = False
    """Whether a prompt is the whole request, as of an embedding: whoever is in the batch is read before the
    answer, so a batch's time is a request's."""

    @property
    def mean_tokens(self) -> float:
        """Mean length of a sequence while it decodes."""
        return self.input_tokens + self.output_tokens / 2

    def _seen(self, quantity: Quantity, in_flight: float) -> float:
        """What the table corrects the estimate by; 1 without one."""
        return 1.0 if self.measured is None else self.measured.factor(quantity, in_flight)

    def _per_token(self, in_flight: float) -> float:
        step = self.speed.decode(in_flight, self.mean_tokens)
        return step + in_flight / self.output_tokens * self.work_s / self.speed.pp

    def tpot(self, in_flight: float) -> float:
        """Time per output token: a decode step, plus this token's share of the prompts read meanwhile."""
        return self._per_token(in_flight) * self._seen("tpot", in_flight)

    def rate(self, in_flight: float) -> float:
        """Requests per second finished with so many in flight."""
        alone = in_flight / (self.output_tokens * self._per_token(in_flight))
        return alone * self._seen("rate", in_flight)

    def service(self, in_flight: float) -> float:
        """To read one prompt while others decode."""
        chunks = -(-(self.input_tokens - self.cached_tokens) // self.step_tokens)
        return self.prefill_s + chunks * self.speed.beside(in_flight, self.mean_tokens)

    def queued(self, in_flight: float) -> float:
        """What one prompt adds to the wait of the next: short prompts share a step and its overhead."""
        share = (self.input_tokens - self.cached_tokens) / self.step_tokens
        return self.work_s + share * self.speed.beside(in_flight, self.mean_tokens)

    def ttft_unqueued(self, in_flight: float) -> float:
        """Time to first token of a prompt that finds no other prompt before it."""
        found = self.speed.decode(in_flight, self.mean_tokens) + self.service(in_flight) + REQUEST_S
        return self._read_together(found * self._seen("ttft", in_flight), in_flight)

    def _read_together(self, alone: float, in_flight: float) -> float:
        """Where prompts are all there is, at least the time in which so many are read."""
        return max(alone, REQUEST_S + self.tpot(in_flight)) if self.pools else alone

    def ttft_at(self, in_flight: float, q: float) -> float:
        """Time to first token at quantile `q`: rest of a step, queue, own prompt."""
        step = self.speed.decode(in_flight, self.mean_tokens)
        hold = self.output_tokens * self.tpot(in_flight)
        wait = SHARED_STEP * prefill_wait(self.rate(in_flight), self.queued(in_flight) / self.speed.pp, q)
        wait += admission_wait(in_flight, self.places, hold, q)
        unqueued = step * q + self.service(in_flight) + REQUEST_S
        found = wait + unqueued * self._seen("ttft", in_flight)
        return self._read_together(found, occupancy(in_flight, self.places, q))

    def tpot_at(self, in_flight: float, q: float) -> float:
        """Time per output token at quantile `q`: more sequences in the batch, and more prompts read
        meanwhile.

        Prompts that are read make the answers longer, in which more prompts arrive: hence the square."""
        step = self.speed.decode(occupancy(in_flight, self.places, q), self.mean_tokens)
        reading = self.work_s / self.speed.pp
        busy = self.rate(in_flight) * reading
        prompts = in_flight + deviation(in_flight, q) / (1 - busy) ** 2
        return (step + prompts / self.output_tokens * reading) * self._seen("tpot", in_flight)

    def latency_at(self, in_flight: float, q: float) -> float:
        """Whole request at quantile `q`, of mean length."""
        return self.ttft_at(in_flight, q) + (self.output_tokens - 1) * self.tpot_at(in_flight, q)

    def value(self, limit: Limit, in_flight: float) -> float:
        """What an objective measures."""
        if limit.kind == "ttft":
            return self.ttft_at(in_flight, limit.q)
        if limit.kind == "tpot":
            return self.tpot_at(in_flight, limit.q)
        return self.latency_at(in_flight, limit.q)

    def in_flight_at(self, rate: float) -> float:
        """Mean requests in flight at an arrival rate; `places` where that is too much."""
        if rate >= self.rate(self.places):
            return float(self.places)
        return bisect(lambda busy: self.rate(busy) <= rate, 0.0, float(self.places))


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one replica can serve."""

    rate: float
    in_flight: float
    saturation: float
    """Highest rate, with every place taken."""
    limited_by: str


def bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest value for which a condition holds that only ever turns false; `low` if never."""
    if holds(high):
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


class Bears(Protocol):
    """What is asked of a replica to find what it bears."""

    @property
    def places(self) -> int: ...
    def rate(self, in_flight: float) -> float: ...
    def value(self, limit: Limit, in_flight: float) -> float: ...


def capacity(replica: Bears, limits: tuple[Limit, ...]) -> Capacity:
    """The most a replica serves while it keeps every limit and stays below saturation."""
    most = replica.rate(replica.places)
    planned = SATURATION * most
    best = bisect(lambda busy: replica.rate(busy) <= planned, 0.0, float(replica.places))
    limited_by = f"{SATURATION:.0%} of saturation"
    for limit in limits:
        kept = bisect(lambda busy, limit=limit: replica.value(limit, busy) <= limit.seconds, 0.0, best)
        if kept < best:
            best, limited_by = kept, limit.path
    return Capacity(replica.rate(best), best, most, limited_by)
