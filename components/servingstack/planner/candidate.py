"""One way to serve: a GPU, a split, a precision. Either it serves the traffic within every limit, or it says
at which stage it failed and why.

Trap: nothing here may depend on the objectives except through what a replica can serve. Otherwise a tighter
objective could make a plan cheaper, and then one of the two was wrong.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TypeAlias

from servingstack import catalog
from servingstack.args import latency_objectives
from servingstack.catalog import GIB, Gpu
from servingstack.engines.limits import dtype_refusal
from servingstack.errors import Violation

from . import driver, dynamic, measurement, reading
from .batches import BatchReplica, BatchSpeed
from .demand import Demand, Limit
from .hardware import Offer
from .host import Host, Ranks, host, host_of_batches
from .load import SATURATION, Capacity, Replica, capacity
from .memory import (
    GPU_MEMORY_UTILIZATION,
    Footprint,
    Share,
    default_most_sequences,
    footprint,
    roomy_step_tokens,
    weights_total,
)
from .performance import Speed, Wiring, speed, with_adapters
from .precision import Served, served_on

STAGES = ("isolation", "precision", "memory", "host", "latency", "capacity", "cost", "price")
"""In the order in which a candidate can fail; a later one came further. `price`: it may meet every
demand, but costs more than another."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a candidate is out."""

    stage: str
    reason: str
    path: str
    """Field of the input that binds; empty at `price`, where none does."""
    excess: float = 0.0
    """How far from fitting, as a ratio; the nearest miss is the binding one."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A GPU, a split and a precision, before traffic."""

    offer: Offer
    tp: int
    pp: int
    served: Served
    foot: Footprint
    speed: Speed | BatchSpeed
    step_tokens: int
    weights: int
    """All of them, or one copy's where an engine keeps several."""
    host: Host
    data: int = 1
    """GPUs that each hold the whole model."""

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.data


AnyReplica: TypeAlias = Replica | BatchReplica


@dataclass(frozen=True, slots=True)
class Fit:
    """A layout with its batch and what it can serve."""

    layout: Layout
    replica: AnyReplica
    bears: Capacity
    batch_limited_by: str
    kv_tokens: int
    mean_rps: float
    peak_rps: float


def kv_dtype_bytes(name: str | None, served: Served) -> float:
    """Bytes of one cached number."""
    if name is not None and name.startswith("fp8"):
        return 1.0
    if name in ("float16", "bfloat16"):
        return 2.0
    return float(served.activation_bytes)


def layout(demand: Demand, offer: Offer, tp: int, pp: int, precision: str) -> Layout | Loss:
    """Fill the GPU; memory only."""
    lost = isolation_loss(demand, offer)
    if lost is None:
        lost = _type_loss(demand, offer.gpu, precision)
    if lost is not None:
        return lost
    served = served_on(offer.gpu, demand.model, precision, demand.engine.dtype, demand.kind.limits)
    if isinstance(served, str):
        return Loss("precision", served, "model.precision")
    if demand.batcher is not None:
        return _copies(demand, offer, tp, served)
    return _split(demand, offer, (tp, pp), served)


def _split(demand: Demand, offer: Offer, split: tuple[int, int], served: Served) -> Layout | Loss:
    """One copy of the model, split over the GPUs."""
    tp, pp = split
    share = _share(demand, offer, served, (tp, pp))
    foot = footprint(demand.model, offer.gpu, served, share)
    lost = _memory_loss(demand, foot, share)
    if lost is not None:
        return lost
    weights = share.weights
    disk = 0 if weights_on_volume(demand) else demand.stored_bytes
    whole = reading.whole_files(demand)
    kept = 0 if demand.room is None else demand.room.stored_bytes(demand.model)
    ranks = Ranks(tp * pp, weights, demand.engine.load_format, disk, whole_files=whole, adapters=kept)
    room = host(demand.args.hardware, ranks, files_in_memory=demand.can.files_in_memory)
    if isinstance(room, Violation):
        return Loss("host", str(room), room.path)
    lost = _host_loss(offer, tp * pp, room)
    if lost is not None:
        return lost
    wiring = Wiring(tp, pp, weights, share.kv_bytes, offer.link_bytes_per_s, offer.interconnect)
    pace = speed(demand.model, offer.gpu, served, wiring)
    return Layout(
        offer=offer,
        tp=tp,
        pp=pp,
        served=served,
        foot=foot,
        speed=pace if demand.room is None else with_adapters(pace),
        step_tokens=share.step_tokens,
        weights=weights,
        host=room,
    )


def _copies(demand: Demand, offer: Offer, gpus: int, served: Served) -> Layout | Loss:
    """Whole copies of the model on each of the GPUs."""
    stored, batcher = weights_total(demand.model, served, demand.weight_scale), dynamic.of(demand)
    weights = dynamic.copy_bytes(demand, stored)
    foot = dynamic.footprint(demand, offer.gpu, served, weights)
    refusal = dynamic.memory_refusal(demand, offer.gpu, foot)
    if refusal is not None:
        full = foot.weights + foot.fixed + foot.per_sequence
        return Loss("memory", refusal, "hardware.accelerators", full / foot.usable)
    on_volume = demand.weights_directory is not None
    disk = 0 if on_volume else demand.stored_bytes + batcher.other_bytes
    needs, in_memory = (batcher.shared_memory, disk), demand.can.files_in_memory
    hardware, processes = demand.args.hardware, batcher.processes
    room = host_of_batches(hardware, processes, weights, needs, files_in_memory=in_memory)
    if isinstance(room, Violation):
        return Loss("host", str(room), room.path)
    lost = _host_loss(offer, gpus, room)
    if lost is not None:
        return lost
    return Layout(
        offer=offer,
        tp=1,
        pp=1,
        served=served,
        foot=foot,
        speed=dynamic.speed_on(demand, offer.gpu, served, weights),
        step_tokens=0,
        weights=weights,
        host=room,
        data=gpus,
    )


def isolation_loss(demand: Demand, offer: Offer) -> Loss | None:
    """A GPU that others share by turns, for a stack that has promised what nobody can keep there."""
    if offer.cut is None or offer.cut.isolated:
        return None
    if not demand.kind.shares_gpu:
        reason = (
            f"{demand.kind.kind} takes what is free at its start, whatever its share: beside others on one "
            "GPU each start would take another's room"
        )
        return Loss("isolation", reason, "engine.kind")
    asked = latency_objectives(demand.args.slo)
    if asked and demand.args.colocate is None:
        reason = (
            f"turns on {offer.gpu.id} share its time and memory with whoever else is there, so "
            f"slo.{asked[0]} is nobody's to promise; `colocate` names a group and accepts that, `mig` "
            "isolates"
        )
        return Loss("isolation", reason, "colocate")
    return None


def _type_loss(demand: Demand, gpu: Gpu, precision: str) -> Loss | None:
    """What the machine's driver cannot run, and types that the engine was told and that GPU cannot compute or
    keep."""
    old = driver.refusal(demand, gpu.id)
    if old is not None:
        return Loss("precision", old, "hardware.accelerators")
    computed, kept, capability = demand.engine.dtype, demand.engine.kv_cache_dtype, gpu.compute_capability
    if computed is not None:
        refusal = dtype_refusal(computed, precision, demand.model.precision, capability)
        if refusal is not None:
            return Loss("precision", refusal, "engine.dtype")
    refusal = None if kept is None else demand.kind.limits.kv_cache_refusal(kept, capability)
    return None if refusal is None else Loss("precision", refusal, "engine.kv_cache_dtype")


def _share(demand: Demand, offer: Offer, served: Served, split: tuple[int, int]) -> Share:
    engine = demand.engine
    utilization, step_tokens = engine.gpu_memory_utilization, engine.max_num_batched_tokens
    share = Share(
        tp=split[0],
        pp=split[1],
        kv_bytes=kv_dtype_bytes(engine.kv_cache_dtype, served),
        utilization=GPU_MEMORY_UTILIZATION if utilization is None else utilization,
        step_tokens=0 if step_tokens is None else step_tokens,
        weights=weights_total(demand.model, served, demand.weight_scale),
        room=demand.room,
    )
    if step_tokens is not None:
        return share
    step_tokens = roomy_step_tokens(demand.model, offer.gpu, served, share)
    if not engine.enable_chunked_prefill:  # then a step must hold a whole prompt
        step_tokens = max(step_tokens, demand.max_model_len)
    if engine.max_num_seqs is not None:  # a step holds a token of each sequence (SchedulerConfig)
        step_tokens = max(step_tokens, engine.max_num_seqs)
    return dataclasses.replace(share, step_tokens=step_tokens)


def _host_loss(offer: Offer, gpus: int, room: Host) -> Loss | None:
    if offer.replicas_per_node(gpus, room.cpu, room.memory_request) >= 1:
        return None
    have_cpu = "unknown" if offer.cpu_per_node is None else f"{offer.cpu_per_node:.1f}"
    have_memory = 0 if offer.memory_per_node is None else offer.memory_per_node / GIB
    return Loss(
        "host",
        f"a replica asks {room.cpu:g} cores and {room.memory_request / GIB:.0f} GiB of memory; a node of "
        f"{offer.label} has {have_cpu} cores and {have_memory:.0f} GiB for pods",
        "hardware.nodes",
    )


def cache_on_volume(demand: Demand) -> bool:
    """Whether what the engine writes, compiled kernels among it, outlives a pod."""
    can, cluster = demand.can, demand.args.target.kubernetes
    return can.keeps_cache or (can.on_kubernetes and cluster.weights_storage_class is not None)


def weights_on_volume(demand: Demand) -> bool:
    """Whether weights outlive a pod: in that cache, or on a volume that is only read."""
    return cache_on_volume(demand) or demand.weights_directory is not None


def _memory_path(demand: Demand, free: int) -> str:
    """The field that most likely binds: a pinned split, else the context, else the hardware."""
    hardware = demand.args.hardware
    if demand.engine.tensor_parallel_size is not None:
        return "engine.tensor_parallel_size"
    if hardware.gpus_per_replica is not None:
        return "hardware.gpus_per_replica"
    if free > 0:
        return "model.max_model_len"
    return "hardware.nodes" if hardware.nodes is not None else "hardware.accelerators"


def _memory_loss(demand: Demand, foot: Footprint, share: Share) -> Loss | None:
    """Weights, overhead and one sequence of the longest length must fit."""
    sequences = 1 if demand.engine.max_num_seqs is None else demand.engine.max_num_seqs
    needed = foot.sequence_bytes(demand.max_model_len)
    free = foot.kv_bytes(sequences)
    if free >= needed:
        return None
    per_token = catalog.kv_bytes_per_token(demand.model, share.kv_bytes)
    overhead = foot.overhead(sequences)
    adapters = f", LoRA adapters {foot.adapters / GIB:.1f}" if foot.adapters else ""
    return Loss(
        "memory",
        f"of {foot.usable / GIB:.1f} GiB per GPU, weights take "
        f"{foot.weights / GIB:.1f}{adapters} and the engine {(overhead - foot.adapters) / GIB:.1f}; "
        f"{max(free, 0) / GIB:.1f} GiB are left "
        f"for the KV cache, and one sequence of {demand.max_model_len} tokens at {per_token:.0f} bytes each "
        f"needs {needed / GIB:.1f} per GPU ({(needed - free) / GIB:.1f} GiB too much)",
        _memory_path(demand, free),
        excess=(foot.weights + overhead + needed) / foot.usable,
    )


@dataclass(frozen=True, slots=True)
class Open:
    """A layout with the largest batch that its memory and the engine allow."""

    replica: AnyReplica
    limited_by: str

    @property
    def most(self) -> float:
        """No objective lets a replica serve more."""
        return SATURATION * self.replica.rate(self.replica.places)


def opened(demand: Demand, found: Layout) -> Open | Loss:
    """Fill the cache with sequences of the traffic's length, if a single request keeps every limit."""
    if isinstance(found.speed, BatchSpeed):
        return _opened_whole(demand, found, found.speed)
    tokens = demand.sequence_tokens
    most = found.foot.most_sequences(tokens, demand.max_model_len)
    places, limited_by = most, "the KV cache"
    engine_limit = min(default_most_sequences(found.offer.gpu), found.step_tokens)
    if places >= engine_limit:
        places, limited_by = engine_limit, "the engine's own limit"
    pinned = demand.engine.max_num_seqs
    if pinned is not None:
        if pinned > most:
            reason = f"{pinned} sequences of {tokens} tokens do not fit the KV cache; {most} do"
            return Loss("memory", reason, "engine.max_num_seqs", pinned / max(most, 1))
        places, limited_by = pinned, "engine.max_num_seqs"
    if places < 1:
        reason = f"not one sequence of {tokens} tokens fits beside the weights"
        return Loss("memory", reason, "traffic.input_tokens")
    replica = measurement.calibrated(
        demand, _replica(demand, found, found.speed, places), found.offer.gpu, found.gpus, found.served
    )
    lost = _unloaded_loss(replica, demand.limits)
    if lost is not None:
        return lost
    known = measurement.room(replica)
    if known is not None and known < places and pinned is None:
        return Open(dataclasses.replace(replica, places=known), measurement.ROOM)
    return Open(replica, limited_by)


def _opened_whole(demand: Demand, found: Layout, paced: BatchSpeed) -> Open | Loss:
    """The same for whole requests: the largest useful batch, if a single request keeps every limit."""
    filled = dynamic.opened(demand, paced, found.foot, found.data)
    if isinstance(filled, str):
        return Loss("memory", filled, dynamic.of(demand).batch_path)
    lost = _unloaded_loss(filled[0], demand.limits)
    return Open(*filled) if lost is None else lost


def narrowed(demand: Demand, wide: Open) -> Open:
    """The largest batch that keeps every objective while it is full."""
    replica = wide.replica
    if isinstance(replica, BatchReplica):
        return Open(*dynamic.narrowed(demand, replica, wide.limited_by))
    if demand.engine.max_num_seqs is not None:
        return wide
    smaller, path = _within_limits(replica, demand.limits)
    if smaller == replica.places:
        return wide
    return Open(dataclasses.replace(replica, places=smaller), path)


def fit(demand: Demand, found: Layout, batch: Open) -> Fit:
    """What a replica with that batch can serve."""
    replica = batch.replica
    bears = capacity(replica, demand.limits)
    mean, peak = _rates(demand, bears)
    return Fit(
        layout=found,
        replica=replica,
        bears=bears,
        batch_limited_by=batch.limited_by,
        kv_tokens=found.foot.kv_tokens(replica.places, demand.sequence_tokens),
        mean_rps=mean,
        peak_rps=peak,
    )


def _replica(demand: Demand, found: Layout, speed: Speed, places: int) -> Replica:
    new = demand.input_tokens - demand.cached_tokens
    return Replica(
        speed=speed,
        input_tokens=demand.input_tokens,
        cached_tokens=demand.cached_tokens,
        output_tokens=demand.output_tokens,
        step_tokens=found.step_tokens,
        places=places,
        prefill_s=speed.prefill(new, demand.cached_tokens, found.step_tokens),
        work_s=speed.prefill_work(new, demand.cached_tokens),
        pools=demand.task != "generate",
    )


WHAT = {"ttft": "a first token", "tpot": "a further token", "latency": "a whole request"}


def _unloaded_loss(replica: AnyReplica, limits: tuple[Limit, ...]) -> Loss | None:
    """Limits that even a single request misses."""
    for limit in limits:
        alone = unqueued(replica, limit.kind, 1.0)
        if alone > limit.seconds:
            return Loss(
                "latency",
                f"{WHAT[limit.kind]} takes {alone * 1000:.0f} ms without any load, above {limit.path} of "
                f"{limit.seconds * 1000:.0f} ms",
                limit.path,
                excess=alone / limit.seconds,
            )
    return None


def unqueued(replica: AnyReplica, kind: str, in_flight: float) -> float:
    """What a request sees in a batch of that size, without waiting."""
    if kind == "ttft":
        return replica.ttft_unqueued(in_flight)
    if kind == "tpot":
        return replica.tpot(in_flight)
    return replica.ttft_unqueued(in_flight) + (replica.output_tokens - 1) * replica.tpot(in_flight)


def _within_limits(replica: AnyReplica, limits: tuple[Limit, ...]) -> tuple[int, str]:
    """The largest batch that keeps every limit while it is full."""
    best, path = replica.places, ""
    for limit in limits:
        if unqueued(replica, limit.kind, best) <= limit.seconds:
            continue
        low, high = 1, best  # low keeps the limit, high does not
        while high - low > 1:
            middle = (low + high) // 2
            kept = unqueued(replica, limit.kind, middle) <= limit.seconds
            low, high = (middle, high) if kept else (low, middle)
        best, path = low, limit.path
    return best, path


def _rates(demand: Demand, bears: Capacity) -> tuple[float, float]:
    """Mean and peak, where requests in flight were asked from the rate of replicas that are as busy as
    planned."""
    if demand.in_flight is None:
        return demand.mean_rps, demand.peak_rps
    per_request = bears.rate / bears.in_flight if bears.in_flight > 0 else 0.0
    mean = demand.in_flight * per_request
    given = demand.args.traffic.peak_requests_per_second
    return mean, max(mean, given) if given is not None else 2 * mean
