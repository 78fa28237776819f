"""Groups of stacks that share GPUs: they fit, or the refusal names members and GiB; the GPU is paid once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servingstack import catalog
from servingstack.errors import Infeasible
from servingstack.planner import packing, plan
from servingstack.planner.suggest import together

from .shared_nodes import SMALL, entries, node, on_gpu, on_nodes, shared

MODELS = (
    "Qwen/Qwen2.5-0.5B-Instruct",
    SMALL,
    "BAAI/bge-m3",
    "BAAI/bge-reranker-base",
    "Qwen/Qwen2.5-3B-Instruct",
)


def member(name: str, model: str = SMALL, /, **parts: Any) -> dict[str, Any]:
    given = {"requests_per_second": 0.5, "input_tokens": 256, "output_tokens": 64}
    found = {"name": name, "colocate": "small", "traffic": given, **parts}
    nodes = found.pop("nodes", [shared()])
    return on_nodes(*nodes, model=model, **found)


def test_three_small_models_share_one_l4_and_its_price() -> None:
    found = entries(
        member("chat"), member("search", "BAAI/bge-m3"), member("rerank", "BAAI/bge-reranker-base")
    )
    assert packing.violations(found) == []
    (group,) = packing.groups(found)
    assert [each.name for each in group.members] == ["chat", "search", "rerank"]
    assert group.gpus == 1
    assert group.share <= 1
    assert group.hourly_usd == pytest.approx(4.0), "one GPU, paid once"
    own = sum(each.plan.cost.hourly_usd for each in found)
    assert own + group.idle_usd == pytest.approx(4.0)
    assert "chat" in group.sentence()
    assert "$4.00/h" in group.sentence()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(MODELS), st.floats(0.05, 2.0)), min_size=1, max_size=6))
def test_a_packed_group_always_fits_its_gpu(wanted: list[tuple[str, float]]) -> None:
    """Whatever is accepted: everything that its members may take, contexts included, is on the GPU."""
    nodes = [shared("a10g", turns=6, count=50, cpu=200, memory="2Ti")]
    documents = [
        member(f"s{index}", model, nodes=nodes, traffic={"requests_per_second": rate, "input_tokens": 200})
        for index, (model, rate) in enumerate(wanted)
    ]
    try:
        found = entries(*documents)
    except Infeasible:
        return
    if packing.violations(found):
        (group,) = packing.groups(found)
        assert group.share > 1 or len(found) > 6
        return
    assert sum(on_gpu(each.plan) for each in found) <= catalog.gpu("a10g").cuda_bytes
    flags = [{flag.name: flag.value for flag in each.plan.container.flags} for each in found]
    shares = [float(each["gpu-memory-utilization"] or 1) for each in flags]
    assert sum(shares) <= 0.9 + 1e-6, "the tenth that a GPU alone keeps free is kept free together as well"


def test_a_group_that_does_not_fit_is_refused_with_members_and_gib_and_a_way_out() -> None:
    found = entries(
        member("big", "Qwen/Qwen2.5-7B-Instruct"),
        member("chat", "Qwen/Qwen2.5-3B-Instruct"),
        member("search", "BAAI/bge-m3"),
        member("rerank", "BAAI/bge-reranker-base"),
    )
    (violation,) = packing.violations(found)
    assert violation.path == "stacks[3].colocate"
    text = str(violation)
    for each in found:
        assert each.plan.name in text
    assert "GiB" in text
    assert "small-1: big" in text, "the largest first: what first-fit decreasing makes of it"
    assert "small-2:" in text


def test_first_fit_decreasing_takes_as_few_gpus_as_it_can_and_keeps_the_order_of_equals() -> None:
    shares = {"a": 0.6, "b": 0.3, "c": 0.5, "d": 0.4, "e": 0.1}
    assert packing.first_fit(shares, shares.__getitem__) == (("a", "d"), ("c", "b", "e"))
    assert packing.first_fit("xyz", lambda _: 0.5) == (("x", "y"), ("z",))
    assert packing.first_fit("xyz", lambda _: 0.1, most=2) == (("x", "y"), ("z",))


def test_a_group_has_no_more_members_than_a_gpu_has_turns() -> None:
    nodes = [shared(turns=2)]
    found = entries(*(member(name, "BAAI/bge-reranker-base", nodes=nodes) for name in ("a", "b", "c")))
    (violation,) = packing.violations(found)
    assert "at most 2 stacks" in str(violation)
    assert "a, b, c" in str(violation)


def test_a_node_must_hold_its_members_cores_and_memory() -> None:
    nodes = [shared(cpu=5, memory="20Gi")]
    found = entries(member("a", nodes=nodes), member("b", nodes=nodes))
    said = " ".join(map(str, packing.violations(found)))
    assert "together they ask 6 cores of 5" in said
    assert "GiB of memory of 20" in said


def test_members_mean_the_same_nodes_and_namespace() -> None:
    elsewhere = {"option": "kubernetes", "kubernetes": {"namespace": "other"}}
    found = entries(member("a"), member("b", nodes=[shared("a10g")]), member("c", target=elsewhere))
    paths = {violation.path for violation in packing.violations(found)}
    assert {"stacks[1].hardware.nodes", "stacks[2].target.kubernetes.namespace"} <= paths


def test_a_locked_member_counts_as_it_is_locked() -> None:
    """Its neighbour grew since: neither lock is stale by itself, and only the sum tells."""
    old, grown = entries(member("a", "Qwen/Qwen2.5-7B-Instruct"), member("b"))
    assert packing.violations([old, grown]) != [] or packing.groups([old, grown])[0].share <= 1
    doubled = replace(grown, plan=old.plan.model_copy(update={"name": "b"}))
    assert any("do not fit" in str(v) or "too much" in str(v) for v in packing.violations([old, doubled]))


def test_stacks_of_other_groups_and_without_one_are_no_members() -> None:
    found = entries(member("a"), member("b", colocate="other"), on_nodes(node(), name="c"))
    assert [group.name for group in packing.groups(found)] == ["other", "small"]
    assert packing.violations(found) == []


def test_two_pods_of_one_member_never_share_a_gpu_so_replicas_need_as_many() -> None:
    """Else a member's own replicas would take the share twice."""
    one = [shared(count=1)]
    with pytest.raises(Infeasible, match=r"hardware\.nodes"):
        plan(member("a", nodes=one))
    found = plan(member("a", nodes=[shared(count=2)]))
    assert found.scaling.max_replicas + found.scaling.surge_replicas <= 2


def test_a_members_speed_is_what_its_neighbours_leave_of_the_gpu() -> None:
    alone, beside = plan(on_nodes(node("l4"))), plan(on_nodes(shared(turns=4), colocate="small"))
    assert beside.expected.tpot_p50_ms.value > 2.5 * alone.expected.tpot_p50_ms.value


def test_an_environment_of_small_models_hears_which_fit_together_and_what_it_saves() -> None:
    light = {"requests_per_second": 0.2, "input_tokens": 256, "output_tokens": 64}
    nodes = node("l4", hourly_price=0.8)
    found = entries(
        on_nodes(nodes, name="chat", traffic=light),
        on_nodes(nodes, name="rerank", model="BAAI/bge-reranker-base", traffic=light),
    )
    (said,) = together(found)
    assert "chat" in said
    assert "rerank" in said
    assert "$584 a month less" in said, "two GPUs at $0.80/h become one"


def test_an_environment_that_shares_already_or_is_busy_hears_nothing() -> None:
    busy = {"requests_per_second": 10, "peak_requests_per_second": 10}
    found = entries(member("a"), member("b"), on_nodes(node("l4"), name="c", traffic=busy))
    assert together(found) == ()
