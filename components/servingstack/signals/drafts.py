"""What the alerts of every option share: the product's own thresholds, and how a draft becomes an alert.

Trap: a threshold of its own would make one option page for less than another, and a runbook's address that
one option builds differently leads nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from servingstack.signals.stack import Stack
from servingstack.watched import Alert, Condition, Objective

# The product's own choices; each is a user's pain rather than a resource's number.
REJECTED_SHARE = 0.05
"""Share of 429 that pages: one request in twenty refused."""
PREEMPTED_SHARE = 0.1
"""Preemptions per finished request above which the KV cache thrashes: answers are computed twice."""
THRASH_S = 900
AT_MAXIMUM_S = 1800
"""How long all replicas may be busy with a queue before someone should raise the maximum."""
GRACE_S = 300
"""Longer than a lost scrape or the restart of a front door."""
RUNBOOKS = "docs/runbooks"
"""Where this library's repository has a page for each alert."""

Severity = Literal["page", "ticket"]
_PACE: dict[Severity, str] = {"page": "much too fast", "ticket": "too fast"}


@dataclass(frozen=True)
class Draft:
    """An alert before it gets what all alerts of a stack share."""

    name: str
    severity: Severity
    expression: str
    for_s: int
    summary: str
    runbook: str
    """Name of its page."""
    conditions: tuple[Condition, ...] = ()


def burn(title: str, objective: Objective, severity: Severity, good: str, expression: str) -> Draft:
    """An error budget that burns too fast. `good` says what was promised of a request."""
    return Draft(
        f"Serving{''.join(part.capitalize() for part in objective.id.split('_'))}Burn",
        severity,
        expression,
        0,
        f"{title} breaks its promise ({objective.percent:g} % of requests {good}): the error budget of "
        f"{objective.window_days} days burns {_PACE[severity]}.",
        f"{objective.id.split('_')[0]}-burn",
    )


def finished(
    stack: Stack, drafts: Iterable[Draft], labels: Mapping[str, str] | None = None
) -> tuple[Alert, ...]:
    """The alerts; none where `observability.alerts` is null. `labels` go beside the input's own."""
    settings = stack.args.observability.alerts
    if settings is None:
        return ()
    base = settings.runbook_base_url
    every = {**(settings.labels or {}), **(labels or {}), "stack": stack.args.name}
    return tuple(
        Alert(
            name=draft.name,
            severity=draft.severity,
            expression=draft.expression,
            for_s=draft.for_s,
            summary=draft.summary,
            runbook=f"{RUNBOOKS}/{draft.runbook}.md",
            runbook_url=None if base is None else f"{base.rstrip('/')}/{draft.runbook}.md",
            labels=every,
            conditions=draft.conditions,
        )
        for draft in drafts
    )
