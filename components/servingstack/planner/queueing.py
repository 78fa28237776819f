"""Waiting: for the prompt before mine to be read, and for a place in the batch.

Trap: the queue before prefill is served one prompt at a time although decoding is batched, so it is long
before the GPU looks busy. Both formulas are tails, not means: an objective is a percentile."""

from __future__ import annotations

import math


def prefill_wait(arrivals: float, service: float, q: float) -> float:
    """Wait, at quantile `q`, in a queue with Poisson arrivals (1/s) and one server with a fixed service time
    (s).

    The tail of M/D/1 falls as exp(-2 (1 - load) t / service); infinite from full load on."""
    load = arrivals * service
    if load >= 1:
        return math.inf
    if load <= 1 - q:
        return 0.0
    return service / (2 * (1 - load)) * math.log(load / (1 - q))


def admission_wait(in_flight: float, places: int, service: float, q: float) -> float:
    """Wait, at quantile `q`, for one of `places` in the batch, each held for `service` seconds.

    M/M/c with Sakasegawa's approximation of the chance to wait; infinite from full load on."""
    load = in_flight / places
    if load >= 1:
        return math.inf
    chance = load ** (math.sqrt(2 * (places + 1)) - 1)
    if chance <= 1 - q:
        return 0.0
    return service / (places * (1 - load)) * math.log(chance / (1 - q))


_Z = {0.50: 0.0, 0.95: 1.645, 0.99: 2.326}
"""Standard normal quantiles."""


def deviation(mean: float, q: float) -> float:
    """By how much a Poisson number exceeds its mean at quantile `q`."""
    return _Z[q] * math.sqrt(mean)


def occupancy(mean: float, places: int, q: float) -> float:
    """Sequences in the batch at quantile `q`: Poisson about the mean, never more than there are places."""
    return min(float(places), mean + deviation(mean, q))
