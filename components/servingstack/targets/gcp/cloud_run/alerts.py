"""Alerts: two per objective, and a few for what an objective sees too late.

Each becomes one alert policy with a PromQL condition (docs.cloud.google.com/monitoring/alerts/using-promql).

Trap: Cloud Run's metrics arrive up to two minutes late, and a service at zero has none at all. An alert on
absence would page for a quiet night, so what is asked for is always beside traffic or beside a minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from servingstack.signals.burn_rates import BURN_RATES
from servingstack.signals.stack import Stack
from servingstack.watched import Alert, Objective

from . import collector
from .objectives import burning
from .scope import Scope
from .watch import RANGE, REFUSED, instances, pending, scope_of, share

# The product's own choices, the same as on a cluster.
REJECTED_SHARE = 0.05
PREEMPTED_SHARE = 0.1
THRASH_S = 900
AT_MAXIMUM_S = 1800
GRACE_S = 300
RUNBOOKS = "docs/runbooks"


@dataclass(frozen=True)
class Draft:
    """An alert before it gets what all alerts of a stack share."""

    name: str
    severity: Literal["page", "ticket"]
    expression: str
    for_s: int
    summary: str
    runbook: str


def alerts(stack: Stack, promised: Sequence[Objective]) -> tuple[Alert, ...]:
    """Every alert of a stack; none where `observability.alerts` is off."""
    settings = stack.args.observability.alerts
    if settings is None:
        return ()
    scope = scope_of(stack)
    drafts = [draft for objective in promised for draft in _burning(stack, objective)]
    drafts += [_refused(stack, scope), _unanswered(stack, scope)]
    if stack.scaling.min_replicas > 0:
        drafts.append(_below_minimum(stack, scope))
    if stack.scaling.autoscaled:
        drafts.append(_at_maximum(stack, scope))
    if collector.wanted(stack):
        drafts += _of_engine(stack)
    own = {} if settings.labels is None else dict(settings.labels)
    base = settings.runbook_base_url
    return tuple(
        Alert(
            name=draft.name,
            severity=draft.severity,
            expression=draft.expression,
            for_s=draft.for_s,
            summary=draft.summary,
            runbook=f"{RUNBOOKS}/{draft.runbook}.md",
            runbook_url=None if base is None else f"{base.rstrip('/')}/{draft.runbook}.md",
            labels=own | {"stack": stack.args.name},
        )
        for draft in drafts
    )


def _burning(stack: Stack, objective: Objective) -> list[Draft]:
    kind = objective.id.split("_")[0]
    good = (
        "without a server error"
        if objective.threshold_ms is None
        else f"within {objective.threshold_ms:g} ms"
    )
    pace = {"page": "much too fast", "ticket": "too fast"}
    return [
        Draft(
            name=f"Serving{''.join(part.capitalize() for part in objective.id.split('_'))}Burn",
            severity=severity,
            expression=expression,
            for_s=0,
            summary=(
                f"{stack.args.name} breaks its promise ({objective.percent:g} % of requests {good}): the "
                f"error budget of {objective.window_days} days burns {pace[severity]}."
            ),
            runbook=f"{kind}-burn",
        )
        for severity in BURN_RATES
        if (expression := burning(stack, objective, severity)) is not None
    ]


def _refused(stack: Stack, scope: Scope) -> Draft:
    return Draft(
        "ServingQueueFull",
        "page",
        f"({share(scope, REFUSED)}) > {REJECTED_SHARE}",
        GRACE_S,
        f"{stack.args.name} refuses more than {REJECTED_SHARE:.0%} of its requests (429): no instance was "
        "free in time.",
        "queue-full",
    )


def _unanswered(stack: Stack, scope: Scope) -> Draft:
    """Requests wait, and no instance is active: none starts, or each one fails to."""
    start = round(stack.scaling.cold_start.total_s) if stack.scaling.min_replicas == 0 else 0
    return Draft(
        "ServingNoReadyReplica",
        "page",
        f"({pending(scope)} > 0)\nunless on ()\n({instances(scope, 'active')} > 0)",
        GRACE_S + start,
        f"{stack.args.name} has requests that wait and no instance that answers any.",
        "no-ready-replica",
    )


def _of_engine(stack: Stack) -> list[Draft]:
    """What goes wrong within an instance that is up; its collector tells."""
    found, where = [], collector.selector(stack)
    if stack.has("preemptions"):
        preempted, finished = (
            stack.engine_signal(name).query(where, RANGE) for name in ("preemptions", "requests_per_second")
        )
        found.append(
            Draft(
                "ServingKvCacheThrash",
                "ticket",
                f"{preempted}\n/\n({finished} > 0) > {PREEMPTED_SHARE}",
                THRASH_S,
                f"{stack.args.name} drops running requests from a full KV cache and computes them again: the "
                "batch is too large for the length of its requests.",
                "kv-cache-thrash",
            )
        )
    if stack.generates:
        found.append(
            Draft(
                "ServingZombieReplica",
                "page",
                stack.tables.stalled(where),
                GRACE_S,
                f"An instance of {stack.args.name} has running requests and makes no tokens, while its "
                "health check is green.",
                "zombie-replica",
            )
        )
    return found


def _below_minimum(stack: Stack, scope: Scope) -> Draft:
    least = stack.scaling.min_replicas
    return Draft(
        "ServingReplicasBelowMinimum",
        "ticket",
        f"({instances(scope)} or vector(0)) < {least}",
        stack.timeouts.startup_s + GRACE_S,
        f"{stack.args.name} has fewer than its {least} instances for longer than a start takes: the quota or "
        "the region's GPUs are used up.",
        "replicas-below-minimum",
    )


def _at_maximum(stack: Stack, scope: Scope) -> Draft:
    most = stack.scaling.max_replicas
    return Draft(
        "ServingReplicasAtMaximum",
        "ticket",
        f"({instances(scope, 'active')} >= {most})\nand on ()\n({pending(scope)} > 0)",
        AT_MAXIMUM_S,
        f"{stack.args.name} runs all its {most} instances and requests still wait: raise max_replicas and "
        "the quota.",
        "replicas-at-maximum",
    )
