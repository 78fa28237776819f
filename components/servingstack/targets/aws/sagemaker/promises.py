"""Objectives and burn rates in CloudWatch's terms.

The share of bad requests over a window is a metric of that period, so no recording is needed: errors over
invocations for availability, and for a latency the percentile rank of its threshold (`PR(0:n)`), exact to the
microsecond. What only the engine counts (time to first token, time per output token) is asked by PromQL.

Traps:
- A metric's period is at most a day here, so the three-day window is three days in a row, which is stricter.
- A burn rate times the budget may be above one, and such an alarm could never fire: it is left out.
- The service's own part of the time (OverheadLatency) has no joint distribution with the model's, so an
  objective on the whole request counts the model's time alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from servingstack.args import latency_objectives
from servingstack.signals import Stack
from servingstack.signals.burn_rates import BURN_RATES
from servingstack.signals.drafts import Severity
from servingstack.signals.objectives import promised
from servingstack.watched import Condition, Metric, Objective

from .metrics import MINUTE_S, Series
from .watch import is_asynchronous, series_of

DAY_S = 86400
WINDOWS_S = {"5m": 300, "30m": 1800, "1h": 3600, "2h": 7200, "6h": 21600, "1d": DAY_S, "3d": 3 * DAY_S}


def objectives(stack: Stack, version: str) -> tuple[Objective, ...]:
    """Availability and each latency percentile that was asked for. Raises `InvalidInput` with every objective
    that cannot be counted."""

    def edge(kind: str, seconds: float) -> float:
        return seconds if kind == "latency" else stack.tables.histogram_edge(kind, seconds, version)

    return promised(stack, latency_objectives(stack.args.slo), edge)


def by_engine(objective: Objective) -> bool:
    """Whether only the engine counts it."""
    return objective.id.startswith(("ttft", "tpot"))


def burns(
    stack: Stack, objective: Objective, version: str
) -> Iterator[tuple[Severity, str, tuple[Condition, ...]]]:
    """Every burn rate that can be exceeded: severity, long window, and what must hold at once."""
    budget = (100 - objective.percent) / 100
    for severity, rates in BURN_RATES.items():
        for short, long, factor in rates:
            threshold = round(float(factor) * budget, 9)
            if threshold >= 1:
                continue
            if by_engine(objective):
                yield severity, long, (_asked(stack, objective, (long, short), threshold, version),)
            else:
                yield (
                    severity,
                    long,
                    tuple(_measured(stack, objective, window, threshold) for window in (long, short)),
                )


def _measured(stack: Stack, objective: Objective, window: str, threshold: float) -> Condition:
    """The share of bad requests in a window, from the service's own series."""
    seconds = WINDOWS_S[window]
    periods = max(1, seconds // DAY_S)
    period = seconds // periods
    expression, metrics = _bad_share(series_of(stack), objective, period, queued=is_asynchronous(stack))
    return Condition(
        expression=expression,
        metrics=metrics,
        threshold=threshold,
        period_s=period,
        evaluation_periods=periods,
        datapoints=periods,
    )


def _bad_share(
    series: Series, objective: Objective, period: int, *, queued: bool
) -> tuple[str, dict[str, Metric]]:
    """An expression over series of one period."""
    if objective.threshold_ms is not None:
        microseconds = round(objective.threshold_ms * 1000)
        within = series.invocation("ModelLatency", f"PR(0:{microseconds})", period)
        return "1 - within / 100", {"within": within}
    if queued:  # no Invocations are published: for each request, 1 or 0 is sent
        return "bad", {"bad": series.invocation("Invocation5XXErrors", "Average", period)}
    return "IF(total > 0, bad / total, 0)", {
        "bad": series.invocation("Invocation5XXErrors", "Sum", period),
        "total": series.invocation("Invocations", "Sum", period),
    }


def _asked(
    stack: Stack, objective: Objective, windows: tuple[str, str], threshold: float, version: str
) -> Condition:
    """The same in PromQL: an alarm's query returns what breaches."""
    kind, selector = objective.id.split("_")[0], series_of(stack).selector
    counts = stack.tables.objective_counts(kind, objective.histogram_edge_s, version)
    shares = [f"(\n{counts.ratio(selector, window)}\n) > {threshold:.6g}" for window in windows]
    return Condition(expression="\nand\n".join(shares), threshold=threshold, period_s=MINUTE_S)
