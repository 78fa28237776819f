"""Objectives and their alerts, on rows of the logs.

Several windows and several burn rates, as on every option: a page when 2 % of the month's error budget goes
in an hour or 5 % in six, a ticket when 10 % goes in a day or in two. One query looks over all windows at once
and has a row where the budget burns too fast.

Traps:
- A log alert looks back two days at most (azure-mgmt-monitor 7.0.0 and azurerm: windowSize up to P2D). The
  slow ticket, elsewhere over three days, is over two, at the rate that uses the same share of the budget.
- A ratio over nothing is no ratio: a window without requests does not burn.
"""

from __future__ import annotations

from dataclasses import dataclass

from servingstack.args import latency_objectives
from servingstack.signals.drafts import Severity
from servingstack.signals.objectives import promised
from servingstack.signals.stack import Stack
from servingstack.watched import Objective

from . import logs

BURN_RATES: dict[Severity, tuple[tuple[str, str, float], tuple[str, str, float]]] = {
    "page": (("5m", "1h", 14.4), ("30m", "6h", 6.0)),
    "ticket": (("2h", "1d", 3.0), ("6h", "2d", 1.5)),
}
"""Per severity, quick and slow: short window, long window, factor (share of the budget x 30 days / long
window)."""
LOOK_BACK_S: dict[Severity, int] = {"page": 6 * 3600, "ticket": 48 * 3600}
PAGE_FACTORS = tuple(sorted(factor for _, _, factor in BURN_RATES["page"]))


@dataclass(frozen=True)
class Counted:
    """An objective as rows: which count, and which of them are bad."""

    source: str
    every: str
    bad: str


def objectives(stack: Stack) -> tuple[Objective, ...]:
    """Availability and each latency percentile that was asked for. Raises `InvalidInput` for times of tokens
    of a model that makes none."""
    # Each row has its own time, so nothing is rounded to an edge.
    return promised(stack, latency_objectives(stack.args.slo), lambda _, seconds: seconds)


def counted(stack: Stack, objective: Objective) -> Counted:
    """Its rows."""
    app, limit = stack.names["app"], objective.threshold_ms
    if limit is None:
        return Counted(logs.requests(app), "Passed", "StatusCode >= 500")
    kind = objective.id.split("_")[0]
    if kind == "latency":
        return Counted(logs.requests(app), "StatusCode between (200 .. 299)", f"Milliseconds > {limit:g}")
    column = {"ttft": "TtftMs", "tpot": "TpotMs"}[kind]
    return Counted(logs.door(app), f"isnotnull({column})", f"{column} > {limit:g}")


def burn_query(rows: Counted, percent: float, severity: Severity) -> str:
    """One row where the budget burns too fast for this severity, none otherwise."""
    budget = (100 - percent) / 100
    windows = list(dict.fromkeys(each for short, long, _ in BURN_RATES[severity] for each in (short, long)))
    counts = ", ".join(
        f"Bad{each} = countif(Bad and Age <= {each}), All{each} = countif(Age <= {each})" for each in windows
    )

    def burning(window: str, factor: float) -> str:
        return f"(All{window} > 0 and 1.0 * Bad{window} / All{window} > {factor:g} * {budget:.9g})"

    either = "\n    or ".join(
        f"({burning(short, factor)} and {burning(long, factor)})"
        for short, long, factor in BURN_RATES[severity]
    )
    return (
        f"{rows.source}\n| where {rows.every}\n| extend Bad = {rows.bad}, Age = now() - TimeGenerated\n"
        f"| summarize {counts}\n| where {either}"
    )


__all__ = [
    "BURN_RATES",
    "LOOK_BACK_S",
    "PAGE_FACTORS",
    "Counted",
    "burn_query",
    "counted",
    "objectives",
]
