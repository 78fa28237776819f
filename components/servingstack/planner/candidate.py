"""One way to serve: a GPU, a split, a precision. Either it bears the traffic within every limit, or it says at
which stage it failed and why.

Trap: nothing here may depend on the objectives except through what a replica bears. Otherwise a tighter
objective could make a plan cheaper, and then one of the two was wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from servingstack import catalog
from servingstack.catalog import GIB
from servingstack.errors import Violation

from .demand import Demand, Limit
from .hardware import Offer
from .host import Host, host
from .load import Capacity, Replica, bisect, capacity
from .memory import (
    GPU_MEMORY_UTILIZATION,
    Footprint,
    default_most_sequences,
    default_step_tokens,
    footprint,
    weights_total,
)
from .performance import Speed, speed
from .precision import Served, served_on

STAGES = ("precision", "memory", "host", "latency", "capacity", "cost")
"""In the order in which a candidate can fail; a later one came further."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a candidate is out."""

    stage: str
    reason: str
    path: str
    """Field of the input that binds."""
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
    speed: Speed
    step_tokens: int
    kv_bytes: float
    weights: int
    host: Host

    @property
    def gpus(self) -> int:
        return self.tp * self.pp


@dataclass(frozen=True, slots=True)
class Fit:
    """A layout with its batch and what it bears."""

    layout: Layout
    replica: Replica
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
    served = served_on(offer.gpu, demand.model, precision)
    if isinstance(served, str):
        return Loss("precision", served, "model.precision")
    engine = demand.engine
    kv_bytes = kv_dtype_bytes(engine.kv_cache_dtype, served)
    given = engine.gpu_memory_utilization
    step_tokens = engine.max_num_batched_tokens
    if step_tokens is None:
        step_tokens = default_step_tokens(offer.gpu)
    foot = footprint(
        demand.model,
        offer.gpu,
        served,
        tp=tp,
        pp=pp,
        kv_bytes=kv_bytes,
        utilization=GPU_MEMORY_UTILIZATION if given is None else given,
        step_tokens=step_tokens,
        scale=demand.weight_scale,
    )
    lost = _memory_loss(demand, offer, foot, tp, pp)
    if lost is not None:
        return lost
    weights = weights_total(demand.model, served, demand.weight_scale)
    return _hosted(demand, offer, (tp, pp), served, foot, step_tokens, kv_bytes, weights)


def _hosted(
    demand: Demand,
    offer: Offer,
    split: tuple[int, int],
    served: Served,
    foot: Footprint,
    step_tokens: int,
    kv_bytes: float,
    weights: int,
) -> Layout | Loss:
    tp, pp = split
    volume = on_volume(demand)
    room = host(
        demand.args.hardware,
        ranks=tp * pp,
        weights=weights,
        load_format=demand.engine.load_format,
        volume=volume,
    )
    if isinstance(room, Violation):
        return Loss("host", str(room), room.path)
    if offer.replicas_per_node(tp * pp, room.cpu, room.memory_request) < 1:
        have_cpu = "unknown" if offer.cpu_per_node is None else f"{offer.cpu_per_node:.1f}"
        have_memory = 0 if offer.memory_per_node is None else offer.memory_per_node / GIB
        return Loss(
            "host",
            f"a replica asks {room.cpu:g} cores and {room.memory_request / GIB:.0f} GiB of memory; a node of "
            f"{offer.label} has {have_cpu} cores and {have_memory:.0f} GiB for pods",
            "hardware.nodes",
        )
    return Layout(
        offer=offer,
        tp=tp,
        pp=pp,
        served=served,
        foot=foot,
        speed=speed(
            demand.model,
            offer.gpu,
            served,
            weights=weights,
            tp=tp,
            pp=pp,
            kv_bytes=kv_bytes,
            link_bytes_per_s=offer.link_bytes_per_s,
            interconnect=offer.interconnect,
        ),
        step_tokens=step_tokens,
        kv_bytes=kv_bytes,
        weights=weights,
        host=room,
    )


def on_volume(demand: Demand) -> bool:
    """Whether weights outlive a pod."""
    storage = demand.args.target.kubernetes.weights_storage_class
    return storage is not None or demand.args.model.source.startswith("pvc://")


def _memory_loss(demand: Demand, offer: Offer, foot: Footprint, tp: int, pp: int) -> Loss | None:
    """Weights, overhead and one sequence of the longest length must fit."""
    sequences = 1 if demand.engine.max_num_seqs is None else demand.engine.max_num_seqs
    needed = foot.sequence_bytes(demand.max_model_len)
    free = foot.kv_bytes(sequences)
    if free >= needed:
        return None
    gpus = tp * pp
    count = f"{gpus} x " if gpus > 1 else ""
    per_token = catalog.kv_bytes_per_token(
        demand.model, foot.kv_per_token and _kv_width(demand, foot, tp, pp)
    )
    short = (needed - free) / GIB
    return Loss(
        "memory",
        f"{count}{offer.gpu.id}: of {foot.usable / GIB:.1f} GiB per GPU, weights take {foot.weights / GIB:.1f} "
        f"and the engine {foot.overhead(sequences) / GIB:.1f}; {max(free, 0) / GIB:.1f} GiB are left for the "
        f"KV cache, and one sequence of {demand.max_model_len} tokens at {per_token:.0f} bytes each needs "
        f"{needed / GIB:.1f} per GPU ({short:.1f} GiB too much)",
        "model.max_model_len" if free > 0 else "hardware.accelerators",
        excess=(foot.weights + foot.overhead(sequences) + needed) / foot.usable,
    )


def _kv_width(demand: Demand, foot: Footprint, tp: int, pp: int) -> float:
    """Bytes of one cached number, from the footprint."""
    model = demand.model
    shared = 1 if model.mla else min(tp, model.kv_heads)
    whole = catalog.kv_bytes_per_token(model, 1)
    return foot.kv_per_token * pp * shared / whole if whole else 2.0


def fit(demand: Demand, found: Layout) -> Fit | Loss:
    """Choose the batch and find what a replica bears."""
    tokens = demand.sequence_tokens
    engine_limit = default_most_sequences(found.offer.gpu)
    places, limited_by = found.foot.most_sequences(tokens, demand.max_model_len), "the KV cache"
    if places >= engine_limit:
        places, limited_by = engine_limit, "the engine's own limit"
    pinned = demand.engine.max_num_seqs
    if pinned is not None:
        if pinned > places and limited_by == "the KV cache":
            return Loss(
                "memory", _too_many(pinned, places, tokens), "engine.max_num_seqs", pinned / max(places, 1)
            )
        places, limited_by = pinned, "engine.max_num_seqs"
    if places < 1:
        reason = f"not one sequence of {tokens} tokens fits beside the weights"
        return Loss("memory", reason, "traffic.input_tokens")
    replica = _replica(demand, found, places)
    lost = _unloaded_loss(replica, demand.limits)
    if lost is not None:
        return lost
    if pinned is None:
        smaller, path = _within_limits(replica, demand.limits)
        if smaller < places:
            places, limited_by = smaller, path
            replica = _replica(demand, found, places)
    bears = capacity(replica, demand.limits)
    mean, peak = _rates(demand, bears)
    return Fit(
        layout=found,
        replica=replica,
        bears=bears,
        batch_limited_by=limited_by,
        kv_tokens=found.foot.kv_tokens(places, tokens),
        mean_rps=mean,
        peak_rps=peak,
    )


def _too_many(pinned: int, places: int, tokens: int) -> str:
    return f"{pinned} sequences of {tokens} tokens do not fit the KV cache; {places} do"


def _replica(demand: Demand, found: Layout, places: int) -> Replica:
    new = demand.input_tokens - demand.cached_tokens
    return Replica(
        speed=found.speed,
        input_tokens=demand.input_tokens,
        cached_tokens=demand.cached_tokens,
        output_tokens=demand.output_tokens,
        step_tokens=found.step_tokens,
        places=places,
        prefill_s=found.speed.prefill(new, demand.cached_tokens, found.step_tokens),
    )


def _unloaded_loss(replica: Replica, limits: tuple[Limit, ...]) -> Loss | None:
    """Limits that even a single request misses."""
    for limit in limits:
        alone = _base(replica, limit.kind, 1.0)
        if alone > limit.seconds:
            what = {"ttft": "time to first token", "tpot": "time per token", "latency": "whole request"}[
                limit.kind
            ]
            return Loss(
                "latency",
                f"{what} is {alone * 1000:.0f} ms without any load, above {limit.path} of "
                f"{limit.seconds * 1000:.0f} ms",
                limit.path,
                excess=alone / limit.seconds,
            )
    return None


def _base(replica: Replica, kind: str, in_flight: float) -> float:
    """What a request sees in a batch of that size, without waiting."""
    if kind == "ttft":
        return replica.ttft_unqueued(in_flight)
    if kind == "tpot":
        return replica.tpot(in_flight)
    return replica.ttft_unqueued(in_flight) + (replica.output_tokens - 1) * replica.tpot(in_flight)


def _within_limits(replica: Replica, limits: tuple[Limit, ...]) -> tuple[int, str]:
    """The largest batch that keeps every limit while it is full."""
    best, path = replica.places, ""
    for limit in limits:
        kept = bisect(
            lambda size, limit=limit: _base(replica, limit.kind, size) <= limit.seconds, 1.0, float(best)
        )
        if int(kept + 1e-6) < best:
            best, path = max(1, int(kept + 1e-6)), limit.path
    return best, path


def _rates(demand: Demand, bears: Capacity) -> tuple[float, float]:
    """Mean and peak, where requests in flight were asked from the rate of replicas that are as busy as planned."""
    if demand.in_flight is None:
        return demand.mean_rps, demand.peak_rps
    per_request = bears.rate / bears.in_flight if bears.in_flight > 0 else 0.0
    mean = demand.in_flight * per_request
    given = demand.args.traffic.peak_requests_per_second
    return mean, max(mean, given) if given is not None else 2 * mean
