"""What is watched: every signal in Cloud Monitoring's terms, or named as unavailable with its reason.

Traps:
- Cloud Run sees requests, not tokens. Time to first token and per token are the engine's to know, and
  nothing of an instance is scraped from outside: without a collector they are unavailable, never guessed
  from latency.
- GPU metrics are distributions over instances whose kind is not documented alike everywhere, so they are
  read by an aligner, which takes both, and not by `rate`.
- The engine takes all GPU memory it may at its start: memory in use says nothing about load.
"""

from __future__ import annotations

from servingstack.signals.stack import Stack
from servingstack.watched import Metric, Signal, Unavailable

from . import collector
from . import scope as s
from .pricing import surcharge_usd
from .scope import DOMAIN, Scope

RANGE = "5m"
"""Range of every rate on a panel: five samples, and the shortest window of the burn rates."""
QUEUE_DEPTH, IN_FLIGHT = "queue_depth", "in_flight"
NO_ENGINE_METRICS = (
    "Cloud Run measures requests, and nothing from outside reaches the engine's own metrics in an instance. "
    "Google's collector beside the engine does: target.cloud_run.collector_image."
)
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_FROM_ENGINE = (
    *(f"{kind}_{percentile}" for kind in ("ttft", "tpot") for percentile in _PERCENTILES),
    "output_tokens_per_second",
    "input_tokens_per_second",
    "kv_cache_usage",
    "prefix_cache_hit_rate",
    "preemptions",
)


def scope_of(stack: Stack) -> Scope:
    """Where the stack's series are."""
    return Scope(stack.args.name, stack.architecture.region)


def signals(stack: Stack) -> tuple[tuple[Signal, ...], tuple[Unavailable, ...]]:
    """Every signal, and what cannot be had."""
    scope = scope_of(stack)
    found = [*_requests(scope), *_queue(scope), *_gpu(scope), *_capacity(stack, scope)]
    if collector.wanted(stack):
        found += _from_engine(stack)
    have = {signal.id for signal in found}
    missing = [name for name in _FROM_ENGINE if name not in have]
    return tuple(found), tuple(Unavailable(signal=name, reason=_why_not(stack, name)) for name in missing)


def _from_engine(stack: Stack) -> list[Signal]:
    where = collector.selector(stack)
    known = [(name, collector.engine_signal(stack, name)) for name in _FROM_ENGINE]
    return [
        Signal(id=name, title=each.title, unit=each.unit, query=each.query(where, RANGE))
        for name, each in known
        if each is not None
    ]


def _why_not(stack: Stack, name: str) -> str:
    architecture = stack.architecture
    if not stack.generates and name.startswith(collector.TOKENS):
        return f"A model for task {architecture.task} generates no tokens."
    if not stack.has(name):
        return f"{architecture.engine} exports nothing that it could be computed from."
    return NO_ENGINE_METRICS


def quantile(scope: Scope, metric: str, q: float, window: str = RANGE) -> str:
    """A quantile of a distribution, in the metric's own unit."""
    buckets = scope.series(metric, suffix="_bucket")
    return f"histogram_quantile({q:g}, sum by (le) (rate({buckets}[{window}])))"


def request_rate(scope: Scope, more: str = "", window: str = RANGE) -> str:
    """Finished requests per second."""
    return f"sum(rate({scope.series(s.REQUESTS, more)}[{window}]))"


def share(scope: Scope, more: str, window: str = RANGE) -> str:
    """Share of requests that match, empty without traffic: 0/0 would be a number that compares as false."""
    return f"({request_rate(scope, more, window)})\n/\n({request_rate(scope, window=window)} > 0)"


def pending(scope: Scope) -> str:
    """Requests that wait for an instance."""
    return f"sum({scope.series(s.PENDING)})"


def instances(scope: Scope, state: str = "") -> str:
    """Instances, all or those of a state."""
    matcher = f'state="{state}"' if state else ""
    return f"sum({scope.series(s.INSTANCES, matcher)})"


SERVER_ERRORS = 'response_code_class="5xx"'
REFUSED = 'response_code="429"'
"""No instance was free in time; also what the engine itself refuses."""


def _requests(scope: Scope) -> list[Signal]:
    latencies = [
        Signal(
            id=f"latency_{name}",
            title=f"Request latency, {name}",
            unit="s",
            query=f"{quantile(scope, s.LATENCIES, q)} / 1000",
        )
        for name, q in _PERCENTILES.items()
    ]
    return [
        *latencies,
        Signal(id="requests_per_second", title="Requests", unit="reqps", query=request_rate(scope)),
        Signal(id="error_rate", title="Server errors (5xx)", unit="ratio", query=share(scope, SERVER_ERRORS)),
        Signal(id="rejected_share", title="Refused (429)", unit="ratio", query=share(scope, REFUSED)),
    ]


def _queue(scope: Scope) -> list[Signal]:
    waited = f"{quantile(scope, s.PENDING_LATENCIES, 0.95)} / 1000"
    return [
        Signal(id=QUEUE_DEPTH, title="Requests waiting for an instance", unit="count", query=pending(scope)),
        Signal(id="pending_p95", title="Wait for an instance, p95", unit="s", query=waited),
        Signal(
            id=IN_FLIGHT,
            title="Requests at once in an instance",
            unit="count",
            query=scope.filter(s.CONCURRENCIES),
            metrics=_aligned(s.CONCURRENCIES, 50, 95),
        ),
    ]


def _gpu(scope: Scope) -> list[Signal]:
    return [
        Signal(
            id="gpu_utilisation",
            title="GPU utilisation",
            unit="ratio",
            query=scope.filter(s.GPU_UTILISATION),
            metrics=_aligned(s.GPU_UTILISATION, 50, 95),
        ),
        Signal(
            id="gpu_memory",
            title="GPU memory in use",
            unit="ratio",
            query=scope.filter(s.GPU_MEMORY),
            metrics=_aligned(s.GPU_MEMORY, 50, 95),
        ),
    ]


def _aligned(metric: str, *percentiles: int) -> dict[str, Metric]:
    """A structured query: percentiles of each instance's distribution in a minute, by legend."""
    return {
        f"p{percentile}": Metric(
            namespace=DOMAIN, name=metric, statistic=f"ALIGN_PERCENTILE_{percentile:02d}"
        )
        for percentile in percentiles
    }


def _capacity(stack: Stack, scope: Scope) -> list[Signal]:
    count = f"({instances(scope)} or vector(0))"
    rented, usd = stack.architecture, stack.cost.per_gpu_hour_usd
    if stack.cost.basis == "on-demand":
        usd += surcharge_usd(stack.args, rented.accelerator, rented.region)
    started = f"{quantile(scope, s.STARTUPS, 0.95, '1h')} / 1000"
    return [
        Signal(
            id="replicas",
            title="Instances",
            unit="count",
            query=count,
            queries={"active": instances(scope, "active"), "idle": instances(scope, "idle")},
        ),
        Signal(id="startup_p95", title="Start of an instance, p95 of an hour", unit="s", query=started),
        Signal(
            id="cost_per_hour",
            title="Cost per hour at the planned price",
            unit="usd",
            query=f"{count} * {usd:.6g}",
        ),
    ]
