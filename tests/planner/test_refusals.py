"""A demand is never bent: the limit is named, and what is suggested works."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from servingstack.errors import Infeasible, InvalidInput
from servingstack.planner import plan
from servingstack.targets import Capabilities, all_capabilities
from servingstack.units import parse_duration

from .build import LLAMA_8B, LLAMA_70B, document


def _refused(doc: dict[str, Any]) -> Infeasible:
    with pytest.raises(Infeasible) as refused:
        plan(doc)
    return refused.value


def _applied(doc: dict[str, Any], change: str) -> dict[str, Any]:
    """The document with one suggestion taken at its word."""
    path, _, text = change.partition(": ")
    value = yaml.safe_load(text)
    *parents, name = path.split(".")
    changed = {**doc, **{part: dict(doc.get(part, {})) for part in parents}}
    target = changed
    for part in parents:
        target = target[part]
    if value == "left out":
        target.pop(name)
    else:
        target[name] = value
    return changed


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "first token": (document(LLAMA_70B, slo={"ttft_p95": "30ms"}), "slo.ttft_p95"),
    "token": (document(LLAMA_70B, slo={"tpot_p95": "4ms"}), "slo.tpot_p95"),
    "request timeout": (
        document(traffic={"output_tokens": 3000}, hardware={"accelerators": ["l4"]}),
        "request_timeout",
    ),
    "gpus": (
        document(LLAMA_70B, hardware={"max_gpus": 4}, traffic={"requests_per_second": 30}),
        "hardware.max_gpus",
    ),
    "money": (document(LLAMA_70B, hardware={"max_hourly_cost": 3}), "hardware.max_hourly_cost"),
    "replicas": (
        document(
            scaling={"max_replicas": 1},
            hardware={"accelerators": ["l4"]},
            traffic={"requests_per_second": 20},
        ),
        "scaling.max_replicas",
    ),
    "accelerator": (document(LLAMA_70B, hardware={"accelerators": ["t4"]}), "hardware.accelerators"),
    "split": (
        document(
            LLAMA_70B,
            model={"precision": "bf16"},
            engine={"kind": "vllm", "tensor_parallel_size": 1},
            hardware={"accelerators": ["h100"]},
        ),
        "engine.tensor_parallel_size",
    ),
    "batch": (
        document(
            engine={"kind": "vllm", "max_num_seqs": 200},
            hardware={"accelerators": ["l4"], "gpus_per_replica": 1},
        ),
        "engine.max_num_seqs",
    ),
    "rollout": (
        document(rollout={"surge": False}, scaling={"min_replicas": 1, "max_replicas": 1}),
        "rollout.surge",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_refusal_names_the_limit_and_a_change_that_works(name: str) -> None:
    doc, path = CASES[name]
    refused = _refused(doc)
    changes = [item.change for item in refused.nearest]
    assert any(change.startswith(path) for change in changes) or refused.binding.startswith(path)
    for change in changes:
        if not change.startswith("hardware.nodes"):  # described in words: a node has more fields
            plan(_applied(doc, change))


@pytest.mark.parametrize("name", ["first token", "token", "request timeout", "gpus", "money", "replicas"])
def test_the_binding_limit_is_the_demand_that_was_too_tight(name: str) -> None:
    doc, path = CASES[name]
    assert _refused(doc).binding.startswith(path)


def test_a_whole_request_beyond_the_timeout_is_refused() -> None:
    refused = _refused(CASES["request timeout"][0])
    assert "a whole request takes" in refused.binding
    assert any(item.change.startswith("request_timeout: ") for item in refused.nearest)


def test_one_replica_without_a_spare_gpu_for_a_rollout_is_refused() -> None:
    node = {"accelerator": "l4", "gpus": 1, "count": 1, "cpu": 8, "memory": "30Gi"}
    refused = _refused(document(hardware={"nodes": [node]}, traffic={"requests_per_second": 0.1}))
    assert "one for a rollout" in refused.binding
    assert any(item.change == "hardware.nodes: 2 x 1 x l4" for item in refused.nearest)
    node["count"] = 2
    found = plan(document(hardware={"nodes": [node]}, traffic={"requests_per_second": 0.1}))
    assert (found.scaling.max_replicas, found.scaling.surge_replicas) == (1, 1)


def test_the_surge_gpu_counts_in_max_gpus_and_in_the_price_of_the_peak() -> None:
    one = document(hardware={"accelerators": ["l4"], "max_gpus": 1}, traffic={"requests_per_second": 0.1})
    assert _refused(one).binding.startswith("hardware.max_gpus")
    two = document(hardware={"accelerators": ["l4"], "max_gpus": 2}, traffic={"requests_per_second": 0.1})
    found = plan(two)
    assert found.cost.peak_hourly_usd == pytest.approx(2 * found.cost.hourly_usd, rel=1e-3)


def test_scale_to_zero_beyond_what_the_path_can_hold_is_refused() -> None:
    refused = _refused(document(LLAMA_70B, scaling={"min_replicas": 0, "scale_to_zero_after": "10m"}))
    assert refused.binding.startswith("scaling.scale_to_zero_after")
    assert "600 s" in refused.binding


def test_a_refusal_names_the_precision_of_each_candidate_and_not_the_last_one_tried() -> None:
    """Where the stored weights fit nowhere, fp8 is tried too: the lines must tell them apart."""
    document = {
        "name": "big",
        "model": {"id": "meta-llama/Llama-3.1-405B-Instruct"},
        "target": {},
        "hardware": {"accelerators": ["l40s"], "max_gpus": 8},
    }
    with pytest.raises(Infeasible) as refused:
        plan(document)
    lines = refused.value.considered
    assert any(" with bf16: " in line for line in lines)
    assert any(" with fp8: " in line for line in lines)


ABLE: dict[str, Callable[[Capabilities, Any], bool]] = {
    "exposure": lambda can, part: part["exposure"] in can.exposures,
    "hardware.spot": lambda can, _: can.spot,
}
"""Which options a refusal names: those whose data says that they can."""


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"exposure": "public"}, "exposure"),
        ({"exposure": "internal"}, "exposure"),
        ({"hardware": {"spot": "prefer"}}, "hardware.spot"),
        ({"hardware": {"spot": "only"}}, "hardware.spot"),  # F134: no spot under an SLA without a floor
    ],
)
def test_f134_what_the_option_cannot_do_is_refused_before_planning(part: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        plan(document(LLAMA_8B, **part))
    (violation,) = refused.value.violations
    assert violation.path == path
    able = {can.option for can in all_capabilities() if ABLE[path](can, part)}
    said = re.search(r"Options that can: ([a-z, -]+)\.", violation.fix)
    assert ("No option of this release can." in violation.fix) == (not able)
    assert (set() if said is None else set(said[1].split(", "))) == able


def test_a_refusal_can_be_printed_and_lists_what_was_considered() -> None:
    refused = _refused(CASES["first token"][0])
    assert "no plan meets this" in str(refused)
    assert refused.considered
    assert all(":" in line for line in refused.considered)


def test_a_batch_beyond_the_engines_own_limit_must_still_fit_the_cache() -> None:
    small = "Qwen/Qwen2.5-0.5B-Instruct"
    l4 = {"accelerators": ["l4"], "gpus_per_replica": 1}
    refused = _refused(document(small, engine={"kind": "vllm", "max_num_seqs": 4096}, hardware=l4))
    assert refused.binding.startswith("engine.max_num_seqs")
    assert "do not fit the KV cache" in refused.binding


def test_a_step_holds_a_token_of_each_sequence_that_was_asked_for() -> None:
    doc = document(
        "Qwen/Qwen2.5-0.5B-Instruct",
        engine={"kind": "vllm", "max_num_seqs": 3000},
        hardware={"accelerators": ["l4"], "gpus_per_replica": 1},
        traffic={"input_tokens": 64, "output_tokens": 64},
    )
    batching = plan(doc).batching
    assert batching.max_num_batched_tokens >= batching.max_num_seqs == 3000


def test_an_fp8_cache_is_refused_where_the_gpu_has_no_fp8() -> None:
    engine = {"kind": "vllm", "kv_cache_dtype": "fp8"}
    refused = _refused(document(engine=engine, hardware={"accelerators": ["a100-80gb"]}))
    assert refused.binding.startswith("engine.kv_cache_dtype")
    assert any(item.change == "engine.kv_cache_dtype: left out" for item in refused.nearest)
    assert plan(document(engine=engine, hardware={"accelerators": ["l4"]})).architecture.accelerator == "l4"


def test_what_came_nearest_is_listed_first() -> None:
    refused = _refused(CASES["first token"][0])
    assert refused.considered[0].split(": ")[1] == refused.binding.split(": ")[2]
    shown = [line for line in str(refused).splitlines() if line.startswith("  considered")]
    assert all("slo.ttft_p95" in line for line in shown)
    assert not any(" t4" in line for line in shown)


def test_fp8_blocks_that_no_split_leaves_whole_are_invalid_input() -> None:
    """Not even one GPU: gate and up are one matrix, whose first half must be whole blocks."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 32,
        "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 5500,
        "vocab_size": 128256, "max_position_embeddings": 131072,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }  # fmt: skip
    for engine in ({"kind": "auto"}, {"kind": "vllm", "tensor_parallel_size": 2}):
        with pytest.raises(InvalidInput) as refused:
            plan(document("me/odd", model={"config": config}, engine=engine))
        (violation,) = refused.value.violations
        assert violation.path == "model.id"
        assert "5500" in violation.allowed


def _violation(**parts: Any) -> Any:
    with pytest.raises(InvalidInput) as refused:
        plan(document(**parts))
    (violation,) = refused.value.violations
    return violation


def test_max_replicas_and_a_rollouts_one_more_count_in_max_gpus() -> None:
    hardware = {"max_gpus": 2, "accelerators": ["l4"]}
    doc = document(hardware=hardware, traffic={"requests_per_second": 0.2}, scaling={"max_replicas": 5})
    refused = _refused(doc)
    assert refused.binding.startswith("hardware.max_gpus")
    assert "hardware.max_gpus: 6" in [item.change for item in refused.nearest]


def _cluster(mode: str) -> dict[str, Any]:
    volume = {"weights_storage_class": "fast", "weights_access_mode": mode}
    return {"target": {"option": "kubernetes", "kubernetes": volume}}


def _l4s(gpus: int, count: int) -> dict[str, Any]:
    return {"nodes": [{"accelerator": "l4", "gpus": gpus, "count": count, "cpu": 96, "memory": "380Gi"}]}


@pytest.mark.parametrize("hardware", [{"accelerators": ["l4"]}, _l4s(1, 4), _l4s(4, 2)])
def test_a_volume_that_one_node_mounts_is_refused_where_replicas_may_be_on_several(
    hardware: dict[str, Any],
) -> None:
    doc = document(**_cluster("ReadWriteOnce"), hardware=hardware, traffic={"requests_per_second": 0.2})
    refused = _refused(doc)
    assert refused.binding.startswith("target.kubernetes.weights_access_mode")
    assert "target.kubernetes.weights_access_mode: ReadWriteMany" in [item.change for item in refused.nearest]
    plan(doc | _cluster("ReadWriteMany"))


def test_a_volume_that_one_node_mounts_does_where_that_node_holds_every_replica() -> None:
    traffic = {"requests_per_second": 0.2}
    found = plan(document(**_cluster("ReadWriteOnce"), hardware=_l4s(4, 1), traffic=traffic))
    assert found.scaling.max_replicas + found.scaling.surge_replicas <= 4


@pytest.mark.parametrize("length", [16, 60])
def test_a_context_that_the_warm_up_does_not_fit_is_refused(length: int) -> None:
    short = {"input_tokens": 8, "output_tokens": 4}
    assert _violation(model={"max_model_len": length}, traffic=short).path == "model.max_model_len"
    warm_up = plan(document(model={"max_model_len": 96}, traffic=short)).container.warm_up
    assert len(warm_up.body["prompt"]) + warm_up.body["max_tokens"] < 96


@pytest.mark.parametrize("name", ["request_timeout", "stream_timeout"])
@pytest.mark.parametrize("value", ["100ms", "2500ms", "31.5s"])
def test_a_timeout_is_kept_as_written_or_refused(name: str, value: str) -> None:
    violation = _violation(**{name: value})
    assert violation.path == name
    assert "whole seconds" in violation.allowed


@pytest.mark.parametrize("name", ["scale_to_zero_after", "hold", "scale_in_delay"])
def test_what_is_counted_in_seconds_is_not_rounded(name: str) -> None:
    scaling = {"min_replicas": 0, "scale_to_zero_after": "10m", name: "90.5s"}
    assert _violation(scaling=scaling).path == f"scaling.{name}"


@pytest.mark.parametrize("value", ["1h1s", "24d", "30d"])
def test_a_request_that_the_door_cannot_hold_so_long_is_refused(value: str) -> None:
    assert _violation(request_timeout=value, stream_timeout="24h").path == "request_timeout"


@pytest.mark.parametrize("rate", [1e6, 1e308])
@pytest.mark.parametrize(
    "name",
    ["requests_per_second", "peak_requests_per_second", "concurrent_users", "output_tokens_per_second"],
)
def test_a_rate_beyond_all_bounds_is_refused(name: str, rate: float) -> None:
    rate *= 100 if name in ("concurrent_users", "output_tokens_per_second") and rate < 1e300 else 1
    assert _violation(traffic={name: rate}).path == f"traffic.{name}"


def test_more_replicas_than_a_cluster_has_nodes_are_refused() -> None:
    doc = document(hardware={"accelerators": ["t4"]}, traffic={"requests_per_second": 9000})
    refused = _refused(doc)
    assert refused.binding.startswith("scaling.max_replicas")
    assert "allows 5000 in all" in refused.binding


def test_sizes_that_contradict_each_other_are_refused() -> None:
    assert _violation(model={"weight_bytes": "1B"}).path == "model.weight_bytes"
    assert _violation(model={"weight_bytes": "16TB"}).path == "model.weight_bytes"
    assert _violation(model={"active_parameters": "9B"}).path == "model.active_parameters"
    plan(document(model={"weight_bytes": "5GB", "parameters": "8B", "active_parameters": "8B"}))


def test_warm_replicas_of_a_stack_that_keeps_none_are_refused() -> None:
    assert _violation(warm=2, scaling={"min_replicas": 0, "scale_to_zero_after": "10m"}).path == "warm"


@pytest.mark.parametrize(
    "flag",
    [
        "--prefill-context-parallel-size=2", "--decode_context_parallel_size=2", "-dcp=2",
        "--speculative-config.method=ngram", "--spec-model=me/draft", "--quantization-config={}",
        "--offload-group-size=2",
    ],
)  # fmt: skip
def test_a_flag_that_takes_gpus_or_memory_nobody_planned_is_refused(flag: str) -> None:
    assert "engine.extra_args" in _violation(engine={"kind": "vllm", "extra_args": [flag]}).path


@pytest.mark.parametrize(
    ("slo", "traffic"),
    [
        ({"ttft_p95": "10ms"}, {}),
        ({"ttft_p95": "1ms"}, {"input_tokens": 4000}),
        ({"tpot_p95": "1ms"}, {}),
        ({"latency_p95": "20ms"}, {}),
        ({"latency_p99": "20ms"}, {}),
    ],
)
def test_an_objective_far_below_what_hardware_can_do_is_told_what_it_can(
    slo: dict[str, str], traffic: dict[str, int]
) -> None:
    doc = document(slo=slo, traffic=traffic, hardware={"accelerators": ["l4"]})
    (name,) = slo
    refused = _refused(doc)
    assert "without any load" in refused.binding
    floor = float(refused.binding.split(" takes ")[1].split(" ms")[0])
    (change,) = [item.change for item in refused.nearest if item.change.startswith(f"slo.{name}: ")]
    plan(_applied(doc, change))
    enough = parse_duration(change.partition(": ")[2]).total_seconds() * 1000
    assert floor <= enough <= 4.1 * floor


def test_two_objectives_that_no_hardware_keeps_are_lengthened_together() -> None:
    """Neither helps alone, and the suggestion works."""
    asked = document(LLAMA_70B, slo={"ttft_p95": "1ms", "tpot_p95": "100us"})
    with pytest.raises(Infeasible) as refused:
        plan(asked)
    both = next(item.change for item in refused.value.nearest if item.change.startswith("slo."))
    changes = dict(part.removeprefix("slo.").split(": ") for part in both.split(", "))
    assert set(changes) == {"ttft_p95", "tpot_p95"}
    assert plan({**asked, "slo": changes}).architecture.accelerator


def test_what_a_service_refuses_by_its_own_limits_is_not_suggested_for_it() -> None:
    asked = {
        "name": "chat",
        "model": {"id": "Qwen/Qwen2.5-72B-Instruct", "max_model_len": 4096},
        "target": {"option": "container-apps"},
    }
    with pytest.raises(Infeasible) as refused:  # at four bits it fits the GPU, and not a replica's own disk
        plan(asked)
    assert not [each for each in refused.value.nearest if "AWQ" in each.change]
    with pytest.raises(InvalidInput, match="disk"):
        plan(asked | {"model": {**asked["model"], "id": "Qwen/Qwen2.5-72B-Instruct-AWQ"}})
