"""What must hold for every demand. Costs are those the search minimises: at the mean traffic, warm replicas
included; a refusal costs infinitely much."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from servingstack.args import ServingStackArgs
from servingstack.errors import Infeasible, InvalidInput
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.planner.demand import resolve
from servingstack.planner.search import search
from servingstack.targets import capabilities

from .build import document

MODELS = (
    "Qwen/Qwen2.5-0.5B-Instruct",
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.1-70B-Instruct",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-235B-A22B-FP8",
)
GPUS = ("t4", "l4", "a10g", "l40s", "a100-40gb", "a100-80gb", "h100-80gb", "h200")
EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    rate = draw(st.floats(0.05, 40))
    slo: dict[str, str] = {}
    for name, low, high in (("ttft_p95", 80, 4000), ("tpot_p95", 12, 200), ("latency_p95", 2000, 60_000)):
        if draw(st.booleans()):
            slo[name] = f"{draw(st.integers(low, high))}ms"
    found = document(
        draw(st.sampled_from(MODELS)),
        slo=slo,
        traffic={
            "requests_per_second": rate,
            "peak_requests_per_second": rate * draw(st.floats(1, 4)),
            "input_tokens": draw(st.integers(16, 6000)),
            "output_tokens": draw(st.integers(2, 800)),
        },
        request_timeout=f"{draw(st.integers(10, 120))}s",
    )
    if draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from(GPUS), min_size=1, max_size=4, unique=True))
        found["hardware"] = {"accelerators": chosen}
    if draw(st.booleans()):
        found["target"] = {"option": "kubernetes", "cloud": draw(st.sampled_from(["aws", "gcp", "azure"]))}
        found.pop("hardware", None)
    return found


def cost(doc: dict[str, Any]) -> float:
    """What the search minimises, USD per hour."""
    args = ServingStackArgs.parse(doc)
    best = search(resolve(args, capabilities("kubernetes"))).best
    return math.inf if best is None else best.fleet.steady_usd


def gpus(doc: dict[str, Any]) -> float:
    args = ServingStackArgs.parse(doc)
    best = search(resolve(args, capabilities("kubernetes"))).best
    return math.inf if best is None else best.fit.layout.gpus


def planned(doc: dict[str, Any]) -> ServingPlan | None:
    try:
        return plan(doc)
    except (Infeasible, InvalidInput):
        return None


@EXAMPLES
@given(
    documents(), st.sampled_from(["ttft_p95", "tpot_p95", "latency_p95", "ttft_p50", "tpot_p99"]), st.data()
)
def test_a_tighter_slo_never_costs_less(doc: dict[str, Any], name: str, data: st.DataObject) -> None:
    loose = data.draw(st.integers(20, 40_000))
    tight = data.draw(st.integers(10, loose))
    kind = name.partition("_")[0]
    other = {key: value for key, value in doc["slo"].items() if not key.startswith(kind)}
    tighter = cost(doc | {"slo": other | {name: f"{tight}ms"}})
    looser = cost(doc | {"slo": other | {name: f"{loose}ms"}})
    assert tighter >= looser - 1e-6


@EXAMPLES
@given(documents(), st.floats(1, 8))
def test_more_traffic_never_costs_less(doc: dict[str, Any], factor: float) -> None:
    traffic = doc["traffic"]
    more = traffic | {
        "requests_per_second": traffic["requests_per_second"] * factor,
        "peak_requests_per_second": traffic["peak_requests_per_second"] * factor,
    }
    assert cost(doc | {"traffic": more}) >= cost(doc) - 1e-6


@EXAMPLES
@given(documents(), st.floats(1, 4))
def test_a_higher_peak_never_costs_less(doc: dict[str, Any], factor: float) -> None:
    traffic = doc["traffic"]
    more = traffic | {"peak_requests_per_second": traffic["peak_requests_per_second"] * factor}
    assert cost(doc | {"traffic": more}) >= cost(doc) - 1e-6


@EXAMPLES
@given(documents(), st.sampled_from(GPUS), st.integers(0, 3), st.integers(1, 3))
def test_more_context_never_needs_fewer_gpus(doc: dict[str, Any], gpu: str, low: int, more: int) -> None:
    one = doc | {"hardware": {"accelerators": [gpu]}, "target": {"option": "kubernetes"}}
    model = one["model"]["id"]
    short = one | {"model": {"id": model, "max_model_len": 8192 * 2**low}}
    longer = one | {"model": {"id": model, "max_model_len": 8192 * 2 ** (low + more)}}
    try:
        few, many = gpus(short), gpus(longer)
    except InvalidInput:  # beyond the model's own context
        return
    assert many >= few


@EXAMPLES
@given(documents())
def test_a_plan_always_fits_its_gpu(doc: dict[str, Any]) -> None:
    found = planned(doc)
    if found is None:
        return
    architecture, bar = found.architecture, found.architecture.memory_per_gpu
    assert min(bar.weights, bar.kv_cache, bar.overhead, bar.reserved) >= 0
    assert bar.weights + bar.kv_cache + bar.overhead + bar.reserved <= bar.total
    assert architecture.kv_cache_tokens >= architecture.max_model_len
    assert architecture.gpus_per_replica <= architecture.gpus_per_node


@EXAMPLES
@given(documents())
def test_a_plan_keeps_what_was_asked(doc: dict[str, Any]) -> None:
    found = planned(doc)
    if found is None:
        return
    expected, scaling = found.expected, found.scaling
    asked = {name: float(value[:-2]) for name, value in doc["slo"].items()}
    seen = {
        "ttft_p95": expected.ttft_p95_ms.value,
        "tpot_p95": expected.tpot_p95_ms.value,
        "latency_p95": expected.latency_p95_ms.value,
    }
    for name, limit in asked.items():
        assert seen[name] <= limit * 1.001
    assert expected.latency_p95_ms.value <= found.timeouts.request_s * 1000 * 1.001
    assert expected.utilisation_at_peak <= 0.721
    assert scaling.min_replicas <= scaling.max_replicas
    assert scaling.peak_replicas <= scaling.max_replicas
    assert scaling.min_replicas <= scaling.fallback_replicas <= scaling.max_replicas


@EXAMPLES
@given(documents())
def test_time_limits_nest(doc: dict[str, Any]) -> None:
    found = planned(doc)
    if found is None:
        return
    limits, rollout, cold = found.timeouts, found.rollout, found.scaling.cold_start
    assert 1 <= limits.queue_s <= limits.request_s <= limits.stream_s
    assert limits.request_s <= limits.drain_s <= limits.stream_s
    assert limits.grace_s > limits.drain_s
    assert limits.startup_s > cold.weights_s + cold.engine_s
    assert rollout.progress_deadline_s > limits.startup_s
    assert found.scaling.scale_in_delay_s >= min(cold.total_s, 3600)
    door = found.front_door
    assert door is not None
    assert door.max_concurrent >= found.batching.max_num_seqs + found.scaling.threshold


@EXAMPLES
@given(documents())
def test_the_same_input_gives_the_same_plan_and_the_plan_survives_json(doc: dict[str, Any]) -> None:
    found = planned(doc)
    if found is None:
        return
    assert found == planned(doc)
    assert ServingPlan.model_validate_json(found.model_dump_json()) == found


@EXAMPLES
@given(documents(), st.integers(1, 64))
def test_fewer_gpus_allowed_never_cost_less(doc: dict[str, Any], most: int) -> None:
    limited = {**doc.get("hardware", {}), "max_gpus": most}
    assert cost(doc | {"hardware": limited}) >= cost(doc) - 1e-6
