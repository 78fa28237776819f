"""What users will see and what it costs, and what else was considered.

Trap: a number without its band is a promise. Every estimate says where it comes from and how far it may be
off."""

from __future__ import annotations

from collections.abc import Iterable

from servingstack.plan import Alternative, Cost, Estimate, Expected

from .candidate import STAGES, Loss
from .demand import Demand, resolve
from .hardware import Offer
from .precision import fallback
from .search import Considered, Outcome, Solution, search

HOURS = 730.0
"""Hours per month, as the clouds bill: 8760 / 12."""
MOST = 12


def expected(chosen: Solution) -> Expected:
    """At the peak, with the replicas planned for it."""
    fit, fleet = chosen.fit, chosen.fleet
    replica, speed, bears = fit.replica, fit.replica.speed, fit.bears
    busy = replica.in_flight_at(fit.peak_rps / fleet.peak)

    def estimate(value: float) -> Estimate:
        low, high = value * (1 - speed.band), value * (1 + speed.band)
        return Estimate(value=round(value, 3), low=round(low, 3), high=round(high, 3), source=speed.source)

    full = float(replica.places)
    writes = 1 if speed.model.task == "generate" else 0  # an embedding has no token after the first
    return Expected(
        ttft_p50_ms=estimate(replica.ttft_at(busy, 0.50) * 1000),
        ttft_p95_ms=estimate(replica.ttft_at(busy, 0.95) * 1000),
        tpot_p50_ms=estimate(replica.tpot_at(busy, 0.50) * 1000 * writes),
        tpot_p95_ms=estimate(replica.tpot_at(busy, 0.95) * 1000 * writes),
        latency_p95_ms=estimate(replica.latency_at(busy, 0.95) * 1000),
        output_tokens_per_s=estimate(replica.rate(full) * replica.output_tokens),
        requests_per_s=estimate(replica.rate(full)),
        utilisation_at_mean=round(fit.mean_rps / (max(fleet.low, fleet.mean) * bears.saturation), 4),
        utilisation_at_peak=round(fit.peak_rps / (fleet.peak * bears.saturation), 4),
    )


def cost(demand: Demand, chosen: Solution) -> Cost:
    """Hourly and monthly, and what part of it waits for a ramp."""
    fit, fleet, offer = chosen.fit, chosen.fleet, chosen.fit.layout.offer
    gpus = fit.layout.gpus
    without = offer.hourly(max(fleet.low - fleet.warm, 0), gpus, fleet.per_node)
    tokens = fit.mean_rps * demand.output_tokens * 3600 / 1e6 if demand.task == "generate" else None
    return Cost(
        hourly_usd=round(fleet.hourly_usd, 4),
        peak_hourly_usd=round(fleet.peak_usd, 4),
        monthly_usd=round(fleet.hourly_usd * HOURS, 2),
        warm_monthly_usd=round((fleet.hourly_usd - without) * HOURS, 2),
        per_gpu_hour_usd=round(offer.usd_per_gpu, 4),
        machine_hourly_usd=round(offer.gpus_per_node * offer.usd_per_gpu, 4) if offer.whole_nodes else None,
        replicas_per_machine=fleet.per_node if offer.whole_nodes else 1,
        per_million_output_tokens_usd=None if tokens is None else round(fleet.steady_usd / tokens, 4),
        basis=offer.basis,
        price_date=offer.price_date,
        price_source=offer.price_source,
        mean_hourly_usd=round(fleet.steady_usd, 4),
        expected_monthly_usd=round(fleet.steady_usd * HOURS, 2),
    )


FP8_FROM_USD = 5.0
"""Plans that cost less per hour are not planned a second time at fp8."""


def at_fp8(demand: Demand, best: Solution) -> Alternative | None:
    """The plan at fp8, where it is cheaper and nobody asked: a choice for a person, since answers change."""
    args = demand.args
    if (
        demand.batcher is not None
        or fallback(demand.model, args.model.precision) is None
        or best.fit.layout.served.quantization is not None
    ):
        return None
    if best.fleet.steady_usd < FP8_FROM_USD:
        return None
    model = args.model.model_copy(update={"precision": "fp8"})
    found = search(resolve(args.model_copy(update={"model": model}), demand.can)).best
    if found is None or found.fleet.steady_usd >= best.fleet.steady_usd:
        return None
    layout = found.fit.layout
    row = Considered(layout.offer, layout.tp, layout.pp, "fp8", found)
    reason = (
        f"${found.fleet.steady_usd:.2f}/h against ${best.fleet.steady_usd:.2f}/h, but a lower precision "
        f"changes "
        "the answers: ask for it with model.precision: fp8"
    )
    return _alternative(row, best, demand.can.option).model_copy(update={"lost_because": reason})


def alternatives(outcome: Outcome, option: str) -> tuple[Alternative, ...]:
    """The best of each GPU and size that lost, feasible ones first."""
    best = outcome.best
    if best is None:
        return ()
    kept: dict[tuple[str, int], Considered] = {}
    for item in sorted(outcome.considered, key=_rank):
        if item.outcome is not best:
            kept.setdefault((_device(item.offer), item.tp * item.pp), item)
    own = (_device(best.fit.layout.offer), best.fit.layout.gpus)
    rows = [item for key, item in kept.items() if key != own or isinstance(item.outcome, Solution)]
    return tuple(_alternative(item, best, option) for item in _varied(rows))


def _device(offer: Offer) -> str:
    """What a reader compares: each slice, and of the turns of a GPU one."""
    turn = offer.cut is not None and not offer.cut.isolated
    return f"{offer.gpu.id} turn" if turn else offer.gpu.device


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
        (rest if _device(item.offer) in seen else firsts).append(item)
        seen.add(_device(item.offer))
    return sorted((firsts + rest)[:MOST], key=_rank)


def _alternative(item: Considered, best: Solution, option: str) -> Alternative:
    outcome = item.outcome
    solved = outcome if isinstance(outcome, Solution) else None
    return Alternative(
        option=option,
        accelerator=item.offer.gpu.id,
        gpu_part=item.offer.gpu.part or None,
        instance_type=item.offer.instance_type,
        gpus_per_replica=item.tp * item.pp,
        tensor_parallel_size=item.tp,
        precision=item.precision if solved is None else solved.fit.layout.served.precision,
        replicas=None if solved is None else solved.fleet.low,
        hourly_usd=None if solved is None else round(solved.fleet.hourly_usd, 4),
        lost_because=_unsolved(outcome, best) if isinstance(outcome, Loss) else _why(outcome, best),
    )


def _unsolved(loss: Loss, best: Solution) -> str:
    """A candidate that was not looked at further is compared with the choice, not with the best so far."""
    priced = loss.stage == "price"
    return f"{loss.reason} against ${best.fleet.steady_usd:.2f}/h" if priced else loss.reason


def _why(lost: Solution, best: Solution) -> str:
    mine, theirs = lost.fleet.steady_usd, best.fleet.steady_usd
    if mine > theirs:
        return f"costs ${mine:.2f}/h against ${theirs:.2f}/h"
    if lost.fleet.peak_usd > best.fleet.peak_usd:
        return f"costs as much at the mean, but ${lost.fleet.peak_usd:.2f}/h at the peak"
    return "costs the same; the choice needs fewer GPUs or comes first by name"
