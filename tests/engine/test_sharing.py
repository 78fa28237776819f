"""Stacks on shared and cut GPUs before a real API server and a real scheduler: who is let in, and who lands
beside whom. Nodes and pods are simulated; that a member's memory holds is no matter of a scheduler."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.engine.conftest import ROOT, Cluster

from servingstack import documents
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets.kubernetes.manifests import manifests

NATIVE = ("v1", "apps/v1", "networking.k8s.io/v1", "policy/v1", "scheduling.k8s.io/v1")
"""The operators' own kinds are the other tests' business."""
SHARED = "nvidia.com/gpu.shared"


def _node(name: str, resource: str, count: int) -> dict[str, Any]:
    sizes = {
        "cpu": "180",
        "memory": "1800Gi",
        "pods": "110",
        "ephemeral-storage": "1000Gi",
        resource: str(count),
    }
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": labels},
        "status": {"capacity": sizes, "allocatable": sizes},
    }


@pytest.fixture(scope="module")
def plans() -> dict[str, ServingPlan]:
    """The example's own, and a stack of another group that means the same nodes."""
    stacks = documents.read(ROOT / "examples" / "packed.yaml").stacks
    found = {entry.args.name: plan(entry.args) for entry in stacks}
    titles = next(entry.args for entry in stacks if entry.args.name == "titles")
    found["stranger"] = plan(titles.model_copy(update={"name": "stranger", "colocate": "strangers"}))
    return found


@pytest.fixture(scope="module")
def placed(cluster: Cluster, plans: Mapping[str, ServingPlan]) -> Iterator[dict[str, str]]:
    """Node of each stack's only pod, by stack."""
    nodes = [_node(f"turns-{index}", SHARED, 4) for index in (1, 2)] + [
        _node("cut", "nvidia.com/mig-1g.10gb", 56)
    ]
    cluster.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    )
    items = [
        each.body | ({"spec": each.body["spec"] | {"replicas": 1}} if each.role == "deployment" else {})
        for found in plans.values()
        for each in manifests(found)
        if each.api_version in NATIVE and each.role != "prepull"
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    cluster.kubectl("apply", "--validate=strict", "-f", "-", stdin=text)
    try:
        yield _wait(cluster, plans)
    finally:
        cluster.kubectl("delete", "node", *(node["metadata"]["name"] for node in nodes))


def _wait(cluster: Cluster, plans: Mapping[str, ServingPlan]) -> dict[str, str]:
    deadline = time.monotonic() + 60
    found: dict[str, str] = {}
    while time.monotonic() < deadline and len(found) < len(plans):
        pods = json.loads(cluster.kubectl("-n", "assistants", "get", "pods", "-o", "json"))["items"]
        engines = [pod for pod in pods if pod["spec"].get("nodeName") and _is_engine(pod, plans)]
        found = {
            pod["metadata"]["labels"]["app.kubernetes.io/name"]: pod["spec"]["nodeName"] for pod in engines
        }
        time.sleep(0.5)
    return found


def _is_engine(pod: dict[str, Any], plans: Mapping[str, ServingPlan]) -> bool:
    labels = pod["metadata"]["labels"]
    return (
        labels["app.kubernetes.io/component"] == plans[labels["app.kubernetes.io/name"]].architecture.engine
    )


def test_every_stack_is_let_in_and_finds_its_part(
    placed: dict[str, str], plans: dict[str, ServingPlan]
) -> None:
    assert placed.keys() == plans.keys()
    assert placed["helpdesk"] == "cut"


def test_members_of_a_group_lie_on_one_gpu_and_nobody_else_beside_them(placed: dict[str, str]) -> None:
    group = {placed[name] for name in ("search", "rerank", "titles")}
    assert len(group) == 1
    assert placed["stranger"] not in group
    assert placed["stranger"].startswith("turns-")


def test_a_second_replica_of_a_member_takes_the_groups_next_gpu_or_waits(
    cluster: Cluster, placed: dict[str, str], plans: dict[str, ServingPlan]
) -> None:
    """Both nodes are taken, one by a stranger: its turns are free, its memory is not ours."""
    name = plans["search"].names["engine"]
    cluster.kubectl("-n", "assistants", "scale", f"deployment/{name}", "--replicas=2")
    time.sleep(5)
    selector = "app.kubernetes.io/name=search,app.kubernetes.io/component=vllm"
    pods = json.loads(cluster.kubectl("-n", "assistants", "get", "pods", "-l", selector, "-o", "json"))[
        "items"
    ]
    assert sorted(pod["spec"].get("nodeName", "") for pod in pods) == ["", placed["search"]]
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(_node("turns-3", SHARED, 4)))
    deadline = time.monotonic() + 60
    nodes: set[str] = set()
    while time.monotonic() < deadline and "turns-3" not in nodes:
        listed = cluster.kubectl("-n", "assistants", "get", "pods", "-l", selector, "-o", "json")
        nodes = {pod["spec"].get("nodeName", "") for pod in json.loads(listed)["items"]}
        time.sleep(0.5)
    cluster.kubectl("delete", "node", "turns-3")
    assert nodes == {placed["search"], "turns-3"}
