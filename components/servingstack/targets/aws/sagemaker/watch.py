"""What is watched: every signal as series of CloudWatch, or named as unavailable.

Trap: a sum over percentiles is no percentile. What the caller waits is the model's time and the service's
overhead; the panel adds their percentiles, which overstates it a little, and objectives count the model's
alone.
"""

from __future__ import annotations

from servingstack.signals import Stack
from servingstack.watched import Metric, Signal, Unavailable

from .facts import BACKLOG
from .metrics import MINUTE_S, Series

PERCENTILES = ("p50", "p95", "p99")
_TOKENS = ("ttft", "tpot")
_ENGINE_ONLY = "SageMaker publishes it to CloudWatch's PromQL endpoint alone, where no dashboard reads it"


_REAL_TIME_ONLY = (
    "The engine's own series come by detailed observability, which SageMaker offers for real-time endpoints "
    "(dg/monitoring-cloudwatch-detailed-observability), and this one is asynchronous."
)


def series_of(stack: Stack) -> Series:
    """Of the stack's endpoint. The container sees all GPUs of its instance."""
    return Series(stack.names["endpoint"], stack.architecture.gpus_per_node)


def is_asynchronous(stack: Stack) -> bool:
    """Whether answers go to a bucket."""
    return stack.args.target.sagemaker.mode == "asynchronous"


def signals(stack: Stack, version: str) -> tuple[tuple[Signal, ...], tuple[Unavailable, ...]]:
    """Every signal with its series, and what cannot be had. `version` is the engine's in the image."""
    series = series_of(stack)
    queued = is_asynchronous(stack)
    found = [*(_asynchronous(series) if queued else _real_time(series)), *_errors(series, queued)]
    found += _instances(series)
    return tuple(found), (*_unavailable(stack, version, queued),)


def _signal(name: str, title: str, unit: str, query: str, metrics: dict[str, Metric]) -> Signal:
    return Signal(id=name, title=title, unit=unit, query=query, metrics=metrics)


def _real_time(series: Series) -> list[Signal]:
    found = [
        _signal(
            f"latency_{percentile}",
            f"Request latency, {percentile}",
            "s",
            "model + overhead",
            {
                "model": series.latency("ModelLatency", percentile),
                "overhead": series.latency("OverheadLatency", percentile),
            },
        )
        for percentile in PERCENTILES
    ]
    invocations = series.invocation("Invocations", "Sum")
    in_flight = series.invocation("ConcurrentRequestsPerModel", "Maximum")
    return [
        *found,
        _signal(
            "requests_per_second",
            "Requests",
            "reqps",
            f"invocations / {MINUTE_S}",
            {"invocations": invocations},
        ),
        _signal(
            "in_flight",
            "Requests in flight per instance (what scaling follows)",
            "count",
            "in_flight",
            {"in_flight": in_flight},
        ),
    ]


def _asynchronous(series: Series) -> list[Signal]:
    found = [
        _signal(
            f"latency_{percentile}",
            f"Time in the model server, {percentile}",
            "s",
            "model",
            {"model": series.latency("ModelLatency", percentile)},
        )
        for percentile in PERCENTILES
    ]
    done = series.invocation("ModelLatency", "SampleCount")
    return [
        *found,
        _signal("requests_per_second", "Requests processed", "reqps", f"done / {MINUTE_S}", {"done": done}),
        _signal(
            "queue_depth",
            "Backlog: waiting and in work",
            "count",
            "backlog",
            {"backlog": series.backlog("ApproximateBacklogSize", "Average")},
        ),
        _signal(
            BACKLOG,
            "Backlog per instance (what scaling follows)",
            "count",
            "per_instance",
            {"per_instance": series.backlog("ApproximateBacklogSizePerInstance", "Average")},
        ),
        _signal(
            "oldest_request",
            "Age of the oldest request",
            "s",
            "age",
            {"age": series.backlog("ApproximateAgeOfOldestRequest", "Maximum")},
        ),
        _signal(
            "time_in_backlog",
            "Time in the backlog, mean",
            "s",
            "waited",
            {"waited": series.latency("TimeInBacklog", "Average")},
        ),
        _signal(
            "expired_requests",
            "Requests that expired in the backlog",
            "count",
            "expired",
            {"expired": series.invocation("ExpiredRequests", "Sum")},
        ),
    ]


def _errors(series: Series, queued: bool) -> list[Signal]:
    """For each request the service sends 1 or 0, so the mean is the share."""
    bad = series.invocation("Invocation5XXErrors", "Average")
    refused = series.invocation("Invocation4XXErrors", "Average")
    found = [
        _signal("error_rate", "Server errors (5xx)", "ratio", "bad", {"bad": bad}),
        _signal("refused_share", "Refused requests (4xx)", "ratio", "refused", {"refused": refused}),
    ]
    if queued:
        failed = series.invocation("InvocationFailures", "Sum")
        found.append(_signal("failed_requests", "Failed requests", "count", "failed", {"failed": failed}))
    return found


def _instances(series: Series) -> list[Signal]:
    rows = (
        ("gpu_utilisation", "GPU utilisation, mean", "GPUUtilization", "Average", True),
        ("gpu_memory", "GPU memory in use", "GPUMemoryUtilization", "Average", True),
        ("host_memory", "Host memory in use", "MemoryUtilization", "Maximum", False),
        ("disk", "Disk in use", "DiskUtilization", "Maximum", False),
    )
    return [
        _signal(
            name,
            title,
            "ratio",
            "used",
            {"used": series.instance(metric, statistic, per_gpu=per_gpu)},
        )
        for name, title, metric, statistic, per_gpu in rows
    ]


def _unavailable(stack: Stack, version: str, queued: bool) -> list[Unavailable]:
    """What the service keeps elsewhere or does not count at all."""
    selector = series_of(stack).selector
    known = stack.tables.signals(version)
    found: list[Unavailable] = []
    names = [f"{kind}_{percentile}" for kind in _TOKENS for percentile in PERCENTILES]
    names.append("output_tokens_per_second")
    if not queued:
        names.append("queue_depth")
    for name in names:
        tokens = name != "queue_depth"
        if tokens and not stack.generates:
            reason = f"A model for task {stack.architecture.task} generates no tokens."
        elif queued:
            reason = _REAL_TIME_ONLY
        else:
            query = " ".join(known[name].query(selector).split())
            reason = f"{_ENGINE_ONLY}: {query}."
        found.append(Unavailable(signal=name, reason=reason))
    if queued and stack.generates:
        found.append(Unavailable(signal="stalled_replicas", reason=_REAL_TIME_ONLY))
    fleet = "SageMaker publishes no number of instances; DescribeEndpoint says it."
    return [
        *found,
        Unavailable(signal="replicas", reason=fleet),
        Unavailable(signal="cost_per_hour", reason=f"It follows from the number of instances. {fleet}"),
    ]
