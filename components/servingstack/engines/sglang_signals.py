"""SGLang's signals as PromQL.

Traps:
- Nothing is exported without `--enable-metrics`.
- Scheduler metrics carry `tp_rank`, `pp_rank` and `moe_ep_rank`: each rank reports the same queue, so a plain
  sum over a pipeline counts it once per stage. The maximum over ranks is taken first, then the sum over pods.
- The first token of a request that is not streamed is seen when its first 50 tokens are sent together
  (environ.py, SGLANG_FORCE_STREAM_INTERVAL), so time to first token counts streamed requests alone.
- There is no time per output token as a mean per request: `inter_token_latency_seconds` counts each token, so
  long answers weigh more than in vLLM's figure.
- `num_requests_total` counts finished requests, aborted ones too; it is throughput, not availability. HTTP
  responses carry the exact status (`status_code="503"`), and no series until it first occurs, hence
  `or vector(0)`.
- Counters of tokens grow when a request finishes; `realtime_tokens_total` grows while it runs, so that is
  what tells a stalled replica from one with long answers.
- Histogram edges are coarse (0.4, 0.6, 0.8, 1, 2, 4 s): an objective of 500 ms is counted at 600 ms, and the
  plan says so.
"""

from __future__ import annotations

from functools import cache

from servingstack.engines import facts
from servingstack.engines.sglang_limits import VERSION
from servingstack.engines.signal import Counts, EngineSignal, counted_edge, le, per_second, percentiles, rate

_API = 'endpoint=~"/v1/.*"'
"""Routes as they are declared; the probes' /health and /metrics are others."""
_STREAMED = 'is_streaming="true"'
_RANKS = "tp_rank, pp_rank, moe_ep_rank"
_HISTOGRAMS = {
    "latency": ("Request latency", "sglang:e2e_request_latency_seconds", ""),
    "ttft": ("Time to first token", "sglang:time_to_first_token_seconds", f",{_STREAMED}"),
    "tpot": ("Time between tokens", "sglang:inter_token_latency_seconds", ""),
    "queue_time": ("Time in queue", "sglang:queue_time_seconds", ""),
}


def _edges(metric: str) -> tuple[float, ...]:
    return facts.metrics("sglang", VERSION)[metric].buckets


def _percentiles(prefix: str) -> list[EngineSignal]:
    title, metric, only = _HISTOGRAMS[prefix]
    summed = f"sum by (le) (rate({metric}_bucket{{$selector{only}}}[$window]))"
    return percentiles(prefix, title, summed, (metric,), _edges(metric))


def _gauge(signal: str, title: str, unit: str, how: str, metric: str) -> EngineSignal:
    ranks = f"max without ({_RANKS}) ({metric}{{$selector}})"
    return EngineSignal(signal, title, unit, f"{how}({ranks})", (metric,))


@cache
def signals(version: str | None = VERSION) -> dict[str, EngineSignal]:
    """Every signal of the engine by id. The names are those of the pinned release, whatever the `version`:
    for an own image of another release, what it calls differently is missing from the panels."""
    del version
    hits, prompts = "sglang:cached_tokens_total", "sglang:prompt_tokens_total"
    hit_rate = f"{rate(hits)} or vector(0)"
    found = [
        *(signal for prefix in _HISTOGRAMS for signal in _percentiles(prefix)),
        per_second("requests_per_second", "Finished requests", "reqps", "sglang:num_requests_total"),
        per_second("output_tokens_per_second", "Generated tokens", "tps", "sglang:generation_tokens_total"),
        per_second("input_tokens_per_second", "Prompt tokens", "tps", prompts),
        EngineSignal(
            "preemptions",
            "Retracted requests",
            "reqps",
            f"sum(max without ({_RANKS}) (rate(sglang:num_retracted_requests_total{{$selector}}[$window])))",
            ("sglang:num_retracted_requests_total",),
        ),
        EngineSignal(
            "error_rate",
            "Server errors",
            "ratio",
            _error_counts().ratio("$selector", "$window"),
            ("sglang:http_responses_total",),
        ),
        _gauge("queue_depth", "Waiting requests", "count", "sum", "sglang:num_queue_reqs"),
        _gauge("running", "Running requests", "count", "sum", "sglang:num_running_reqs"),
        _gauge("kv_cache_usage", "KV cache in use", "ratio", "max", "sglang:token_usage"),
        EngineSignal(
            "prefix_cache_hit_rate",
            "Prefix cache hits",
            "ratio",
            f"({hit_rate})\n/\n({rate(prompts)})",
            (hits, prompts),
        ),
    ]
    return {signal.id: signal for signal in found}


def _error_counts() -> Counts:
    metric = "sglang:http_responses_total"
    bad = rate(metric, f'$selector,{_API},status_code=~"5.."')
    return Counts(rate(metric, f"$selector,{_API}"), f"{bad} or vector(0)")


def objective_counts(kind: str, threshold_s: float | None = None, version: str | None = VERSION) -> Counts:
    """Counters of an objective: `availability`, or `latency`, `ttft`, `tpot` with a threshold.

    The threshold is moved up to the next edge (`histogram_edge`). ValueError where no edge is high enough."""
    if kind == "availability":
        return _error_counts()
    edge = histogram_edge(kind, threshold_s or 0.0, version)
    _, metric, only = _HISTOGRAMS[kind]
    total = rate(f"{metric}_count", f"$selector{only}")
    good = rate(f"{metric}_bucket", f'$selector{only},le="{le(edge)}"')
    return Counts(total, f"({total}) - ({good})")


def histogram_edge(kind: str, threshold_s: float, version: str | None = VERSION) -> float:
    """The edge that stands for a threshold of `latency`, `ttft`, `tpot` or `queue_time`, seconds. ValueError
    above the last edge."""
    return counted_edge("SGLang", kind, signals(version)[f"{kind}_p95"].edges, threshold_s)


def stalled(selector: str, window: str = "5m") -> str:
    """True for a replica that has running requests and makes no tokens: /health is still 200, users wait for
    ever."""
    without = f"max without ({_RANKS})"
    running = f"{without} (min_over_time(sglang:num_running_reqs{{{selector}}}[{window}])) > 0"
    tokens = f"sum without ({_RANKS}, mode) (rate(sglang:realtime_tokens_total{{{selector}}}[{window}])) == 0"
    return f"({running}) and ({tokens})"
