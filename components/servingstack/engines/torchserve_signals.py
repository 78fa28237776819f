"""TorchServe's signals as PromQL, in its Prometheus metrics mode.

Traps:
- Its latencies are counters of microseconds that only grow: a raw one as a scaling signal scales up for ever.
  They are always asked as rates, and a mean is the rate of the time over the rate of the requests.
- There is no gauge of waiting requests. By Little's law the time that requests spent waiting, per second,
  *is* their mean number; so the rate of the queue's counter is the queue depth. It is counted as answers
  leave, so a server that answers nothing shows none: the front door bounds what it sends to a replica and
  counts the rest.
- `ts_inference_latency_microseconds` holds the wait as well as the work.
- `QueueTime` and `PredictionTime` are the last request's, not a mean.
- `Requests2XX` and its kin also count health checks and scrapes.
- There are no histograms, so a percentile of latency cannot be counted (`unavailable`).
- A counter has no series until it first counts, so a ratio over `Requests5XX` needs `or vector(0)`.
"""

from __future__ import annotations

from functools import cache

from servingstack.engines.signal import Counts, EngineSignal, rate
from servingstack.engines.torchserve import VERSION

REQUESTS = "ts_inference_requests_total"
LATENCY = "ts_inference_latency_microseconds"
QUEUE = "ts_queue_latency_microseconds"
ERRORS = "Requests5XX"
QUEUE_WINDOW = "2m"
"""Of the queue depth: four scrapes of 30 s. A scaler cannot wait for the 5 minutes of a panel."""


@cache
def signals(version: str | None = VERSION) -> dict[str, EngineSignal]:
    """Every signal of the engine by id, whatever the release: at a project's end no name moves any more."""
    del version
    latency, queue, requests = (rate(name) for name in (LATENCY, QUEUE, REQUESTS))
    found = [
        EngineSignal("requests_per_second", "Requests", "reqps", requests, (REQUESTS,)),
        EngineSignal(
            "queue_depth", "Waiting requests", "count", f"{rate(QUEUE, window=QUEUE_WINDOW)} / 1e6", (QUEUE,)
        ),
        EngineSignal(
            "running", "Running requests", "count", f"({latency} - {queue}) / 1e6", (LATENCY, QUEUE)
        ),
        EngineSignal(
            "latency_mean", "Request latency, mean", "s", _mean(latency, requests), (LATENCY, REQUESTS)
        ),
        EngineSignal(
            "queue_time_mean", "Time in queue, mean", "s", _mean(queue, requests), (QUEUE, REQUESTS)
        ),
        EngineSignal(
            "error_rate",
            "Server errors",
            "ratio",
            _error_counts().ratio("$selector", "$window"),
            (ERRORS, REQUESTS),
        ),
    ]
    return {signal.id: signal for signal in found}


def _mean(time: str, requests: str) -> str:
    """Microseconds per second over requests per second, as seconds. Without requests it is 0, not a gap."""
    return f"{time}\n/\nclamp_min({requests}, 1e-9) / 1e6"


def _error_counts() -> Counts:
    return Counts(rate(REQUESTS), f"{rate(ERRORS)} or vector(0)")


def objective_counts(kind: str, threshold_s: float | None = None, version: str | None = VERSION) -> Counts:
    """Counters of an objective: `availability` alone. ValueError for a latency."""
    del version
    if kind == "availability":
        return _error_counts()
    raise ValueError(_refusal(kind, threshold_s))


def histogram_edge(kind: str, threshold_s: float, version: str | None = VERSION) -> float:
    """ValueError always: there is no histogram."""
    del version
    raise ValueError(_refusal(kind, threshold_s))


def _refusal(kind: str, threshold_s: float | None) -> str:
    asked = "" if threshold_s is None else f" of {threshold_s:g} s"
    return (
        f"an objective that TorchServe's counters hold; a {kind}{asked} needs a histogram | Leave it out, "
        "and watch `latency_mean`."
    )


def stalled(selector: str, window: str = "5m") -> str:
    """True for a replica that gets requests and answers none: /ping may still say 200."""
    asked = f"rate({REQUESTS}{{{selector}}}[{window}]) > 0"
    answered = f"rate({LATENCY}{{{selector}}}[{window}]) == 0"
    return f"({asked}) and ({answered})"
