"""How many replicas: for the mean, for the peak, kept warm, and one more while a rollout runs.

Trap: a rollout at one replica either takes it away or needs a GPU that nobody counted. That GPU is part of
the peak here, of `max_gpus`, of the nodes and of the price."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from servingstack.hardware_args import MAX_REPLICAS
from servingstack.plan import ColdStart

from .candidate import Fit, Layout, Loss, cache_on_volume, weights_on_volume
from .coldstart import Start, cold_start
from .demand import Demand

MARGIN = 1.25
"""Room above the planned peak: estimates miss by more than 10 %, and traffic by more than that."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Replica counts and what they cost."""

    mean: int
    peak: int
    low: int
    high: int
    warm: int
    surge: int
    placeholders: int
    cold: ColdStart
    hold_s: int | None
    per_node: int
    steady_usd: float
    """Per hour with what the mean needs; what the search minimises."""
    hourly_usd: float
    """At the minimum number of replicas."""
    peak_usd: float
    """At the maximum, surge and placeholders included."""

    @property
    def span(self) -> str:
        """`2 to 4 replicas`, or the one number where there is no range."""
        if self.low == self.high:
            return f"{self.low} replica{'s' * (self.low != 1)}"
        return f"{self.low} to {self.high} replicas"


def fleet(demand: Demand, found: Fit) -> Fleet | Loss:
    """Count replicas within what may be used."""
    scaling, rate = demand.args.scaling, found.bears.rate
    if rate <= 0:
        return Loss("latency", f"no load at all keeps {found.bears.limited_by}", found.bears.limited_by)
    mean = max(1, math.ceil(found.mean_rps / rate - 1e-9))
    peak = max(1, math.ceil(found.peak_rps / rate - 1e-9))
    if scaling.max_replicas is not None and scaling.max_replicas < peak:
        return Loss(
            "capacity",
            f"max_replicas {scaling.max_replicas} serves {scaling.max_replicas * rate:.2g} requests/s of the "
            f"{found.peak_rps:.3g} at the peak; {peak} replicas are needed",
            "scaling.max_replicas",
            peak / scaling.max_replicas,
        )
    cold = start_of(demand, found.layout)
    low = _lowest(demand, found, mean, cold)
    if scaling.max_replicas is not None and low > scaling.max_replicas:
        if demand.args.warm != "auto":
            reason = f"{low} replicas with warm ones, above max_replicas"
            return Loss("capacity", reason, "scaling.max_replicas", low / scaling.max_replicas)
        low = scaling.max_replicas
    surge = _surge(demand, low)
    if surge == 0 and low <= 1:
        reason = "a rollout without surge would take the only replica away"
        return Loss("capacity", reason, "rollout.surge")
    hold = _hold(demand, cold)
    if hold is not None and hold > demand.can.longest_hold_s:
        return Loss(
            "capacity",
            f"scale to zero holds requests for a cold start of {hold} s; the path allows "
            f"{demand.can.longest_hold_s} s",
            "scaling.scale_to_zero_after",
            hold / demand.can.longest_hold_s,
        )
    return _within_hardware(demand, found, _Counts(mean, peak, low, surge), cold, hold)


@dataclass(frozen=True, slots=True)
class _Counts:
    mean: int
    peak: int
    low: int
    surge: int


def _within_hardware(
    demand: Demand, found: Fit, counts: _Counts, cold: ColdStart, hold: int | None
) -> Fleet | Loss:
    hardware, offer, gpus = demand.args.hardware, found.layout.offer, found.layout.gpus
    room = found.layout.host
    per_node = max(1, offer.replicas_per_node(gpus, room.cpu, room.memory_request))
    needed = max(counts.peak, counts.low)
    limits = list(_limits(demand, found, per_node))
    high = demand.args.scaling.max_replicas
    asked = needed if high is None else max(needed, high)
    for most, path in limits:
        if asked + counts.surge > most:
            extra = f" and {_number(counts.surge)} for a rollout" if counts.surge else ""
            why = "scaling.max_replicas" if asked > needed else "the traffic"
            return Loss(
                "capacity",
                f"{why} asks for {asked} replica{'s' * (asked > 1)} of {gpus} x {offer.gpu.device}{extra}; "
                f"{path} allows {most} in all",
                path,
                (asked + counts.surge) / max(most, 0.5),
            )
    if high is None:
        high = max(needed, counts.peak + 1, math.ceil(MARGIN * counts.peak))
        high = min([high, *(most - counts.surge for most, _ in limits)])

    def cost(replicas: int) -> float:
        return offer.hourly(replicas, gpus, per_node)

    budget = hardware.max_hourly_cost
    if budget is not None:
        if cost(needed + counts.surge) > budget:
            return Loss(
                "cost",
                f"{needed + counts.surge} replicas of {gpus} x {offer.label} cost "
                f"${cost(needed + counts.surge):.2f}/h at the peak, above max_hourly_cost",
                "hardware.max_hourly_cost",
                cost(needed + counts.surge) / budget,
            )
        while demand.args.scaling.max_replicas is None and cost(high + counts.surge) > budget:
            high -= 1
        if cost(high + counts.surge) > budget:
            reason = f"max_replicas {high} cost ${cost(high + counts.surge):.2f}/h, above max_hourly_cost"
            return Loss("cost", reason, "hardware.max_hourly_cost", cost(high + counts.surge) / budget)
    full = high + counts.surge + 1
    placeholders = _placeholders(demand, found.layout, full, cost(full)) if high > counts.low else 0
    return Fleet(
        mean=counts.mean,
        peak=counts.peak,
        low=counts.low,
        high=high,
        warm=max(0, counts.low - counts.mean),
        surge=counts.surge,
        placeholders=placeholders,
        cold=cold,
        hold_s=hold,
        per_node=per_node,
        steady_usd=cost(max(counts.low, counts.mean) + placeholders),
        hourly_usd=cost(counts.low + placeholders),
        peak_usd=cost(min([high + counts.surge + placeholders, *(most for most, _ in limits)])),
    )


def _placeholders(demand: Demand, found: Layout, replicas: int, usd: float) -> int:
    """One, where nodes must first be started, unless the peak with it would break a limit: what is put out of
    a full node asks for one more."""
    hardware, offer = demand.args.hardware, found.offer
    gpus = replicas * found.gpus * offer.price_share
    within = hardware.max_gpus is None or gpus <= hardware.max_gpus
    paid = hardware.max_hourly_cost is None or usd <= hardware.max_hourly_cost
    return 1 if offer.scale_from_zero and _waits(demand) and within and paid else 0


def _number(count: int) -> str:
    return "one" if count == 1 else str(count)


def _limits(demand: Demand, found: Fit, per_node: int) -> Iterator[tuple[int, str]]:
    """Most replicas at any moment, a rollout's among them, and the field that says so."""
    hardware, offer, cluster = demand.args.hardware, found.layout.offer, demand.args.target.kubernetes
    if offer.nodes is not None:
        yield offer.nodes * per_node, "hardware.nodes"
    if hardware.max_gpus is not None:
        most = hardware.max_gpus / (found.layout.gpus * offer.price_share)
        yield int(most + 1e-9), "hardware.max_gpus"
    if cache_on_volume(demand) and cluster.weights_access_mode == "ReadWriteOnce":
        # Nothing keeps the pods on one of several nodes, and only one of them mounts the volume.
        yield per_node if offer.nodes == 1 else 1, "target.kubernetes.weights_access_mode"
    yield MAX_REPLICAS, "scaling.max_replicas"


def start_of(demand: Demand, found: Layout) -> ColdStart:
    """The cold start of one replica: the weights as they are stored, not as they are served."""
    facts = demand.can.start
    return cold_start(
        Start(
            stored_bytes=demand.stored_bytes,
            layers=0 if demand.batcher is not None else demand.model.layers,  # only these are compiled
            new_node=found.offer.scale_from_zero,
            prepulled=demand.args.target.kubernetes.prepull_images,
            weights_on_volume=weights_on_volume(demand),
            cache_on_volume=cache_on_volume(demand),
            facts=facts,
        )
    )


def _waits(demand: Demand) -> bool:
    return demand.args.traffic.kind == "online"


def ramped_rps(demand: Demand, mean: float, peak: float, cold: ColdStart) -> float:
    """The rate to which the traffic can rise while a replica starts."""
    growth = (peak - mean) / demand.ramp_s
    return min(peak, mean + growth * cold.total_s)


def kept_rps(demand: Demand, found: Layout) -> float:
    """The rate that the replicas kept at all times serve at least; the mean, or what a ramp makes of it."""
    mean, peak = demand.mean_rps, demand.peak_rps
    if demand.args.scaling.min_replicas is not None or demand.args.warm != "auto" or not _waits(demand):
        return mean
    return max(mean, ramped_rps(demand, mean, peak, start_of(demand, found)))


def _lowest(demand: Demand, found: Fit, mean: int, cold: ColdStart) -> int:
    given = demand.args.scaling.min_replicas
    warm = demand.args.warm
    if given is not None:  # both asked: both kept
        return given if warm in ("auto", 0) else max(given, mean + warm)
    if warm != "auto":
        return mean + warm
    if not _waits(demand):
        return mean
    reached = ramped_rps(demand, found.mean_rps, found.peak_rps, cold)
    return max(mean, math.ceil(reached / found.bears.rate - 1e-9))


def _surge(demand: Demand, low: int) -> int:
    if demand.can.surge == "fleet":  # the service starts the new ones beside the old
        return max(1, low)
    asked = demand.args.rollout.surge
    if asked is not None:
        return 1 if asked else 0
    return 1 if low <= 1 else 0


def _hold(demand: Demand, cold: ColdStart) -> int | None:
    if demand.args.scaling.scale_to_zero_after is None:
        return None
    given = demand.args.scaling.hold
    return math.ceil(cold.total_s if given is None else given.total_seconds())
