"""A real Prometheus scrapes each further engine's own page: every panel, rule and scaling query has data.

SGLang's page is its own collectors' (`tools/expositions.py`), TorchServe's is a real server's, Triton's is
made of what its sources register, in the form that its serializer writes. Counters grow as under traffic.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engines.triton_documents import document, model
from tests.signals import exporters
from tests.signals.prom import Prometheus, job, rule_file
from tests.signals.promql import expressions, selector_queries
from tests.targets.kubernetes.door import Door, free_port, proxies

from servingstack.args import ServingStackArgs
from servingstack.engines import facts, sglang_limits, torchserve, triton, triton_release
from servingstack.plan import ServingPlan
from servingstack.planner import plan as make_plan
from servingstack.targets.kubernetes import front_door
from servingstack.targets.kubernetes.dashboard import rows

PAGES = Path(__file__).parents[1] / "oracles" / "metrics"
PROXIES = proxies()
PATIENCE_S = 60
PER_SECOND = 20.0
DIGITS = {"name": "X", "data_type": "TYPE_FP32", "dims": [4]}
TRITON = document(model(input=[DIGITS], response_cache=True), slo={"latency_p95": "300ms"})
ASKED: dict[str, dict[str, Any]] = {
    "sglang": {
        "name": "chat",
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct"},
        "engine": {"kind": "sglang"},
        "slo": {"ttft_p95": "2s", "tpot_p95": "100ms", "latency_p95": "20s"},
        "hardware": {"accelerators": ["l40s"]},
        "target": {"option": "kubernetes"},
    },
    "triton": {**TRITON, "engine": {**TRITON["engine"], "response_cache_size": "1GiB"}},
    "torchserve": {
        "name": "digits",
        "model": {"id": "digits", "task": "classify", "parameters": "66M", "source": "pvc://models/archives"},
        "traffic": {"input_tokens": 128},
        "hardware": {"accelerators": ["l4"]},
        "target": {"option": "kubernetes"},
        "engine": {
            "kind": "torchserve",
            "image": "registry.example.com/serve:0.12.0-gpu@sha256:" + "a" * 64,
            "archive": "digits.mar",
            "warm_up": {"data": [0]},
        },
    },
}


def triton_page() -> str:
    """What src/metrics.cc of the core registers, as prometheus-cpp's serializer writes it: counters without
    `_total`, edges without a decimal point."""
    edges = [f"{1000 * edge:g}" for edge in triton.tables(ServingStackArgs.parse(ASKED["triton"])).edges]
    values = {"model": "classifier", "version": "1", "gpu_uuid": "GPU-1", "reason": "OTHER"}
    lines: list[str] = []
    for metric in facts.metrics("triton", triton_release.VERSION).values():
        labels = ",".join(f'{name}="{values[name]}"' for name in metric.labels)
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        if metric.kind == "histogram":
            lines += [f'{metric.name}_bucket{{{labels},le="{edge}"}} 1' for edge in (*edges, "+Inf")]
            lines += [f"{metric.name}_count{{{labels}}} 1", f"{metric.name}_sum{{{labels}}} 20"]
        elif metric.kind != "summary":
            lines.append(f"{metric.name}{{{labels}}} 1" if labels else f"{metric.name} 1")
    return "\n".join(lines) + "\n"


def _text(kind: str) -> str:
    if kind == "triton":
        return triton_page()
    version = {"sglang": sglang_limits.VERSION, "torchserve": torchserve.VERSION}[kind]
    return (PAGES / f"{kind}-{version}.prom").read_text(encoding="utf-8")


def growing(text: str) -> Callable[[float], str]:
    """The page some seconds later: what counts has counted, what measures has not moved."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))

    def counts(series: str) -> bool:
        name = re.split(r"[{ ]", series)[0]
        return (
            kinds.get(name) == "counter"
            or kinds.get(re.sub(r"_(bucket|count|sum)$", "", name)) == "histogram"
        )

    def page(seconds: float) -> str:
        lines = [line for line in text.splitlines() if line]
        told = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        grown = [
            f"{series} {float(value) + (PER_SECOND * seconds if counts(series) else 0)}"
            for series, _, value in told
        ]
        return "\n".join([*(line for line in lines if line.startswith("# TYPE")), *grown]) + "\n"

    return page


@pytest.fixture(scope="module", params=ASKED)
def plan(request: pytest.FixtureRequest) -> ServingPlan:
    """Of the planner, with ports that are free here and no more connections than a test may open."""
    made = make_plan(ASKED[request.param])
    assert made.front_door is not None
    ports = {"replicas": 1, "port": free_port(), "stats_port": free_port(), "max_connections": 1000}
    return made.model_copy(
        update={
            "front_door": made.front_door.model_copy(update=ports),
            "container": made.container.model_copy(update={"port": free_port("127.0.0.2")}),
        }
    )


@pytest.fixture(scope="module")
def prometheus(plan: ServingPlan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    assert plan.front_door is not None
    assert plan.placement is not None
    door = Door(PROXIES[max(PROXIES)], tmp_path_factory.mktemp("door"), plan)
    space, engine = plan.placement.namespace, plan.names["engine"]
    pods = [f"{engine}-7c9d8f6b5d-{end}" for end in ("x2x4z", "abcde")]
    pages = {
        "/engine": growing(_text(plan.architecture.engine)),
        "/gpu": exporters.gpu_page(space, pods[0]),
        "/scaler": exporters.scaler_page(space, plan.names["scaler"]),
    }
    with exporters.serving(pages) as port:
        ours = {"namespace": space, "job": plan.names["service"], "pod": f"{plan.name}-door-1"}
        scraped = [
            job(f"engine-{pod}", port, "/engine", namespace=space, job=engine, pod=pod, instance=pod)
            for pod in pods
        ]
        scraped += [
            job("door", plan.front_door.stats_port, front_door.METRICS_PATH, **ours),
            job("held", plan.front_door.stats_port, front_door.HELD_PATH, **ours, endpoint="held"),
            job("gpu", port, "/gpu", namespace="gpu-operator", job="dcgm-exporter", pod="dcgm-exporter-1"),
            job("scaler", port, "/scaler", namespace="keda", job="keda-operator", pod="keda-operator-1"),
        ]
        running = Prometheus(folder, scraped, rule_file(plan, folder))
        try:
            door.start_engine()
            _traffic_until_there_is_data(running, door, plan)
            yield running
        finally:
            running.close()
            door.close()


def _traffic_until_there_is_data(running: Prometheus, door: Door, plan: ServingPlan) -> None:
    """The budget needs the front door's counts and every objective's; the engine's own may be later."""
    objectives = len(plan.monitoring.objectives)
    queue = next(signal.query for signal in plan.monitoring.signals if signal.id == "queue_depth")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert door.call(path=plan.container.warm_up.path).status == 200
        try:
            budgets = running.samples("slo:period_error_budget_remaining:ratio")
            if len(budgets) == objectives and running.samples(queue):
                return
        except OSError:
            pass  # it does not listen yet
        time.sleep(0.2)
    raise AssertionError(f"no error budget of all {objectives} objectives within {PATIENCE_S} s")


def test_every_panel_shows_data(prometheus: Prometheus, plan: ServingPlan) -> None:
    empty = [
        f"{row}, {panel.title}, {legend}: {query}"
        for row, panels in rows(plan).items()
        for panel in panels
        for legend, query in panel.series.items()
        if not prometheus.samples(query)
    ]
    assert not empty


def test_every_selector_of_a_rule_finds_its_series(prometheus: Prometheus, plan: ServingPlan) -> None:
    """Errors have no series before the first, and their rules count them as none."""
    silent = [
        f"{purpose}: {query}"
        for purpose, expression in expressions(plan.monitoring).items()
        for query in selector_queries(expression)
        if not prometheus.samples(query) and "5" not in query and "5XX" not in query
    ]
    assert not silent


def test_the_scaler_gets_one_number(prometheus: Prometheus, plan: ServingPlan) -> None:
    query = next(signal.query for signal in plan.monitoring.signals if signal.id == "queue_depth")
    ((labels, value),) = prometheus.samples(query)
    assert labels == {}
    assert value >= 0


def test_no_alert_fires_on_a_healthy_stack(prometheus: Prometheus, plan: ServingPlan) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {(rule["health"], rule.get("lastError", "")) for rule in rules} == {("ok", "")}
    assert not [rule["name"] for rule in rules if rule.get("state") == "firing"]
