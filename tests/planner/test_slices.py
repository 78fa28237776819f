"""Slices and turns of GPUs: chosen where they are cheaper, never beyond their memory, refused where nobody
can keep what was promised."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servingstack import catalog
from servingstack.args import ServingStackArgs
from servingstack.catalog import GIB
from servingstack.errors import Infeasible, InvalidInput
from servingstack.planner import plan
from servingstack.planner.slices import parts

from .build import LLAMA_70B, document
from .shared_nodes import SMALL, cut, node, on_gpu, on_nodes, shared

PROFILES = [profile for gpu_id in catalog.mig_gpu_ids() for profile in catalog.mig_profiles(gpu_id)]
MODELS = ("Qwen/Qwen2.5-0.5B-Instruct", SMALL, "Qwen/Qwen2.5-7B-Instruct", "BAAI/bge-m3")


def _refusals(doc: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        plan(doc)
    return {item.path: str(item) for item in caught.value.violations}


def test_a_small_model_takes_a_slice_and_asks_for_it_by_its_own_name() -> None:
    found = plan(on_nodes(node(), cut({"1g.10gb": 7}, selector={"pool": "cut"}), slo={"ttft_p95": "1s"}))
    part, place = found.architecture.gpu_part, found.placement
    assert part is not None
    assert place is not None
    assert (part.kind, part.name, part.turns) == ("mig", "1g.10gb", 1)
    assert place.gpu_resource == "nvidia.com/mig-1g.10gb"
    assert place.gpu_group is None, "a slice is isolated: nobody need be kept off"
    assert found.architecture.gpus_per_replica == 1
    assert found.cost.per_gpu_hour_usd == pytest.approx(4.0 / 7, abs=1e-4)
    assert found.architecture.gpu_memory_utilization == 0.9, "of the slice, which is all that the engine sees"


def test_the_whole_gpu_wins_where_a_slice_is_too_slow() -> None:
    asked = {"slo": {"tpot_p95": "12ms"}}
    found = plan(on_nodes(node(), cut({"1g.10gb": 7}, selector={"pool": "cut"}), **asked))
    assert found.architecture.gpu_part is None
    (lost,) = [row for row in found.alternatives if row.gpu_part == "1g.10gb"]
    assert "slo.tpot_p95" in lost.lost_because


def test_slices_of_one_gpu_cost_together_what_the_gpu_costs() -> None:
    mixed = {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
    shares: list[float] = []
    args = ServingStackArgs.parse(on_nodes(cut(mixed)))
    assert args.hardware.nodes is not None
    for part in parts(args.hardware.nodes[0], catalog.gpu("a100-80gb"), None):
        assert part.cut is not None
        shares.append(part.cut.price_share * mixed[part.cut.name])
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: f"{profile.gpu_id}-{profile.name}")
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_slice_plan_never_exceeds_its_slices_memory(
    profile: catalog.MigProfile, data: st.DataObject
) -> None:
    traffic = {
        "requests_per_second": data.draw(st.floats(0.05, 4)),
        "input_tokens": data.draw(st.integers(16, 4000)),
        "output_tokens": data.draw(st.integers(2, 400)),
    }
    doc = on_nodes(
        node(profile.gpu_id, mig={profile.name: 1}, count=1000),
        model=data.draw(st.sampled_from(MODELS)),
        traffic=traffic,
    )
    try:
        found = plan(doc)
    except (Infeasible, InvalidInput):
        return
    assert found.architecture.memory_per_gpu.total <= profile.memory_bytes
    assert on_gpu(found) <= profile.memory_bytes
    assert found.architecture.tensor_parallel_size == found.architecture.pipeline_parallel_size == 1


def test_no_model_is_split_over_slices() -> None:
    with pytest.raises(Infeasible) as caught:
        plan(on_nodes(cut({"1g.10gb": 7}), model="Qwen/Qwen3-32B"))
    assert "weights" in str(caught.value)
    with pytest.raises((Infeasible, InvalidInput)):
        plan(on_nodes(cut({"1g.10gb": 7}), engine={"kind": "vllm", "tensor_parallel_size": 2}))


def test_a_slice_is_slower_than_its_gpu_by_its_share() -> None:
    whole, part = plan(on_nodes(node())), plan(on_nodes(cut({"1g.10gb": 7})))
    ratio = part.expected.tpot_p50_ms.value / whole.expected.tpot_p50_ms.value
    assert 4 < ratio < 9, "an eighth of the bandwidth, beside what the host takes"
    assert "not measured" in part.expected.tpot_p50_ms.source


def test_a_table_measured_on_the_whole_gpu_says_nothing_of_a_slice() -> None:
    table = {
        "model": SMALL,
        "accelerator": "a100-80gb",
        "gpus_per_replica": 1,
        "rows": [
            {"concurrency": 1, "requests_per_s": 1.0, "ttft_ms": {"p50": 10}, "tpot_ms": {"p50": 2}},
            {"concurrency": 8, "requests_per_s": 8.0, "ttft_ms": {"p50": 12}, "tpot_ms": {"p50": 2.5}},
        ],
    }
    found = plan(on_nodes(cut({"1g.10gb": 7}), measured=table))
    (unused,) = [warning for warning in found.warnings if warning.code == "measured-table-unused"]
    assert "a100-80gb 1g.10gb" in unused.message


def test_max_gpus_counts_slices_by_their_share() -> None:
    six = plan(on_nodes(cut({"1g.10gb": 7}), hardware={"max_gpus": 1}, scaling={"min_replicas": 6}))
    assert six.scaling.min_replicas == 6
    with pytest.raises(Infeasible, match="max_gpus"):
        plan(on_nodes(cut({"1g.10gb": 7}), hardware={"max_gpus": 1}, scaling={"min_replicas": 8}))


def test_a_turn_is_a_share_that_anybody_may_be_beside() -> None:
    found = plan(on_nodes(shared()))
    part = found.architecture.gpu_part
    assert part is not None
    assert (part.kind, part.memory_share, part.turns, part.group) == ("turn", 0.25, 4, None)
    assert on_gpu(found) <= catalog.gpu("l4").cuda_bytes / 4
    assert found.architecture.gpu_memory_utilization == pytest.approx(0.9 / 4)
    assert found.placement is not None
    assert found.placement.gpu_resource == "nvidia.com/gpu.shared"
    assert found.placement.gpu_group == "turns-4"
    assert "shared-gpu-without-isolation" in {warning.code for warning in found.warnings}


def test_a_turn_keeps_no_latency_objective_unless_a_group_accepts_that() -> None:
    promised = {"slo": {"ttft_p95": "1s"}}
    with pytest.raises(Infeasible) as caught:
        plan(on_nodes(shared(), **promised))
    assert "colocate" in caught.value.binding
    assert "slo.ttft_p95" in caught.value.binding
    found = plan(on_nodes(shared(), colocate="small", **promised))
    (warning,) = [one for one in found.warnings if one.code == "shared-gpu-without-isolation"]
    assert "slo.ttft_p95" in warning.message
    assert warning.path == "colocate"


def test_a_turn_of_a_group_fixes_its_cache_and_a_slice_does_not() -> None:
    """vLLM sizes its cache by the GPU's free memory, which a neighbour's start changes."""
    flags = {flag.name: flag.value for flag in plan(on_nodes(shared(), colocate="small")).container.flags}
    assert int(flags["kv-cache-memory-bytes"] or 0) > 0
    alone = {flag.name for flag in plan(on_nodes(cut({"1g.10gb": 7}))).container.flags}
    assert "kv-cache-memory-bytes" not in alone


def test_an_engine_that_takes_what_is_free_shares_no_gpu_but_may_have_a_slice() -> None:
    sglang = {"engine": {"kind": "sglang"}}
    with pytest.raises(Infeasible, match=r"engine\.kind"):
        plan(on_nodes(shared(), colocate="small", **sglang))
    assert plan(on_nodes(cut({"1g.10gb": 7}), **sglang)).architecture.gpu_part is not None


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a GPU that cannot be cut": (
        on_nodes(node("l4", mig={"1g.6gb": 1})), "hardware.nodes[0].mig", "cannot be cut",
    ),
    "a profile of another GPU": (on_nodes(cut({"1g.5gb": 7})), "hardware.nodes[0].mig.1g.5gb", "1g.10gb"),
    "more than one GPU holds": (on_nodes(cut({"1g.10gb": 8})), "hardware.nodes[0].mig", "alone at most"),
    "a set without places": (
        on_nodes(cut({"4g.40gb": 1, "1g.10gb": 4})), "hardware.nodes[0].mig", "per GPU",
    ),
    "cut and shared": (
        on_nodes(cut({"1g.10gb": 7}, sharing={"time_slices": 2})), "hardware.nodes[0].sharing", "one of",
    ),
    "single strategy, two profiles": (
        on_nodes(cut({"1g.10gb": 2, "3g.40gb": 1}, mig_strategy="single", selector={"a": "b"})),
        "hardware.nodes[0].mig", "one profile",
    ),
    "single strategy, no labels": (
        on_nodes(cut({"1g.10gb": 7}, mig_strategy="single")),
        "hardware.nodes[0].selector", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
    ),
    "turns called as GPUs, no labels": (
        on_nodes(node("l4", sharing={"time_slices": 4})), "hardware.nodes[0].selector", "NVIDIA-L4-SHARED",
    ),
    "a strategy without slices": (
        on_nodes(node(mig_strategy="single")), "hardware.nodes[0].mig_strategy", "only with mig",
    ),
    "a group without shared nodes": (on_nodes(node(), colocate="small"), "colocate", "time_slices"),
    "a group on nodes that nobody described": (document(SMALL, colocate="small"), "colocate", "time_slices"),
    "a group on a node with several GPUs": (
        on_nodes(shared(gpus=4), colocate="small"), "hardware.nodes[0].gpus", "1 with colocate",
    ),
    "two kinds of slices of one name": (
        on_nodes(cut({"1g.10gb": 7}), node("h100-80gb", mig={"1g.10gb": 7})),
        "hardware.nodes[0].selector", "in slices",
    ),
    "one turn": (
        on_nodes(node("l4", sharing={"time_slices": 1})), "hardware.nodes[0].sharing.time_slices", "2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_parts_are_refused_with_path_and_what_to_do(name: str) -> None:
    doc, path, said = REFUSED[name]
    found = _refusals(doc)
    assert path in found, found
    assert said in found[path]


def test_whole_and_cut_nodes_of_one_gpu_need_no_labels_to_be_told_apart() -> None:
    """Their resources have other names; with the single strategy they have not."""
    plan(on_nodes(node(), cut({"1g.10gb": 7})))
    single = cut({"1g.10gb": 7}, mig_strategy="single", selector={"pool": "cut"})
    assert "hardware.nodes[1].selector" in _refusals(on_nodes(single, node())) or plan(
        on_nodes(single, node(selector={"pool": "whole"}))
    )


def test_a_slice_of_the_single_strategy_is_asked_for_as_a_gpu_on_labelled_nodes() -> None:
    found = plan(on_nodes(cut({"1g.10gb": 7}, mig_strategy="single", selector={"pool": "cut"})))
    assert found.placement is not None
    assert found.placement.gpu_resource == "nvidia.com/gpu"
    assert found.placement.node_selector == {"pool": "cut"}
    assert found.architecture.memory_per_gpu.total < 10 * GIB


def test_a_small_model_on_a_big_gpu_is_told_of_the_slice_and_what_it_saves() -> None:
    found = plan(on_nodes(node()))
    (warning,) = [one for one in found.warnings if one.code == "small-model-big-gpu"]
    assert "hardware.nodes[].mig: {1g.10gb: 7}" in warning.message
    assert "a month less" in warning.message
    after = plan(on_nodes(cut({"1g.10gb": 7})))
    assert f"${after.cost.hourly_usd:.2f}/h instead of ${found.cost.hourly_usd:.2f}/h" in warning.message


def test_a_small_model_on_a_board_that_cannot_be_cut_is_told_to_share_it() -> None:
    found = plan(on_nodes(node("l40s"), slo={"ttft_p95": "2s"}))
    (warning,) = [one for one in found.warnings if one.code == "small-model-big-gpu"]
    assert "colocate" in warning.message


def test_a_model_that_needs_its_gpus_hears_nothing_of_parts() -> None:
    big = plan(document(LLAMA_70B))
    busy = plan(on_nodes(node(), traffic={"requests_per_second": 40}))
    for found in (big, busy, plan(on_nodes(cut({"1g.10gb": 7})))):
        assert "small-model-big-gpu" not in {warning.code for warning in found.warnings}
