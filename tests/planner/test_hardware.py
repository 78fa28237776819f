"""Nodes, machines, prices, and what fits on a host."""

from __future__ import annotations

from typing import Any

import pytest

from servingstack import catalog
from servingstack.args import HardwareArgs, ServingStackArgs
from servingstack.catalog import GIB
from servingstack.errors import Infeasible, InvalidInput, Violation
from servingstack.planner import plan
from servingstack.planner.hardware import offers
from servingstack.planner.host import Host, Ranks, host, needed_memory
from servingstack.targets import capabilities

from .build import LLAMA_8B, LLAMA_70B, document


def _offers(**parts: Any) -> tuple[Any, ...]:
    return offers(ServingStackArgs.parse(document(**parts)), capabilities("kubernetes"))


def test_f022_a_replica_must_fit_what_a_small_machine_leaves_to_pods() -> None:
    machines = {
        offer.instance_type: offer for offer in _offers(target={"option": "kubernetes", "cloud": "aws"})
    }
    small = machines["g4dn.xlarge"]  # 4 vCPU, 16 GiB
    assert small.cpu_per_node == pytest.approx(0.9 * 4 - 0.5)
    assert small.memory_per_node == int(0.85 * 16 * GIB)


def test_f022_a_node_with_the_gpu_but_without_the_memory_is_refused_with_the_numbers() -> None:
    node = {"accelerator": "t4", "gpus": 1, "count": 4, "cpu": 1.5, "memory": "10Gi"}
    with pytest.raises(Infeasible) as refused:
        plan(document("Qwen/Qwen2.5-0.5B-Instruct", hardware={"nodes": [node]}))
    assert "asks 3 cores and 11 GiB" in refused.value.binding
    assert "1.5 cores and 10 GiB for pods" in refused.value.binding


@pytest.mark.parametrize(("cpu", "memory"), [(1.5, "60Gi"), (8, "6Gi")])
def test_f022_cores_and_memory_each_bind_alone(cpu: float, memory: str) -> None:
    node = {"accelerator": "t4", "gpus": 1, "count": 4, "cpu": cpu, "memory": memory}
    with pytest.raises(Infeasible, match="a replica asks 3 cores and 11 GiB"):
        plan(document("Qwen/Qwen2.5-0.5B-Instruct", hardware={"nodes": [node]}))


def test_f022_a_node_holds_as_many_replicas_as_its_memory_allows() -> None:
    node = {"accelerator": "l4", "gpus": 4, "count": 1, "cpu": 40, "memory": "40Gi"}
    found = plan(
        document("Qwen/Qwen2.5-0.5B-Instruct", hardware={"nodes": [node]}, scaling={"min_replicas": 2})
    )
    assert found.architecture.memory_request_bytes == 11 * GIB
    assert found.scaling.max_replicas + found.scaling.surge_replicas <= 3


def test_f022_requests_stay_within_the_machine_for_every_plan_on_a_cloud() -> None:
    for cloud in ("aws", "gcp", "azure"):
        found = plan(document(LLAMA_8B, target={"option": "kubernetes", "cloud": cloud})).architecture
        assert found.instance_type is not None
        machine = catalog.instance_type(cloud, found.instance_type)
        assert machine is not None
        assert found.cpu_request <= 0.9 * machine.vcpus - 0.5
        assert found.memory_request_bytes <= 0.85 * machine.memory_gib * GIB


def test_f132_memory_grows_with_ranks_and_request_equals_limit() -> None:
    sizes = []
    for ranks in (1, 2, 4, 8):
        found = host(HardwareArgs(), Ranks(ranks, 16 * 10**9, None, 0))
        assert isinstance(found, Host)
        assert found.memory_request == found.memory_limit
        assert found.memory_request >= 4 * GIB * ranks + found.shared_memory
        sizes.append(found.memory_request)
    assert sizes == sorted(set(sizes))


def test_f132_a_streaming_loader_needs_its_buffers_on_every_rank() -> None:
    plain = needed_memory(8, 470 * 10**9, None)
    streamed = needed_memory(8, 470 * 10**9, "runai_streamer")
    assert streamed - plain == pytest.approx(8 * (40e9 - 2 * GIB))


def test_f132_a_limit_that_would_kill_the_pod_while_it_loads_is_refused() -> None:
    found = host(
        HardwareArgs.model_validate({"memory_limit": "64Gi", "memory_request": "64Gi"}),
        Ranks(8, 470 * 10**9, "runai_streamer", 0),
    )
    assert isinstance(found, Violation)
    assert found.path == "hardware.memory_request"
    nodes = [{"accelerator": "h200", "gpus": 8, "count": 2, "cpu": 180, "memory": "1800Gi"}]
    doc = document(
        "deepseek-ai/DeepSeek-V3",
        engine={"kind": "vllm", "load_format": "runai_streamer"},
        hardware={"nodes": nodes, "memory_request": "64Gi", "memory_limit": "64Gi"},
    )
    with pytest.raises(Infeasible, match="8 ranks"):
        plan(doc)


def test_weights_on_a_volume_take_no_disk_of_the_node() -> None:
    on_disk = plan(document(LLAMA_8B)).architecture
    kept = plan(document(LLAMA_8B, model={"source": "pvc://weights/llama"})).architecture
    assert on_disk.disk_bytes - kept.disk_bytes >= 16e9


def test_the_disk_holds_what_is_stored_even_where_it_is_converted_while_loading() -> None:
    plain = plan(document(LLAMA_8B)).architecture
    converted = plan(document(LLAMA_8B, model={"precision": "fp8"})).architecture
    assert converted.weight_bytes < 0.7 * plain.weight_bytes
    assert converted.disk_bytes == plain.disk_bytes


def test_nodes_bound_the_number_of_replicas() -> None:
    node = {
        "accelerator": "l4",
        "gpus": 2,
        "count": 3,
        "cpu": 20,
        "memory": "100Gi",
        "selector": {"pool": "l4"},
    }
    found = plan(document(LLAMA_8B, hardware={"nodes": [node]}, traffic={"requests_per_second": 1}))
    total = (found.scaling.max_replicas + found.scaling.surge_replicas) * found.architecture.gpus_per_replica
    assert total <= 6
    assert found.placement is not None
    assert found.placement.node_selector == {"pool": "l4"}


def test_a_price_of_ones_own_wins_and_is_labelled() -> None:
    found = plan(document(LLAMA_8B, hardware={"prices": {"h100": 0.10}}))
    assert found.architecture.accelerator == "h100-80gb"
    assert found.cost.basis == "own"
    node = {"accelerator": "l4", "gpus": 4, "count": 2, "cpu": 40, "memory": "150Gi", "hourly_price": 8}
    assert plan(document(LLAMA_8B, hardware={"nodes": [node]})).cost.per_gpu_hour_usd == 2


def test_a_machine_is_paid_whole() -> None:
    doc = document(
        LLAMA_8B,
        target={"option": "kubernetes", "cloud": "aws", "region": "us-east-1"},
        hardware={"instance_type": "g6.12xlarge"},
        traffic={"requests_per_second": 0.1},
    )
    found = plan(doc)
    price = catalog.price("aws", "g6.12xlarge", "us-east-1")
    assert price is not None
    assert found.cost.hourly_usd == pytest.approx(price.usd_per_hour)


def test_without_nodes_or_cloud_any_gpu_is_taken_at_a_reference_price() -> None:
    ids = {offer.gpu.id for offer in _offers()}
    assert {"t4", "l4", "a100-80gb", "h100-80gb", "h200"} <= ids
    assert all(offer.basis == "reference" for offer in _offers())


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({"hardware": {"prices": {"h1000": 3}}}, "hardware.prices.h1000"),
        ({"target": {"cloud": "aws", "region": "mars-1"}}, "target.region"),
        ({"hardware": {"instance_type": "g6.nano"}}, "hardware.instance_type"),
        (
            {
                "hardware": {
                    "nodes": [{"accelerator": "l4", "gpus": 1, "count": 1, "cpu": 4, "memory": "16Gi"}],
                    "accelerators": ["h100"],
                }
            },
            "hardware.accelerators",
        ),
        (
            {
                "hardware": {
                    "nodes": [
                        {
                            "accelerator": "l4",
                            "gpus": 1,
                            "count": 1,
                            "cpu": 4,
                            "memory": "16Gi",
                            "form": "sxm",
                        }
                    ]
                }
            },
            "hardware.nodes[0].form",
        ),
    ],
)
def test_hardware_that_does_not_exist_is_invalid_input(parts: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        plan(document(LLAMA_8B, **parts))
    assert path in [violation.path for violation in refused.value.violations]


@pytest.mark.parametrize("gpu", catalog.gpus(), ids=lambda gpu: f"{gpu.id}-{gpu.form}")
def test_every_gpu_of_the_catalog_can_be_planned_for_or_says_why_not(gpu: catalog.Gpu) -> None:
    node = {
        "accelerator": gpu.id, "form": gpu.form, "gpus": 8, "count": 4, "cpu": 180, "memory": "1500Gi",
    }  # fmt: skip
    doc = document(LLAMA_8B, hardware={"nodes": [node]}, request_timeout="60s")
    if gpu.compute_capability < (7, 5):
        with pytest.raises(Infeasible, match=r"7\.5"):
            plan(doc)
    else:
        assert plan(doc).architecture.accelerator_form == gpu.form


def test_a_70b_on_pcie_cards_is_slower_than_on_nvlink() -> None:
    speeds = []
    for form in ("sxm", "pcie"):
        node = {
            "accelerator": "a100-80gb", "form": form, "gpus": 4, "count": 8, "cpu": 90, "memory": "900Gi",
        }  # fmt: skip
        found = plan(document(LLAMA_70B, hardware={"nodes": [node]}, traffic={"requests_per_second": 0.5}))
        speeds.append(found.expected.ttft_p50_ms.value)
    assert speeds[0] < speeds[1]


L4_NODES = {"accelerator": "l4", "gpus": 4, "count": 4, "cpu": 47, "memory": "172Gi"}
A100_NODES = {"accelerator": "a100-80gb", "form": "sxm", "gpus": 8, "count": 2, "cpu": 95, "memory": "1036Gi"}


@pytest.mark.parametrize(
    ("l4", "a100", "wrong"),
    [
        (None, None, {0, 1}),
        ({"pool": "l4"}, None, {1}),
        ({"pool": "gpu"}, {"pool": "gpu", "size": "large"}, {0}),
        ({"pool": "gpu"}, {"pool": "gpu"}, {0, 1}),
        ({"pool": "l4"}, {"pool": "a100"}, set()),
    ],
)
def test_two_kinds_of_gpu_are_told_apart_by_labels(l4: Any, a100: Any, wrong: set[int]) -> None:
    """Else the pods of a plan for one may land on the other: both are `nvidia.com/gpu`."""
    doc = document(hardware={"nodes": [L4_NODES | {"selector": l4}, A100_NODES | {"selector": a100}]})
    if wrong:
        with pytest.raises(InvalidInput) as refused:
            plan(doc)
        paths = {violation.path for violation in refused.value.violations}
        assert paths == {f"hardware.nodes[{index}].selector" for index in wrong}
    else:
        placement = plan(doc).placement
        assert placement is not None
        assert placement.node_selector == {"pool": "l4"}


def test_one_kind_of_gpu_needs_no_label() -> None:
    sizes = [L4_NODES, L4_NODES | {"gpus": 8, "cpu": 95, "memory": "360Gi"}]
    assert plan(document(hardware={"nodes": sizes})).placement is not None


@pytest.mark.parametrize("target", [{"cloud": "auto"}, {"cloud": "aws"}, {}])
def test_an_unknown_region_is_named_as_such(target: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        plan(document(target={"option": "kubernetes", "region": "mars", **target}))
    (violation,) = refused.value.violations
    assert (violation.path, violation.value) == ("target.region", "mars")
    assert ("us-east-1" if target else "target.cloud") in violation.allowed


def test_a_region_prices_whatever_cloud_has_it() -> None:
    found = plan(document(target={"option": "kubernetes", "cloud": "auto", "region": "us-east-1"}))
    assert (found.architecture.cloud, found.architecture.region) == ("aws", "us-east-1")


def test_a_limit_alone_is_never_below_the_request() -> None:
    needed = needed_memory(1, 16 * GIB, None)
    found = host(HardwareArgs(memory_limit=f"{needed}B"), Ranks(1, 16 * GIB, None, 0))
    assert isinstance(found, Host)
    assert needed <= found.memory_request <= found.memory_limit == needed


@pytest.mark.parametrize("option", ["sagemaker", "cloud-run"])
@pytest.mark.parametrize("prices", [{"l4": 0.5}, {"g6.2xlarge": 1.0}])
def test_an_own_price_without_a_region_is_paid_in_the_cheapest_that_sells_the_machine(
    option: str, prices: dict[str, float]
) -> None:
    can = capabilities(option)
    args = ServingStackArgs.parse(
        document(target={"option": option}, hardware={"accelerators": ["l4"], "prices": prices})
    )
    for offer in offers(args, can):
        sold = {row.region: row.usd_per_hour for row in catalog.prices(can.cloud, offer.instance_type)}
        assert offer.region is not None
        assert sold[offer.region] == min(sold.values())


def test_a_price_per_gpu_does_not_rent_the_largest_host_around_it() -> None:
    found = plan(
        document(
            LLAMA_8B,
            traffic={"requests_per_second": 1},
            target={"option": "kubernetes", "cloud": "aws", "region": "us-east-1"},
            hardware={"accelerators": ["l4"], "gpus_per_replica": 1, "prices": {"l4": 0.5}},
        )
    ).architecture
    fits = [
        row
        for row in catalog.instance_types("aws", gpu="l4")
        if row.gpu_count == 1
        and 0.9 * row.vcpus - 0.5 >= found.cpu_request
        and int(0.85 * row.memory_gib * GIB) >= found.memory_request_bytes
    ]
    listed = {row.name: catalog.price("aws", row.name, "us-east-1") for row in fits}
    cheapest = min((each.usd_per_hour, name) for name, each in listed.items() if each is not None)
    assert found.instance_type == cheapest[1]
    assert len(listed) > 1
