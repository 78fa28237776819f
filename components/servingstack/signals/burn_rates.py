"""Burn rates: one objective becomes recording rules and two alerts, as sloth 0.16.0 makes them.

Several windows and several burn rates (https://sre.google/workbook/alerting-on-slos/): a page when 2 % of the
month's error budget goes in an hour or 5 % in six, a ticket when 10 % goes in a day or in three. The short
window makes the alert end soon after the harm does. The rules' names and labels are sloth's, so its public
dashboards work; the tests compare with what sloth itself generated.

Traps:
- A ratio over no traffic is 0/0, NaN, and one NaN makes the whole month's average NaN. So the total counts
  only where it is above zero: a quiet five minutes leave no sample at all.
- The identity carries the namespace: two stacks of one name in two namespaces would else share their series.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from servingstack.watched import OBJECTIVE_DAYS, RecordingRule

WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
"""Ranges over which the error ratio is recorded, apart from the whole period."""

# sloth internal/alert/windows/google-30d.yaml. Factor: share of the budget x 30 days / long window.
BURN_RATES: dict[Literal["page", "ticket"], tuple[tuple[str, str, str], tuple[str, str, str]]] = {
    "page": (("5m", "1h", "14.4"), ("30m", "6h", "6")),
    "ticket": (("2h", "1d", "3"), ("6h", "3d", "1")),
}
"""Per severity, quick and slow: short window, long window, factor."""

PAGE_FACTORS = tuple(sorted(float(factor) for _, _, factor in BURN_RATES["page"]))
"""Burn rates at which a page is sent."""

_SLOTH = {"sloth_mode": "servingstack", "sloth_spec": "prometheus/v1", "sloth_version": "v0.16.0"}
"""Whose conventions these are; sloth writes itself here."""


@dataclass(frozen=True)
class ServiceLevel:
    """One objective, as two counters."""

    service: str
    """`<namespace>.<stack>`; neither has a dot."""
    slo: str
    """The objective's id."""
    percent: float
    bad: str
    """PromQL for the rate of bad requests; `$window` stands for a range."""
    total: str
    """PromQL for the rate of all requests."""

    @property
    def id(self) -> str:
        return f"{self.service}-{self.slo}"

    @property
    def labels(self) -> dict[str, str]:
        return {"sloth_id": self.id, "sloth_service": self.service, "sloth_slo": self.slo}

    @property
    def selector(self) -> str:
        return "{" + ", ".join(f'{key}="{value}"' for key, value in self.labels.items()) + "}"

    @property
    def budget(self) -> float:
        """Share of requests that may be bad, computed in sloth's order, to the last digit."""
        return (100 - self.percent) / 100


def ratio_metric(window: str) -> str:
    """Name of the recorded error ratio."""
    return f"slo:sli_error:ratio_rate{window}"


def recording_rules(level: ServiceLevel) -> tuple[RecordingRule, ...]:
    """Error ratios per window, then the objective, budget and burn as series."""
    period, selector, objective = f"{OBJECTIVE_DAYS}d", level.selector, level.percent / 100
    ratios = [
        RecordingRule(
            record=ratio_metric(window),
            expression=f"({level.bad})\n/\n({level.total})".replace("$window", window),
            labels=level.labels | {"sloth_window": window},
        )
        for window in WINDOWS
    ]
    short = ratio_metric(WINDOWS[0]) + selector
    sums, counts = f"sum_over_time({short}[{period}])", f"count_over_time({short}[{period}])"
    whole = RecordingRule(
        record=ratio_metric(period),
        expression=f"{sums}\n/ ignoring (sloth_window)\n{counts}",
        labels=level.labels | {"sloth_window": period},
    )
    over_budget = f"\n/ on(sloth_id, sloth_slo, sloth_service) group_left\nslo:error_budget:ratio{selector}"
    meta = {
        "slo:objective:ratio": f"vector({objective!r})",
        "slo:error_budget:ratio": f"vector(1-{objective!r})",
        "slo:time_period:days": f"vector({OBJECTIVE_DAYS})",
        "slo:current_burn_rate:ratio": short + over_budget,
        "slo:period_burn_rate:ratio": ratio_metric(period) + selector + over_budget,
        "slo:period_error_budget_remaining:ratio": f"1 - slo:period_burn_rate:ratio{selector}",
    }
    described = [
        RecordingRule(record=record, expression=expression, labels=level.labels)
        for record, expression in meta.items()
    ]
    info = RecordingRule(
        record="sloth_slo_info",
        expression="vector(1)",
        labels=level.labels | _SLOTH | {"sloth_objective": f"{level.percent:g}"},
    )
    return (*ratios, whole, *described, info)


def burn_alert(level: ServiceLevel, severity: Literal["page", "ticket"]) -> str:
    """The expression that is true when the budget burns too fast for this severity."""

    def burning(window: str, factor: str) -> str:
        limit = f"({factor} * {level.budget!r})"
        return f"max({ratio_metric(window)}{level.selector} > {limit}) without (sloth_window)"

    return "\nor\n".join(
        f"(\n    {burning(short, factor)}\n    and\n    {burning(long, factor)}\n)"
        for short, long, factor in BURN_RATES[severity]
    )
