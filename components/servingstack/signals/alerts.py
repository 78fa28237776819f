"""Alerts: two per objective, and a few for what an objective sees too late or not at all.

Each has a severity (a page wakes someone, a ticket waits for the morning), a summary that says what users
lose, and a runbook. None is on GPU memory, which vLLM fills at start by design, and none on CPU.

Trap: an expression that yields nothing is silent. What must exist is therefore asked for with `absent` or
`or vector(0)`, and a test holds that these alerts fire on a bad series and stay quiet on a good one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from servingstack.plan import Alert, Objective
from servingstack.signals.burn_rates import BURN_RATES, ServiceLevel, burn_alert
from servingstack.signals.scope import SCALER_ERRORS
from servingstack.signals.stack import Stack
from servingstack.signals.watch import engine_query, queue_depth, rejected_share, request_rate

# The product's own choices; each is a user's pain rather than a resource's number.
REJECTED_SHARE = 0.05
"""Share of 429 that pages: one request in twenty refused."""
PREEMPTED_SHARE = 0.1
"""Preemptions per finished request above which the KV cache thrashes: answers are computed twice."""
AT_MAXIMUM_S = 1800
"""How long all replicas may be busy with a queue before someone should raise the maximum."""
GRACE_S = 300
"""Longer than a lost scrape or the restart of a front door."""


@dataclass(frozen=True)
class Draft:
    """An alert before it gets what all alerts of a stack share."""

    name: str
    severity: Literal["page", "ticket"]
    expression: str
    for_s: int
    summary: str
    runbook: str


def alerts(stack: Stack, levels: Sequence[tuple[Objective, ServiceLevel]]) -> tuple[Alert, ...]:
    """Every alert of a stack; none where `observability.alerts` is null."""
    settings = stack.args.observability.alerts
    if settings is None:
        return ()
    drafts = [draft for objective, level in levels for draft in _burning(objective, level)]
    drafts += [_no_replica(stack), _door_down(stack), _queue_full(stack)]
    drafts += [_thrash(stack)] if stack.has("preemptions") else []
    if stack.generates or not stack.has("preemptions"):
        drafts.append(_zombie(stack))
    if stack.scaling.min_replicas > 0:
        drafts.append(_below_minimum(stack))
    if stack.scaling.autoscaled:
        drafts += [_metric_absent(stack), _scaler_errors(stack), _at_maximum(stack)]
    own = {} if settings.labels is None else dict(settings.labels)
    labels = own | {"namespace": stack.scope.namespace, "stack": stack.args.name}
    base = settings.runbook_base_url.rstrip("/")
    return tuple(
        Alert(
            name=draft.name,
            severity=draft.severity,
            expression=draft.expression,
            for_s=draft.for_s,
            summary=draft.summary,
            runbook_url=f"{base}/{draft.runbook}",
            labels=labels,
        )
        for draft in drafts
    )


def _burning(objective: Objective, level: ServiceLevel) -> list[Draft]:
    kind = objective.id.split("_")[0]
    good = (
        "without a server error"
        if objective.histogram_edge_s is None
        else f"with {kind} up to {objective.histogram_edge_s:g} s"
    )
    pace = {"page": "much too fast", "ticket": "too fast"}
    return [
        Draft(
            name=f"Serving{''.join(part.capitalize() for part in objective.id.split('_'))}Burn",
            severity=severity,
            expression=burn_alert(level, severity),
            for_s=0,
            summary=(
                f"{level.service} breaks its promise ({objective.percent:g} % of requests {good}): the error "
                f"budget of {objective.window_days} days burns {pace[severity]}."
            ),
            runbook=f"{kind}-burn",
        )
        for severity in BURN_RATES
    ]


def _title(stack: Stack) -> str:
    return f"{stack.scope.namespace}/{stack.args.name}"


def _start_s(stack: Stack) -> int:
    return round(stack.scaling.cold_start.total_s)


def _no_replica(stack: Stack) -> Draft:
    # A stack at zero holds its requests for the length of a cold start: that is no outage.
    start_s = _start_s(stack) if stack.scaling.min_replicas == 0 else 0
    return Draft(
        name="ServingNoReadyReplica",
        severity="page",
        expression=f"absent({stack.scope.up})\nand on ()\n({request_rate(stack.scope)} > 0)",
        for_s=120 + start_s,
        summary=f"{_title(stack)} has requests and no ready replica that could answer them.",
        runbook="no-ready-replica",
    )


def _door_down(stack: Stack) -> Draft:
    return Draft(
        name="ServingFrontDoorDown",
        severity="page",
        expression=f"absent({stack.scope.door_up})",
        for_s=GRACE_S,
        summary=f"Prometheus reaches no front door of {_title(stack)}; most likely clients do not either.",
        runbook="front-door-down",
    )


def _queue_full(stack: Stack) -> Draft:
    return Draft(
        name="ServingQueueFull",
        severity="page",
        expression=f"{rejected_share(stack.scope)} > {REJECTED_SHARE}",
        for_s=GRACE_S,
        summary=f"{_title(stack)} refuses {{{{ $value | humanizePercentage }}}} of its requests (429).",
        runbook="queue-full",
    )


def _thrash(stack: Stack) -> Draft:
    preempted, finished = engine_query(stack, "preemptions"), engine_query(stack, "requests_per_second")
    return Draft(
        name="ServingKvCacheThrash",
        severity="ticket",
        expression=f"{preempted}\n/\n({finished} > 0) > {PREEMPTED_SHARE}",
        for_s=900,
        summary=(
            f"{_title(stack)} drops running requests from a full KV cache and computes them again: the batch "
            "is too large for the length of its requests."
        ),
        runbook="kv-cache-thrash",
    )


def _zombie(stack: Stack) -> Draft:
    work = "running requests and makes no tokens" if stack.generates else "waiting requests and answers none"
    return Draft(
        name="ServingZombieReplica",
        severity="page",
        expression=stack.tables.stalled(stack.scope.engine),
        for_s=GRACE_S,
        summary=(f"{{{{ $labels.pod }}}} has {work}, while its health check is green. Delete the pod."),
        runbook="zombie-replica",
    )


def _below_minimum(stack: Stack) -> Draft:
    least = stack.scaling.min_replicas
    return Draft(
        name="ServingReplicasBelowMinimum",
        severity="ticket",
        expression=f"(count({stack.scope.up}) or vector(0)) < {least}",
        for_s=stack.timeouts.startup_s + GRACE_S,
        summary=(
            f"{_title(stack)} has {{{{ $value }}}} ready replicas of at least {least}, for longer "
            "than a start takes."
        ),
        runbook="replicas-below-minimum",
    )


def _metric_absent(stack: Stack) -> Draft:
    depth = " + ".join(queue_depth(stack).values())
    return Draft(
        name="ServingScalingMetricAbsent",
        severity="page",
        expression=f"absent({depth})",
        # A first replica that is still starting has no metrics either.
        for_s=max(GRACE_S, _start_s(stack) if stack.scaling.min_replicas > 0 else 0),
        summary=(
            f"The queue depth of {_title(stack)} cannot be read: its capacity no longer follows the load and "
            f"stays at {stack.scaling.fallback_replicas} replicas."
        ),
        runbook="scaling-metric-absent",
    )


def _scaler_errors(stack: Stack) -> Draft:
    return Draft(
        name="ServingScalerErrors",
        severity="ticket",
        expression=f"sum(increase({SCALER_ERRORS}{{{stack.scope.scaled_object}}}[10m])) > 3",
        for_s=GRACE_S,
        summary=f"KEDA fails again and again to read the metric of {_title(stack)}.",
        runbook="scaling-metric-absent",
    )


def _at_maximum(stack: Stack) -> Draft:
    most, depth = stack.scaling.max_replicas, " + ".join(queue_depth(stack).values())
    wanted = f"({depth} > {stack.scaling.threshold * most:g})"
    return Draft(
        name="ServingReplicasAtMaximum",
        severity="ticket",
        expression=f"(count({stack.scope.up}) >= {most})\nand on ()\n{wanted}",
        for_s=AT_MAXIMUM_S,
        summary=f"{_title(stack)} runs all its {most} replicas and still has a queue: raise max_replicas.",
        runbook="replicas-at-maximum",
    )
