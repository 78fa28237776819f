"""Write `docs/signals.md`: every signal of every option as the query that is deployed, or why there is none.

    python tools/signal_matrix.py

A test compares the page with what this makes, so it cannot fall behind. The queries are those of one stack,
`chat` in namespace `serving`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from servingstack.planner import plan
from servingstack.targets import REGISTRY
from servingstack.watched import Monitoring

PAGE = Path(__file__).parents[1] / "docs" / "signals.md"
MATRIX = (
    *(f"{kind}_{percentile}" for kind in ("latency", "ttft", "tpot") for percentile in ("p50", "p95", "p99")),
    "requests_per_second",
    "output_tokens_per_second",
    "error_rate",
    "queue_depth",
    "gpu_utilisation",
    "gpu_memory",
)
"""What every option delivers, or says why not."""
_TASKS: dict[str, dict[str, Any]] = {
    "generate": {"model": {"id": "Qwen/Qwen2.5-7B-Instruct"}, "slo": {"ttft_p95": "1s", "tpot_p95": "100ms"}},
    "embed": {"model": {"id": "BAAI/bge-m3"}, "slo": {"latency_p99": "1s"}},
}
"""What a text generator and an embedding model are watched by."""
_NODE = {"accelerator": "l4", "gpus": 1, "count": 8, "cpu": 8, "memory": "32Gi", "hourly_price": 1.0}
_OWN: dict[str, dict[str, Any]] = {
    "kubernetes": {"hardware": {"nodes": [_NODE]}},
    "cloud-run": {"model": {"source": "gs://models/weights"}},
    "container-apps": {"target": {"container_apps": {"ephemeral_storage": "100Gi"}}},
    "replicate": {
        "model": {"id": "acme/model", "revision": "0123456789abcdef" * 4},
        "target": {"replicate": {"owner": "acme"}},
        "hardware": {"instance_type": "gpu-l40s"},
        "scaling": {"min_replicas": 1, "max_replicas": 2},
        "slo": {},
    },
}
"""What an option needs beside the task."""
_HEAD = """\
# What is watched

Every signal of every option, as the query that is deployed, or the reason why there is none. `python
tools/signal_matrix.py` writes this page. The queries are those of a stack `chat`, on a cluster in namespace
`serving`; they are on its dashboard, and what an objective promises has two alerts (page, ticket).
"""


def page() -> str:
    """The whole page."""
    sections = [_section(option, task) for option in REGISTRY for task in _TASKS]
    return "\n".join((_HEAD, *sections))


def _section(option: str, task: str) -> str:
    own, asked = _OWN.get(option, {}), _TASKS[task]
    document = {
        "name": "chat",
        **asked,
        "model": asked["model"] | own.get("model", {}),
        "target": {"option": option} | own.get("target", {}),
        "hardware": own.get("hardware", {}),
        "scaling": own.get("scaling", {}),
        "slo": own.get("slo", asked["slo"]),
    }
    watched = plan(document).monitoring
    return "\n".join((f"## {option}, task {task}\n", *_table(watched), *_promised(watched)))


def _table(watched: Monitoring) -> list[str]:
    missing = {entry.signal: entry.reason for entry in watched.unavailable}
    queries = {signal.id: signal.query for signal in watched.signals}
    others = [name for name in (*queries, *missing) if name not in MATRIX]
    lines = ["| signal | query |", "|---|---|"]
    for name in (*MATRIX, *others):
        lines.append(f"| {name} | {_code(queries[name]) if name in queries else f'none: {missing[name]}'} |")
    return [*lines, ""]


def _promised(watched: Monitoring) -> list[str]:
    promised = ", ".join(f"`{objective.id}`" for objective in watched.objectives)
    alerts = ", ".join(dict.fromkeys(f"`{alert.name}`" for alert in watched.alerts))
    return [f"Objectives: {promised}. Alerts: {alerts}.", ""]


def _code(query: str) -> str:
    """On one line, and with its bars kept out of the table's."""
    return "`" + " ".join(query.split()).replace("|", "\\|") + "`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
