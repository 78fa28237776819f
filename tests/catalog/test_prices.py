"""Instance types and prices: headline figures, forms that follow from the machine, the reference price."""

from __future__ import annotations

import pytest

from servingstack import catalog


@pytest.mark.parametrize(
    ("cloud", "name", "region", "usd"),
    [
        ("aws", "g4dn.xlarge", "us-east-1", 0.526),
        ("aws", "g5.xlarge", "us-east-1", 1.006),
        ("aws", "g6.xlarge", "us-east-1", 0.8048),
        ("aws", "g6e.xlarge", "us-east-1", 1.861),
        ("aws", "p4d.24xlarge", "us-east-1", 21.957642),
        ("aws", "p5.4xlarge", "us-east-1", 6.88),
        ("aws", "p5.48xlarge", "us-east-1", 55.04),
        ("aws", "p5en.48xlarge", "us-east-1", 63.296),
        ("azure", "Standard_NC24ads_A100_v4", "eastus", 3.673),
        ("azure", "Standard_NC40ads_H100_v5", "eastus", 6.98),
        ("azure", "Standard_ND96isr_H100_v5", "eastus", 98.32),
        ("gcp", "g2-standard-4", "us-central1", 0.7068),
        ("gcp", "a2-highgpu-1g", "us-central1", 3.6734),
        # A Cloud Billing reading of 2026-09-26 says the same as the calculator.
        ("gcp", "a3-highgpu-1g", "us-central1", 10.9791),
    ],
)
def test_headline_prices(cloud: str, name: str, region: str, usd: float) -> None:
    price = catalog.price(cloud, name, region)
    assert price is not None
    assert price.usd_per_hour == pytest.approx(usd, rel=1e-3)
    assert price.date >= "2026-01-01"
    assert price.source


def test_no_price_where_none_was_found() -> None:
    assert catalog.price("aws", "p5.48xlarge", "nowhere-1") is None
    assert catalog.price("aws", "p99.48xlarge", "us-east-1") is None


def test_a_spot_price_says_where_it_comes_from_and_whether_it_was_derived() -> None:
    price = catalog.price("aws", "g5.xlarge", "us-east-1")
    assert price is not None
    assert price.spot_basis is not None
    assert price.spot_basis.startswith("ESTIMATE")
    assert "2025-07" in price.spot_basis


def test_the_form_follows_the_machine() -> None:
    """The same id is another board on Azure's NC series."""
    forms = {machine.name: machine.gpu_form for machine in catalog.instance_types(gpu="a100-80gb")}
    assert forms["p4de.24xlarge"] == "sxm"
    assert forms["a2-ultragpu-1g"] == "sxm"
    assert forms["Standard_ND96amsr_A100_v4"] == "sxm"
    assert forms["Standard_NC24ads_A100_v4"] == "pcie"
    assert {machine.gpu_form for machine in catalog.instance_types("azure", "h100-nvl")} == {"nvl"}


def test_instance_types_are_narrowed_by_cloud_gpu_and_service() -> None:
    every = catalog.instance_types()
    assert {machine.cloud for machine in every} == {"aws", "gcp", "azure"}
    assert {machine.service for machine in every} == {"vm"}
    assert [machine.name for machine in catalog.instance_types("aws", "H200")] == ["p5en.48xlarge"]
    assert catalog.instance_types("aws", "gb200") == ()
    with pytest.raises(ValueError, match="a GPU of the catalog"):
        catalog.instance_types(gpu="p100x")


def test_a_machine_with_an_attached_accelerator_has_the_name_its_cloud_takes() -> None:
    machine = catalog.instance_type("gcp", "n1-standard-4+1xT4")
    assert machine is not None
    assert machine.machine_type == "n1-standard-4"
    assert catalog.instance_type("gcp", "n1-standard-4") is None


def test_local_disks_are_in_gib() -> None:
    """EC2 states gigabytes: 125 GB on a g4dn.xlarge are 116 GiB."""
    machine = catalog.instance_type("aws", "g4dn.xlarge")
    assert machine is not None
    assert machine.local_disk_gib == 116


def test_the_reference_price_is_the_cheapest_share_of_a_machine_and_says_what_it_is() -> None:
    reference = catalog.reference_price("h100")
    assert reference is not None
    assert reference.gpu_id == "h100-80gb"
    cheapest = min(
        price.usd_per_hour / machine.gpu_count
        for machine in catalog.instance_types(gpu="h100-80gb")
        for price in catalog.prices(machine.cloud, machine.name)
        if not price.estimate
    )
    assert reference.usd_per_gpu_hour == cheapest == pytest.approx(6.88)
    assert reference.label == "reference: aws p5.48xlarge in us-east-1, on demand, 2026-07-20"


def test_gpus_that_no_cloud_in_the_catalog_prices_have_no_reference_price() -> None:
    without = {gpu_id for gpu_id in catalog.gpu_ids() if catalog.reference_price(gpu_id) is None}
    assert without == {"v100", "a30"}


def test_faster_gpus_of_a_family_cost_more() -> None:
    def usd(gpu_id: str) -> float:
        reference = catalog.reference_price(gpu_id)
        assert reference is not None
        return reference.usd_per_gpu_hour

    assert usd("t4") < usd("l4") < usd("a10g") < usd("l40s") < usd("a100-40gb") < usd("a100-80gb")
    assert usd("a100-80gb") < usd("h100-80gb") < usd("h200") < usd("b200") < usd("b300")


def test_regions_are_those_with_prices() -> None:
    assert "us-east-1" in catalog.regions("aws")
    assert "eastus" in catalog.regions("azure")
    assert "us-central1" in catalog.regions("gcp")
