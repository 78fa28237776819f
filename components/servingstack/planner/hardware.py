"""The GPUs that may be used, in what machines, at what price: one `Offer` per kind of node.

Three ways to know: the nodes of a cluster (`hardware.nodes`), a cloud's instance types (`target.cloud`), or
neither, and then any GPU of the catalog at a reference price, labelled so.

Trap: a GPU of a machine with eight is rented with the other seven. Instance types are therefore priced by
whole machines; nodes that exist already, and reference prices, by the share that is used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from servingstack import catalog
from servingstack.args import NodeArgs, ServingStackArgs, TolerationArgs
from servingstack.catalog import Gpu, InstanceType
from servingstack.errors import InvalidInput, Violation
from servingstack.targets import Capabilities

from . import slices
from .slices import Cut

# What a cloud's machine leaves to pods: the system and daemons take a tenth of the cores and half a core, and
# 15 % of the memory (kube-reserved of EKS, GKE and AKS lies below both for machines with GPUs).
CPU_SHARE, CPU_OFF, MEMORY_SHARE = 0.9, 0.5, 0.85
CLOUDS = ("aws", "gcp", "azure")
MOST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Offer:
    """One kind of node."""

    gpu: Gpu
    gpus_per_node: int
    nodes: int | None
    """How many there can be; None for no limit."""
    cpu_per_node: float | None
    """Cores that pods can have; None where nothing is known."""
    memory_per_node: int | None
    usd_per_gpu: float
    whole_nodes: bool
    """Whether started nodes are paid whole."""
    instance_type: str | None
    cloud: str | None
    region: str | None
    interconnect: str
    link_bytes_per_s: float
    basis: str
    price_date: str
    price_source: str
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[TolerationArgs, ...] = ()
    scale_from_zero: bool = False
    one_replica: bool = False
    """Whether a replica takes the whole node."""
    cut: Cut | None = None
    """Which part of a GPU a replica takes; None for whole ones. `gpus_per_node` then counts parts."""
    list_usd: float = 0.0
    """What the catalog asks for the machine per hour, whatever the user pays; infinite where it is not known,
    0 for what is no machine of a cloud."""

    @property
    def most_gpus(self) -> int:
        """Largest replica: a part has no link to another."""
        return self.gpus_per_node if self.cut is None else 1

    @property
    def price_share(self) -> float:
        """Of a whole GPU, for what counts GPUs."""
        return 1.0 if self.cut is None else self.cut.price_share

    @property
    def label(self) -> str:
        """As a reader finds it in a list."""
        where = f" ({self.instance_type})" if self.instance_type else ""
        return f"{self.gpu.device}{where}"

    def replicas_per_node(self, gpus: int, cpu: float, memory: int) -> int:
        """Replicas that one node holds."""
        fits = self.gpus_per_node // gpus
        if self.one_replica:
            fits = min(fits, 1)
        if self.cpu_per_node is not None:
            fits = min(fits, int(self.cpu_per_node / cpu))
        if self.memory_per_node is not None:
            fits = min(fits, self.memory_per_node // memory)
        return fits

    def hourly(self, replicas: int, gpus: int, per_node: int) -> float:
        """What so many replicas cost, USD per hour."""
        if self.whole_nodes:
            return math.ceil(replicas / per_node) * self.gpus_per_node * self.usd_per_gpu
        return replicas * gpus * self.usd_per_gpu


def offers(args: ServingStackArgs, can: Capabilities) -> tuple[Offer, ...]:
    """Everything that may be used on an option. Raises `InvalidInput` where nothing can match."""
    violations = _violations(args, can)
    if violations:
        raise InvalidInput(violations)
    hardware = args.hardware
    if hardware.nodes is not None:
        found = [offer for node in hardware.nodes for offer in _of_node(node, args)]
    elif can.cloud is not None or args.target.cloud is not None or hardware.instance_type is not None:
        found = _of_cloud(args, can)
    else:
        found = [offer for gpu_id in catalog.gpu_ids() if (offer := _reference(gpu_id, args)) is not None]
    wanted = hardware.accelerators
    kept = tuple(offer for offer in found if wanted is None or offer.gpu.id in wanted)
    if not kept:
        raise InvalidInput([_nothing_left(args, can, found)])
    return kept


def _violations(args: ServingStackArgs, can: Capabilities) -> list[Violation]:
    hardware, found = args.hardware, list[Violation]()
    if hardware.nodes is not None and not can.on_kubernetes:
        allowed = f"left out for option {can.option}, which rents its own machines"
        fix = "Remove it, or use option: kubernetes."
        found.append(Violation("hardware.nodes", "given", allowed, fix))
    if hardware.nodes is not None and hardware.instance_type is not None:
        fix = "Remove instance_type; the nodes' own fields describe them."
        found.append(Violation("hardware.instance_type", hardware.instance_type, "only without nodes", fix))
    for index, node in enumerate(hardware.nodes or ()):
        try:
            catalog.gpu(node.accelerator, node.form)
        except ValueError as error:
            allowed, _, fix = str(error).partition(" | ")
            found.append(Violation(f"hardware.nodes[{index}].form", node.form, allowed, fix))
    found += _ambiguous_nodes(hardware.nodes or ())
    found += slices.violations(args)
    for name in hardware.prices or {}:
        if _price_key(name) is None:
            allowed = "an instance type or a GPU id of the catalog"
            found.append(Violation(f"hardware.prices.{name}", name, allowed, "Correct the name."))
    return [*found, *_region_violations(args, can)]


def _ambiguous_nodes(nodes: tuple[NodeArgs, ...]) -> Iterator[Violation]:
    """Pods ask for "a GPU": where the cluster has two kinds, only labels keep a plan for one off the
    other."""
    for index, node in enumerate(nodes):
        own = dict(node.selector or {}).items()
        others = [other for other in nodes if _kind(other) != _kind(node)]
        others = [other for other in others if slices.resources(other) & slices.resources(node)]
        both = next((other for other in others if own <= dict(other.selector or {}).items()), None)
        if both is not None:
            yield Violation(
                f"hardware.nodes[{index}].selector",
                dict(own) if own else None,
                f"labels of the nodes with {_said(node)} that those with {_said(both)} lack",
                "Name one, such as nvidia.com/gpu.product of NVIDIA's GPU feature discovery, "
                "cloud.google.com/gke-accelerator, or the node pool's.",
            )


def _kind(node: NodeArgs) -> tuple[object, ...]:
    return node.accelerator, node.form, dict(node.mig or {}), node.sharing


def _said(node: NodeArgs) -> str:
    if node.mig is not None:
        return f"{node.accelerator} in slices"
    return node.accelerator if node.sharing is None else f"{node.accelerator} shared by turns"


def _region_violations(args: ServingStackArgs, can: Capabilities) -> Iterator[Violation]:
    cloud, region = can.cloud or args.target.cloud, args.target.region
    if region is None:
        return
    if cloud is None and args.hardware.instance_type is None:
        fix = "Name the cloud, or `auto`; or leave the region out."
        yield Violation("target.region", region, "left out without target.cloud: it only tells a price", fix)
        return
    known = {
        name
        for each in (CLOUDS if cloud in (None, "auto") else (cloud,))
        for name in catalog.regions(each, can.service)
    }
    if region not in known:
        fix = "Correct it, or leave it out for the cheapest."
        yield Violation("target.region", region, f"one of {', '.join(sorted(known))}", fix)


def _price_key(name: str) -> str | None:
    if any(row.name == name for row in catalog.instance_types(service=None)):
        return name
    try:
        return catalog.canonical_gpu_id(name)
    except ValueError:
        return None


def _nothing_left(args: ServingStackArgs, can: Capabilities, found: list[Offer]) -> Violation:
    hardware = args.hardware
    if hardware.instance_type is not None and not found:
        have = sorted({row.name for row in catalog.instance_types(_cloud(args, can), service=can.service)})
        priced = [name for name in have if _sold(name, args, can)]
        where = f" in {args.target.region}" if args.target.region is not None else ""
        allowed = f"an instance type with GPUs that the catalog prices for {can.option}{where}: "
        shown = ", ".join(priced[:MOST_SHOWN]) + (", ..." if len(priced) > MOST_SHOWN else "")
        return Violation(
            "hardware.instance_type", hardware.instance_type, allowed + shown, "Use one of them."
        )
    have = sorted({offer.gpu.id for offer in found})
    where = "the nodes have" if hardware.nodes is not None else "can be priced"
    return Violation(
        "hardware.accelerators",
        list(hardware.accelerators or ()),
        f"at least one of those that {where}: {', '.join(have)}",
        "Add one of them, or describe the nodes that have it." if can.on_kubernetes else "Add one of them.",
    )


def _own_price(args: ServingStackArgs, gpu_id: str, machine: str | None) -> float | None:
    """A price the user gave, per GPU hour or per machine hour: the machine's is not divided here."""
    prices = args.hardware.prices or {}
    if machine is not None and machine in prices:
        return prices[machine]
    return next((price for name, price in prices.items() if _price_key(name) == gpu_id), None)


def _of_node(node: NodeArgs, args: ServingStackArgs) -> list[Offer]:
    gpu = catalog.gpu(node.accelerator, node.form)
    own = _own_price(args, gpu.id, None)
    reference = catalog.reference_price(gpu.id)
    if node.hourly_price is not None:
        usd, basis, date, source = node.hourly_price / node.gpus, "own", "given", "hardware.nodes"
    elif own is not None:
        usd, basis, date, source = own, "own", "given", "hardware.prices"
    elif reference is not None:
        usd, basis, date, source = reference.usd_per_gpu_hour, "reference", reference.date, reference.label
    else:
        usd, basis, date, source = 0.0, "unknown", "unknown", "no price is known for this GPU"
    return [
        Offer(
            gpu=part.gpu,
            gpus_per_node=part.per_node,
            nodes=node.count,
            cpu_per_node=node.cpu,
            memory_per_node=node.memory,
            usd_per_gpu=usd * (1.0 if part.cut is None else part.cut.price_share),
            whole_nodes=False,
            instance_type=None,
            cloud=None,
            region=None,
            interconnect=gpu.interconnect,
            link_bytes_per_s=gpu.link_bytes_per_s,
            basis=basis,
            price_date=date,
            price_source=source,
            selector=tuple(sorted((node.selector or {}).items())),
            tolerations=node.tolerations,
            scale_from_zero=node.scale_from_zero,
            cut=part.cut,
        )
        for part in slices.parts(node, gpu, args.colocate)
    ]


@cache
def _largest_machine(gpu_id: str, form: str) -> InstanceType | None:
    machines = [row for row in catalog.instance_types(gpu=gpu_id) if row.gpu_form == form]
    return max(machines, key=lambda row: row.gpu_count, default=None)


def _reference(gpu_id: str, args: ServingStackArgs) -> Offer | None:
    """A GPU in the largest machine the catalog has for it, at its cheapest price per GPU."""
    gpu = catalog.gpu(gpu_id)
    machine = _largest_machine(gpu.id, gpu.form)
    reference = catalog.reference_price(gpu.id)
    own = _own_price(args, gpu.id, None)
    if machine is None or (reference is None and own is None):
        return None
    if own is not None:
        usd, basis, date, source = own, "own", "given", "hardware.prices"
    else:
        assert reference is not None
        usd, basis, date, source = reference.usd_per_gpu_hour, "reference", reference.date, reference.label
    return Offer(
        gpu=gpu,
        gpus_per_node=machine.gpu_count,
        nodes=None,
        cpu_per_node=None,
        memory_per_node=None,
        usd_per_gpu=usd,
        whole_nodes=False,
        instance_type=None,
        cloud=None,
        region=None,
        interconnect=machine.interconnect,
        link_bytes_per_s=gpu.link_bytes_per_s if machine.interconnect == gpu.interconnect else _pcie(gpu),
        basis=basis,
        price_date=date,
        price_source=source,
    )


def _pcie(gpu: Gpu) -> float:
    """Link of a board with NVLink in a machine that does not wire it: PCIe 4 x16, one way."""
    return min(gpu.link_bytes_per_s, 32e9)


@dataclass(frozen=True, slots=True)
class _Priced:
    usd: float
    region: str | None
    """None where nobody said, and the catalog knows no region that sells it."""
    basis: str
    date: str
    source: str
    listed: float
    """Of the catalog; infinite where it has none."""


def _cloud(args: ServingStackArgs, can: Capabilities) -> str | None:
    """The one cloud that is asked for; None for any."""
    if can.cloud is not None:
        return can.cloud
    return None if args.target.cloud in (None, "auto") else args.target.cloud


def _sold(name: str, args: ServingStackArgs, can: Capabilities) -> bool:
    """Whether the catalog has a price where it is asked for."""
    rows = catalog.prices(_cloud(args, can), name)
    return any(args.target.region in (None, row.region) for row in rows)


def _of_cloud(args: ServingStackArgs, can: Capabilities) -> list[Offer]:
    found: list[Offer] = []
    for machine in catalog.instance_types(_cloud(args, can), service=can.service):
        if args.hardware.instance_type not in (None, machine.name, machine.machine_type):
            continue
        priced = _machine_price(machine, args, can)
        if priced is not None:
            found.append(_of_machine(machine, priced, can))
    return found


def _machine_price(machine: InstanceType, args: ServingStackArgs, can: Capabilities) -> _Priced | None:
    """In the region that is asked for, else in the cheapest: an own price names none, and a service that
    rents its machines needs one."""
    region = args.target.region
    if region is not None:
        row = catalog.price(machine.cloud, machine.name, region)
    else:
        row = _cheapest(machine.cloud, machine.name)
    own = _own_price(args, machine.gpu_id, machine.name)
    if own is not None:
        per_machine = own if machine.name in (args.hardware.prices or {}) else own * machine.gpu_count
        where = region if region is not None or row is None else row.region
        if where is None and not can.on_kubernetes:
            return None
        listed = math.inf if row is None else row.usd_per_hour
        return _Priced(per_machine, where, "own", "given", "hardware.prices", listed)
    if row is None:
        return None
    return _Priced(row.usd_per_hour, row.region, "on-demand", row.date, row.source, row.usd_per_hour)


@cache
def _cheapest(cloud: str, name: str) -> catalog.Price | None:
    rows = catalog.prices(cloud, name)
    return min(rows, key=lambda row: (row.usd_per_hour, row.estimate, row.region), default=None)


def _of_machine(machine: InstanceType, priced: _Priced, can: Capabilities) -> Offer:
    gpu = catalog.gpu(machine.gpu_id, machine.gpu_form)
    wired = machine.interconnect == gpu.interconnect
    return Offer(
        gpu=gpu,
        gpus_per_node=machine.gpu_count,
        nodes=None,
        cpu_per_node=_cores(machine, can),
        memory_per_node=_memory(machine, can),
        usd_per_gpu=priced.usd / machine.gpu_count,
        whole_nodes=True,
        instance_type=machine.name,
        cloud=machine.cloud,
        region=priced.region,
        one_replica=can.replica_is_machine,
        interconnect=machine.interconnect,
        link_bytes_per_s=gpu.link_bytes_per_s if wired else _pcie(gpu),
        basis=priced.basis,
        price_date=priced.date,
        price_source=priced.source,
        list_usd=priced.listed,
    )


def _cores(machine: InstanceType, can: Capabilities) -> float:
    """Cores that a container can have."""
    if can.container_share is not None:
        return can.container_share[0] * machine.vcpus
    return CPU_SHARE * machine.vcpus - CPU_OFF


def _memory(machine: InstanceType, can: Capabilities) -> int:
    """Memory that a container can have, bytes."""
    share = MEMORY_SHARE if can.container_share is None else can.container_share[1]
    return int(share * machine.memory_gib * catalog.GIB)
