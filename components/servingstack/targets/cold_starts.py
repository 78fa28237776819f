"""What scale to zero costs in promises: which share of the requests meets a cold start.

Requests that come at random (Poisson) at the mean rate leave a gap longer than the idle time with the
probability exp(-rate x idle time); the one after such a gap waits for a start, and so do those that come
while it lasts. Traffic that sleeps at night meets fewer, traffic in bursts more: it is an estimate of the kind, not
of the digit.

Trap: the mean hides it. At one request in ten minutes and an idle time of five, more than half of all
requests are cold, and every percentile above the median is a cold start.
"""

from __future__ import annotations

import math


def cold_share(rate: float, idle_s: float, start_s: float) -> float:
    """Share of requests, 0 to 1, at `rate` per second."""
    if rate <= 0:
        return 1.0
    first = math.exp(-rate * idle_s)
    waiting = first * rate * start_s  # those that come while a container starts, per request that finds none
    return min(1.0, (first + waiting) / (1 + waiting))
