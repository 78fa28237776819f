"""What is watched: Replicate shows it in a dashboard of its own, a day back in steps of 15 minutes, and
exports nothing (replicate.com/docs/topics/deployments/monitor-a-deployment). So there are panels, no alerts.

Trap: a query here is a panel's name on that page, for a person to look at. Nothing can be computed from it.
"""

from __future__ import annotations

from servingstack.signals.stack import Stack
from servingstack.watched import Monitoring, Signal, Unavailable

NOTHING_EXPORTED = (
    "Replicate exports no metrics: its dashboard has none of this, and no series can be read from outside."
)
NO_ALERTS = (
    "Replicate exports no metrics, so nothing can be compared with a threshold; watch the synthetic check."
)
_PANELS = {
    "latency_p50": ("Latency", "s"),
    "requests_per_second": ("Throughput", "reqps"),
    "error_rate": ("Error rates", "ratio"),
    "queue_depth": ("Queue depth", "count"),
    "gpu_memory": ("GPU memory usage", "bytes"),
    "replicas": ("Instance status", "count"),
}
_MISSING = (
    "latency_p95",
    "latency_p99",
    *(f"{kind}_{percentile}" for kind in ("ttft", "tpot") for percentile in ("p50", "p95", "p99")),
    "output_tokens_per_second",
    "gpu_utilisation",
)


def page(owner: str, name: str) -> str:
    """The deployment's page."""
    return f"https://replicate.com/deployments/{owner}/{name}"


def monitoring(stack: Stack) -> Monitoring:
    """Panels of the vendor's own dashboard, and what nobody can see."""
    owner = stack.args.target.replicate.owner or ""
    where = page(owner, stack.names["deployment"])
    return Monitoring(
        objectives=(),
        signals=tuple(
            Signal(id=name, title=title, unit=unit, query=f"{where}: {title}")
            for name, (title, unit) in _PANELS.items()
        ),
        alerts=(),
        unavailable=(
            *(Unavailable(signal=name, reason=NOTHING_EXPORTED) for name in _MISSING),
            Unavailable(signal="alerts", reason=NO_ALERTS),
        ),
        dashboards=stack.args.observability.dashboards,
    )
