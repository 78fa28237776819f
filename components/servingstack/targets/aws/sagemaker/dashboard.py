"""The stack's dashboard as CloudWatch reads it: a document of widgets on a grid of 24 columns.

Structure as in docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.

Traps:
- A metric's last element holds its options, its id among them; a widget's expression refers to ids, and ids
  are per widget.
- A widget without `region` shows nothing in another region's console.
- What the service counts in microseconds or percent of several GPUs is shown in seconds and shares: the
  expression does it, the axis says it.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan
from servingstack.watched import Signal

from .metrics import MINUTE_S, scaled
from .parts import Body, Json, region, regional

WIDTH, HEIGHT, COLUMNS = 8, 6, 24
TEXT_HEIGHT = 4
_AXES = {"s": "seconds", "reqps": "requests per second", "ratio": "share", "count": "count"}
_LATENCIES = ("p50", "p95", "p99")


def bodies(plan: ServingPlan) -> list[Body]:
    """None where dashboards are off."""
    if not plan.monitoring.dashboards:
        return []
    properties = {"dashboard_name": plan.names["dashboard"], "dashboard_body": Json(document(plan))}
    return [Body("dashboard", "aws:cloudwatch/dashboard:Dashboard", regional(plan, properties))]


def document(plan: ServingPlan) -> dict[str, Any]:
    """The whole dashboard."""
    panels = [_text(plan), *_panels(plan)]
    widgets: list[dict[str, Any]] = []
    for index, panel in enumerate(panels[1:]):
        x, y = index * WIDTH % COLUMNS, TEXT_HEIGHT + index * WIDTH // COLUMNS * HEIGHT
        widgets.append({"x": x, "y": y, "width": WIDTH, "height": HEIGHT, **panel})
    head = {"x": 0, "y": 0, "width": COLUMNS, "height": TEXT_HEIGHT, **panels[0]}
    return {"periodOverride": "inherit", "start": "-PT6H", "widgets": [head, *widgets]}


def url(plan: ServingPlan) -> str | None:
    """Where it is in the console; None where there is none."""
    if not plan.monitoring.dashboards:
        return None
    here = region(plan)
    base = f"https://{here}.console.aws.amazon.com/cloudwatch/home?region={here}"
    return f"{base}#dashboards/dashboard/{plan.names['dashboard']}"


def _text(plan: ServingPlan) -> dict[str, Any]:
    """What runs, what was promised, and what is not here."""
    architecture, scaling = plan.architecture, plan.scaling
    promised = ", ".join(
        f"{each.id} {each.percent:g} %"
        + ("" if each.threshold_ms is None else f" within {each.threshold_ms:g} ms")
        for each in plan.monitoring.objectives
    )
    missing = ", ".join(sorted({each.signal for each in plan.monitoring.unavailable}))
    lines = (
        f"# {plan.name}: {architecture.model} on {architecture.instance_type}",
        f"{scaling.min_replicas} to {scaling.max_replicas} instances. Promised over 30 days: {promised}.",
        f"Not in CloudWatch's metrics (see the plan's `unavailable`): {missing}.",
    )
    return {"type": "text", "properties": {"markdown": "\n\n".join(lines)}}


def _panels(plan: ServingPlan) -> list[dict[str, Any]]:
    signals = {signal.id: signal for signal in plan.monitoring.signals}
    latencies = [signals.pop(f"latency_{each}") for each in _LATENCIES if f"latency_{each}" in signals]
    marks = [
        {"label": objective.id, "value": objective.threshold_ms / 1000}
        for objective in plan.monitoring.objectives
        if objective.id.startswith("latency") and objective.threshold_ms is not None
    ]
    found = [_widget(plan, "Request latency", "s", latencies, marks)] if latencies else []
    for signal in signals.values():
        mark = [{"label": "scaling aims at", "value": plan.scaling.threshold}]
        marks = mark if signal.id == plan.scaling.metric and plan.scaling.autoscaled else []
        found.append(_widget(plan, signal.title, signal.unit, [signal], marks))
    return found


def _widget(
    plan: ServingPlan, title: str, unit: str, signals: list[Signal], marks: list[dict[str, Any]]
) -> dict[str, Any]:
    """One panel; a signal's series are hidden behind its expression."""
    metrics: list[list[Any]] = []
    for index, signal in enumerate(signals):
        expression = scaled(signal.query, signal.metrics, str(index))
        label = signal.id if len(signals) > 1 else signal.title
        metrics.append([{"expression": expression, "label": label, "id": f"e{index}"}])
        for key, metric in signal.metrics.items():
            dimensions = [part for pair in sorted(metric.dimensions.items()) for part in pair]
            options = {"id": f"{key}{index}", "stat": metric.statistic, "visible": False}
            metrics.append([metric.namespace, metric.name, *dimensions, options])
    properties: dict[str, Any] = {
        "title": title,
        "view": "timeSeries",
        "region": region(plan),
        "period": MINUTE_S,
        "metrics": metrics,
        "yAxis": {"left": {"min": 0, "label": _AXES[unit], "showUnits": False}},
    }
    if marks:
        properties["annotations"] = {"horizontal": marks}
    return {"type": "metric", "properties": properties}
