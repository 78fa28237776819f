"""What is watched: the ingress' and the door's logs, the service's own metrics, and what cannot be had.

Traps:
- The engine's own metrics page is read by nobody here: the environment's OpenTelemetry agent takes what an
  app sends and asks no page (learn.microsoft.com/azure/container-apps/opentelemetry-agents). So what only the
  engine knows, its KV cache for one, is unavailable, and times of tokens are taken from streamed answers
  alone.
- The service's metric of response times is an average. Percentiles come from the log.
"""

from __future__ import annotations

from servingstack.signals.stack import Stack
from servingstack.watched import Metric, Signal, Unavailable

from . import logs
from .limits import METRICS_NAMESPACE

_NO_SCRAPE = (
    "Only the engine knows it, and nothing reads its metrics page: the environment's OpenTelemetry agent "
    "takes what an app sends and asks no page."
)
_FROM_ENGINE = (
    "output_tokens_per_second",
    "input_tokens_per_second",
    "running",
    "kv_cache_usage",
    "prefix_cache_hit_rate",
    "preemptions",
)
_NO_MEMORY = "Container Apps has a metric of the GPU's utilisation and none of its memory."
_TOKENS = ("ttft_", "tpot_", "output_tokens", "streamed_")


def metric(name: str, statistic: str, *, scale: float = 1.0, **dimensions: str) -> Metric:
    """One of the service's own, sampled each minute."""
    return Metric(
        namespace=METRICS_NAMESPACE, name=name, statistic=statistic, dimensions=dimensions, scale=scale
    )


def signals(stack: Stack) -> tuple[tuple[Signal, ...], tuple[Unavailable, ...]]:
    """Every signal, and what cannot be had."""
    app = stack.names["app"]
    found = [*_requests(app), *_streams(app), *_queue(app), *_capacity(stack, app)]
    missing = [Unavailable(signal=name, reason=_NO_SCRAPE) for name in _FROM_ENGINE]
    missing.append(Unavailable(signal="gpu_memory", reason=_NO_MEMORY))
    if stack.generates:
        return tuple(found), tuple(missing)
    reason = f"A model for task {stack.architecture.task} generates no tokens."
    dropped = [signal for signal in found if signal.id.startswith(_TOKENS)]
    return (
        tuple(signal for signal in found if signal not in dropped),
        (
            *(Unavailable(signal=signal.id, reason=reason) for signal in dropped),
            *(
                each.model_copy(update={"reason": reason}) if each.signal.startswith(_TOKENS) else each
                for each in missing
            ),
        ),
    )


def _logged(id_: str, title: str, unit: str, query: str) -> Signal:
    return Signal(id=id_, title=title, unit=unit, query=query)


def _measured(id_: str, title: str, unit: str, found: Metric) -> Signal:
    times = "" if found.scale == 1 else f" * {found.scale:g}"
    return Signal(
        id=id_,
        title=title,
        unit=unit,
        query=f"{found.name} ({found.statistic}, 1m){times}",
        metrics={id_: found},
    )


def _requests(app: str) -> list[Signal]:
    source = logs.requests(app)
    times = [
        _logged(
            f"latency_{name}",
            f"Whole answers, {name}",
            "s",
            logs.binned(
                source, logs.percentile("Milliseconds", percent), where="StatusCode between (200 .. 299)"
            ),
        )
        for name, percent in logs.PERCENTILES.items()
    ]
    return [
        _measured("requests_per_second", "Requests", "reqps", metric("Requests", "Total", scale=1 / 60)),
        *times,
        _logged(
            "error_rate",
            "Server errors (5xx)",
            "ratio",
            logs.binned(source, logs.share("Passed and StatusCode >= 500", "Passed")),
        ),
        _logged(
            "rejected_share",
            "Refused, queue full (429)",
            "ratio",
            logs.binned(source, logs.share("StatusCode == 429", "Passed or StatusCode == 429")),
        ),
    ]


def _streams(app: str) -> list[Signal]:
    """Of streamed answers: the first piece, and the time between events, of which an engine sends one for a
    token."""
    source = logs.door(app)
    found = [
        _logged(
            f"{kind}_{name}",
            f"{title}, {name}",
            "s",
            logs.binned(source, logs.percentile(column, percent), where=f"isnotnull({column})"),
        )
        for kind, column, title in (
            ("ttft", "TtftMs", "First token (streamed answers)"),
            ("tpot", "TpotMs", "Time per streamed event, about a token"),
        )
        for name, percent in logs.PERCENTILES.items()
    ]
    events = logs.binned(source, "sum(Events) / 300.0", where="isnotnull(Events)")
    return [
        *found,
        _logged("streamed_events_per_second", "Streamed events, about a token each", "tps", events),
    ]


def _queue(app: str) -> list[Signal]:
    source = logs.door(app)
    return [
        _logged(
            "queue_depth",
            "Waiting in a replica's door, mean",
            "count",
            logs.binned(source, "avg(Waiting)"),
        ),
        _logged(
            "requests_in_flight",
            "In flight in a replica, mean",
            "count",
            logs.binned(source, "avg(InFlight)"),
        ),
        _logged(
            "front_door_wait",
            "Wait in the door, mean",
            "s",
            logs.binned(source, "avg(QueueMs) / 1000", where="QueueMs >= 0"),
        ),
    ]


def _capacity(stack: Stack, app: str) -> list[Signal]:
    usd = stack.cost.machine_hourly_usd
    each = stack.cost.per_gpu_hour_usd * stack.architecture.gpus_per_replica if usd is None else usd
    # Its metrics in the workspace: learn.microsoft.com/azure/azure-monitor/reference/tables/azuremetrics
    replicas = f"AzureMetrics\n| where Resource =~ '{app}' and MetricName == 'Replicas'"
    return [
        _measured(
            "gpu_utilisation",
            "GPU utilisation, mean",
            "ratio",
            metric("GpuUtilizationPercentage", "Average", scale=0.01),
        ),
        _measured("replicas", "Replicas", "count", metric("Replicas", "Maximum")),
        _measured("restarts", "Restarts of replicas, in all", "count", metric("RestartCount", "Maximum")),
        _logged(
            "cost_per_hour",
            "Cost per hour at the planned price",
            "usd",
            logs.binned(replicas, f"max(Maximum) * {each:.6g}"),
        ),
    ]
