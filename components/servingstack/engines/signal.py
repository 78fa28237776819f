"""An engine's signal: what it is called on the metrics page, and the query that shows it.

Trap: `histogram_quantile` and SLO ratios are only as fine as the histogram's edges. A threshold between two
edges has no series of its own, and an alert on it is silently empty; ask `edge_at_or_above` first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class EngineSignal:
    """One signal of an engine."""

    id: str
    """Stable: `ttft_p95`, `queue_depth`, ..."""
    title: str
    unit: str
    """s, reqps, tps (tokens per second), ratio (0 to 1), count."""
    expression: str
    """PromQL over the whole stack; `$selector` stands for label matchers, `$window` for a range."""
    metrics: tuple[str, ...]
    """Names it reads, without `_bucket`, `_sum` and `_count`."""
    histogram: str | None = None
    """The histogram behind a percentile."""
    edges: tuple[float, ...] = ()
    """Its upper edges, in the signal's unit, without +Inf."""
    parts: tuple[tuple[str, str], ...] = ()
    """More series on its panel, as legend and expression: one per model, where an engine serves several."""

    def query(self, selector: str, window: str = "5m") -> str:
        """The expression for label matchers such as `namespace="serving",service="chat-engine"`."""
        return self.expression.replace("$selector", selector).replace("$window", window)

    def queries(self, selector: str, window: str = "5m") -> dict[str, str]:
        """The parts, by legend."""
        return {
            legend: part.replace("$selector", selector).replace("$window", window)
            for legend, part in self.parts
        }


@dataclass(frozen=True)
class Counts:
    """The two counters of an objective: requests, and bad ones. Rates of both make its error ratio."""

    total: str
    bad: str
    """PromQL with `$selector` and `$window`, as in a signal."""

    def ratio(self, selector: str, window: str) -> str:
        """Share of bad requests in the window, 0 to 1."""
        text = f"({self.bad})\n/\n({self.total})"
        return text.replace("$selector", selector).replace("$window", window)


def edge_at_or_above(edges: tuple[float, ...], threshold_s: float) -> float | None:
    """The lowest edge that is not below the threshold; None above the last, where nothing can be counted."""
    return next((edge for edge in edges if edge >= threshold_s * (1 - 1e-9)), None)


def le(edge: float) -> str:
    """An edge as the `le` label holds it: Python's client writes floats (`1.0`, `0.5`), and Prometheus 3
    makes every edge such a float."""
    return repr(float(edge))


PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def rate(metric: str, matchers: str = "$selector", window: str = "$window") -> str:
    """Events of a counter per second, over the whole stack."""
    return f"sum(rate({metric}{{{matchers}}}[{window}]))"


def per_second(signal: str, title: str, unit: str, metric: str) -> EngineSignal:
    """A counter's rate as a signal."""
    return EngineSignal(signal, title, unit, rate(metric), (metric,))


def percentiles(
    prefix: str, title: str, summed: str, metrics: tuple[str, ...], edges: tuple[float, ...]
) -> list[EngineSignal]:
    """The three percentiles of a histogram in seconds: `summed` is its buckets' rate by `le`."""
    return [
        EngineSignal(
            id=f"{prefix}_{suffix}",
            title=f"{title}, {suffix}",
            unit="s",
            expression=f"histogram_quantile({quantile}, {summed})",
            metrics=metrics,
            histogram=metrics[0],
            edges=edges,
        )
        for suffix, quantile in PERCENTILES.items()
    ]


def counted_edge(engine: str, kind: str, edges: tuple[float, ...], threshold_s: float) -> float:
    """The edge that stands for a threshold, seconds. ValueError above the last edge."""
    edge = edge_at_or_above(edges, threshold_s)
    if edge is None:
        raise ValueError(f"{engine} counts {kind} up to {edges[-1]:g} s | Ask for at most that.")
    return edge


class EngineTables(Protocol):
    """What an engine's signal module offers, as a module or as an object that knows the stack."""

    def signals(self, version: str | None) -> dict[str, EngineSignal]:
        """Every signal by id."""
        ...

    def objective_counts(self, kind: str, threshold_s: float | None, version: str | None) -> Counts:
        """Counters of an objective. ValueError where there are none."""
        ...

    def histogram_edge(self, kind: str, threshold_s: float, version: str | None) -> float:
        """The edge that stands for a threshold. ValueError where none does."""
        ...

    def stalled(self, selector: str) -> str:
        """True for a replica that has work and does none."""
        ...
