"""The dashboard, as Cloud Monitoring's JSON (monitoring v1, Dashboard).

Traps:
- A tile outside the grid, or over another, is refused or hidden: positions are counted here, never typed.
- A threshold on a chart is in the chart's own unit, which is the query's.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan
from servingstack.watched import Metric, Signal

from .bodies import scope_of, section

COLUMNS = 48
WIDTH, HEIGHT = 24, 16
_UNITS = {"s": "s", "ratio": "10^2.%", "reqps": "1/s", "tps": "1/s", "count": "1", "usd": "{USD}/h"}
"""UCUM, as Cloud Monitoring spells units; a ratio is shown as percent."""

# Signals that share a panel, by the panel's title.
_PANELS = (
    ("Request latency", ("latency_p50", "latency_p95", "latency_p99")),
    ("Requests and refusals", ("requests_per_second",)),
    ("Server errors (5xx) and refused (429)", ("error_rate", "rejected_share")),
    ("Requests waiting for an instance", ("queue_depth",)),
    ("Wait for an instance, p95", ("pending_p95",)),
    ("Requests at once in an instance", ("in_flight",)),
    ("Instances", ("replicas",)),
    ("Start of an instance, p95", ("startup_p95",)),
    ("GPU utilisation", ("gpu_utilisation",)),
    ("GPU memory in use", ("gpu_memory",)),
    ("Time to the first token", ("ttft_p50", "ttft_p95", "ttft_p99")),
    ("Time per token", ("tpot_p50", "tpot_p95", "tpot_p99")),
    ("Tokens per second", ("output_tokens_per_second", "input_tokens_per_second")),
    ("KV cache in use, and hits of the prefix cache", ("kv_cache_usage", "prefix_cache_hit_rate")),
    ("Preemptions", ("preemptions",)),
    ("Cost per hour at the planned price", ("cost_per_hour",)),
)


def dashboard(plan: ServingPlan) -> dict[str, Any]:
    """The whole page: what was decided, then a panel for each signal, then what cannot be seen here."""
    signals = {signal.id: signal for signal in plan.monitoring.signals}
    shown = [(title, [signals[name] for name in names if name in signals]) for title, names in _PANELS]
    widgets = [_chart(plan, title, found) for title, found in shown if found]
    tiles = [_tile(0, 0, COLUMNS, 8, _text("Decided", _decided(plan)))]
    for index, widget in enumerate(widgets):
        x, y = WIDTH * (index % 2), 8 + HEIGHT * (index // 2)
        tiles.append(_tile(x, y, WIDTH, HEIGHT, widget))
    below = 8 + HEIGHT * ((len(widgets) + 1) // 2)
    tiles.append(_tile(0, below, COLUMNS, 8, _text("Not measured here", _unavailable(plan))))
    return {
        "displayName": f"{plan.name} on Cloud Run",
        "labels": dict.fromkeys(("servingstack",), ""),
        "mosaicLayout": {"columns": COLUMNS, "tiles": tiles},
    }


def _tile(x: int, y: int, width: int, height: int, widget: dict[str, Any]) -> dict[str, Any]:
    place = {"xPos": x, "yPos": y, "width": width, "height": height}
    return {name: value for name, value in place.items() if value} | {"widget": widget}


def _text(title: str, content: str) -> dict[str, Any]:
    return {"title": title, "text": {"content": content, "format": "MARKDOWN"}}


def _decided(plan: ServingPlan) -> str:
    own, architecture, scaling = section(plan), plan.architecture, plan.scaling
    return (
        f"**{architecture.model}** by {architecture.engine} on {architecture.instance_type}, "
        f"{scaling.min_replicas} to {scaling.max_replicas} instances. An instance receives at most "
        f"{own.max_concurrency} requests at once; another starts at {own.concurrency_utilization:.0%} of it. "
        f"A request, streamed or not, ends after {plan.timeouts.request_s} s."
    )


def _unavailable(plan: ServingPlan) -> str:
    reasons: dict[str, list[str]] = {}
    for each in plan.monitoring.unavailable:
        reasons.setdefault(each.reason, []).append(each.signal)
    return "\n\n".join(f"**{', '.join(names)}**: {reason}" for reason, names in reasons.items())


def _chart(plan: ServingPlan, title: str, signals: list[Signal]) -> dict[str, Any]:
    sets = [each for signal in signals for each in _data_sets(plan, signal)]
    chart: dict[str, Any] = {"dataSets": sets, "yAxis": {"scale": "LINEAR"}}
    lines = [line for signal in signals for line in _thresholds(plan, signal)]
    if lines:
        chart["thresholds"] = lines
    return {"title": title, "xyChart": chart}


def _data_sets(plan: ServingPlan, signal: Signal) -> list[dict[str, Any]]:
    unit = _UNITS[signal.unit]
    if signal.metrics:
        return [
            _data_set(name, {"timeSeriesFilter": _filter(plan, metric), "unitOverride": unit})
            for name, metric in signal.metrics.items()
        ]
    queries = signal.queries if signal.queries else {signal.title: signal.query}
    return [
        _data_set(legend, {"prometheusQuery": query, "unitOverride": unit})
        for legend, query in queries.items()
    ]


def _data_set(legend: str, query: dict[str, Any]) -> dict[str, Any]:
    return {"plotType": "LINE", "legendTemplate": legend, "timeSeriesQuery": query}


def _filter(plan: ServingPlan, metric: Metric) -> dict[str, Any]:
    return {
        "filter": scope_of(plan).filter(metric.name),
        "aggregation": {
            "alignmentPeriod": f"{metric.period_s}s",
            "perSeriesAligner": metric.statistic,
            "crossSeriesReducer": "REDUCE_MAX",
        },
    }


def _thresholds(plan: ServingPlan, signal: Signal) -> list[dict[str, Any]]:
    own, scaling = section(plan), plan.scaling
    promised = {
        each.id: each.threshold_ms / 1000
        for each in plan.monitoring.objectives
        if each.threshold_ms is not None
    }
    lines = {
        "in_flight": [
            ("most of an instance", float(own.max_concurrency)),
            ("another starts", own.max_concurrency * own.concurrency_utilization),
        ],
        "replicas": [("most", float(scaling.max_replicas)), ("fewest", float(scaling.min_replicas))],
    }
    found = lines.get(signal.id, [])
    if signal.id in promised:
        found = [(f"{signal.id} promised", promised[signal.id])]
    return [{"label": label, "value": value, "targetAxis": "Y1"} for label, value in found]
