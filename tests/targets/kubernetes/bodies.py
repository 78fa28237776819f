"""Manifests by role, and ways into their bodies, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.engines.triton_documents import document, model
from tests.sample import DOCUMENT, sample_plan

from servingstack import documents
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.planner import plan as make_plan
from servingstack.targets.kubernetes.manifests import manifests

EXAMPLES = Path(__file__).parents[3] / "examples"

MAX_DOCUMENT: dict[str, Any] = DOCUMENT | {
    "api_key_secret": {"name": "chat-key", "key": "key"},
    "labels": {"team": "ml"},
}


def max_plan() -> ServingPlan:
    """Every optional object and field at once."""
    return sample_plan(
        MAX_DOCUMENT,
        scaling={
            "min_replicas": 0, "mean_replicas": 1, "warm_replicas": 0,
            "scale_to_zero_after_s": 1800, "hold_s": 300,
        },
        placement={
            "node_selector": {"pool": "gpu"}, "weights_storage_class": "fast",
            "weights_volume_bytes": 87 * 1024**3, "ingress_namespace": "gateway",
            "tolerations": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}],
            "prometheus_auth": "prometheus-login", "grafana": "https://grafana.example.com/",
        },
    )  # fmt: skip


def fixed_plan() -> ServingPlan:
    """As many replicas at least as at most, in a namespace of somebody else, without any extra."""
    return sample_plan(
        scaling={"autoscaled": False, "min_replicas": 2, "max_replicas": 2, "placeholder_pods": 0},
        placement={"create_namespace": False, "prepull_images": False, "monitor_labels": {}},
    )


def volume_plan() -> ServingPlan:
    """Weights on a volume that exists."""
    model = DOCUMENT["model"] | {"source": "pvc://weights/llama"}
    return sample_plan(DOCUMENT | {"model": model}, placement={"weights_claim": "weights"})


def triton_plan() -> ServingPlan:
    """An engine with files of its own, directories of a volume, and metrics on another port."""
    return plan(document(model(backend="python")))


PLANS = {"defaults": sample_plan, "max": max_plan, "fixed": fixed_plan, "volume": volume_plan}
ALL_PLANS = {**PLANS, "triton": triton_plan}
"""With an engine that has neither one port nor a benchmark of its own."""


def planned() -> dict[str, ServingPlan]:
    """What the planner makes of every example on a cluster, by file and stack."""
    return {
        f"{path.stem}-{entry.args.name}": made
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for entry in documents.read(path).stacks
        if (made := make_plan(entry.args)).placement is not None
    }


def by_role(plan: ServingPlan) -> dict[str, dict[str, Any]]:
    """Bodies by role."""
    return {each.role: each.body for each in manifests(plan)}


def pods(plan: ServingPlan) -> dict[str, dict[str, Any]]:
    """Pod templates by role."""
    found = by_role(plan)
    return {
        role: body["spec"]["template"] for role, body in found.items() if "template" in body.get("spec", {})
    }


def engine(plan: ServingPlan) -> dict[str, Any]:
    """The engine's container."""
    (container,) = by_role(plan)["deployment"]["spec"]["template"]["spec"]["containers"]
    return container


def arguments(plan: ServingPlan) -> dict[str, str]:
    """The engine's arguments by name; a switch has an empty value."""
    return {arg.removeprefix("--").partition("=")[0]: arg.partition("=")[2] for arg in engine(plan)["args"]}


def rules(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Every rule of a PrometheusRule."""
    return [rule for group in body["spec"]["groups"] for rule in group["rules"]]
