"""The benchmark's Job: valid for every Kubernetes, restricted, not closed by the stack's own network policy,
and its log is a table that a plan can use."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from typing import Any, ClassVar

import kubernetes_validate
import pytest
from tests.sample import sample_plan
from tests.targets.kubernetes.bodies import PLANS, by_role, max_plan, volume_plan
from tests.targets.kubernetes.test_manifests import KUBERNETES

from servingstack.engines.benchmark import Load, command
from servingstack.measured_formats import parse
from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes.bench_job import bench_job, levels

every_plan = pytest.mark.parametrize("make", PLANS.values(), ids=PLANS.keys())


def job(plan: ServingPlan) -> dict[str, Any]:
    made = bench_job(plan, input_tokens=512, output_tokens=128)
    assert made is not None
    return made.body


def pod(plan: ServingPlan) -> dict[str, Any]:
    return job(plan)["spec"]["template"]["spec"]


@every_plan
@pytest.mark.parametrize("version", KUBERNETES)
def test_it_passes_the_strict_schema_of_every_kubernetes(
    make: Callable[[], ServingPlan], version: str
) -> None:
    kubernetes_validate.validate(job(make()), version, strict=True)


@every_plan
def test_every_container_is_the_engines_image_restricted_and_without_a_gpu(
    make: Callable[[], ServingPlan],
) -> None:
    plan = make()
    spec = pod(plan)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert container["image"] == plan.container.image
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "nvidia.com/gpu" not in json.dumps(container["resources"])
        assert not {"sh", "bash", "-c"} & set(container["command"])


def test_each_level_is_measured_after_the_one_before_and_the_log_is_the_result_alone() -> None:
    plan = sample_plan(batching={"max_num_seqs": 24}, scaling={"min_replicas": 2})
    assert levels(plan) == (2, 4, 8, 16, 32, 48)
    spec = pod(plan)
    assert [step["name"] for step in spec["initContainers"]] == ["c2", "c4", "c8", "c16", "c32", "c48"]
    assert [container["command"] for container in spec["containers"]] == [["cat", "/results/bench.jsonl"]]
    first = spec["initContainers"][0]["command"]
    assert first[:3] == ["vllm", "bench", "serve"]
    assert "--max-concurrency=2" in first
    assert "--random-input-len=512" in first
    assert "--result-dir=/results" in first


@every_plan
def test_the_stacks_own_policies_do_not_close_it(make: Callable[[], ServingPlan]) -> None:
    plan = make()
    labels = job(plan)["spec"]["template"]["metadata"]["labels"]
    policies = [body for body in by_role(plan).values() if body["kind"] == "NetworkPolicy"]
    assert policies
    for policy in policies:
        selector = policy["spec"]["podSelector"]["matchLabels"]
        assert not selector.items() <= labels.items()
    for body in by_role(plan).values():
        if body["kind"] == "Service":
            assert not body["spec"]["selector"].items() <= labels.items()


def test_it_runs_where_clients_may_come_from_and_asks_the_front_door() -> None:
    plan = max_plan()
    assert job(plan)["metadata"]["namespace"] == "gateway"
    host = f"{plan.names['service']}.{plan.placement.namespace}.svc" if plan.placement else ""
    assert f"--base-url=http://{host}:8080" in pod(plan)["initContainers"][0]["command"]


def test_keys_are_references_and_the_doors_key_has_the_name_that_the_tools_read() -> None:
    env = {item["name"]: item for item in pod(max_plan())["initContainers"][0]["env"]}
    assert env["OPENAI_API_KEY"]["valueFrom"] == {"secretKeyRef": {"name": "chat-key", "key": "key"}}
    assert env["HF_TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == "hf-token"
    assert "VLLM_API_KEY" not in env


def test_a_tokenizer_on_a_volume_is_read_from_there() -> None:
    plan = volume_plan()
    spec = pod(plan)
    assert {"name": "weights", "mountPath": "/models", "readOnly": True} in spec["initContainers"][0][
        "volumeMounts"
    ]
    assert "--tokenizer=/models/llama" in spec["initContainers"][0]["command"]


def test_an_engine_without_a_benchmark_in_its_image_has_no_job() -> None:
    plan = sample_plan()
    other = plan.model_copy(
        update={"architecture": plan.architecture.model_copy(update={"engine": "torchserve"})}
    )
    assert bench_job(other, input_tokens=1, output_tokens=1) is None


LOAD = Load(
    url="http://chat.serving.svc:8080", model="x/y", tokenizer="x/y", concurrency=4, requests=32,
    input_tokens=512, output_tokens=128, folder="/results", file="bench.jsonl",
    conditions={
        "accelerator": "a100-80gb", "gpus_per_replica": "2", "precision": "bf16", "engine": "vllm 0.30.0",
        "replicas": "2",
    },
)  # fmt: skip


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_flag_is_one_that_the_releases_own_benchmark_takes(engine: str) -> None:
    path = resources.files("servingstack.engines").joinpath("data", "benchmarks.flags.json")
    known = json.loads(path.read_text())[engine]["flags"]
    made = command(engine, LOAD)
    assert made is not None
    flags = {text.partition("=")[0] for text in made if text.startswith("--")}
    assert len(flags) > 10
    assert flags <= set(known)


class TestTheLogIsATable:
    RESULT: ClassVar[dict[str, Any]] = {
        "completed": 32, "failed": 0, "request_throughput": 4.0, "output_throughput": 512.0,
        "max_concurrency": 4, "total_input_tokens": 16384, "total_output_tokens": 4096,
        "mean_ttft_ms": 50.0, "median_ttft_ms": 49.0, "p95_ttft_ms": 60.0,
        "mean_tpot_ms": 7.0, "median_tpot_ms": 7.0, "p95_tpot_ms": 8.0,
    }  # fmt: skip

    def test_vllms_metadata_says_the_conditions(self) -> None:
        made = command("vllm", LOAD)
        assert made is not None
        given = dict(text.split("=", 1) for text in made[made.index("--metadata") + 1 :])
        table = parse(json.dumps(self.RESULT | given), "log")
        assert (table.accelerator, table.gpus_per_replica, table.precision) == ("a100-80gb", 2, "bf16")
        assert (table.engine, table.replicas) == ("vllm 0.30.0", 2)
        assert (table.rows[0].concurrency, table.rows[0].requests_per_s) == (2, 2.0), "of one replica"

    def test_sglangs_tag_says_the_conditions(self) -> None:
        made = command("sglang", LOAD)
        assert made is not None
        tag = next(text.removeprefix("--tag=") for text in made if text.startswith("--tag="))
        result = self.RESULT | {"tag": tag, "mean_e2e_latency_ms": 900.0}
        table = parse(json.dumps(result), "log")
        assert (table.format, table.accelerator, table.replicas) == ("sglang-bench", "a100-80gb", 2)
