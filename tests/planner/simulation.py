"""Continuous batching, step by step: an independent check of the queueing formulas.

It shares the duration of a step with the planner and nothing else: Poisson arrivals, first come first served,
a token budget per step that decoding sequences fill first and prompts share after them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from servingstack.planner.load import Replica
from servingstack.planner.performance import REQUEST_S


@dataclass
class Request:
    arrived: float
    read: int = 0
    written: int = 0
    first: float = 0.0


@dataclass
class Seen:
    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)

    @staticmethod
    def quantile(values: list[float], q: float) -> float:
        return sorted(values)[int(q * (len(values) - 1))]


def simulate(replica: Replica, rate: float, requests: int, seed: int) -> Seen:
    """What so many requests see."""
    source = random.Random(seed)
    arrivals: list[Request] = []
    now = 0.0
    for _ in range(requests):
        now += source.expovariate(rate)
        arrivals.append(Request(now))
    waiting, reading, writing = arrivals[::-1], list[Request](), list[Request]()
    seen, clock = Seen(), 0.0
    while waiting or reading or writing:
        if not reading and not writing:
            clock = max(clock, waiting[-1].arrived)
        while waiting and waiting[-1].arrived <= clock and len(reading) + len(writing) < replica.places:
            reading.append(waiting.pop())
        clock += _step(replica, reading, writing)
        _finish(replica, reading, writing, clock, seen)
    return seen


def _step(replica: Replica, reading: list[Request], writing: list[Request]) -> float:
    """Read prompts within the budget; the duration by bytes and arithmetic of all that is in the step."""
    pace, budget = replica.speed, replica.step_tokens - len(writing)
    work, taken = 0.0, 0
    for request in reading:
        chunk = min(budget, replica.input_tokens - request.read)
        work += pace.prefill_work(chunk, request.read)
        request.read += chunk
        budget, taken = budget - chunk, taken + chunk
    cached = sum(replica.input_tokens + request.written for request in writing)
    alone = pace.decode(1e-9, 0) - pace.step_s  # the weights, read once
    more = len(writing) * (pace.sequence_s + pace.hop_token_s) + cached * pace.kv_token_s
    return max(alone, work + len(writing) * pace.token_s) + pace.step_s + more


def _finish(
    replica: Replica, reading: list[Request], writing: list[Request], clock: float, seen: Seen
) -> None:
    for request in list(writing):
        request.written += 1
        if request.written >= replica.output_tokens:
            writing.remove(request)
            seen.tpot.append((clock - request.first) / (replica.output_tokens - 1))
    for request in list(reading):
        if request.read >= replica.input_tokens:
            reading.remove(request)
            request.first, request.written = clock, 1
            writing.append(request)
            seen.ttft.append(clock - request.arrived + REQUEST_S)
