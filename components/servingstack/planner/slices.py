"""Parts of a GPU that a pod asks for as one device: a MIG slice, or a turn on a GPU that others share.

A slice has memory, cache and multiprocessors of its own. A turn has not: whoever shares the GPU sees all of
its memory, takes its time, and falls when another makes the GPU fail (NVIDIA/k8s-device-plugin README, "With
CUDA Time-Slicing"). So a turn is planned as if every other turn were taken all the time, and with a share of
the memory that everybody keeps to.

Traps:
- The device plugin hands out turns of any GPU of a node, it knows nothing of memory. Where turns are of
  different sizes (`colocate`), only a node with a single GPU tells who ends up beside whom.
- A slice has no peer-to-peer: no model is split over two of them.
- MPS is not offered. The device plugin calls it experimental, it excludes MIG, and each of its clients gets
  the same part, which a turn without `colocate` has as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from servingstack import catalog
from servingstack.catalog import Gpu, MigProfile
from servingstack.errors import Violation

if TYPE_CHECKING:
    from servingstack.args import NodeArgs, ServingStackArgs

WHOLE = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
"""The device plugin's name for a turn with `renameByDefault: true`; without it a turn is called WHOLE."""
STEPS = 20
"""Shares of a GPU's memory that `colocate` tries: twentieths."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What a pod asks for instead of a whole GPU."""

    name: str
    """`1g.10gb` for a slice, `35%` or `1/4` for a turn."""
    resource: str
    price_share: float
    """Of the whole GPU's price."""
    memory_share: float = 1.0
    """Of the memory that the pod sees: 1 for a slice, which it has alone."""
    turns: int = 1
    """Pods that may be on the GPU at once; 1 for a slice."""
    group: str | None = None
    """Whose turns these are; None for anybody's."""

    @property
    def isolated(self) -> bool:
        """Whether nobody else can take its memory or its time."""
        return self.turns == 1


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of device that a node offers."""

    gpu: Gpu
    """As the pod may use it."""
    per_node: int
    cut: Cut | None
    """None for a whole GPU."""


def parts(node: NodeArgs, gpu: Gpu, group: str | None) -> tuple[Part, ...]:
    """What one kind of node offers to a stack of that group. The node must have passed `violations`."""
    if node.mig is not None:
        return tuple(_slices(node, gpu)) if group is None else ()
    if node.sharing is not None:
        return tuple(_turns(node, gpu, group))
    return (Part(gpu, node.gpus, None),) if group is None else ()


def _slices(node: NodeArgs, gpu: Gpu) -> Iterator[Part]:
    counts = _counts(node, gpu.id)
    taken = sum(profile.size * count for profile, count in counts.items())
    for profile, count in counts.items():
        resource = WHOLE if node.mig_strategy == "single" else profile.resource
        cut = Cut(profile.name, resource, profile.size / taken)
        yield Part(sliced(gpu, profile), node.gpus * count, cut)


def sliced(gpu: Gpu, profile: MigProfile) -> Gpu:
    """A slice as a GPU of its own."""
    memory = min(profile.memory_bytes, gpu.cuda_bytes)
    return dataclasses.replace(
        _scaled(gpu, profile.compute_share, profile.bandwidth_share),
        memory_bytes=memory,
        cuda_bytes=memory,
        memory_source=profile.source,
        part=profile.name,
    )


def _turns(node: NodeArgs, gpu: Gpu, group: str | None) -> Iterator[Part]:
    assert node.sharing is not None
    turns = node.sharing.time_slices
    resource = SHARED if node.sharing.renamed else WHOLE
    if group is None:
        # Whoever lands beside it: nobody takes more than this, and no more than so many are there.
        yield _turn(gpu, node.gpus * turns, Cut(f"1/{turns}", resource, 1 / turns, 1 / turns, turns))
        return
    for step in range(1, STEPS):
        share = step / STEPS
        # One pod of a stack on a GPU: then the members' shares add up to what is on it, whatever scales.
        yield _turn(gpu, node.gpus, Cut(f"{share:.0%}", resource, share, share, turns, group))


def _turn(gpu: Gpu, per_node: int, cut: Cut) -> Part:
    busy = _scaled(gpu, 1 / cut.turns, 1 / cut.turns)
    shared = dataclasses.replace(
        busy,
        memory_bytes=int(gpu.memory_bytes * cut.memory_share),
        cuda_bytes=int(gpu.cuda_bytes * cut.memory_share),
        part=cut.name,
    )
    return Part(shared, per_node, cut)


def _scaled(gpu: Gpu, compute: float, bandwidth: float) -> Gpu:
    return dataclasses.replace(
        gpu,
        bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s * bandwidth,
        tflops_16bit=gpu.tflops_16bit * compute,
        tflops_fp8=None if gpu.tflops_fp8 is None else gpu.tflops_fp8 * compute,
        tflops_fp4=None if gpu.tflops_fp4 is None else gpu.tflops_fp4 * compute,
    )


def _counts(node: NodeArgs, gpu_id: str) -> dict[MigProfile, int]:
    known = {profile.name: profile for profile in catalog.mig_profiles(gpu_id)}
    return {known[name]: count for name, count in (node.mig or {}).items()}


def violations(args: ServingStackArgs) -> Iterator[Violation]:
    """What is wrong with the parts of the nodes, and with the group that would share them."""
    nodes = args.hardware.nodes or ()
    for index, node in enumerate(nodes):
        path = f"hardware.nodes[{index}]"
        if node.mig is not None and node.sharing is not None:
            fix = "Remove one: slices are isolated, turns are not."
            yield Violation(f"{path}.sharing", "given beside mig", "one of mig and sharing", fix)
        if node.mig is not None:
            yield from _mig_violations(node, path)
        elif node.mig_strategy != "mixed":
            yield Violation(f"{path}.mig_strategy", node.mig_strategy, "only with mig", "Remove it.")
        yield from _selector_violations(node, path)
    if args.colocate is not None:
        yield from _group_violations(args.colocate, nodes)


def _mig_violations(node: NodeArgs, path: str) -> Iterator[Violation]:
    known = [profile.name for profile in catalog.mig_profiles(node.accelerator)]
    given = dict(node.mig or {})
    if not known:
        able = ", ".join(catalog.mig_gpu_ids())
        fix = f"Share it by turns (sharing.time_slices). GPUs that can be cut: {able}."
        yield Violation(f"{path}.mig", given, f"left out for {node.accelerator}, which cannot be cut", fix)
        return
    unknown = [name for name in given if name not in known]
    for name in unknown:
        allowed = f"one of {', '.join(known)} for {node.accelerator}"
        yield Violation(f"{path}.mig.{name}", given[name], allowed, "Correct the profile's name.")
    if unknown:
        return
    if not catalog.mig_fits(_counts(node, node.accelerator)):
        most = ", ".join(
            f"{each.name}: {len(each.starts)}" for each in catalog.mig_profiles(node.accelerator)
        )
        allowed = f"slices that one {node.accelerator} has places for, alone at most {most}"
        yield Violation(f"{path}.mig", given, allowed, "The counts are per GPU: take fewer, or smaller ones.")
    if node.mig_strategy == "single" and len(given) > 1:
        fix = "Use mixed, or cut all GPUs of the node alike."
        yield Violation(f"{path}.mig", given, "one profile with mig_strategy: single", fix)


def resources(node: NodeArgs) -> frozenset[str]:
    """What pods ask for to get onto such a node. For a node that has passed `violations`."""
    if node.mig is not None:
        single = node.mig_strategy == "single"
        return frozenset(
            {WHOLE} if single else {f"{WHOLE.partition('/')[0]}/mig-{name}" for name in node.mig}
        )
    return frozenset({SHARED if node.sharing is not None and node.sharing.renamed else WHOLE})


def _selector_violations(node: NodeArgs, path: str) -> Iterator[Violation]:
    """A part that has a whole GPU's name: without labels its pod would take one where there is one."""
    if (node.mig is None and node.sharing is None) or resources(node) != frozenset({WHOLE}) or node.selector:
        return
    product = catalog.gpu(node.accelerator).name
    if node.mig is not None:
        profile = next(iter(node.mig))
        known = f"nvidia.com/gpu.product: {product}-MIG-{profile} of NVIDIA's GPU feature discovery"
        known += f", or cloud.google.com/gke-gpu-partition-size: {profile}"
    else:
        known = f"nvidia.com/gpu.product: {product}-SHARED of NVIDIA's GPU feature discovery, or"
        known += " cloud.google.com/gke-gpu-sharing-strategy: time-sharing"
    allowed = f"labels of these nodes: their parts are called {WHOLE}, as whole GPUs elsewhere are"
    yield Violation(f"{path}.selector", None, allowed, f"Name one, such as {known}.")


def _group_violations(group: str, nodes: tuple[NodeArgs, ...]) -> Iterator[Violation]:
    shared = [node for node in nodes if node.sharing is not None]
    if not shared:
        allowed = "only with hardware.nodes whose GPUs are shared by turns (sharing.time_slices)"
        fix = "Describe such nodes: a group's stacks are packed on their GPUs."
        yield Violation("colocate", group, allowed, fix)
    for index, node in enumerate(nodes):
        if node.sharing is not None and node.gpus != 1:
            fix = "Use nodes with one GPU, or leave colocate out: a turn is then 1/time_slices of any GPU."
            allowed = "1 with colocate: among several, nobody can say which GPU a pod will share"
            yield Violation(f"hardware.nodes[{index}].gpus", node.gpus, allowed, fix)
