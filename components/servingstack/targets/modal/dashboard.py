"""The Grafana dashboard of an app on Modal, as JSON, over the Prometheus that takes Modal's export.

There is no Grafana of this stack to put it in: it is an output of the deployment, to be imported or
provisioned where yours is.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes.dashboard import Panel, rendered

from .program import section


def dashboard(plan: ServingPlan) -> dict[str, Any]:
    """Grafana's JSON. The same plan gives the same JSON, key for key."""
    return rendered(plan, f"Serving: {plan.name} on Modal", rows(plan))


def rows(plan: ServingPlan) -> dict[str, list[Panel]]:
    """Panels by row."""
    return {"Requests": _requests(plan), "Containers": _containers(plan), "Capacity": _capacity(plan)}


def _series(plan: ServingPlan, *names: str) -> dict[str, str]:
    """Queries by legend."""
    signals = {signal.id: signal for signal in plan.monitoring.signals}
    return {signals[name].title: signals[name].query for name in names}


def _requests(plan: ServingPlan) -> list[Panel]:
    missing = ", ".join(each.signal for each in plan.monitoring.unavailable)
    return [
        Panel("Requests", "reqps", _series(plan, "requests_per_second"), "That ended, a second."),
        Panel(
            "Without an answer",
            "ratio",
            _series(plan, "error_rate"),
            "Timed out or lost; an engine's own error is an answer to Modal. Line: what is promised.",
            limits=[1 - plan.monitoring.objectives[0].percent / 100],
            alerts=["ServingAvailabilityBurn"],
        ),
        Panel(
            "Time",
            "s",
            _series(plan, "elapsed", "queue_time", "cold_start"),
            f"Longest of what Modal exports. Not measured here: {missing}.",
            limits=[float(section(plan).timeout_s)],
        ),
    ]


def _containers(plan: ServingPlan) -> list[Panel]:
    own = section(plan)
    return [
        Panel(
            "Waiting and running",
            "count",
            _series(plan, "queue_depth", "in_flight"),
            f"A container takes at most {own.max_inputs} at once; another starts at {own.target_inputs}.",
            alerts=["ServingNoReadyReplica", "ServingReplicasAtMaximum"],
        ),
        Panel("GPU utilisation", "ratio", _series(plan, "gpu_utilisation"), "Mean over containers."),
        Panel(
            "GPU memory",
            "ratio",
            _series(plan, "gpu_memory"),
            "The engine takes its share at start and keeps it: this says nothing about load.",
        ),
    ]


def _capacity(plan: ServingPlan) -> list[Panel]:
    scaling, cost = plan.scaling, plan.cost
    return [
        Panel(
            "Containers",
            "count",
            _series(plan, "replicas"),
            f"Planned: {scaling.min_replicas} to {scaling.max_replicas}.",
            limits=[float(scaling.max_replicas)],
            floor=float(scaling.min_replicas),
            alerts=["ServingReplicasBelowMinimum"],
        ),
        Panel(
            "Cost per hour",
            "usd",
            _series(plan, "cost_per_hour"),
            f"Containers at the planned price ({cost.price_date}). Line: the most there can be.",
            limits=[cost.peak_hourly_usd],
        ),
    ]
