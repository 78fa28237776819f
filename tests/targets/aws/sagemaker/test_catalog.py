"""Rented machines, against the service's own list of them."""

from __future__ import annotations

import botocore.session
import pytest

from servingstack import catalog


def _hosting() -> tuple[catalog.InstanceType, ...]:
    return catalog.instance_types("aws", service="sagemaker-hosting")


def test_every_hosting_type_is_one_that_the_service_knows() -> None:
    service = botocore.session.get_session().get_service_model("sagemaker")
    known = set(service.shape_for("ProductionVariantInstanceType").enum)
    assert _hosting()
    assert {machine.name for machine in _hosting()} <= known


def test_a_hosting_type_is_the_machine_of_that_name_with_its_own_disk() -> None:
    """Weights are copied to it, and the service takes no volume size for a machine that has one."""
    for machine in _hosting():
        plain = catalog.instance_type("aws", machine.name.removeprefix("ml."))
        assert plain is not None, machine.name
        same = ("gpu_id", "gpu_form", "gpu_count", "vcpus", "memory_gib", "local_disk_gib", "interconnect")
        assert [getattr(machine, name) for name in same] == [getattr(plain, name) for name in same]
        assert machine.local_disk_gib


def test_a_hosting_price_is_above_the_plain_machine_s_and_below_twice_it() -> None:
    for machine in _hosting():
        for price in catalog.prices("aws", machine.name):
            plain = catalog.price("aws", machine.name.removeprefix("ml."), price.region)
            assert plain is not None, (machine.name, price.region)
            ratio = price.usd_per_hour / plain.usd_per_hour
            assert 1.1 < ratio < 1.45, (machine.name, price.region, ratio)
            assert price.estimate


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2", "eu-central-1"])
def test_a_region_has_the_machines_that_it_has_as_plain_ones(region: str) -> None:
    plain = {row.name for row in catalog.instance_types("aws") if catalog.price("aws", row.name, region)}
    here = {row.name for row in _hosting() if catalog.price("aws", row.name, region)}
    assert here == {f"ml.{name}" for name in plain} - {"ml.g4dn.metal"}
