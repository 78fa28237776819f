"""Alerts: two per objective, and a few for what an objective sees too late or not at all.

A log alert is a query that has a row where something is wrong; a metric alert holds a metric of the service
against a number. Both go to one action group.

Traps:
- Nothing fires without rows. What is asked of the logs is therefore also asked of the service's own metric of
  replicas, which is there without any log.
- A replica counts in that metric as soon as it runs, warm or not. That none is ready shows in the ingress'
  answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from servingstack.signals.drafts import AT_MAXIMUM_S, REJECTED_SHARE, Draft, Severity, burn, finished
from servingstack.signals.stack import Stack
from servingstack.watched import Alert, Condition, Objective

from . import logs
from .promises import BURN_RATES, LOOK_BACK_S, burn_query, counted
from .watch import metric

STALLED_REQUESTS = 3
"""Requests of one replica that all ran into the request timeout."""
WINDOW_S = 300
METRIC_WINDOWS_S = (60, 300, 900, 1800, 3600, 6 * 3600, 12 * 3600, 24 * 3600)
"""Windows that a metric alert can have (azurerm, monitor_metric_alert: window_size)."""


def alerts(stack: Stack, promised: Sequence[Objective]) -> tuple[Alert, ...]:
    """Every alert; none where `observability.alerts` is off."""
    return finished(stack, _drafts(stack, promised))


def _drafts(stack: Stack, promised: Sequence[Objective]) -> Iterator[Draft]:
    for objective in promised:
        yield from _burning(stack, objective)
    yield _no_replica(stack)
    yield _queue_full(stack)
    yield _stalled(stack)
    if stack.scaling.min_replicas > 0:
        yield _below_minimum(stack)
    if stack.scaling.autoscaled:
        yield _at_maximum(stack)


def _draft(name: str, severity: Severity, condition: Condition, summary: str, runbook: str) -> Draft:
    for_s = condition.period_s if condition.metrics else 0
    return Draft(name, severity, condition.expression, for_s, summary, runbook, (condition,))


def _logged(query: str, period_s: int) -> Condition:
    """True where the query has a row."""
    return Condition(expression=query, comparison=">", threshold=0, period_s=period_s)


def _burning(stack: Stack, objective: Objective) -> Iterator[Draft]:
    kind, rows = objective.id.split("_")[0], counted(stack, objective)
    good = (
        "without a server error"
        if objective.threshold_ms is None
        else f"with {kind} up to {objective.threshold_ms:g} ms"
    )
    for severity in BURN_RATES:
        query = burn_query(rows, objective.percent, severity)
        draft = burn(stack.args.name, objective, severity, good, query)
        yield replace(draft, conditions=(_logged(query, LOOK_BACK_S[severity]),))


def _no_replica(stack: Stack) -> Draft:
    """A stack at zero lets its first requests wait for a cold start: that is no outage yet."""
    start_s = round(stack.scaling.cold_start.total_s) if stack.scaling.min_replicas == 0 else 0
    window_s = _window(WINDOW_S + start_s)
    query = (
        f"{logs.requests(stack.names['app'])}\n| where Passed\n"
        "| summarize Requests = count(), Unserved = countif(StatusCode in (502, 503, 504))\n"
        "| where Requests > 0 and Unserved == Requests"
    )
    return _draft(
        "ServingNoReadyReplica",
        "page",
        _logged(query, window_s),
        f"{stack.args.name} answers none of its requests: no replica is ready.",
        "no-ready-replica",
    )


def _queue_full(stack: Stack) -> Draft:
    share = logs.share("StatusCode == 429", "Passed or StatusCode == 429")
    rows = logs.requests(stack.names["app"])
    query = f"{rows}\n| summarize Refused = {share}\n| where Refused > {REJECTED_SHARE}"
    return _draft(
        "ServingQueueFull",
        "page",
        _logged(query, WINDOW_S),
        f"{stack.args.name} refuses more than {REJECTED_SHARE:.0%} of its requests (429).",
        "queue-full",
    )


def _stalled(stack: Stack) -> Draft:
    query = (
        f"{logs.requests(stack.names['app'])}\n| where Passed and isnotempty(ReplicaName)\n"
        "| summarize Requests = count(), Late = countif(StatusCode == 504) by ReplicaName\n"
        f"| where Requests >= {STALLED_REQUESTS} and Late == Requests"
    )
    return _draft(
        "ServingZombieReplica",
        "page",
        _logged(query, WINDOW_S),
        f"A replica of {stack.args.name} answers nothing in time, while its health check is green. Restart "
        "its revision.",
        "zombie-replica",
    )


def _below_minimum(stack: Stack) -> Draft:
    least = stack.scaling.min_replicas
    condition = Condition(
        expression="replicas",
        metrics={"replicas": metric("Replicas", "Maximum")},
        comparison="<",
        threshold=least,
        period_s=_window(stack.timeouts.startup_s + WINDOW_S),
    )
    return _draft(
        "ServingReplicasBelowMinimum",
        "ticket",
        condition,
        f"{stack.args.name} has fewer than {least} replicas for longer than a start takes: a GPU may not be "
        "free in the region, or the subscription's quota is used up.",
        "replicas-below-minimum",
    )


def _at_maximum(stack: Stack) -> Draft:
    most = stack.scaling.max_replicas
    condition = Condition(
        expression="replicas",
        metrics={"replicas": metric("Replicas", "Minimum")},
        comparison=">=",
        threshold=most,
        period_s=_window(AT_MAXIMUM_S),
    )
    return _draft(
        "ServingReplicasAtMaximum",
        "ticket",
        condition,
        f"{stack.args.name} has run all its {most} replicas for half an hour: raise max_replicas.",
        "replicas-at-maximum",
    )


def _window(seconds: int) -> int:
    """The shortest window that is long enough; a day at most."""
    return next((each for each in METRIC_WINDOWS_S if each >= seconds), METRIC_WINDOWS_S[-1])
