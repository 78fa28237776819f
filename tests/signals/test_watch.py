"""Signals: each is a query on series that exist, or named as unavailable."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.sample import DOCUMENT, sample_plan
from tests.signals.promql import expressions, normal, selectors

from servingstack.engines import facts
from servingstack.plan import Adapter, GpuPart, ServingPlan
from servingstack.planner import plan as make_plan
from servingstack.signals import ACTIVITY, QUEUE_DEPTH
from servingstack.targets.kubernetes import manifests
from servingstack.watched import Monitoring

MATRIX = [
    *(f"{kind}_{percentile}" for kind in ("latency", "ttft", "tpot") for percentile in ("p50", "p95", "p99")),
    "requests_per_second",
    "output_tokens_per_second",
    "error_rate",
    "queue_depth",
    "gpu_utilisation",
    "gpu_memory",
]
"""What every target delivers, or says why not."""
ZERO = {"min_replicas": 0, "scale_to_zero_after_s": 600, "hold_s": 240}
SLICE = GpuPart(kind="mig", name="1g.10gb", price_share=1 / 7, memory_share=1.0, turns=1)
TURN = GpuPart(kind="turn", name="30%", price_share=0.3, memory_share=0.3, turns=4, group="small")
EXPORTERS = Path(__file__).parents[1] / "oracles" / "exporters.json"


@pytest.fixture(scope="module", params=["always on", "to zero", "embedding", "slice", "turn"])
def monitoring(request: pytest.FixtureRequest) -> Monitoring:
    changes = {
        "always on": {},
        "to zero": {"scaling": ZERO},
        "embedding": {"architecture": {"task": "embed"}},
        "slice": {"architecture": {"gpu_part": SLICE}},
        "turn": {"architecture": {"gpu_part": TURN}},
    }[request.param]
    slo = (
        {"latency_p99": "30s"} if request.param == "embedding" else {"ttft_p95": "500ms", "tpot_p95": "50ms"}
    )
    return sample_plan(DOCUMENT | {"slo": slo}, **changes).monitoring


def _query(plan: ServingPlan, signal: str) -> str:
    return next(found.query for found in plan.monitoring.signals if found.id == signal)


def test_the_signal_matrix_is_complete(monitoring: Monitoring) -> None:
    watched = {signal.id for signal in monitoring.signals}
    missing = {entry.signal for entry in monitoring.unavailable}
    assert not set(MATRIX) - watched - missing
    assert not watched & missing
    assert all(entry.reason for entry in monitoring.unavailable)


def test_every_expression_is_promql(monitoring: Monitoring) -> None:
    for purpose, expression in expressions(monitoring).items():
        assert normal(expression), purpose


def test_every_series_of_the_engine_is_one_that_the_pinned_release_exports(monitoring: Monitoring) -> None:
    """F079: a name of another release is an empty panel."""
    known = facts.metrics("vllm", "0.30.0")
    for purpose, expression in expressions(monitoring).items():
        for found in selectors(expression):
            if found["__name__"].startswith("vllm:"):
                name = re.sub(r"_(bucket|count|sum)$", "", found["__name__"])
                assert known[name].default, purpose
                assert {"namespace", "job"} <= found.keys(), purpose
                assert found.keys() - {"__name__", "namespace", "job", "le"} <= set(known[name].labels), (
                    purpose
                )


def test_every_other_series_is_one_that_its_exporter_exports(monitoring: Monitoring) -> None:
    """F105: names and labels as dcgm-exporter and KEDA write them, which Prometheus keeps as `exported_*`."""
    exported = json.loads(EXPORTERS.read_text(encoding="utf-8"))
    for purpose, expression in expressions(monitoring).items():
        for found in selectors(expression):
            name = found["__name__"]
            if name.startswith(("DCGM_", "keda_")):
                labels = {label.removeprefix("exported_") for label in found} - {"__name__"}
                assert labels <= set(exported[name.split("_")[0]]["labels"]), purpose
                assert name in exported[name.split("_")[0]]["metrics"], purpose
                assert "namespace" not in found, purpose
                assert "pod" not in found, purpose


def test_matchers_take_their_values_from_the_names_that_are_deployed() -> None:
    """F085: a label's value that differs by a letter is a scaler that is dead, not an error."""
    plan = sample_plan(DOCUMENT | {"name": "a-stack-with-a-long-name"})
    bodies = [(found.kind, found.body) for found in manifests.manifests(plan)]
    services = {body["metadata"]["name"]: body for kind, body in bodies if kind == "Service"}
    monitors = [body for kind, body in bodies if kind == "ServiceMonitor"]
    jobs = {
        found["job"]
        for text in expressions(plan.monitoring).values()
        for found in selectors(text)
        if "job" in found
    }
    assert jobs == {plan.names["engine"], plan.names["service"]}
    for job in jobs:
        labels = services[job]["metadata"]["labels"].items()
        assert any(monitor["spec"]["selector"]["matchLabels"].items() <= labels for monitor in monitors), job
    assert not any("jobLabel" in monitor["spec"] for monitor in monitors)
    workloads = [body["metadata"]["name"] for kind, body in bodies if kind == "Deployment"]
    (pods,) = {
        found["exported_pod"]
        for text in expressions(plan.monitoring).values()
        for found in selectors(text)
        if "exported_pod" in found
    }
    matching = [name for name in workloads if re.fullmatch(pods, f"{name}-7c9d8f6b5d-x2x4z")]
    assert matching == [plan.names["engine"]]


@pytest.mark.parametrize(
    "other", ["chat-engine-engine", "chat-engine-door", "chat-b-engine", "my-chat-engine"]
)
def test_pods_of_another_stack_are_not_ours(other: str) -> None:
    (pods,) = {found["exported_pod"] for found in selectors(_query(sample_plan(), "gpu_utilisation"))}
    assert re.fullmatch(pods, "chat-engine-7c9d8f6b5d-x2x4z")
    assert not re.fullmatch(pods, f"{other}-7c9d8f6b5d-x2x4z")


def test_an_outage_of_the_metric_is_no_load_of_zero() -> None:
    """F082: the scaler's query is empty when its series are lost, so that the fallback holds the capacity."""
    query = _query(sample_plan(), QUEUE_DEPTH)
    assert "vector(" not in query
    assert {found["__name__"] for found in selectors(query)} == {
        "vllm:num_requests_waiting",
        "haproxy_backend_current_queue",
    }


def test_queue_depth_is_a_sum_over_the_stack() -> None:
    """F081: the scaler divides by the number of replicas, so a mean here would be divided twice."""
    assert normal(_query(sample_plan(), QUEUE_DEPTH)).count("sum(") == 2
    assert "avg" not in _query(sample_plan(), QUEUE_DEPTH)


def test_a_stack_at_zero_wakes_by_what_is_held_and_stays_while_requests_run() -> None:
    plan = sample_plan(scaling=ZERO)
    assert "or vector(0)" in _query(plan, QUEUE_DEPTH)
    names = {found["__name__"] for found in selectors(_query(plan, QUEUE_DEPTH))}
    assert "servingstack_held_requests" in names
    assert "haproxy_backend_current_sessions" in {
        found["__name__"] for found in selectors(_query(plan, ACTIVITY))
    }
    assert ACTIVITY not in {signal.id for signal in sample_plan().monitoring.signals}


def test_the_cost_is_the_planned_price_of_the_replicas_that_are_ready() -> None:
    plan = sample_plan(cost={"per_gpu_hour_usd": 2.5}, architecture={"gpus_per_replica": 4})
    assert _query(plan, "cost_per_hour").endswith("* 10")


def test_machines_that_are_paid_whole_cost_the_same_on_the_panel_and_in_the_plan() -> None:
    """Three replicas, two to a machine, are two machines; one replica is a whole one."""
    document = {"name": "chat", "model": {"id": "Qwen/Qwen2.5-7B-Instruct"}}
    target = {"target": {"option": "kubernetes", "cloud": "aws"}}
    made = make_plan(document | target | {"hardware": {"instance_type": "g6.12xlarge"}})
    cost = made.cost
    assert cost.machine_hourly_usd is not None
    assert cost.replicas_per_machine > 1
    price, most = f"{cost.machine_hourly_usd:.6g}", cost.replicas_per_machine
    assert normal(_query(made, "cost_per_hour")) == normal(
        f"ceil((count({_up(made)}) or vector(0)) / {most}) * {price}"
    )
    assert cost.hourly_usd == -(-made.scaling.min_replicas // most) * cost.machine_hourly_usd


def _up(plan: ServingPlan) -> str:
    return f'up{{namespace="serving",job="{plan.names["engine"]}"}} == 1'


def test_a_release_of_unknown_number_is_asked_by_both_names() -> None:
    """F079."""
    names = {
        found["__name__"]
        for found in selectors(_query(sample_plan(architecture={"engine_version": None}), "kv_cache_usage"))
    }
    assert names == {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}


def test_a_slice_is_as_busy_as_its_own_engine_says() -> None:
    """NVIDIA's DCGM has DCGM_FI_DEV_GPU_UTIL for whole GPUs alone; the other is a ratio, not a percentage."""
    found = sample_plan(architecture={"gpu_part": SLICE})
    query = _query(found, "gpu_utilisation")
    assert {each["__name__"] for each in selectors(query)} == {"DCGM_FI_PROF_GR_ENGINE_ACTIVE"}
    assert "100" not in query
    assert "/ 100" in _query(sample_plan(), "gpu_utilisation")
    (title,) = [each.title for each in found.monitoring.signals if each.id == "gpu_utilisation"]
    assert "1g.10gb" in title


def test_what_a_shared_gpu_does_for_one_stack_is_named_as_unavailable() -> None:
    found = sample_plan(architecture={"gpu_part": TURN}).monitoring
    (missing,) = [each for each in found.unavailable if "alone" in each.signal]
    assert "--kubernetes-virtual-gpus" in missing.reason
    (title,) = [each.title for each in found.signals if each.id == "gpu_memory"]
    assert "all who use it" in title


def test_latency_by_adapter_is_named_as_unavailable() -> None:
    """vllm/v1/metrics/loggers.py labels every series with the served model's name and the engine's index."""
    adapter = Adapter(name="sql", path="/cache/adapters/sql", rank=16)
    found = sample_plan(architecture={"adapters": (adapter,)}).monitoring
    assert any(each.signal == "latency and tokens by adapter" for each in found.unavailable)
    assert not any("adapter" in each.signal for each in sample_plan().monitoring.unavailable)
