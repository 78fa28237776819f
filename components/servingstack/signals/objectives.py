"""Objectives: what was promised, on counters that exist.

Availability is measured where clients are, in the front door: of the requests that it lets pass to the
replicas, every answer of class 5xx is bad, the proxy's own 503 and 504 included. A full queue's 429 is not in
it: it says "later", and has a panel and an alert of its own. Latency objectives are measured
in the engine, since HAProxy's exporter has averages and no histogram: the share of requests at or under the
threshold.

Traps:
- A histogram counts at its edges only. A threshold between two edges takes the next edge above, which is
  laxer than what was asked: `edge_warnings` says so. Above the last edge nothing can be counted: refused.
- Warm-up counts nowhere: it never passes the front door, and the engine is scraped only once it is ready, so
  the first sample already holds the warm-up and `rate` sees only what comes after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from servingstack.args import latency_objectives
from servingstack.engines.signal import Counts
from servingstack.errors import InvalidInput, Violation
from servingstack.plan import PlanWarning
from servingstack.signals.burn_rates import ServiceLevel
from servingstack.signals.scope import BACKEND_RESPONSES
from servingstack.signals.stack import Stack
from servingstack.units import format_duration
from servingstack.watched import Monitoring, Objective

Edge = Callable[[str, float], float | None]
"""From a kind of latency and a threshold in seconds to the edge at which requests are counted, seconds; None
where that is no histogram's. Raises `ValueError("allowed | fix")` where they cannot be counted."""


def objectives(stack: Stack) -> tuple[Objective, ...]:
    """Availability and each latency percentile that was asked for. Raises `InvalidInput` with every objective
    that the engine cannot count."""

    def edge(kind: str, seconds: float) -> float:
        return stack.tables.histogram_edge(kind, seconds, stack.engine_version)

    return promised(stack, latency_objectives(stack.args.slo), edge)


def promised(stack: Stack, names: Iterable[str], edge: Edge) -> tuple[Objective, ...]:
    """Availability and these latency percentiles. Raises `InvalidInput` with every one that cannot be
    counted, times of tokens where there are none among them."""
    found = [Objective(id="availability", percent=stack.args.slo.availability, threshold_ms=None)]
    wrong: list[Violation] = []
    for name in names:
        kind, percentile = name.split("_")
        asked = getattr(stack.args.slo, name)
        seconds = asked.total_seconds()
        try:
            if kind != "latency" and not stack.generates:
                task = stack.architecture.task
                raise ValueError(
                    f"slo.latency_* alone, since task {task} generates no tokens | Use slo.latency_*."
                )
            counted_at = edge(kind, seconds)
        except ValueError as error:
            allowed, _, fix = str(error).partition(" | ")
            wrong.append(Violation(f"slo.{name}", format_duration(asked), allowed, fix))
            continue
        found.append(
            Objective(
                id=name,
                percent=float(percentile.removeprefix("p")),
                threshold_ms=seconds * 1000,
                histogram_edge_s=counted_at,
            )
        )
    if wrong:
        raise InvalidInput(wrong)
    return tuple(found)


def service_level(stack: Stack, objective: Objective) -> ServiceLevel:
    """An objective as counters of this stack."""
    counts = _counts(stack, objective)
    return ServiceLevel(
        service=f"{stack.scope.namespace}.{stack.args.name}",
        slo=objective.id,
        percent=objective.percent,
        bad=counts.bad.replace("$selector", stack.scope.engine),
        total=f"({counts.total}) > 0".replace("$selector", stack.scope.engine),
    )


def _counts(stack: Stack, objective: Objective) -> Counts:
    if objective.histogram_edge_s is None:
        answering = stack.scope.answering
        every = stack.scope.door(BACKEND_RESPONSES, answering)
        bad = stack.scope.door(BACKEND_RESPONSES, answering, ',code="5xx"')
        return Counts(total=f"sum(rate({every}[$window]))", bad=f"sum(rate({bad}[$window]))")
    kind = objective.id.split("_")[0]
    return stack.tables.objective_counts(kind, objective.histogram_edge_s, stack.engine_version)


def edge_warnings(monitoring: Monitoring) -> tuple[PlanWarning, ...]:
    """One warning for each objective that is counted at an edge above its threshold."""
    return tuple(
        _edge_warning(objective.id, objective.threshold_ms, objective.histogram_edge_s * 1000)
        for objective in monitoring.objectives
        if objective.threshold_ms is not None
        and objective.histogram_edge_s is not None
        and objective.histogram_edge_s * 1000 > objective.threshold_ms * (1 + 1e-9)
    )


def _edge_warning(objective: str, threshold_ms: float, edge_ms: float) -> PlanWarning:
    return PlanWarning(
        code="slo-between-histogram-edges",
        path=f"slo.{objective}",
        message=(
            f"{objective} asks {threshold_ms:g}ms, and the engine's histogram has no edge there: requests "
            f"count as bad above {edge_ms:g}ms. The capacity is planned for {threshold_ms:g}ms, only what is "
            f"measured is laxer. Ask {edge_ms:g}ms to have both agree."
        ),
    )
