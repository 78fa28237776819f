"""The Grafana dashboard of a stack, as JSON: rows for objectives, latency, queue, GPU, capacity and cost.

Grafana's own typed builders write it, and are imported only when a dashboard is made. Queries come from the
plan's signals, lines on the panels from its thresholds, links from its alerts' runbooks.

Traps:
- A panel's id must not move when another panel is added, or links to it break: it is row and place.
- Grafana cuts nothing: a uid over 40 characters is refused when the dashboard is loaded, long after `up`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from servingstack.plan import ServingPlan
from servingstack.watched import Signal

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import timeseries
    from grafana_foundation_sdk.models.dashboard import Threshold

UID_LIMIT = 40
"""Grafana's own (grafana/grafana pkg/util/shortid_generator.go, IsShortUIDTooLong)."""
COLUMNS = 24
"""Width of Grafana's grid."""
HEIGHT = 8
_UNITS = {
    "ratio": "percentunit",
    "count": "short",
    "tps": "suffix: tok/s",
    "usd": "currencyUSD",
    "burn": "suffix:x",
}
"""Grafana's unit for the plan's; others are the same."""


@dataclass(frozen=True)
class Panel:
    """One graph: its series by legend, and where lines mark a limit."""

    title: str
    unit: str
    series: dict[str, str]
    description: str
    limits: Sequence[float] = ()
    """Ascending: above the first is a warning, above the last is bad."""
    floor: float | None = None
    """Below it is bad."""
    alerts: Sequence[str] = ()
    """Alerts whose runbooks the panel links to."""


@dataclass
class _Plan:
    """A plan's signals by id."""

    plan: ServingPlan
    signals: dict[str, Signal] = field(init=False)

    def __post_init__(self) -> None:
        self.signals = {signal.id: signal for signal in self.plan.monitoring.signals}

    def series(self, *ids: str) -> dict[str, str]:
        """Queries by legend of those signals that the plan has."""
        found: dict[str, str] = {}
        for signal in (self.signals[name] for name in ids if name in self.signals):
            found[signal.title] = signal.query
            found |= signal.queries
        return found

    def thresholds(self, kind: str) -> list[float]:
        """What the objectives of one kind ask, seconds."""
        asked = [
            objective.threshold_ms / 1000
            for objective in self.plan.monitoring.objectives
            if objective.threshold_ms is not None and objective.id.startswith(f"{kind}_")
        ]
        return sorted(set(asked))


def uid(plan: ServingPlan) -> str:
    """Stable, within Grafana's limit, and another one for a stack of the same name in another namespace."""
    namespace = "" if plan.placement is None else plan.placement.namespace
    digest = hashlib.sha256(f"{namespace}/{plan.name}".encode()).hexdigest()[:8]
    return f"{plan.name[: UID_LIMIT - len(digest) - 1]}-{digest}"


def rows(plan: ServingPlan) -> dict[str, list[Panel]]:
    """Panels by row; one whose signals the plan does not have is empty, and keeps the place of its id."""
    view = _Plan(plan)
    whole = {"Whole requests": _whole_requests(view)} if plan.batching.kind == "dynamic" else {}
    return {
        "Objectives": _objectives(view),
        "Latency": _latency(view),
        "Batching and queue": _queue(view),
        "GPU": _gpu(view),
        "Capacity and cost": _capacity(view),
        **whole,
    }


def _objectives(view: _Plan) -> list[Panel]:
    service = {
        rule.labels["sloth_slo"]: rule.labels["sloth_id"] for rule in view.plan.monitoring.recording_rules
    }
    promised = [objective for objective in view.plan.monitoring.objectives if objective.id in service]
    burning = [alert.name for alert in view.plan.monitoring.alerts if alert.name.endswith("Burn")]

    def recorded(metric: str) -> dict[str, str]:
        return {
            f"{objective.id}, {objective.percent:g} %": f'{metric}{{sloth_id="{service[objective.id]}"}}'
            for objective in promised
        }

    return [
        Panel(
            "Error budget left",
            "ratio",
            recorded("slo:period_error_budget_remaining:ratio"),
            "What is left of the bad requests that 30 days may have. At zero the promise is broken.",
            floor=0.0,
            alerts=burning,
        ),
        Panel(
            "Burn rate",
            "burn",
            recorded("slo:current_burn_rate:ratio"),
            "How many times faster than allowed the budget goes, over 5 minutes. Lines: what pages.",
            limits=view.plan.monitoring.page_burn_rates,
            alerts=burning,
        ),
        Panel(
            "Server errors and refused requests",
            "ratio",
            view.series("error_rate", "rejected_share"),
            "At the front door. Line: what the availability objective allows.",
            limits=[1 - view.plan.monitoring.objectives[0].percent / 100],
            alerts=["ServingQueueFull", "ServingNoReadyReplica", "ServingFrontDoorDown"],
        ),
        Panel(
            "Broken answers",
            "reqps",
            view.series("broken_answers"),
            "Broken off by a replica, or cut because they took too long in total. A stream among them began "
            "as a 200, which no error rate sees.",
        ),
    ]


def _latency(view: _Plan) -> list[Panel]:
    titles = {"latency": "Whole request", "ttft": "Time to first token", "tpot": "Time per output token"}
    panels = [
        Panel(
            title,
            "s",
            view.series(*(f"{kind}_{percentile}" for percentile in ("p50", "p95", "p99"))),
            "Measured in the engine, its own queue included. Lines: the objectives.",
            limits=view.thresholds(kind),
            alerts=["ServingZombieReplica"] if kind == "latency" else [],
        )
        for kind, title in titles.items()
    ]
    wait = Panel(
        "Wait in the front door",
        "s",
        view.series("front_door_wait"),
        "Mean of the last 1024 requests, before the engine's own queue. Line: the longest wait allowed.",
        limits=[float(view.plan.timeouts.queue_s)],
        alerts=["ServingQueueFull"],
    )
    return [*panels, wait]


def _queue(view: _Plan) -> list[Panel]:
    plan = view.plan
    depth, replicas = view.signals["queue_depth"].query, view.signals["replicas"].query
    return [
        Panel("Queue depth", "count", view.series("queue_depth"), "Requests that wait, by where they wait."),
        Panel(
            "Queue depth per replica",
            "count",
            {"Per ready replica": f"({depth})\n/\n({replicas} > 0)"},
            "The scaler's metric. Line: where it adds a replica.",
            limits=[plan.scaling.threshold],
            alerts=["ServingScalingMetricAbsent", "ServingReplicasAtMaximum"],
        ),
        Panel("Requests in the batch", "count", view.series("running"), "Over all replicas."),
        Panel(
            "Requests",
            "reqps",
            view.series("requests_per_second", "overflow_requests"),
            "All that reach the front door.",
        ),
        Panel(
            "Tokens",
            "tps",
            view.series("output_tokens_per_second", "input_tokens_per_second"),
            "Over all replicas; prompts count with what the prefix cache had.",
        ),
        Panel(
            "KV cache and prefix cache",
            "ratio",
            view.series("kv_cache_usage", "prefix_cache_hit_rate"),
            "A full KV cache makes requests wait or be computed twice; a high hit rate makes prompts cheap.",
            alerts=["ServingKvCacheThrash"],
        ),
        Panel(
            "Preemptions",
            "reqps",
            view.series("preemptions"),
            "Requests thrown out of the KV cache, to be computed again.",
            alerts=["ServingKvCacheThrash"],
        ),
    ]


def _whole_requests(view: _Plan) -> list[Panel]:
    """Of an engine that batches whole requests, over the stack and by model."""
    return [
        Panel(
            "Wait for a batch",
            "s",
            view.series("queue_time", "queue_time_mean"),
            f"Mean in the engine's queue. The batcher waits up to {view.plan.batching.queue_delay_ms:g} ms.",
        ),
        Panel("Time of the model", "s", view.series("compute_time"), "Mean of a request in the model."),
        Panel(
            "Batch",
            "count",
            view.series("mean_batch_size"),
            "Mean number of requests that run together. Line: the largest batch.",
            limits=[float(view.plan.batching.max_num_seqs)],
        ),
        Panel("Mean latency", "s", view.series("latency_mean"), "Where the engine has no histogram."),
        Panel("Response cache", "ratio", view.series("cache_hit_rate"), "Requests answered from the cache."),
    ]


def _gpu(view: _Plan) -> list[Panel]:
    return [
        Panel(
            "GPU utilisation", "ratio", view.series("gpu_utilisation"), "Share of time with work on the GPU."
        ),
        Panel(
            "GPU memory",
            "ratio",
            view.series("gpu_memory"),
            "The engine takes its share at start and keeps it; load shows in the KV cache, not here.",
        ),
    ]


def _capacity(view: _Plan) -> list[Panel]:
    scaling, cost = view.plan.scaling, view.plan.cost
    return [
        Panel(
            "Ready replicas",
            "count",
            view.series("replicas"),
            f"Planned: {scaling.min_replicas} to {scaling.max_replicas}.",
            limits=[float(scaling.max_replicas)],
            floor=float(scaling.min_replicas),
            alerts=["ServingReplicasBelowMinimum", "ServingReplicasAtMaximum"],
        ),
        Panel(
            "Cost per hour",
            "usd",
            view.series("cost_per_hour"),
            f"Ready replicas at the planned price ({cost.basis}, {cost.price_date}). Line: all replicas.",
            limits=[cost.peak_hourly_usd],
        ),
        Panel(
            "Cost of output",
            "usd",
            view.series("cost_per_million_output_tokens"),
            "Of the last hour: idle replicas make it dear.",
        ),
        Panel("Activity", "count", view.series("activity"), "Above zero, the last replica stays."),
    ]


def dashboard(plan: ServingPlan) -> dict[str, Any]:
    """Grafana's JSON. The same plan gives the same JSON, key for key."""
    namespace = "" if plan.placement is None else plan.placement.namespace
    return rendered(plan, f"Serving: {namespace}/{plan.name}", rows(plan))


def rendered(plan: ServingPlan, title: str, panels_by_row: dict[str, list[Panel]]) -> dict[str, Any]:
    """Rows of panels as Grafana's JSON."""
    from grafana_foundation_sdk.builders import dashboard as builders
    from grafana_foundation_sdk.cog.encoder import JSONEncoder

    board = (
        builders.Dashboard(title)
        .uid(uid(plan))
        .description(plan.architecture.why)
        .tags(["servingstack", plan.architecture.engine])
        .time("now-6h", "now")
        .refresh("30s")
        .readonly()
        .with_variable(builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    # A link needs an address; without one, the alert names its page.
    runbooks = {
        alert.name: alert.runbook_url for alert in plan.monitoring.alerts if alert.runbook_url is not None
    }
    for number, (row, panels) in enumerate(panels_by_row.items(), start=1):
        board.with_row(builders.Row(row).id(number * 100))
        shown = [(place, panel) for place, panel in enumerate(panels, start=1) if panel.series]
        width = COLUMNS // min(max(len(shown), 1), 4)
        for place, panel in shown:
            links = {name: runbooks[name] for name in panel.alerts if name in runbooks}
            board.with_panel(_built(panel, links).id(number * 100 + place).span(width).height(HEIGHT))
    text = JSONEncoder(sort_keys=True).encode(board.build())
    result: dict[str, Any] = json.loads(text)
    return result


def _built(panel: Panel, links: dict[str, str]) -> timeseries.Panel:
    from grafana_foundation_sdk.builders import common, prometheus, timeseries
    from grafana_foundation_sdk.builders import dashboard as builders
    from grafana_foundation_sdk.models import common as words
    from grafana_foundation_sdk.models.dashboard import DashboardLinkType, DataSourceRef, ThresholdsMode

    source = DataSourceRef(type_val="prometheus", uid="${datasource}")
    built = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.description)
        .datasource(source)
        .unit(_UNITS.get(panel.unit, panel.unit))
        .links(
            [
                builders.DashboardLink(f"Runbook: {name}")
                .type(DashboardLinkType.LINK)
                .url(url)
                .target_blank(True)
                for name, url in links.items()
            ]
        )
    )
    if panel.floor is None:
        built.min(0)
    for number, (legend, query) in enumerate(panel.series.items()):
        target = prometheus.Dataquery().expr(query).legend_format(legend).ref_id(chr(ord("A") + number))
        built.with_target(target.datasource(source).range())
    if panel.limits or panel.floor is not None:
        built.thresholds(builders.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(_steps(panel)))
        built.thresholds_style(
            common.GraphThresholdsStyleConfig().mode(words.GraphThresholdsStyleMode.DASHED)
        )
    return built


def _steps(panel: Panel) -> list[Threshold]:
    """Grafana's thresholds: the first has no value and colours everything below the second."""
    from grafana_foundation_sdk.models.dashboard import Threshold

    low = "green" if panel.floor is None else "red"
    steps = [Threshold(value=None, color=low)]
    if panel.floor is not None:
        steps.append(Threshold(value=panel.floor, color="green"))
    for number, limit in enumerate(panel.limits, start=1):
        steps.append(Threshold(value=limit, color="red" if number == len(panel.limits) else "orange"))
    return steps
