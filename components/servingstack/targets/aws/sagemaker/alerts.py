"""Alerts: two or more per objective, and a few for what an objective sees too late or not at all.

Trap: a PromQL alarm is OK while its series is absent, so an objective that only the engine counts would be
silent where detailed observability is off. What must exist is therefore asked for with `absent`, and an
asynchronous endpoint, which has none of it, gets no such alarm at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal

from servingstack.signals import Stack
from servingstack.signals.drafts import AT_MAXIMUM_S, GRACE_S, Draft, Severity, burn, finished
from servingstack.units import format_duration
from servingstack.watched import Alert, Condition, Metric, Objective

from .metrics import MINUTE_S
from .promises import burns, by_engine
from .watch import is_asynchronous, series_of

# The product's own choices, beside those of every option.
SATURATED = 1.25
"""Times the target of requests in flight: the scaler has not brought it down, so it can add no more."""
LEAST_AGE_S = 900
"""Youngest backlog that pages where no deadline is given."""
MOST_PERIODS = 1440
"""An alarm of one-minute periods looks back at most a day (botocore, cloudwatch PutMetricAlarm.Period)."""


def alerts(stack: Stack, promised: Sequence[Objective], version: str) -> tuple[Alert, ...]:
    """Every alert of a stack; none where `observability.alerts` is false."""
    return finished(stack, _drafts(stack, promised, version))


def _drafts(stack: Stack, promised: Sequence[Objective], version: str) -> Iterator[Draft]:
    for objective in promised:
        yield from _burning(stack, objective, version)
    if any(by_engine(objective) for objective in promised):
        yield _absent(stack, version)
    if stack.generates and not is_asynchronous(stack):
        yield _zombie(stack)
    yield from _of_backlog(stack) if is_asynchronous(stack) else _of_capacity(stack)


def _draft(name: str, severity: Severity, condition: Condition, for_s: int, texts: tuple[str, str]) -> Draft:
    """One condition; `texts` are what is said and the runbook."""
    return Draft(name, severity, _said(condition), for_s, *texts, conditions=(condition,))


def _said(condition: Condition) -> str:
    """A condition as one reads it."""
    if not condition.metrics:
        return condition.expression
    window = condition.period_s * condition.evaluation_periods
    series = {name: f"{metric.statistic}({metric.name})" for name, metric in condition.metrics.items()}
    listed = ", ".join(f"{name} = {text}" for name, text in series.items())
    return (
        f"{condition.expression} {condition.comparison} {condition.threshold:.6g} over {window}s ({listed})"
    )


def _burning(stack: Stack, objective: Objective, version: str) -> Iterator[Draft]:
    good = (
        "without a server error"
        if objective.histogram_edge_s is None
        else f"with {objective.id.split('_')[0]} up to {objective.histogram_edge_s:g} s"
    )
    for severity, window, conditions in burns(stack, objective, version):
        said = " AND ".join(_said(condition) for condition in conditions)
        draft = burn(stack.args.name, objective, severity, good, said)
        yield replace(
            draft,
            name=f"{draft.name}{window}",
            summary=f"{draft.summary.removesuffix('.')}, seen over {window}.",
            conditions=conditions,
        )


def _absent(stack: Stack, version: str) -> Draft:
    """The engine's own series must be there for its objectives to count anything."""
    metric = stack.tables.signals(version)["ttft_p95"].metrics[0]
    query = f"absent({metric}_count{{{series_of(stack).selector}}})"
    return _draft(
        "ServingEngineSeriesAbsent",
        "ticket",
        Condition(expression=query, threshold=0, period_s=MINUTE_S),
        max(GRACE_S, 2 * stack.timeouts.startup_s),
        (
            f"CloudWatch has none of {stack.args.name}'s engine metrics, so objectives on tokens count "
            "nothing: is detailed observability on for this account and endpoint?",
            "engine-series-absent",
        ),
    )


def _zombie(stack: Stack) -> Draft:
    return _draft(
        "ServingZombieReplica",
        "page",
        Condition(expression=stack.tables.stalled(series_of(stack).selector), threshold=0, period_s=MINUTE_S),
        GRACE_S,
        (
            f"An instance of {stack.args.name} has running requests and makes no tokens, while it "
            "answers pings.",
            "zombie-replica",
        ),
    )


def _of_capacity(stack: Stack) -> Iterator[Draft]:
    if not stack.scaling.autoscaled:
        return
    in_flight = series_of(stack).invocation("ConcurrentRequestsPerModel", "Average")
    yield _draft(
        "ServingReplicasAtMaximum",
        "ticket",
        _lasting("in_flight", in_flight, ">", SATURATED * stack.scaling.threshold, AT_MAXIMUM_S // MINUTE_S),
        AT_MAXIMUM_S,
        (
            f"{stack.args.name} keeps more requests in flight than scaling aims at: it has all its "
            f"{stack.scaling.max_replicas} instances, or cannot get more.",
            "replicas-at-maximum",
        ),
    )


def _of_backlog(stack: Stack) -> Iterator[Draft]:
    series, name = series_of(stack), stack.args.name
    deadline = stack.args.traffic.deadline
    start_s = math.ceil(stack.scaling.cold_start.total_s)
    oldest = max(LEAST_AGE_S, 2 * start_s) if deadline is None else math.ceil(deadline.total_seconds())
    yield _draft(
        "ServingBacklogTooOld",
        "page",
        _lasting("age", series.backlog("ApproximateAgeOfOldestRequest", "Maximum"), ">", oldest, 5),
        GRACE_S,
        (
            f"A request of {name} has waited longer than {format_duration(timedelta(seconds=oldest))}.",
            "backlog-too-old",
        ),
    )
    minutes = min(MOST_PERIODS, math.ceil((2 * start_s + GRACE_S) / MINUTE_S))
    yield _draft(
        "ServingBacklogWithoutCapacity",
        "page",
        _lasting("waiting", series.backlog("HasBacklogWithoutCapacity", "Maximum"), ">=", 1, minutes),
        minutes * MINUTE_S,
        (
            f"{name} has requests and no instance, for longer than a start takes.",
            "no-ready-replica",
        ),
    )
    for metric, what in (
        ("ResponseUploadFailures", "answers could not be put into the bucket"),
        ("RequestDownloadFailures", "requests could not be read from their bucket"),
        ("ExpiredRequests", "requests expired in the backlog"),
    ):
        yield _draft(
            f"Serving{metric}",
            "ticket",
            _lasting("failed", series.invocation(metric, "Sum"), ">", 0, 1),
            0,
            (
                f"{name}: {what}.",
                "backlog-too-old",
            ),
        )


def _lasting(
    name: str, metric: Metric, comparison: Literal[">", ">="], threshold: float, minutes: int
) -> Condition:
    return Condition(
        expression=name,
        metrics={name: metric},
        comparison=comparison,
        threshold=threshold,
        period_s=MINUTE_S,
        evaluation_periods=minutes,
        datapoints=minutes,
    )
