"""What a cluster's exporters say, on one local port: replicas of the engine, GPUs, the scaler.

The engine's names, kinds, labels and edges are those of the pinned release. Its counters are above zero at
the first scrape, with slow requests in them, as those of a replica that has warmed up are; from then on all
requests are fast.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from servingstack.engines import facts
from servingstack.engines.facts import MetricInfo

VALUES = {"vllm:num_requests_waiting": 2, "vllm:num_requests_running": 5, "vllm:kv_cache_usage_perc": 0.4}
LABELS = {
    "model_name": "m",
    "engine": "0",
    "finished_reason": "stop",
    "handler": "/v1/completions",
    "status": "2xx",
}
STILL = {"vllm:num_preemptions_total"}
"""Counters of what does not happen here."""
WARM_UP_REQUESTS = 50
PER_SECOND = 20
FAST_S = 0.02
"""Fast requests are at most this in every histogram that is in seconds."""


def _series(name: str, labels: dict[str, str], value: float) -> str:
    matchers = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{matchers}}} {value}" if matchers else f"{name} {value}"


def _lines(metric: MetricInfo, seconds: float) -> Iterator[str]:
    labels = {label: LABELS.get(label, "x") for label in metric.labels}
    grown = PER_SECOND * seconds
    yield f"# TYPE {metric.name.removesuffix('_total')} {metric.kind}"
    if metric.kind == "gauge":
        yield _series(metric.name, labels, VALUES.get(metric.name, 1))
    elif metric.kind == "counter":
        yield _series(metric.name, labels, 1000 + (0 if metric.name in STILL else grown))
    elif metric.kind == "histogram":
        for edge in metric.buckets:
            count = grown if edge >= FAST_S else 0
            yield _series(f"{metric.name}_bucket", labels | {"le": repr(float(edge))}, count)
        for name, more in (("_bucket", {"le": "+Inf"}), ("_count", {})):
            yield _series(metric.name + name, labels | more, WARM_UP_REQUESTS + grown)
        yield _series(f"{metric.name}_sum", labels, 60 * WARM_UP_REQUESTS + grown * FAST_S)


def engine_page(seconds: float) -> str:
    """A replica's metrics page."""
    known = facts.metrics("vllm", "0.30.0").values()
    return "\n".join(line for metric in known if metric.default for line in _lines(metric, seconds)) + "\n"


def gpu_page(namespace: str, pod: str) -> str:
    """dcgm-exporter's page: its own `namespace` and `pod` are those of the container that has the GPU."""
    samples = {"DCGM_FI_DEV_GPU_UTIL": 80, "DCGM_FI_DEV_FB_USED": 70_000, "DCGM_FI_DEV_FB_FREE": 10_000}
    labels = {"UUID": "GPU-1", "device": "nvidia0", "container": "engine", "namespace": namespace, "pod": pod}
    lines = [
        _series(name, labels | {"gpu": str(gpu)}, value)
        for name, value in samples.items()
        for gpu in range(2)
    ]
    return "\n".join(lines) + "\n"


def scaler_page(namespace: str, scaled_object: str) -> str:
    """KEDA's page."""
    labels = {
        "namespace": namespace,
        "scaledObject": scaled_object,
        "metric": "s0-prometheus",
        "scaler": "prometheus",
    }
    labels |= {"triggerIndex": "0", "type": "scaledobject"}
    return _series("keda_scaler_detail_errors_total", labels, 0) + "\n"


@contextmanager
def serving(pages: dict[str, Any]) -> Iterator[int]:
    """Pages by path, on a local port; a page is text or a function of the seconds since the start."""
    start = time.monotonic()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            page = pages[self.path]
            text = page(time.monotonic() - start) if callable(page) else page
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
