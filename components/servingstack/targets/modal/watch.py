"""What is watched: Modal's own metrics as its OpenTelemetry integration writes them to a Prometheus, or named
as unavailable with the reason.

Names are those of modal.com/docs/guide/otel-integration (read 2026-11): dots become underscores, and a unit
becomes a suffix (opentelemetry.io, "Prometheus and OpenMetrics compatibility"). Which unit each has is not
documented; public dashboards show `modal_container_running_ratio`, `modal_cpu_utilization_ratio`,
`modal_memory_usage_bytes`. So every name is asked for with any suffix that it may have.

Traps:
- Nothing arrives before a person has switched the integration on in the workspace: an alert says so.
- `input_events` are taken to be counts of one export, so they are summed over time and never put in `rate`.
- A request counts as a success when Modal delivered an answer, be it one of the engine's own errors.
"""

from __future__ import annotations

from dataclasses import dataclass

from servingstack.signals.stack import Stack
from servingstack.watched import Signal, Unavailable

RANGE = "5m"
QUEUE_DEPTH, IN_FLIGHT = "queue_depth", "in_flight"
NO_ENGINE_METRICS = (
    "Modal exports what it knows of containers and requests; the engine's own metrics stay in its "
    "containers, which nothing scrapes from outside."
)
NO_PERCENTILES = (
    "Modal exports the time of a request (modal.input_events.elapsed_time_us) without saying how it is put "
    "together, so no percentile can be read from it; its dashboard shows them."
)
_PERCENTILES = ("p50", "p95", "p99")
_FROM_ENGINE = (
    *(f"{kind}_{percentile}" for kind in ("ttft", "tpot") for percentile in _PERCENTILES),
    "output_tokens_per_second",
    "input_tokens_per_second",
    "kv_cache_usage",
    "prefix_cache_hit_rate",
    "preemptions",
)
_SUFFIX = "(_ratio|_bytes|_microseconds|_us|_total)?"


@dataclass(frozen=True)
class Scope:
    """One app in one environment."""

    app: str
    environment: str | None

    def series(self, metric: str, window: str = "") -> str:
        """A metric of the app, whatever suffix it got; with a window, a range of it."""
        found = f'__name__=~"{metric.replace(".", "_")}{_SUFFIX}",app_name="{self.app}"'
        if self.environment is not None:
            found += f',environment_name="{self.environment}"'
        return "{" + found + "}" + (f"[{window}]" if window else "")


def scope_of(stack: Stack) -> Scope:
    """Where the stack's series are."""
    return Scope(stack.names["app"], stack.args.target.modal.environment)


def containers(scope: Scope) -> str:
    """Containers that run, 0 without any."""
    return f"(count({scope.series('modal.container.running')}) or vector(0))"


def pending(scope: Scope) -> str:
    """Requests that wait for a container."""
    return f"sum({scope.series('modal.function.pending_inputs')})"


def requests(scope: Scope, window: str) -> str:
    """Finished requests in a window."""
    return f"sum(sum_over_time({scope.series('modal.input_events.total_inputs', window)}))"


def failed_share(scope: Scope, window: str = RANGE) -> str:
    """Share of requests without an answer, empty without traffic."""
    good = f"sum(sum_over_time({scope.series('modal.input_events.successes', window)}))"
    return f"1 - ({good})\n/\n({requests(scope, window)} > 0)"


def signals(stack: Stack) -> tuple[tuple[Signal, ...], tuple[Unavailable, ...]]:
    """Every signal, and what cannot be had."""
    scope = scope_of(stack)
    missing = [Unavailable(signal=name, reason=NO_ENGINE_METRICS) for name in _FROM_ENGINE]
    missing += [Unavailable(signal=f"latency_{each}", reason=NO_PERCENTILES) for each in _PERCENTILES]
    return (*_requests(scope), *_containers(stack, scope)), tuple(missing)


def _signal(name: str, title: str, unit: str, query: str) -> Signal:
    return Signal(id=name, title=title, unit=unit, query=query)


def _requests(scope: Scope) -> tuple[Signal, ...]:
    def seconds(metric: str) -> str:
        return f"max({scope.series(metric)}) / 1e6"

    return (
        _signal("requests_per_second", "Requests", "reqps", f"{requests(scope, RANGE)} / 300"),
        _signal("error_rate", "Requests without an answer", "ratio", failed_share(scope)),
        _signal(QUEUE_DEPTH, "Requests waiting for a container", "count", pending(scope)),
        _signal(
            IN_FLIGHT,
            "Requests in containers",
            "count",
            f"sum({scope.series('modal.function.running_inputs')})",
        ),
        _signal("elapsed", "Time of a request, longest", "s", seconds("modal.input_events.elapsed_time_us")),
        _signal("queue_time", "Wait for a container", "s", seconds("modal.input_events.input_queue_time_us")),
        _signal("cold_start", "Cold start", "s", seconds("modal.input_events.coldstart_time_us")),
    )


def _containers(stack: Stack, scope: Scope) -> tuple[Signal, ...]:
    usd = stack.cost.machine_hourly_usd or 0.0
    gpu = stack.architecture
    total = gpu.memory_per_gpu.total * gpu.gpus_per_replica
    return (
        _signal("replicas", "Containers", "count", containers(scope)),
        _signal(
            "gpu_utilisation",
            "GPU utilisation",
            "ratio",
            f"avg({scope.series('modal.gpu.compute.utilization')})",
        ),
        _signal(
            "gpu_memory",
            "GPU memory in use",
            "ratio",
            f"avg({scope.series('modal.gpu.memory.usage')}) / {total}",
        ),
        _signal(
            "cost_per_hour", "Cost per hour at the planned price", "usd", f"{containers(scope)} * {usd:.6g}"
        ),
    )
