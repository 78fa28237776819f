"""The objective that Modal's metrics can keep, and the alerts.

Availability is the share of requests that Modal delivered an answer to. Alerts are Prometheus rules for
whichever Prometheus takes the workspace's OpenTelemetry export.

Trap: a workspace whose export is off looks as quiet as a service without requests. Where containers are kept,
their absence is an alert of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from servingstack.signals.burn_rates import BURN_RATES
from servingstack.signals.drafts import AT_MAXIMUM_S, GRACE_S, Draft, burn, finished
from servingstack.signals.stack import Stack
from servingstack.watched import Alert, Objective

from .watch import Scope, containers, failed_share, pending, scope_of


def objectives(stack: Stack) -> tuple[Objective, ...]:
    """Availability; latencies are planned for and measured by nobody here."""
    return (Objective(id="availability", percent=stack.args.slo.availability, threshold_ms=None),)


def alerts(stack: Stack, promised: tuple[Objective, ...]) -> tuple[Alert, ...]:
    """Every alert of a stack; none where `observability.alerts` is off."""
    scope = scope_of(stack)
    return finished(stack, (*_burning(stack, scope, promised), *_capacity(stack, scope)))


def _burning(stack: Stack, scope: Scope, promised: tuple[Objective, ...]) -> Iterator[Draft]:
    for objective in promised:
        budget = (100 - objective.percent) / 100
        for severity, rates in BURN_RATES.items():
            pairs = [
                f"(\n    ({failed_share(scope, short)}) > ({factor} * {budget!r})\n    and\n"
                f"    ({failed_share(scope, long)}) > ({factor} * {budget!r})\n)"
                for short, long, factor in rates
            ]
            yield burn(stack.args.name, objective, severity, "answered", "\nor\n".join(pairs))


def _capacity(stack: Stack, scope: Scope) -> Iterator[Draft]:
    name, scaling = stack.args.name, stack.scaling
    start = round(scaling.cold_start.total_s) if scaling.min_replicas == 0 else 0
    running = f"({containers(scope)} > 0)"
    yield Draft(
        "ServingNoReadyReplica",
        "page",
        f"({pending(scope)} > 0)\nunless on ()\n{running}",
        GRACE_S + start,
        f"{name} has requests that wait and no container that runs.",
        "no-ready-replica",
    )
    if scaling.min_replicas > 0:
        least = scaling.min_replicas
        yield Draft(
            "ServingReplicasBelowMinimum",
            "ticket",
            f"{containers(scope)} < {least}",
            stack.timeouts.startup_s + GRACE_S,
            f"{name} has fewer than its {least} containers for longer than a start takes, or the "
            "workspace's OpenTelemetry export is off.",
            "replicas-below-minimum",
        )
    if scaling.autoscaled:
        most = scaling.max_replicas
        yield Draft(
            "ServingReplicasAtMaximum",
            "ticket",
            f"({containers(scope)} >= {most})\nand on ()\n({pending(scope)} > 0)",
            AT_MAXIMUM_S,
            f"{name} runs all its {most} containers and requests still wait: raise max_replicas.",
            "replicas-at-maximum",
        )
