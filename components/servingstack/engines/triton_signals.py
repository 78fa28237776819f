"""Triton's signals as PromQL.

Traps:
- Its durations are counters in microseconds that only grow: a mean is the rate of one over the rate of
  requests, over all models and replicas, never an average of averages, and none of them is ever a scaling
  metric by itself.
- Its latency histogram is off by default (`--metrics-config=histogram_latencies=true`), in whole milliseconds
  rounded down (core infer_response.cc:319), and has four edges unless the configuration names others.
- An ensemble hands its requests on at once, so it has no queue; its steps count the same requests again.
  Latency is that of the models which clients call, the queue is that of all.
- Prometheus 3 writes an edge as `100.0`, the server as `100`; both are matched.
"""

from __future__ import annotations

from dataclasses import dataclass

from servingstack.engines.signal import PERCENTILES, Counts, EngineSignal, counted_edge, rate
from servingstack.engines.triton_config import FIRST_RESPONSE

PENDING = "nv_inference_pending_request_count"
SUCCESS = "nv_inference_request_success"
FAILURE = "nv_inference_request_failure"
QUEUE_US = "nv_inference_queue_duration_us"
COMPUTE_US = "nv_inference_compute_infer_duration_us"
INFERENCES = "nv_inference_count"
EXECUTIONS = "nv_inference_exec_count"
CACHE_HITS = "nv_cache_num_hits_per_model"
CACHE_MISSES = "nv_cache_num_misses_per_model"
_LEAST = "1e-9"
"""Below any rate of requests that happen: a quiet model divides by it and shows 0."""


@dataclass(frozen=True)
class TritonTables:
    """The signals of one stack: they depend on which models it serves and on their histograms' edges."""

    served: tuple[str, ...]
    """Models that clients call."""
    models: tuple[str, ...]
    """All of them."""
    edges: tuple[float, ...]
    """Of every served model's latency histogram, seconds."""
    cached: bool = False
    """Whether a response cache is on."""

    @property
    def _called(self) -> str:
        return f'$selector,model=~"{"|".join(self.served)}"'

    def signals(self, version: str | None) -> dict[str, EngineSignal]:
        """Every signal of the engine by id."""
        del version  # the names are the same in every release since 23.09
        found = [*self._latency(), *self._rates(), *self._means()]
        return {signal.id: signal for signal in found}

    def _latency(self) -> list[EngineSignal]:
        summed = f"sum by (le) (rate({FIRST_RESPONSE}_bucket{{{self._called}}}[$window]))"
        return [
            EngineSignal(
                f"latency_{suffix}",
                f"Request latency, {suffix}",
                "s",
                f"histogram_quantile({quantile}, {summed}) / 1000",
                (FIRST_RESPONSE,),
                FIRST_RESPONSE,
                self.edges,
            )
            for suffix, quantile in PERCENTILES.items()
        ]

    def _rates(self) -> list[EngineSignal]:
        good, bad = (rate(name, self._called) for name in (SUCCESS, FAILURE))
        waiting = {model: f'sum({PENDING}{{$selector,model="{model}"}})' for model in self.models}
        found = [
            EngineSignal("requests_per_second", "Finished requests", "reqps", good, (SUCCESS,)),
            EngineSignal(
                "error_rate",
                "Server errors",
                "ratio",
                f"({bad})\n/\n(({good}) + ({bad}))",
                (SUCCESS, FAILURE),
            ),
            EngineSignal(
                "queue_depth",
                "Waiting requests",
                "count",
                f"sum({PENDING}{{$selector}})",
                (PENDING,),
                parts=tuple(waiting.items()),
            ),
        ]
        if self.cached:
            hits, misses = (rate(name) for name in (CACHE_HITS, CACHE_MISSES))
            ratio = f"({hits})\n/\nclamp_min(({hits}) + ({misses}), {_LEAST})"
            found.append(
                EngineSignal(
                    "cache_hit_rate", "Response cache hits", "ratio", ratio, (CACHE_HITS, CACHE_MISSES)
                )
            )
        return found

    def _means(self) -> list[EngineSignal]:
        """Queue and compute time per request, requests per batch; over the stack, and by model."""
        return [
            self._mean("queue_time", "Mean wait for a batch", "s", (QUEUE_US, SUCCESS, " / 1e6")),
            self._mean("compute_time", "Mean time of the model", "s", (COMPUTE_US, SUCCESS, " / 1e6")),
            self._mean("mean_batch_size", "Mean batch", "count", (INFERENCES, EXECUTIONS, "")),
        ]

    def _mean(self, signal: str, title: str, unit: str, what: tuple[str, str, str]) -> EngineSignal:
        top, bottom, scale = what

        def ratio(matchers: str) -> str:
            return f"{rate(top, matchers)}\n/\nclamp_min({rate(bottom, matchers)}, {_LEAST}){scale}"

        parts = tuple((model, ratio(f'$selector,model="{model}"')) for model in self.models)
        return EngineSignal(signal, title, unit, ratio("$selector"), (top, bottom), parts=parts)

    def objective_counts(self, kind: str, threshold_s: float | None, version: str | None) -> Counts:
        """Counters of an objective: `availability`, or `latency` with a threshold. ValueError for another
        kind."""
        if kind == "availability":
            good, bad = (rate(name, self._called) for name in (SUCCESS, FAILURE))
            return Counts(f"({good}) + ({bad})", bad)
        edge = self.histogram_edge(kind, threshold_s or 0.0, version)
        total = rate(f"{FIRST_RESPONSE}_count", self._called)
        within = f'{self._called},le=~"{edge * 1000:g}([.]0)?"'
        return Counts(total, f"({total}) - ({rate(f'{FIRST_RESPONSE}_bucket', within)})")

    def histogram_edge(self, kind: str, threshold_s: float, version: str | None) -> float:
        """The edge that stands for a threshold, seconds. ValueError above the last edge or for another
        kind."""
        del version
        if kind != "latency":
            raise ValueError(f"slo.latency_* alone: Triton has no histogram of {kind} | Use slo.latency_*.")
        return counted_edge("Triton", kind, self.edges, threshold_s)

    def stalled(self, selector: str) -> str:
        """True for a replica that has waiting requests and executes no batch."""
        waits = f"sum by (pod) (min_over_time({PENDING}{{{selector}}}[5m])) > 0"
        runs = f"sum by (pod) (rate({EXECUTIONS}{{{selector}}}[5m])) == 0"
        return f"({waits}) and ({runs})"
