"""The dashboard: a workbook of Azure Monitor, rows by question, from what the plan watches.

`version` and the numbers of the kinds of items are those of the workbooks' own JSON ("Notebook/1.0":
github.com/microsoft/Application-Insights-Workbooks, schema/workbook.json).

Traps:
- A workbook that names no resource is found by nobody: its source is the app, and it stands on the app's
  page.
- A panel of logs and one of metrics are different kinds of items; each says its own resource.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan
from servingstack.watched import Metric, Signal

from .app import section, tags
from .limits import METRICS_NAMESPACE
from .refs import Body, Given, Json, Ref

_SCHEMA = "https://github.com/Microsoft/Application-Insights-Workbooks/blob/master"
_TEXT, _QUERY, _PARAMETERS, _METRICS = 1, 3, 9, 10
_LOGS = 0
"""`queryType` of Log Analytics."""
_AGGREGATIONS = {"Total": 1, "Minimum": 2, "Maximum": 3, "Average": 4}
"""Numbers of Azure Monitor's aggregations in a workbook's metric item."""
_ROWS = (
    ("Promises", ("error_rate", "latency_", "ttft_", "tpot_")),
    ("Load", ("requests_per_second", "streamed_events", "rejected_share")),
    ("Queue", ("queue_depth", "requests_in_flight", "front_door_wait")),
    ("Capacity", ("replicas", "restarts", "gpu_", "cost_")),
)


def workbook(plan: ServingPlan, group: Any) -> Body:
    """The resource."""
    return {
        "resourceName": plan.names["dashboard"],
        "resourceGroupName": group,
        "location": plan.architecture.region,
        "kind": "shared",
        "category": "workbook",
        "displayName": f"{plan.name}: model serving",
        "sourceId": Ref("app"),
        "version": "Notebook/1.0",
        "serializedData": Json(content(plan)),
        "tags": tags(plan) | {"hidden-title": f"{plan.name}: model serving"},
    }


def content(plan: ServingPlan) -> Body:
    """The document."""
    items: list[Body] = [_head(plan), _time_range()]
    for title, prefixes in _ROWS:
        found = [signal for signal in plan.monitoring.signals if signal.id.startswith(prefixes)]
        if found:
            items.append(_text(f"row-{title.lower()}", f"## {title}"))
            items += [_panel(plan, signal) for signal in found]
    if plan.monitoring.unavailable:
        items.append(_text("unavailable", _unavailable(plan)))
    return {
        "version": "Notebook/1.0",
        "items": items,
        "fallbackResourceIds": [Ref("app")],
        "$schema": f"{_SCHEMA}/schema/workbook.json",
    }


def _text(name: str, text: str) -> Body:
    return {"type": _TEXT, "name": name, "content": {"json": text}}


def _head(plan: ServingPlan) -> Body:
    promised = "\n".join(f"- {_promise(objective)}" for objective in plan.monitoring.objectives)
    burn = ", ".join(f"{rate:g}" for rate in plan.monitoring.page_burn_rates)
    return _text(
        "promises",
        f"# {plan.name}\n{plan.architecture.model} on {plan.architecture.accelerator}, "
        f"{plan.scaling.min_replicas} to {plan.scaling.max_replicas} replicas, ${plan.cost.hourly_usd:g}/h "
        f"at the "
        f"fewest.\n\nPromised over 30 days; a page is sent at {burn} times the pace that uses the budget "
        f"up:\n"
        f"{promised}",
    )


def _promise(objective: Any) -> str:
    if objective.threshold_ms is None:
        return f"{objective.percent:g} % of requests without a server error"
    kind = objective.id.split("_")[0]
    return f"{objective.percent:g} % of requests with {kind} up to {objective.threshold_ms:g} ms"


def _unavailable(plan: ServingPlan) -> str:
    rows = "\n".join(f"| {each.signal} | {each.reason} |" for each in plan.monitoring.unavailable)
    return f"## Not to be had\n| signal | why |\n|---|---|\n{rows}"


def _time_range() -> Body:
    choices = [3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600, 30 * 24 * 3600]
    parameter: Body = {
        "name": "TimeRange",
        "version": "KqlParameterItem/1.0",
        "type": 4,
        "isRequired": True,
        "value": {"durationMs": choices[1] * 1000},
        "typeSettings": {"selectableValues": [{"durationMs": each * 1000} for each in choices]},
    }
    return {
        "type": _PARAMETERS,
        "name": "time-range",
        "content": {"version": "KqlParameterItem/1.0", "parameters": [parameter], "style": "pills"},
    }


def _panel(plan: ServingPlan, signal: Signal) -> Body:
    if signal.metrics:
        (found,) = signal.metrics.values()
        return _metric_panel(signal, found)
    logs = Ref("workspace") if section(plan).create_workspace else Given("workspace_id")
    return {
        "type": _QUERY,
        "name": signal.id,
        "customWidth": "50",
        "content": {
            "version": "KqlItem/1.0",
            "query": signal.query,
            "size": 0,
            "title": f"{signal.title} ({signal.unit})",
            "timeContextFromParameter": "TimeRange",
            "queryType": _LOGS,
            "resourceType": "microsoft.operationalinsights/workspaces",
            "crossComponentResources": [logs],
            "visualization": "timechart",
        },
    }


def _metric_panel(signal: Signal, found: Metric) -> Body:
    shown: Body = {
        "namespace": METRICS_NAMESPACE,
        "metric": f"{METRICS_NAMESPACE}--{found.name}",
        "aggregation": _AGGREGATIONS[found.statistic],
    }
    return {
        "type": _METRICS,
        "name": signal.id,
        "customWidth": "50",
        "content": {
            "version": "MetricsItem/2.0",
            "chartId": f"chart-{signal.id}",
            "size": 0,
            "title": f"{signal.title}: {found.name}, {found.statistic.lower()}",
            "chartType": 2,
            "resourceType": METRICS_NAMESPACE,
            "metricScope": 0,
            "resourceIds": [Ref("app")],
            "timeContextFromParameter": "TimeRange",
            "timeContext": {"durationMs": 0},
            "metrics": [shown],
        },
    }
