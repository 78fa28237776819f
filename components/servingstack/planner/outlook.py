"""What users will see and what it costs, and what else was considered.

Trap: a number without its band is a promise. Every estimate says where it comes from and how far it may be
off."""

from __future__ import annotations

from collections.abc import Iterable

from servingstack.plan import Alternative, Cost, Estimate, Expected

from .candidate import STAGES, Loss
from .demand import Demand
from .search import Considered, Outcome, Solution

HOURS = 730.0
"""Hours per month, as the clouds bill: 8760 / 12."""
MOST = 12


def expected(chosen: Solution) -> Expected:
    """At the peak, with the replicas planned for it."""
    fit, fleet = chosen.fit, chosen.fleet
    replica, speed, bears = fit.replica, fit.layout.speed, fit.bears
    busy = replica.in_flight_at(fit.peak_rps / fleet.peak)

    def estimate(value: float) -> Estimate:
        return Estimate(
            value=value, low=value * (1 - speed.band), high=value * (1 + speed.band), source=speed.source
        )

    full = float(replica.places)
    return Expected(
        ttft_p50_ms=estimate(replica.ttft_at(busy, 0.50) * 1000),
        ttft_p95_ms=estimate(replica.ttft_at(busy, 0.95) * 1000),
        tpot_p50_ms=estimate(replica.tpot_at(busy, 0.50) * 1000),
        tpot_p95_ms=estimate(replica.tpot_at(busy, 0.95) * 1000),
        latency_p95_ms=estimate(replica.latency_at(busy, 0.95) * 1000),
        output_tokens_per_s=estimate(replica.rate(full) * replica.output_tokens),
        requests_per_s=estimate(replica.rate(full)),
        utilisation_at_mean=fit.mean_rps / (max(fleet.low, fleet.mean) * bears.saturation),
        utilisation_at_peak=fit.peak_rps / (fleet.peak * bears.saturation),
    )


def cost(demand: Demand, chosen: Solution) -> Cost:
    """Hourly and monthly, and what part of it waits for a ramp."""
    fit, fleet, offer = chosen.fit, chosen.fleet, chosen.fit.layout.offer
    gpus = fit.layout.gpus
    without = offer.hourly(max(fleet.low - fleet.warm, 0), gpus, fleet.per_node)
    tokens = fit.mean_rps * demand.output_tokens * 3600 / 1e6
    return Cost(
        hourly_usd=fleet.hourly_usd,
        peak_hourly_usd=fleet.peak_usd,
        monthly_usd=fleet.hourly_usd * HOURS,
        warm_monthly_usd=(fleet.hourly_usd - without) * HOURS,
        per_gpu_hour_usd=offer.usd_per_gpu,
        per_million_output_tokens_usd=fleet.steady_usd / tokens,
        basis=offer.basis,
        price_date=offer.price_date,
        price_source=offer.price_source,
    )


def alternatives(outcome: Outcome, option: str) -> tuple[Alternative, ...]:
    """The best of each GPU and size that lost, feasible ones first."""
    best = outcome.best
    if best is None:
        return ()
    kept: dict[tuple[str, int], Considered] = {}
    for item in sorted(outcome.considered, key=_rank):
        if item.outcome is not best:
            kept.setdefault((item.offer.gpu.id, item.tp * item.pp), item)
    own = (best.fit.layout.offer.gpu.id, best.fit.layout.gpus)
    rows = [item for key, item in kept.items() if key != own or isinstance(item.outcome, Solution)]
    return tuple(_alternative(item, best, option) for item in _varied(rows))


def _rank(item: Considered) -> tuple[int, float]:
    """Solutions by cost, then losses, those that came further first."""
    if isinstance(item.outcome, Solution):
        return 0, item.outcome.fleet.steady_usd
    return 1 + len(STAGES) - STAGES.index(item.outcome.stage), item.outcome.excess


def _varied(rows: list[Considered]) -> Iterable[Considered]:
    """One of each GPU first, so that the list shows why each was not taken."""
    seen: set[str] = set()
    firsts: list[Considered] = []
    rest: list[Considered] = []
    for item in rows:
        (rest if item.offer.gpu.id in seen else firsts).append(item)
        seen.add(item.offer.gpu.id)
    return sorted((firsts + rest)[:MOST], key=_rank)


def _alternative(item: Considered, best: Solution, option: str) -> Alternative:
    outcome = item.outcome
    solved = outcome if isinstance(outcome, Solution) else None
    return Alternative(
        option=option,
        accelerator=item.offer.gpu.id,
        instance_type=item.offer.instance_type,
        gpus_per_replica=item.tp * item.pp,
        tensor_parallel_size=item.tp,
        precision=item.precision if solved is None else solved.fit.layout.served.precision,
        replicas=None if solved is None else solved.fleet.low,
        hourly_usd=None if solved is None else solved.fleet.hourly_usd,
        lost_because=outcome.reason if isinstance(outcome, Loss) else _why(outcome, best),
    )


def _why(lost: Solution, best: Solution) -> str:
    mine, theirs = lost.fleet.steady_usd, best.fleet.steady_usd
    if mine > theirs:
        return f"costs ${mine:.2f}/h against ${theirs:.2f}/h"
    if lost.fleet.peak_usd > best.fleet.peak_usd:
        return f"costs as much at the mean, but ${lost.fleet.peak_usd:.2f}/h at the peak"
    return "costs the same; the choice needs fewer GPUs or comes first by name"
