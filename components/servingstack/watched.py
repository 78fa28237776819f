"""What a plan watches, promises and alerts on: the part of it that dashboards and rules are made from.

Trap: a provider either takes a query in its own language, or structured series and thresholds. Both have
their fields here, and which of them count is the option's.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

OBJECTIVE_DAYS = 30
"""Rolling window of every objective; the input says so of its percentages."""

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Objective(BaseModel):
    """One service level objective."""

    model_config = _CONFIG
    id: str
    """`availability`, `ttft_p95`, `tpot_p95`, `latency_p99`, ..."""
    percent: float
    """Share of requests that must be good, percent."""
    threshold_ms: float | None
    """Above it a request is bad; None for availability."""
    histogram_edge_s: float | None = None
    """The engine's histogram edge used for it, at or above the threshold; None for availability."""
    window_days: int = OBJECTIVE_DAYS


class Metric(BaseModel):
    """One series of a provider whose queries are structured."""

    model_config = _CONFIG
    namespace: str
    """CloudWatch namespace, Azure Monitor metric namespace."""
    name: str
    statistic: str
    """In the provider's words: `p95`, `Average`, `Sum`."""
    dimensions: dict[str, str] = Field(default_factory=dict[str, str])
    period_s: int = 60
    scale: float = 1.0
    """Times the metric's own unit, to get the signal's: 1e-6 for microseconds."""


class Condition(BaseModel):
    """One condition of an alert, in the terms of a provider that compares a series with a number."""

    model_config = _CONFIG
    expression: str
    """Over the keys of `metrics`, or a query in the provider's language."""
    metrics: dict[str, Metric] = Field(default_factory=dict[str, Metric])
    comparison: Literal[">", ">=", "<", "<="] = ">"
    threshold: float
    period_s: int
    evaluation_periods: int = 1
    datapoints: int = 1
    """How many of those periods must be beyond the threshold."""


class Signal(BaseModel):
    """Something that is watched, in this target's own words."""

    model_config = _CONFIG
    id: str
    title: str
    unit: str
    query: str
    """In the target's own query language."""
    queries: dict[str, str] = Field(default_factory=dict[str, str])
    """More series on the same panel, by legend."""
    metrics: dict[str, Metric] = Field(default_factory=dict[str, Metric])
    """What the names in `query` stand for, where the provider's queries are structured."""


class Alert(BaseModel):
    """One alert: its expression, how long it must hold, who should wake."""

    model_config = _CONFIG
    name: str
    severity: Literal["page", "ticket"]
    expression: str
    for_s: int
    summary: str
    runbook_url: str | None
    """Where the runbook is served; None where no base of its address was given."""
    runbook: str = ""
    """The runbook's path in this library's repository."""
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    """Labels beside the severity, for the routes of an Alertmanager."""
    conditions: tuple[Condition, ...] = ()
    """Where the provider's alerts are structured: all must hold at once. Then `expression` only says it."""


class Unavailable(BaseModel):
    """A signal that this target cannot deliver, and why."""

    model_config = _CONFIG
    signal: str
    reason: str


class RecordingRule(BaseModel):
    """A precomputed series."""

    model_config = _CONFIG
    record: str
    expression: str
    labels: dict[str, str] = Field(default_factory=dict[str, str])


class Monitoring(BaseModel):
    """What is watched, promised and alerted on."""

    model_config = _CONFIG
    objectives: tuple[Objective, ...]
    signals: tuple[Signal, ...]
    recording_rules: tuple[RecordingRule, ...] = ()
    alerts: tuple[Alert, ...]
    unavailable: tuple[Unavailable, ...] = ()
    dashboards: bool = True
    page_burn_rates: tuple[float, ...] = (6.0, 14.4)
    """Burn rates at which a page is sent, ascending: lines on the dashboard."""
