"""The environments and examples of the project plan, preview, and are locked where they say so."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from servingstack import documents
from servingstack.catalog import gpu
from servingstack.cli import locking
from servingstack.cli.graph import resources
from servingstack.cli.source import Planned, Source, open_source, plan_all
from servingstack.plan import ServingPlan
from servingstack.targets import REGISTRY, capabilities

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
UNLOCKED = ("Pulumi.dev.yaml", "Pulumi.local.yaml")
"""Environments whose plans nobody reviews before they are deployed."""
WORKLOADS = {
    "kubernetes": "kubernetes:apps/v1:Deployment",
    "cloud-run": "gcp:cloudrunv2/service:Service",
    "sagemaker": "aws-native:sagemaker:Endpoint",
    "container-apps": "azure-native:app:ContainerApp",
    "modal": "pulumi-python:dynamic/modal:App",
    "replicate": "pulumi-python:dynamic/replicate:Deployment",
}
"""What runs the engine, by option."""


def opened(path: Path) -> tuple[Source, dict[str, Planned]]:
    source = open_source(None, path)
    return source, plan_all(source)


def example(name: str) -> ServingPlan:
    (planned,) = opened(ROOT / "examples" / name)[1].values()
    return planned.fresh


@pytest.mark.parametrize("path", [*ENVIRONMENTS, *EXAMPLES], ids=lambda path: path.name)
def test_every_file_plans_and_previews(path: Path) -> None:
    _, planned = opened(path)
    assert planned
    for name, item in planned.items():
        plan = item.deployed
        memory = plan.architecture.memory_per_gpu
        assert memory.weights + memory.kv_cache + memory.overhead + memory.reserved <= memory.total
        assert plan.batching.max_num_seqs > 1
        types = {resource.type for resource in resources(item)}
        assert WORKLOADS[plan.architecture.option] in types, name
        for objective in plan.monitoring.objectives:
            assert objective.percent < 100


def test_the_four_environments_are_there_and_one_for_each_option_of_a_cloud() -> None:
    own = {f"Pulumi.{name}.yaml" for name in REGISTRY if capabilities(name).cloud is not None}
    four = {"Pulumi.dev.yaml", "Pulumi.local.yaml", "Pulumi.prod.yaml", "Pulumi.staging.yaml"}
    assert {path.name for path in ENVIRONMENTS} == four | own


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.name)
def test_all_but_dev_and_local_require_a_lock_and_every_lock_is_current(path: Path) -> None:
    source, planned = opened(path)
    assert source.document.require_lock is (path.name not in UNLOCKED)
    if not source.document.require_lock:
        return
    locking.check_lock(source, planned)


def test_no_file_reads_otherwise_by_yaml_1_1_which_other_tools_use() -> None:
    from servingstack.yaml12 import load

    for path in [*ENVIRONMENTS, *EXAMPLES, ROOT / "Pulumi.yaml"]:
        text = path.read_text(encoding="utf-8")
        assert load(text, path.name) == yaml.safe_load(text), path.name


def test_the_local_environment_asks_for_no_more_than_the_simulated_cluster_has() -> None:
    import sys

    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import nodes
    finally:
        sys.path.remove(str(ROOT / "tools"))
    document = documents.read(ROOT / "stacks" / "Pulumi.local.yaml")
    declared = document.stacks[0].args.hardware.nodes
    assert declared is not None
    for kind in declared:
        gpus = str(kind.gpus)
        alike = [
            item["status"]["allocatable"]
            for item in nodes.manifests()
            if item["metadata"]["labels"].get("nvidia.com/gpu.product", "").lower().find(kind.accelerator[:2])
            >= 0
        ]
        assert len(alike) == kind.count
        for allocatable in alike:
            assert allocatable["nvidia.com/gpu"] == gpus
            assert float(allocatable["cpu"]) >= kind.cpu
            assert int(allocatable["memory"].removesuffix("Mi")) * 1024**2 >= kind.memory


def test_a_tight_time_to_first_token_on_70b_takes_a_data_centre_gpu() -> None:
    plan = example("chat-70b.yaml")
    assert plan.architecture.accelerator.split("-")[0] in ("a100", "h100", "h200", "b200")
    assert plan.architecture.gpus_per_replica > 1
    assert plan.expected.ttft_p95_ms.value <= 500
    assert plan.expected.tpot_p95_ms.value <= 50


def test_batch_work_on_a_small_model_takes_a_small_gpu() -> None:
    plan = example("batch-t4.yaml")
    assert plan.architecture.accelerator in ("t4", "l4")
    assert plan.architecture.gpus_per_replica == 1
    assert gpu(plan.architecture.accelerator).memory_bytes < 25 * 10**9


def test_the_pinned_deployment_is_planned_as_pinned() -> None:
    plan = example("llm-inference.yaml")
    architecture = plan.architecture
    assert (architecture.tensor_parallel_size, architecture.gpus_per_replica) == (2, 2)
    assert architecture.gpu_memory_utilization == 0.9
    assert architecture.max_model_len == 8192
    assert plan.batching.max_num_batched_tokens == 32768
    assert plan.batching.prefix_caching
    assert (plan.scaling.min_replicas, plan.scaling.max_replicas) == (2, 2)
    assert (architecture.memory_request_bytes, architecture.memory_limit_bytes) == (
        60 * 1024**3,
        80 * 1024**3,
    )
    token = next(item for item in plan.container.env if item.name == "HF_TOKEN")
    assert (token.secret_name, token.secret_key) == ("hf-token", "token")


def test_defaults_reach_every_stack_of_a_file() -> None:
    _, planned = opened(ROOT / "examples" / "several.yaml")
    assert {item.fresh.placement.namespace for item in planned.values() if item.fresh.placement} == {
        "assistants"
    }
    assert planned["summaries"].entry.args.slo.ttft_p95 is None
