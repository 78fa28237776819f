"""Who may talk to whom: simulated by a small reader of NetworkPolicies, as the API documents their
meaning."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any

from tests.sample import sample_plan
from tests.targets.kubernetes.bodies import by_role, max_plan, pods, volume_plan

from servingstack.plan import ServingPlan


@dataclass(frozen=True)
class Peer:
    """One end of a connection: a pod, or an address outside."""

    namespace: str = "serving"
    labels: dict[str, str] = field(default_factory=dict)
    address: str | None = None


def _pod(plan: ServingPlan, role: str) -> Peer:
    return Peer(labels=pods(plan)[role]["metadata"]["labels"])


def _allowed(plan: ServingPlan, source: Peer, target: Peer, port: int, protocol: str = "TCP") -> bool:
    """A connection needs the source's egress and the target's ingress."""
    wanted = {"protocol": protocol, "port": port}
    return _passes(plan, source, target, wanted, "egress") and _passes(
        plan, target, source, wanted, "ingress"
    )


def _passes(plan: ServingPlan, pod: Peer, other: Peer, port: dict[str, Any], way: str) -> bool:
    if pod.address is not None or pod.namespace != "serving":
        return True  # not ours to restrict
    policies = [body["spec"] for body in by_role(plan).values() if body["kind"] == "NetworkPolicy"]
    applying = [
        spec
        for spec in policies
        if spec["podSelector"]["matchLabels"].items() <= pod.labels.items()
        and way.title() in spec["policyTypes"]
    ]
    if not applying:
        return True
    direction = "from" if way == "ingress" else "to"
    return any(
        port in rule["ports"]
        and (direction not in rule or any(_matches(peer, other) for peer in rule[direction]))
        for spec in applying
        for rule in spec.get(way, [])
    )


def _matches(peer: dict[str, Any], other: Peer) -> bool:
    if "ipBlock" in peer:
        block = ipaddress.ip_network(peer["ipBlock"]["cidr"])
        address = None if other.address is None else ipaddress.ip_address(other.address)
        excluded = [ipaddress.ip_network(each) for each in peer["ipBlock"]["except"]]
        inside = address is not None and address.version == block.version and address in block
        return inside and not any(address in each for each in excluded if each.version == block.version)
    if other.address is not None:
        return False
    wanted = peer.get("podSelector", {}).get("matchLabels", {}).items() <= other.labels.items()
    if "namespaceSelector" not in peer:
        return wanted and other.namespace == "serving"
    names = peer["namespaceSelector"].get("matchLabels", {"kubernetes.io/metadata.name": other.namespace})
    return wanted and names == {"kubernetes.io/metadata.name": other.namespace}


PROMETHEUS = Peer(namespace="monitoring", labels={"app": "prometheus"})
CLIENT = Peer(namespace="web", labels={"app": "client"})
NEIGHBOUR = Peer(labels={"app": "neighbour"})
HUB = Peer(address="18.164.174.17")
NAMESERVER = Peer(namespace="kube-system", labels={"k8s-app": "kube-dns"})
NODE_LOCAL_CACHE = Peer(address="169.254.20.10")
METADATA = Peer(address="169.254.169.254")


def test_callers_reach_the_front_door_and_only_its_port() -> None:
    plan = sample_plan()
    door = _pod(plan, "door")
    assert _allowed(plan, CLIENT, door, 8080)
    assert not _allowed(plan, CLIENT, door, 8404)
    assert not _allowed(plan, CLIENT, door, 22)


def test_only_the_front_door_and_prometheus_reach_the_engine() -> None:
    plan = sample_plan()
    engine = _pod(plan, "deployment")
    assert _allowed(plan, _pod(plan, "door"), engine, 8000)
    assert _allowed(plan, PROMETHEUS, engine, 8000)
    for other in (CLIENT, NEIGHBOUR, _pod(plan, "placeholder"), engine):
        assert not _allowed(plan, other, engine, 8000)


def test_prometheus_reaches_the_doors_metrics() -> None:
    plan = sample_plan()
    assert _allowed(plan, PROMETHEUS, _pod(plan, "door"), 8404)
    elsewhere = sample_plan(placement={"monitoring_namespace": "observability"})
    assert not _allowed(elsewhere, PROMETHEUS, _pod(elsewhere, "door"), 8404)


def test_callers_can_be_held_to_one_namespace() -> None:
    plan = max_plan()
    door = _pod(plan, "door")
    assert _allowed(plan, Peer(namespace="gateway"), door, 8080)
    assert not _allowed(plan, CLIENT, door, 8080)


def test_the_engine_reaches_names_and_the_hub_and_nothing_else() -> None:
    plan = sample_plan()
    engine = _pod(plan, "deployment")
    assert _allowed(plan, engine, HUB, 443)
    for server in (NAMESERVER, NODE_LOCAL_CACHE):
        assert _allowed(plan, engine, server, 53, "UDP")
        assert _allowed(plan, engine, server, 53, "TCP")
    assert not _allowed(plan, engine, HUB, 80)
    assert not _allowed(plan, engine, METADATA, 443)
    assert not _allowed(plan, engine, METADATA, 80)
    assert not _allowed(plan, engine, NEIGHBOUR, 5432)


def test_an_engine_whose_weights_are_on_a_volume_reaches_nothing_outside() -> None:
    plan = volume_plan()
    assert not _allowed(plan, _pod(plan, "deployment"), HUB, 443)


def test_the_front_door_reaches_the_engine_and_names_only() -> None:
    plan = sample_plan()
    door = _pod(plan, "door")
    assert _allowed(plan, door, NAMESERVER, 53, "UDP")
    assert not _allowed(plan, door, HUB, 443)
    assert not _allowed(plan, door, NEIGHBOUR, 8000)


def test_pods_that_only_wait_are_closed_in_both_directions() -> None:
    plan = sample_plan()
    for role in ("prepull", "placeholder"):
        assert not _allowed(plan, CLIENT, _pod(plan, role), 8000)
        assert not _allowed(plan, _pod(plan, role), HUB, 443)


def test_another_stack_in_the_namespace_is_no_friend() -> None:
    plan = sample_plan()
    other = sample_plan({"name": "other", "model": {"id": "some/model"}, "target": {"option": "kubernetes"}})
    assert not _allowed(plan, _pod(other, "door"), _pod(plan, "deployment"), 8000)
