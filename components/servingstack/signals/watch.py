"""What is watched: every signal as a query of this cluster's Prometheus, or named as unavailable.

Traps:
- The scaler's query must be empty, not zero, when Prometheus has lost the replicas: `or vector(0)` would read
  an outage as "no load" and take all capacity away at the peak. Only a stack that may have no replica at all
  counts an absent engine as zero.
- Queue depth is the engine's queue plus the front door's. Requests held while a replica starts from zero are
  in no queue of the proxy; the front door counts them itself.
- Queue depth alone would let the last replica go while it still answers, since nothing waits. `activity` is
  the second trigger of a stack that scales to zero.
- vLLM takes all GPU memory it may at start, so memory in use says nothing about load; the KV cache does.
"""

from __future__ import annotations

from servingstack.signals import scope as s
from servingstack.signals.scope import BACKEND, BUSY_BACKEND, OVERFLOW_BACKEND, Scope
from servingstack.signals.stack import Stack
from servingstack.watched import Signal, Unavailable

RANGE = "5m"
"""Range of every rate on a panel: ten scrapes of 30 s, and the shortest window of the burn rates."""
QUEUE_DEPTH = "queue_depth"
"""The signal a scaler asks, as a sum over the stack to be divided by replicas (KEDA's AverageValue)."""
ACTIVITY = "activity"
"""Above zero while there is any traffic. Only of stacks that scale to zero."""
_GENERATION = ("ttft_", "tpot_", "output_tokens_per_second")
_LATENCY = ("latency_p50", "latency_p95", "latency_p99")
_FROM_ENGINE = (
    *(f"{kind}_{percentile}" for kind in ("latency", "ttft", "tpot") for percentile in ("p50", "p95", "p99")),
    "running",
    "output_tokens_per_second",
    "input_tokens_per_second",
    "kv_cache_usage",
    "prefix_cache_hit_rate",
    "preemptions",
)
_OF_BATCHERS = (
    "latency_mean",
    "queue_time",
    "queue_time_mean",
    "compute_time",
    "mean_batch_size",
    "cache_hit_rate",
)
"""What engines that batch whole requests add, as far as they have it."""
_CLIENT_LATENCY = Unavailable(
    signal="latency at the front door",
    reason=(
        "HAProxy's exporter has averages and no histogram, so percentiles are measured in the engine. The "
        "wait before it is `front_door_wait`, at most timeouts.queue_s."
    ),
)


def signals(stack: Stack) -> tuple[tuple[Signal, ...], tuple[Unavailable, ...]]:
    """Every signal with its query, and what cannot be had."""
    found = [
        *_from_engine(stack),
        *_from_door(stack.scope),
        *_queue(stack),
        *_gpu(stack),
        *_capacity(stack),
    ]
    if stack.generates:
        return tuple(found), (_CLIENT_LATENCY, *_not_exported(stack), *_not_apart(stack))
    reason = f"A model for task {stack.architecture.task} generates no tokens."
    every = [*(signal.id for signal in found), *(name for name in _FROM_ENGINE if not stack.has(name))]
    missing = [Unavailable(signal=name, reason=reason) for name in every if name.startswith(_GENERATION)]
    missing += _not_exported(stack)
    return (
        tuple(signal for signal in found if not signal.id.startswith(_GENERATION)),
        (_CLIENT_LATENCY, *missing, *_not_apart(stack)),
    )


def queue_depth(stack: Stack) -> dict[str, str]:
    """The parts of the queue, by where requests wait. Their sum is the scaler's metric."""
    scope = stack.scope
    waiting = engine_query(stack, "queue_depth")
    queued = f"sum({scope.door(s.BACKEND_QUEUE, BACKEND)})"
    if stack.scaling.min_replicas > 0:
        return {"in the engine": waiting, "in the front door": queued}
    return {
        "in the engine": f"({waiting} or vector(0))",
        "in the front door": queued,
        "held until a replica is ready": f"sum({scope.held})",
    }


def engine_query(stack: Stack, signal: str, window: str = RANGE) -> str:
    """One of the engine's own signals over the stack's replicas."""
    return stack.engine_signal(signal).query(stack.scope.engine, window)


def rejected_share(scope: Scope) -> str:
    """Share of requests answered 429 because the queue was full."""
    rejected = f"sum(rate({scope.door(s.BACKEND_REQUESTS, BUSY_BACKEND)}[{RANGE}]))"
    return f"{rejected}\n/\n({request_rate(scope)} > 0)"


def request_rate(scope: Scope) -> str:
    """Requests of clients per second, refused ones included."""
    return f"sum(rate({scope.door(s.BACKEND_REQUESTS, scope.backends)}[{RANGE}]))"


def _not_exported(stack: Stack) -> list[Unavailable]:
    """What this engine has no metric for, beside what its task has not."""
    engine = stack.architecture.engine
    nothing = f"{engine} exports nothing that it could be computed from."
    means = f"{engine} exports sums of time and no histogram: watch latency_mean."
    return [
        Unavailable(signal=name, reason=means if name in _LATENCY and stack.has("latency_mean") else nothing)
        for name in _FROM_ENGINE
        if not stack.has(name) and not name.startswith(_GENERATION)
    ]


def _from_engine(stack: Stack) -> list[Signal]:
    found = [stack.engine_signal(name) for name in (*_FROM_ENGINE, *_OF_BATCHERS) if stack.has(name)]
    selector = stack.scope.engine
    return [
        Signal(
            id=signal.id,
            title=signal.title,
            unit=signal.unit,
            query=signal.query(selector, RANGE),
            queries=signal.queries(selector, RANGE),
        )
        for signal in found
    ]


def _from_door(scope: Scope) -> list[Signal]:
    every, bad = (scope.door(s.BACKEND_RESPONSES, scope.answering, more) for more in ("", ',code="5xx"'))
    errors = f"sum(rate({bad}[{RANGE}]))\n/\n(sum(rate({every}[{RANGE}])) > 0)"
    broken = f"sum(rate({scope.door(s.BACKEND_RESPONSE_ERRORS, scope.answering)}[{RANGE}]))"
    wait = f"max({scope.door(s.BACKEND_QUEUE_TIME, BACKEND)})"
    return [
        Signal(id="requests_per_second", title="Requests", unit="reqps", query=request_rate(scope)),
        Signal(id="error_rate", title="Server errors (5xx)", unit="ratio", query=errors),
        Signal(
            id="rejected_share", title="Refused, queue full (429)", unit="ratio", query=rejected_share(scope)
        ),
        Signal(id="broken_answers", title="Answers cut off", unit="reqps", query=broken),
        Signal(id="front_door_wait", title="Mean wait in the front door", unit="s", query=wait),
        *([_overflowing(scope)] if scope.overflow else []),
    ]


def _overflowing(scope: Scope) -> Signal:
    rate = f"sum(rate({scope.door(s.BACKEND_REQUESTS, OVERFLOW_BACKEND)}[{RANGE}]))"
    return Signal(id="overflow_requests", title="Sent to the overflow", unit="reqps", query=rate)


def _queue(stack: Stack) -> list[Signal]:
    parts = queue_depth(stack)
    depth = " + ".join(parts.values())
    models = stack.engine_signal("queue_depth").queries(stack.scope.engine)
    shown = parts | (models if len(models) > 1 else {})
    found = [Signal(id=QUEUE_DEPTH, title="Queue depth", unit="count", query=depth, queries=shown)]
    if stack.scaling.min_replicas == 0:
        in_flight = f"sum({stack.scope.door(s.BACKEND_SESSIONS, BACKEND)})"
        activity = f"{in_flight} + {request_rate(stack.scope)}"
        found.append(Signal(id=ACTIVITY, title="Activity", unit="count", query=activity))
    return found


def _gpu(stack: Stack) -> list[Signal]:
    matched, part = stack.scope.gpu, stack.architecture.gpu_part
    busy, used, free = (
        f"{metric}{{{matched}}}" for metric in (s.GPU_UTILISATION, s.GPU_MEMORY_USED, s.GPU_MEMORY_FREE)
    )
    scale, what = " / 100", "GPU"
    if part is not None and part.kind == "mig":
        busy, scale, what = f"{s.GPU_ACTIVE}{{{matched}}}", "", f"GPU slice {part.name}"
    elif part is not None:
        what = "Shared GPU, all who use it:"
    return [
        Signal(
            id="gpu_utilisation",
            title=f"{what} utilisation, mean",
            unit="ratio",
            query=f"avg({busy}){scale}",
            queries={"least busy": f"min({busy}){scale}", "busiest": f"max({busy}){scale}"},
        ),
        Signal(
            id="gpu_memory",
            title=f"{what} memory in use",
            unit="ratio",
            query=f"sum({used})\n/\n(sum({used}) + sum({free}))",
        ),
    ]


def _not_apart(stack: Stack) -> list[Unavailable]:
    """What cannot be told of one stack, or of one adapter, among others."""
    found: list[Unavailable] = []
    part = stack.architecture.gpu_part
    if part is not None and part.kind == "turn":
        reason = (
            "DCGM measures a GPU, not who takes its turns: the panels show all pods on it. The exporter must "
            "run with --kubernetes-virtual-gpus, or it names only one of them."
        )
        found.append(Unavailable(signal="gpu_utilisation and gpu_memory of this stack alone", reason=reason))
    if stack.architecture.adapters:
        reason = (
            f"{stack.architecture.engine} names the base model on every series, whichever adapter was asked."
        )
        found.append(Unavailable(signal="latency and tokens by adapter", reason=reason))
    return found


def _capacity(stack: Stack) -> list[Signal]:
    replicas = f"(count({stack.scope.up}) or vector(0))"
    hourly = _hourly(stack, replicas)
    found = [
        Signal(id="replicas", title="Ready replicas", unit="count", query=replicas),
        Signal(id="cost_per_hour", title="Cost per hour at the planned price", unit="usd", query=hourly),
    ]
    if stack.generates:
        tokens = engine_query(stack, "output_tokens_per_second", "1h")
        per_million = f"{hourly}\n/\n({tokens} * 3600 / 1e6 > 0)"
        found.append(
            Signal(
                id="cost_per_million_output_tokens",
                title="Cost per million output tokens",
                unit="usd",
                query=per_million,
            )
        )
    return found


def _hourly(stack: Stack, replicas: str) -> str:
    """What so many replicas cost: by their GPUs, or by the machines they need where those are paid whole."""
    cost = stack.cost
    if cost.machine_hourly_usd is None:
        return f"{replicas} * {cost.per_gpu_hour_usd * stack.architecture.gpus_per_replica:.6g}"
    return f"ceil({replicas} / {cost.replicas_per_machine}) * {cost.machine_hourly_usd:.6g}"
