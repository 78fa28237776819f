"""Objectives and their burn rates, on what Cloud Run counts.

Availability is the share of answers that are no 5xx, as callers get them: Cloud Run's own 500, 503 and 504
count. A 429 says "later" and has an alert of its own.

A latency objective is a quantile, and Cloud Run's histogram edges are not published, so bad requests cannot
be counted at the threshold. But "more than a share x of the requests is slower than t" is "the (1 - x)
quantile is above t", and quantiles are interpolated for any threshold. So each burn rate asks for the
quantile that leaves its share of bad requests: at 95 % promised and a burn rate of 6, 30 % may be slow, and
the 70 % quantile is compared.

With a collector the engine's times to the first and per token are promised in the same way.

Traps:
- A burn rate whose share of bad requests is 100 % or more can never be reached; such a window is left out.
- Warm-up counts nowhere: it is sent inside the instance, where Cloud Run counts no requests.
"""

from __future__ import annotations

from typing import Literal

from servingstack.args import latency_objectives
from servingstack.plan import PlanWarning
from servingstack.signals.burn_rates import BURN_RATES
from servingstack.signals.objectives import promised
from servingstack.signals.stack import Stack
from servingstack.watched import Objective

from . import collector
from . import scope as s
from .scope import Scope
from .watch import NO_ENGINE_METRICS, SERVER_ERRORS, quantile, share


def objectives(stack: Stack) -> tuple[Objective, ...]:
    """Availability, and each latency percentile that is measured. Raises `InvalidInput` with those that the
    engine cannot count."""

    def edge(kind: str, seconds: float) -> None:
        if kind != "latency":  # quantiles are interpolated, but above the last edge there is nothing
            stack.tables.histogram_edge(kind, seconds, stack.engine_version)

    return promised(stack, measured(stack), edge)


def measured(stack: Stack) -> list[str]:
    """Latency objectives that Cloud Run measures, and with a collector the engine."""
    collected = collector.wanted(stack)
    return [name for name in latency_objectives(stack.args.slo) if collected or name.startswith("latency")]


def unmeasured(names: list[str]) -> tuple[PlanWarning, ...]:
    """One warning for each objective that is planned for and then measured by nobody."""
    return tuple(
        PlanWarning(
            code="slo-not-measured",
            path=f"slo.{name}",
            message=(
                f"{name} is planned for, but not measured and not alerted on here. {NO_ENGINE_METRICS} "
                "slo.latency_* can be."
            ),
        )
        for name in names
        if not name.startswith("latency")
    )


def burning(stack: Stack, objective: Objective, severity: Literal["page", "ticket"]) -> str | None:
    """The expression that is true when the budget burns too fast; None where no such rate can be reached."""
    pairs = [
        f"(\n    {both[0]}\n    and\n    {both[1]}\n)"
        for short, long, factor in BURN_RATES[severity]
        if (both := _pair(stack, objective, (short, long), float(factor))) is not None
    ]
    return "\nor\n".join(pairs) if pairs else None


def _pair(
    stack: Stack, objective: Objective, windows: tuple[str, str], factor: float
) -> tuple[str, str] | None:
    budget, scope = (100 - objective.percent) / 100, Scope(stack.args.name, stack.architecture.region)
    if objective.threshold_ms is None:
        first, second = (
            f"({share(scope, SERVER_ERRORS, window)}) > ({factor:g} * {budget!r})" for window in windows
        )
        return first, second
    bad = factor * budget
    if bad >= 1 - 1e-9:
        return None
    kind, q = objective.id.partition("_")[0], round(1 - bad, 6)
    if kind != "latency":
        most = objective.threshold_ms / 1000
        first, second = (f"{collector.quantile(stack, kind, q, window)} > {most:g}" for window in windows)
        return first, second
    first, second = (
        f"{quantile(scope, s.LATENCIES, q, window)} > {objective.threshold_ms:g}" for window in windows
    )
    return first, second
