"""Alerts: two per objective, and a few for what an objective sees too late or not at all.

Each has a severity (a page wakes someone, a ticket waits for the morning), a summary that says what users
lose, and a runbook. None is on GPU memory, which vLLM fills at start by design, and none on CPU.

Trap: an expression that yields nothing is silent. What must exist is therefore asked for with `absent` or
`or vector(0)`, and a test holds that these alerts fire on a bad series and stay quiet on a good one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from servingstack.signals.burn_rates import BURN_RATES, ServiceLevel, burn_alert
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
from servingstack.signals.scope import SCALER_ERRORS
from servingstack.signals.stack import Stack
from servingstack.signals.watch import engine_query, queue_depth, rejected_share, request_rate
from servingstack.watched import Alert, Objective


def alerts(stack: Stack, levels: Sequence[tuple[Objective, ServiceLevel]]) -> tuple[Alert, ...]:
    """Every alert of a stack; none where `observability.alerts` is null."""
    return finished(stack, _drafts(stack, levels), {"namespace": stack.scope.namespace})


def _drafts(stack: Stack, levels: Sequence[tuple[Objective, ServiceLevel]]) -> Iterator[Draft]:
    for objective, level in levels:
        yield from _burning(objective, level)
    yield from _of_requests(stack)
    yield from _of_batches(stack)
    if stack.scaling.min_replicas > 0:
        yield _below_minimum(stack)
    if stack.scaling.autoscaled:
        yield from _of_scaling(stack)


def _burning(objective: Objective, level: ServiceLevel) -> Iterator[Draft]:
    good = (
        "without a server error"
        if objective.histogram_edge_s is None
        else f"with {objective.id.split('_')[0]} up to {objective.histogram_edge_s:g} s"
    )
    for severity in BURN_RATES:
        yield burn(level.service, objective, severity, good, burn_alert(level, severity))


def _title(stack: Stack) -> str:
    return f"{stack.scope.namespace}/{stack.args.name}"


def _start_s(stack: Stack) -> int:
    return round(stack.scaling.cold_start.total_s)


def _of_requests(stack: Stack) -> list[Draft]:
    """What clients feel at once."""
    title = _title(stack)
    # A stack at zero holds its requests for the length of a cold start: that is no outage.
    start_s = _start_s(stack) if stack.scaling.min_replicas == 0 else 0
    return [
        Draft(
            "ServingNoReadyReplica",
            "page",
            f"absent({stack.scope.up})\nand on ()\n({request_rate(stack.scope)} > 0)",
            120 + start_s,
            f"{title} has requests and no ready replica that could answer them.",
            "no-ready-replica",
        ),
        Draft(
            "ServingFrontDoorDown",
            "page",
            f"absent({stack.scope.door_up})",
            GRACE_S,
            f"Prometheus reaches no front door of {title}; most likely clients do not either.",
            "front-door-down",
        ),
        Draft(
            "ServingQueueFull",
            "page",
            f"{rejected_share(stack.scope)} > {REJECTED_SHARE}",
            GRACE_S,
            f"{title} refuses {{{{ $value | humanizePercentage }}}} of its requests (429).",
            "queue-full",
        ),
    ]


def _of_batches(stack: Stack) -> list[Draft]:
    """What goes wrong within a replica that is up."""
    found = [_thrash(stack)] if stack.has("preemptions") else []
    return [*found, _zombie(stack)] if stack.generates or not found else found


def _thrash(stack: Stack) -> Draft:
    preempted, finished = engine_query(stack, "preemptions"), engine_query(stack, "requests_per_second")
    return Draft(
        "ServingKvCacheThrash",
        "ticket",
        f"{preempted}\n/\n({finished} > 0) > {PREEMPTED_SHARE}",
        THRASH_S,
        f"{_title(stack)} drops running requests from a full KV cache and computes them again: the batch is "
        "too large for the length of its requests.",
        "kv-cache-thrash",
    )


def _zombie(stack: Stack) -> Draft:
    work = "running requests and makes no tokens" if stack.generates else "waiting requests and answers none"
    return Draft(
        "ServingZombieReplica",
        "page",
        stack.tables.stalled(stack.scope.engine),
        GRACE_S,
        f"{{{{ $labels.pod }}}} has {work}, while its health check is green. Delete the pod.",
        "zombie-replica",
    )


def _below_minimum(stack: Stack) -> Draft:
    least = stack.scaling.min_replicas
    return Draft(
        "ServingReplicasBelowMinimum",
        "ticket",
        f"(count({stack.scope.up}) or vector(0)) < {least}",
        stack.timeouts.startup_s + GRACE_S,
        f"{_title(stack)} has {{{{ $value }}}} ready replicas of at least {least}, for longer than a start "
        "takes.",
        "replicas-below-minimum",
    )


def _of_scaling(stack: Stack) -> list[Draft]:
    """Whether capacity still follows the load."""
    title, most = _title(stack), stack.scaling.max_replicas
    depth = " + ".join(queue_depth(stack).values())
    to_zero = stack.scaling.min_replicas == 0
    # KEDA keeps the fallback's replicas. At zero there is no fallback, and it changes nothing at all.
    blind = (
        "it keeps the replicas that it has, and if that is none, nothing starts one."
        if to_zero
        else f"at least {stack.scaling.fallback_replicas} replicas are kept, and no more follow."
    )
    return [
        Draft(
            "ServingScalingMetricAbsent",
            "page",
            f"absent({depth})",
            # A first replica that is still starting has no metrics either.
            max(GRACE_S, 0 if to_zero else _start_s(stack)),
            f"The queue depth of {title} cannot be read and its capacity no longer follows the load: {blind}",
            "scaling-metric-absent",
        ),
        Draft(
            "ServingScalerErrors",
            "ticket",
            f"sum(increase({SCALER_ERRORS}{{{stack.scope.scaled_object}}}[10m])) > 3",
            GRACE_S,
            f"KEDA fails again and again to read the metric of {title}.",
            "scaling-metric-absent",
        ),
        Draft(
            "ServingReplicasAtMaximum",
            "ticket",
            f"(count({stack.scope.up}) >= {most})\nand on ()\n({depth} > {stack.scaling.threshold * most:g})",
            AT_MAXIMUM_S,
            f"{title} runs all its {most} replicas and still has a queue: raise max_replicas.",
            "replicas-at-maximum",
        ),
    ]
