"""vLLM's signals as PromQL, by release: names change, and a panel on an old name is empty, not red.

Traps:
- `kv_cache_usage_perc` is 0 to 1 despite its name.
- `request_success_total` also counts requests that ended in `error` or `abort`; it is throughput, not
  availability.
- The HTTP counter has no series until a status first occurs, so a ratio over 5xx needs `or vector(0)`.
- A stream that breaks after its first byte was a 200 for the HTTP counter; `finished_reason="error"` sees it.
- Time per output token is a mean per request (`request_time_per_output_token`), which is what an objective
  over requests means; the gaps between single tokens (`inter_token_latency`) weigh long answers more. A
  one-token answer counts as 0 there (v1/metrics/stats.py:558).
"""

from __future__ import annotations

from functools import cache

from servingstack.engines import facts
from servingstack.engines.signal import Counts, EngineSignal, counted_edge, le, per_second, percentiles, rate
from servingstack.engines.vllm_limits import VERSION

# New and old name. Where a release may have either, both are asked. v0.8.5 has the old names (its
# documentation, serving/metrics.html); v0.11.0 no longer exports the old cache names by default
# (vllm-project/vllm pull requests 18354 and 29330); when the old name of `tpot` went is not known here, so
# only the pinned release counts as new.
_RENAMED = {
    "kv_cache_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "prefix_cache_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "prefix_cache_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "tpot": ("vllm:request_time_per_output_token_seconds", "vllm:time_per_output_token_seconds"),
}
_ONLY_OLD_BEFORE = (0, 9)
_ONLY_NEW_FROM = {
    "kv_cache_usage": (0, 11),
    "prefix_cache_hits": (0, 11),
    "prefix_cache_queries": (0, 11),
    "tpot": (0, 30),
}


def metric_names(role: str, version: str | None) -> tuple[str, ...]:
    """Names to ask for, best first: one where the release is known to have it, two where it may have
    either."""
    new, old = _RENAMED[role]
    if version is None:
        return (new, old)
    release = tuple(int(part) for part in version.split(".")[:2])
    if release < _ONLY_OLD_BEFORE:
        return (old,)
    return (new,) if release >= _ONLY_NEW_FROM[role] else (new, old)


def _either(names: tuple[str, ...], template: str) -> str:
    """The template for each name, joined by `or`."""
    return " or ".join(template.replace("$metric", name) for name in names)


def _edges(metric: str) -> tuple[float, ...]:
    known = facts.metrics("vllm", VERSION)
    return known[metric].buckets if metric in known else ()


def _percentiles(prefix: str, title: str, names: tuple[str, ...]) -> list[EngineSignal]:
    summed = _either(names, "sum by (le) (rate($metric_bucket{$selector}[$window]))")
    return percentiles(prefix, title, summed, names, _edges(names[0]) or _edges(_RENAMED["tpot"][0]))


def _gauge(signal: str, title: str, unit: str, how: str, names: tuple[str, ...]) -> EngineSignal:
    return EngineSignal(signal, title, unit, _either(names, f"{how}($metric{{$selector}})"), names)


@cache
def signals(version: str | None = VERSION) -> dict[str, EngineSignal]:
    """Every signal of the engine by id. `version` None (an own image of unknown release) asks for both
    names."""
    hits, queries = metric_names("prefix_cache_hits", version), metric_names("prefix_cache_queries", version)
    summed = rate("$metric")
    found = [
        *_percentiles("latency", "Request latency", ("vllm:e2e_request_latency_seconds",)),
        *_percentiles("ttft", "Time to first token", ("vllm:time_to_first_token_seconds",)),
        *_percentiles("tpot", "Time per output token", metric_names("tpot", version)),
        per_second("requests_per_second", "Finished requests", "reqps", "vllm:request_success_total"),
        per_second("output_tokens_per_second", "Generated tokens", "tps", "vllm:generation_tokens_total"),
        per_second("input_tokens_per_second", "Prompt tokens", "tps", "vllm:prompt_tokens_total"),
        per_second("preemptions", "Preemptions", "reqps", "vllm:num_preemptions_total"),
        _gauge("queue_depth", "Waiting requests", "count", "sum", ("vllm:num_requests_waiting",)),
        _gauge("running", "Running requests", "count", "sum", ("vllm:num_requests_running",)),
        _gauge("kv_cache_usage", "KV cache in use", "ratio", "max", metric_names("kv_cache_usage", version)),
        EngineSignal(
            "prefix_cache_hit_rate",
            "Prefix cache hits",
            "ratio",
            f"({_either(hits, summed)})\n/\n({_either(queries, summed)})",
            (*hits, *queries),
        ),
    ]
    return {signal.id: signal for signal in found}


def objective_counts(kind: str, threshold_s: float | None = None, version: str | None = VERSION) -> Counts:
    """Counters of an objective: `latency`, `ttft`, `tpot` with a threshold.

    The threshold is moved up to the next edge (`histogram_edge`). ValueError where no edge is high enough."""
    edge = histogram_edge(kind, threshold_s or 0.0, version)
    names = signals(version)[f"{kind}_p95"].metrics
    total = _either(names, rate("$metric_count"))
    good = _either(names, rate("$metric_bucket", f'$selector,le="{le(edge)}"'))
    return Counts(total, f"({total}) - ({good})")


def histogram_edge(kind: str, threshold_s: float, version: str | None = VERSION) -> float:
    """The edge that stands for a threshold of `latency`, `ttft` or `tpot`, seconds. ValueError
    above the last edge."""
    return counted_edge("vLLM", kind, signals(version)[f"{kind}_p95"].edges, threshold_s)


def stalled(selector: str, window: str = "5m") -> str:
    """True for a replica that has running requests and makes no tokens: /health is still 200, users wait for
    ever."""
    running = f"min_over_time(vllm:num_requests_running{{{selector}}}[{window}]) > 0"
    tokens = f"rate(vllm:generation_tokens_total{{{selector}}}[{window}]) == 0"
    return f"({running}) and ({tokens})"
