"""Alerts: two per objective, and a few for what an objective sees too late.

Each becomes one alert policy with a PromQL condition (docs.cloud.google.com/monitoring/alerts/using-promql).

Trap: Cloud Run's metrics arrive up to two minutes late, and a service at zero has none at all. An alert on
absence would page for a quiet night, so what is asked for is always beside traffic or beside a minimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from servingstack.signals.burn_rates import BURN_RATES
from servingstack.signals.drafts import (
    AT_MAXIMUM_S,
    GRACE_S,
    PREEMPTED_SHARE,
    REJECTED_SHARE,
    THRASH_S,
    Draft,
    burn,
    finished,
)
from servingstack.signals.stack import Stack
from servingstack.watched import Alert, Objective

from . import collector
from .checks import uptime_wanted
from .objectives import burning
from .scope import CHECK_ID, CHECK_PASSED, Scope
from .watch import RANGE, REFUSED, instances, pending, scope_of, share

CHECKS_PASSED = 0.5
"""Share of the uptime checks, from all checkers."""


def alerts(stack: Stack, promised: Sequence[Objective]) -> tuple[Alert, ...]:
    """Every alert of a stack; none where `observability.alerts` is off."""
    return finished(stack, _drafts(stack, promised))


def _drafts(stack: Stack, promised: Sequence[Objective]) -> Iterator[Draft]:
    scope = scope_of(stack)
    for objective in promised:
        yield from _burning(stack, objective)
    yield _refused(stack, scope)
    yield _unanswered(stack, scope)
    if stack.scaling.min_replicas > 0:
        yield _below_minimum(stack, scope)
    if stack.scaling.autoscaled:
        yield _at_maximum(stack, scope)
    if uptime_wanted(stack.args, stack.scaling.min_replicas):
        yield _unreachable(stack)
    if collector.wanted(stack):
        yield from _of_engine(stack)


def _burning(stack: Stack, objective: Objective) -> Iterator[Draft]:
    good = (
        "without a server error"
        if objective.threshold_ms is None
        else f"within {objective.threshold_ms:g} ms"
    )
    for severity in BURN_RATES:
        if (expression := burning(stack, objective, severity)) is not None:
            yield burn(stack.args.name, objective, severity, good, expression)


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


def _unreachable(stack: Stack) -> Draft:
    """From outside: it fires too where no request reaches Cloud Run at all, and nothing else has data."""
    passed = f'{CHECK_PASSED}{{monitored_resource="uptime_url",check_id="{CHECK_ID}"}}'
    return Draft(
        "ServingUnreachable",
        "page",
        f"avg(avg_over_time({passed}[{RANGE}])) < {CHECKS_PASSED}",
        GRACE_S,
        f"Most of Google's uptime checks of {stack.args.name} fail: nobody is answered, or the checkers are "
        "not among the invokers.",
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
