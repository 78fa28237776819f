"""Google's Prometheus collector beside the engine: how the engine's own metrics leave an instance.

docs.cloud.google.com/run/docs/monitoring-managed-prometheus-sidecar. Its configuration is a file, and a file
comes from Secret Manager alone, though it holds no secret.

Traps:
- It takes its cores and memory from what an instance may have at most.
- It writes for the whole project: `monitoring.metricWriter` cannot be granted on less.
- Google keeps histograms as distributions of its own and writes their `le` as it likes: edges are never
  matched by name here, quantiles are asked for.
- It marks what it writes by `cluster` and `namespace`, whatever the engine's series say of themselves.
"""

from __future__ import annotations

import json

from servingstack.engines.signal import EngineSignal
from servingstack.plan import Container
from servingstack.signals.stack import Stack

from .section import Collector

VCPUS, MEMORY_GIB = 1, 1
"""Less than one core would allow a single request at once in an instance (docs.cloud.google.com/run/docs/
configuring/services/cpu)."""
INTERVAL_S = 30
DIRECTORY, FILE = "/etc/rungmp", "config.yaml"
"""Where the collector looks for its configuration (the same page, "custom RunMonitoring")."""
TOKENS = ("ttft_", "tpot_", "output_tokens_per_second")
"""Signals of engines that generate."""
CLUSTER = "__run__"
"""Of every series of a collector on Cloud Run (GoogleCloudPlatform/run-gmp-sidecar, confgenerator)."""


def wanted(stack: Stack) -> bool:
    """Whether the engine's metrics are collected."""
    return stack.args.target.cloud_run.collector_image is not None


def collector(image: str, container: Container) -> Collector:
    """What is started beside a container, and what it reads there."""
    port = container.port if container.metrics_port is None else container.metrics_port
    return Collector(
        image=image,
        cpu=VCPUS,
        memory_gib=MEMORY_GIB,
        port=port,
        path=container.metrics_path,
        interval_s=INTERVAL_S,
    )


def config(found: Collector) -> str:
    """The collector's file; JSON is YAML."""
    endpoint = {"port": found.port, "path": found.path, "interval": f"{found.interval_s}s"}
    return json.dumps(
        {
            "apiVersion": "monitoring.googleapis.com/v1beta",
            "kind": "RunMonitoring",
            "metadata": {"name": "engine"},
            "spec": {"endpoints": [endpoint]},
        },
        indent=1,
        sort_keys=True,
    )


def selector(stack: Stack) -> str:
    """Matchers, without braces, of what a collector writes for the stack."""
    region = stack.architecture.region
    where = [] if region is None else [f'location="{region}"']
    return ",".join([f'cluster="{CLUSTER}"', f'namespace="{stack.args.name}"', *where])


def quantile(stack: Stack, kind: str, q: float, window: str) -> str:
    """Any quantile of the time to the first token (`ttft`) or per token (`tpot`), seconds."""
    _, _, rest = stack.engine_signal(f"{kind}_p95").query(selector(stack), window).partition(",")
    return f"histogram_quantile({q:g},{rest}"


def engine_signal(stack: Stack, name: str) -> EngineSignal | None:
    """One of the engine's own signals; None where it has no such or makes no tokens to time."""
    tokens = name.startswith(TOKENS)
    if not stack.has(name) or (tokens and not stack.generates):
        return None
    return stack.engine_signal(name)
