"""Running it: scaling threshold, time limits, rollout, the front door's queue. All arithmetic on what was
decided.

Trap: a queue that is longer than what can be served within the caller's patience only makes everybody fail.
The threshold, the queue's bound and the longest wait are therefore one calculation."""

from __future__ import annotations

import math

from servingstack.plan import FrontDoor, Rollout, Scaling, Timeouts

from .candidate import AnyReplica
from .demand import Demand, Limit
from .door import Kept, door_size
from .fleet import ramped_rps
from .search import Solution

QUEUE_SHARE = 0.1
"""Share of the request timeout that may be spent waiting, where no objective says how long an
answer may take."""
LONGEST_ANSWER = 4
"""Times the mean: with answers of exponential length, 98 % end within it."""
SCALE_IN_S = 300
"""Kubernetes' own stabilisation of scale-down (HorizontalPodAutoscaler behavior, 300 s)."""
LONGEST_SCALE_IN_S = 3600
"""Kubernetes' limit of stabilizationWindowSeconds."""
STARTUP_FACTOR = 2.0
"""A start that takes twice as long as planned is still a start."""
SHORTEST_STARTUP_S = 300
LEAVING_S = 15
"""Before the drain: until no new request comes, since a replica must leave what routes to it first."""
STOPPING_S = 15
"""After the drain: closing connections, ending the processes."""
MIN_QUEUE = 16
LARGEST_QUEUE = 4096
"""Of whole requests that take milliseconds: a longer queue keeps no objective, and each place costs a door 64
KiB on both sides."""


def scaling(demand: Demand, chosen: Solution, limits: Timeouts) -> Scaling:
    """Replica counts, the threshold and its arithmetic, and how fast they may change."""
    fleet, args = chosen.fleet, demand.args.scaling
    threshold, arithmetic = threshold_of(demand, chosen)
    delay = args.scale_in_delay
    cold = math.ceil(fleet.cold.total_s)
    zero = args.scale_to_zero_after
    return Scaling(
        autoscaled=fleet.low != fleet.high,
        min_replicas=fleet.low,
        max_replicas=fleet.high,
        mean_replicas=fleet.mean,
        peak_replicas=fleet.peak,
        warm_replicas=fleet.warm,
        surge_replicas=fleet.surge,
        placeholder_pods=fleet.placeholders,
        metric=demand.can.queue_metric,
        threshold=float(threshold),
        counts=demand.can.scales_on,
        threshold_arithmetic=arithmetic,
        fallback_replicas=max(fleet.low, fleet.peak),
        scale_out_window_s=0,
        scale_in_delay_s=min(LONGEST_SCALE_IN_S, max(SCALE_IN_S, cold))
        if delay is None
        else round(delay.total_seconds()),
        scale_in_period_s=limits.grace_s,
        scale_to_zero_after_s=None if zero is None else round(zero.total_seconds()),
        hold_s=fleet.hold_s,
        cold_start=fleet.cold,
    )


def threshold_of(demand: Demand, chosen: Solution) -> tuple[int, str]:
    """Waiting requests per replica at which another is added: what a replica can serve within the budget for
    waiting."""
    given = demand.args.scaling.queue_depth
    if demand.can.scales_on == "in_flight":
        return _in_flight(chosen, given)
    if demand.can.scales_on == "per_second":
        return _per_second(chosen)
    if given is not None:
        return given, f"scaling.queue_depth: {given}"
    rate = chosen.fit.bears.rate
    replica, busy = chosen.fit.replica, chosen.fit.bears.in_flight
    budgets = [(limit.seconds - _own_s(replica, limit, busy), limit) for limit in _waited_for(demand)]
    if budgets:
        left, tightest = min(budgets, key=lambda pair: pair[0])
        budget = max(0.0, left)
        part = "own prefill" if tightest.kind == "ttft" else "own request"
        part = part if demand.batcher is None else "own batch"
        own = tightest.seconds - left
        text = f"{tightest.path} {tightest.seconds * 1000:.0f} ms - {part} {own * 1000:.0f} ms"
    else:
        budget = QUEUE_SHARE * demand.request_timeout_s
        text = f"{QUEUE_SHARE:.0%} of the request timeout of {demand.request_timeout_s} s"
    depth = min(max(1, math.floor(budget * rate)), replica.places)
    return depth, (
        f"{text} = {budget * 1000:.0f} ms to wait; x {rate:.3g} requests/s per replica = "
        f"{budget * rate:.2f}, {_bounded(budget * rate, replica.places)}{depth} waiting per replica"
    )


def _bounded(waiting: float, places: int) -> str:
    """What cuts the number that the arithmetic gives."""
    if waiting > places:
        return f"more than a full batch of {places}, so "
    return "but no fewer than " if waiting < 1 else "so "


def _in_flight(chosen: Solution, waiting: int | None) -> tuple[int, str]:
    """Requests in flight per replica at which another is added, for a service that counts them all: those
    that a replica works on within its objectives, and those that may wait beside them."""
    bears, places = chosen.fit.bears, chosen.fit.replica.places
    busy = max(1, math.floor(bears.in_flight))
    depth = min(busy, places) + (0 if waiting is None else waiting)
    text = f"at {bears.rate:.3g} requests/s a replica has {bears.in_flight:.3g} in flight, limited by "
    text += bears.limited_by
    if bears.in_flight < 1:
        text += "; 1 is the least that can be counted"
    if busy > places:
        text += f"; its batch has {places} places"
    if waiting is not None:
        text += f"; scaling.queue_depth lets {waiting} wait beside them, which is {depth}"
    return depth, text


def _per_second(chosen: Solution) -> tuple[int, str]:
    """Requests a second per replica at which another is added, for a service that counts whole ones: what a
    replica serves within its objectives."""
    rate = chosen.fit.bears.rate
    depth = max(1, math.floor(rate))
    bound = "the least that can be counted" if rate < 1 else "rounded down"
    return depth, f"a replica keeps every objective at {rate:.3g} requests a second; {depth} is {bound}"


def _waited_for(demand: Demand) -> tuple[Limit, ...]:
    """Limits that waiting counts towards. Batches of whole requests are short beside any limit, so there the
    request timeout and a deadline are budgets too; a stream's would let its first token wait for seconds."""
    found = (*demand.limits_of("ttft"), *demand.limits_of("latency"))
    return tuple(limit for limit in found if demand.batcher is not None or limit.path.startswith("slo."))


def _own_s(replica: AnyReplica, limit: Limit, in_flight: float) -> float:
    """What a request takes of a limit by itself: its first token, and for a whole answer the further ones at
    the limit's quantile."""
    first = replica.ttft_unqueued(in_flight)
    if limit.kind == "ttft":
        return first
    return first + (replica.output_tokens - 1) * replica.tpot_at(in_flight, limit.q)


def timeouts(demand: Demand, chosen: Solution) -> Timeouts:
    """Time limits along the path. Draining covers the longest answer that is likely."""
    replica, busy = chosen.fit.replica, chosen.fit.bears.in_flight
    answer = LONGEST_ANSWER * demand.output_tokens * replica.tpot_at(busy, 0.95) + replica.ttft_at(busy, 0.95)
    drain = min(demand.stream_timeout_s, max(demand.request_timeout_s, math.ceil(answer)))
    cold = chosen.fleet.cold
    return Timeouts(
        request_s=demand.request_timeout_s,
        stream_s=demand.stream_timeout_s,
        queue_s=queue_s(demand, chosen),
        enforced_by=demand.can.timeout_enforced_by,
        kind=demand.can.timeout_kind,
        startup_s=max(SHORTEST_STARTUP_S, math.ceil(STARTUP_FACTOR * (cold.weights_s + cold.engine_s))),
        drain_s=drain,
        grace_s=LEAVING_S + drain + max(STOPPING_S, demand.kind.stop_s),
    )


def queue_s(demand: Demand, chosen: Solution) -> int:
    """Longest wait before a replica: what the timeout leaves beside the request itself, at most half of it.

    Not what an objective leaves: a request that is answered late misses its objective, one that is refused
    misses it too and counts against availability besides. What keeps everybody from waiting longer than an
    objective is the threshold of scaling, which is computed from it, and the warm replicas; this wait only
    covers what is left, a burst that they do not."""
    replica, busy = chosen.fit.replica, chosen.fit.bears.in_flight
    left = demand.request_timeout_s - replica.latency_at(busy, 0.95)
    return max(1, math.floor(min(left, demand.request_timeout_s / 2)))


def rollout(demand: Demand, chosen: Solution, limits: Timeouts) -> Rollout:
    """Replicas are replaced one by one: by one more where there is only one, else by one less. A service that
    starts a whole new version takes none away."""
    surge, cold = chosen.fleet.surge, chosen.fleet.cold
    before = STARTUP_FACTOR * (cold.node_s + cold.image_s)
    return Rollout(
        strategy="revision" if demand.can.surge == "fleet" else "rolling",
        max_surge=surge,
        max_unavailable=0 if surge else 1,
        progress_deadline_s=math.ceil(before) + limits.startup_s + limits.grace_s,
    )


def front_door(demand: Demand, chosen: Solution, scaled: Scaling, limits: Timeouts) -> FrontDoor | None:
    """The proxy before the replicas, where the option needs one."""
    if demand.can.door is None:
        return None
    bears, fleet, secret = chosen.fit.bears, chosen.fleet, demand.args.api_key_secret
    # One beside each replica serves that one, and what is held while none is up never reaches it.
    beside = demand.can.timeout_kind == "sidecar"
    served, hold_s = (1, None) if beside else (fleet.high, fleet.hold_s)
    waiting = served * bears.rate * limits.queue_s
    held = bears.rate * hold_s if hold_s is not None else 0.0
    # The engine's own queue is what scaling sees first, so it must be able to reach the threshold.
    places = chosen.fit.replica.places
    seen = int(scaled.threshold) if demand.can.scales_on == "waiting" else 0
    concurrent = places + max(seen, math.ceil(places * 0.1))
    queue = max(MIN_QUEUE, math.ceil(max(waiting, held)))
    queue = queue if demand.batcher is None else min(queue, LARGEST_QUEUE)
    size = door_size(
        proxies=demand.can.door.replicas,
        replicas=1 if beside else fleet.high + fleet.surge,
        max_concurrent=concurrent,
        max_queue=queue,
        kept=Kept(limits.drain_s, limits.request_s, hold_s),
    )
    return FrontDoor(
        image=demand.can.door.image,
        replicas=demand.can.door.replicas,
        port=demand.can.door.port,
        stats_port=demand.can.door.stats_port,
        max_concurrent=concurrent,
        max_queue=queue,
        slots=size.slots,
        max_connections=size.max_connections,
        memory_bytes=size.memory_bytes,
        drain_s=size.drain_s,
        api_key_secret_name=None if secret is None else secret.name,
        api_key_secret_key=None if secret is None else secret.key,
    )


def ramp_text(demand: Demand, chosen: Solution) -> str:
    """How the warm replicas were computed."""
    fit, fleet = chosen.fit, chosen.fleet
    reached = ramped_rps(demand, fit.mean_rps, fit.peak_rps, fleet.cold)
    return (
        f"within a cold start of {fleet.cold.total_s:.0f} s the ramp takes the rate from "
        f"{fit.mean_rps:.3g} to "
        f"{reached:.3g} requests/s; a replica serves {fit.bears.rate:.3g}"
    )
