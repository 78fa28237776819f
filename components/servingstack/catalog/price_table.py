"""Instance types and what they cost.

Trap: public price tables hold committed-use prices as if on demand, placeholders, and spot prices that are
the on-demand price again. The shipped rows have been through rules against that (`tests/catalog` holds them
to it), and each row carries its date: a price is what was read that day.
"""

from __future__ import annotations

from functools import cache
from typing import cast

from .gpu_table import canonical_gpu_id
from .records import Cloud, Form, InstanceType, Interconnect, Price, ReferencePrice, Service
from .tables import Row, cited, optional_float, optional_int, table


@cache
def _instances() -> tuple[InstanceType, ...]:
    return tuple(
        InstanceType(
            cloud=cast(Cloud, row["cloud"]),
            service=cast(Service, row["service"]),
            name=row["instance_type"],
            gpu_id=row["gpu_id"],
            gpu_form=cast(Form, row["gpu_form"]),
            gpu_count=int(row["gpu_count"]),
            vcpus=int(row["vcpus"]),
            memory_gib=float(row["memory_gib"]),
            local_disk_gib=optional_int(row["local_disk_gib"]),
            interconnect=cast(Interconnect, row["interconnect"]),
            source=cited(row["source"]),
            date=row["date"],
        )
        for row in table("instances")
    )


@cache
def _by_name() -> dict[tuple[str, str], InstanceType]:
    return {(row.cloud, row.name): row for row in _instances()}


@cache
def _price_rows() -> dict[tuple[str, str, str], Row]:
    return {(row["cloud"], row["instance_type"], row["region"]): row for row in table("prices")}


def instance_types(
    cloud: str | None = None, gpu: str | None = None, service: str | None = "vm"
) -> tuple[InstanceType, ...]:
    """Instance types, narrowed by cloud, GPU (id or alias) and service. `service` is `vm` unless set, since
    managed hosting types cannot join a cluster; None takes all."""
    wanted = None if gpu is None else canonical_gpu_id(gpu)
    return tuple(
        row
        for row in _instances()
        if (cloud is None or row.cloud == cloud)
        and (wanted is None or row.gpu_id == wanted)
        and (service is None or row.service == service)
    )


def instance_type(cloud: str, name: str) -> InstanceType | None:
    """One instance type by the cloud's own name; None where the catalog has none of that name."""
    return _by_name().get((cloud, name))


@cache
def price(cloud: str, instance_type: str, region: str) -> Price | None:
    """The price of an instance type in a region; None where it was not found, which also is so where a
    region does not offer it."""
    row = _price_rows().get((cloud, instance_type, region))
    return None if row is None else _price(row)


def prices(cloud: str | None = None, instance_type: str | None = None) -> tuple[Price, ...]:
    """Every known price, narrowed by cloud and instance type: what it costs, region by region."""
    return tuple(
        _price(row)
        for (row_cloud, row_type, _), row in _price_rows().items()
        if cloud in (None, row_cloud) and instance_type in (None, row_type)
    )


@cache
def regions(cloud: str, service: str = "vm") -> tuple[str, ...]:
    """The regions of a cloud for which any price of a service is known, sorted."""
    machines = _by_name()
    return tuple(
        sorted(
            {
                region
                for row_cloud, name, region in _price_rows()
                if row_cloud == cloud and machines[row_cloud, name].service == service
            }
        )
    )


def _price(row: Row) -> Price:
    spot = optional_float(row["spot_usd_hour"])
    return Price(
        cloud=cast(Cloud, row["cloud"]),
        instance_type=row["instance_type"],
        region=row["region"],
        usd_per_hour=float(row["usd_hour"]),
        spot_usd_per_hour=spot,
        spot_basis=None if spot is None else cited(row["spot_basis"]),
        date=row["date"],
        source=cited(row["source"]),
        estimate=row["note"].startswith("estimate"),
        note=row["note"],
    )


@cache
def reference_price(gpu_id: str) -> ReferencePrice | None:
    """The cheapest known on-demand price of one GPU, as a share of a virtual machine: the yardstick for a
    cluster whose own costs are not given. None where no cloud in the catalog prices that GPU; ValueError
    for an unknown GPU."""
    wanted = canonical_gpu_id(gpu_id)
    best: ReferencePrice | None = None
    for (cloud, name, region), row in _price_rows().items():
        machine = _by_name()[cloud, name]
        if machine.service != "vm" or machine.gpu_id != wanted or row["note"].startswith("estimate"):
            continue
        per_gpu = float(row["usd_hour"]) / machine.gpu_count
        if best is None or (per_gpu, region) < (best.usd_per_gpu_hour, best.region):
            best = ReferencePrice(
                wanted, per_gpu, machine.cloud, name, region, row["date"], cited(row["source"])
            )
    return best
