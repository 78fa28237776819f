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

from collections.abc import Sequence
from dataclasses import dataclass

from servingstack.signals.stack import Stack
from servingstack.watched import Alert, Condition, Objective

from . import logs
from .promises import LOOK_BACK_S, Severity, burn_query, counted
from .watch import metric

REJECTED_SHARE = 0.05
"""Share of 429 that pages: one request in twenty refused. The same on every option."""
STALLED_REQUESTS = 3
"""Requests of one replica that all ran into the request timeout."""
WINDOW_S = 300
AT_MAXIMUM_S = 1800
RUNBOOKS = "docs/runbooks"
METRIC_WINDOWS_S = (60, 300, 900, 1800, 3600, 6 * 3600, 12 * 3600, 24 * 3600)
"""Windows that a metric alert can have (azurerm, monitor_metric_alert: window_size)."""


@dataclass(frozen=True)
class Draft:
    """An alert before it gets what all alerts of a stack share."""

    name: str
    severity: Severity
    condition: Condition
    summary: str
    runbook: str


def alerts(stack: Stack, promised: Sequence[Objective]) -> tuple[Alert, ...]:
    """Every alert; none where `observability.alerts` is off."""
    settings = stack.args.observability.alerts
    if settings is None:
        return ()
    drafts = [draft for objective in promised for draft in _burning(stack, objective)]
    drafts += [_no_replica(stack), _queue_full(stack), _stalled(stack)]
    if stack.scaling.min_replicas > 0:
        drafts.append(_below_minimum(stack))
    if stack.scaling.autoscaled:
        drafts.append(_at_maximum(stack))
    labels = {} if settings.labels is None else dict(settings.labels)
    base = settings.runbook_base_url
    return tuple(
        Alert(
            name=draft.name,
            severity=draft.severity,
            expression=draft.condition.expression,
            for_s=draft.condition.period_s if draft.condition.metrics else 0,
            summary=draft.summary,
            runbook=f"{RUNBOOKS}/{draft.runbook}.md",
            runbook_url=None if base is None else f"{base.rstrip('/')}/{draft.runbook}.md",
            labels=labels | {"stack": stack.args.name},
            conditions=(draft.condition,),
        )
        for draft in drafts
    )


def _logged(query: str, period_s: int) -> Condition:
    """True where the query has a row."""
    return Condition(expression=query, comparison=">", threshold=0, period_s=period_s)


def _burning(stack: Stack, objective: Objective) -> list[Draft]:
    kind, rows = objective.id.split("_")[0], counted(stack, objective)
    good = (
        "without a server error"
        if objective.threshold_ms is None
        else f"with {kind} up to {objective.threshold_ms:g} ms"
    )
    pace: dict[Severity, str] = {"page": "much too fast", "ticket": "too fast"}
    return [
        Draft(
            f"Serving{''.join(part.capitalize() for part in objective.id.split('_'))}Burn",
            severity,
            _logged(burn_query(rows, objective.percent, severity), LOOK_BACK_S[severity]),
            f"{stack.args.name} breaks its promise ({objective.percent:g} % of requests {good}): the error "
            f"budget of {objective.window_days} days burns {pace[severity]}.",
            f"{kind}-burn",
        )
        for severity in pace
    ]


def _no_replica(stack: Stack) -> Draft:
    """A stack at zero lets its first requests wait for a cold start: that is no outage yet."""
    start_s = round(stack.scaling.cold_start.total_s) if stack.scaling.min_replicas == 0 else 0
    window_s = _window(WINDOW_S + start_s)
    query = (
        f"{logs.requests(stack.names['app'])}\n| where Passed\n"
        "| summarize Requests = count(), Unserved = countif(StatusCode in (502, 503, 504))\n"
        "| where Requests > 0 and Unserved == Requests"
    )
    return Draft(
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
    return Draft(
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
    return Draft(
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
    return Draft(
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
    return Draft(
        "ServingReplicasAtMaximum",
        "ticket",
        condition,
        f"{stack.args.name} has run all its {most} replicas for half an hour: raise max_replicas.",
        "replicas-at-maximum",
    )


def _window(seconds: int) -> int:
    """The shortest window that is long enough; a day at most."""
    return next((each for each in METRIC_WINDOWS_S if each >= seconds), METRIC_WINDOWS_S[-1])
