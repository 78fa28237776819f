"""Every way to serve the demand, and the cheapest that meets all of it.

The search is exhaustive. It only skips what cannot win: where the fewest replicas alone cost more than the best
plan so far. A separate plain loop in the tests finds the same winner.

Trap: ties must break the same way each time, or a preview changes without a cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from servingstack.errors import InvalidInput, Violation
from servingstack.targets import Capabilities

from .candidate import STAGES, Fit, Layout, Loss, fit, layout
from .demand import Demand
from .fleet import Fleet, fleet
from .hardware import Offer, offers
from .parallelism import legal_tp, pipelines, splits, tp_refusal
from .precision import fallback, requested


@dataclass(frozen=True, slots=True)
class Solution:
    """One plan that meets every demand."""

    fit: Fit
    fleet: Fleet

    @property
    def order(self) -> tuple[float, float, int, str, str]:
        """What is minimised, and how ties break."""
        found, offer = self.fit.layout, self.fit.layout.offer
        gpus = self.fleet.high * found.gpus
        return (
            round(self.fleet.steady_usd, 6),
            round(self.fleet.peak_usd, 6),
            gpus,
            offer.label,
            f"{offer.cloud}{found.tp:03d}{found.pp:03d}",
        )


@dataclass(frozen=True, slots=True)
class Considered:
    """One candidate and what became of it."""

    offer: Offer
    tp: int
    pp: int
    precision: str
    outcome: Solution | Loss


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found."""

    best: Solution | None
    considered: tuple[Considered, ...]

    def binding(self) -> Loss:
        """The loss of the candidate that came furthest; among equals the nearest miss."""
        losses = [item.outcome for item in self.considered if isinstance(item.outcome, Loss)]
        return min(losses, key=lambda loss: (-STAGES.index(loss.stage), loss.excess))


def search(demand: Demand, can: Capabilities) -> Outcome:
    """Try everything. Raises `InvalidInput` for pins that are illegal for the model."""
    precision = requested(demand.model, demand.args.model.precision)
    available = offers(demand.args)
    _check_pins(demand, precision, available)
    tried = _layouts(demand, available, precision)
    lower = fallback(demand.model, demand.args.model.precision)
    if lower is not None and not any(isinstance(found, Layout) for *_, found in tried):
        more = _layouts(demand, available, lower)
        # Only where the arithmetic runs at that precision: else it would be smaller, but no faster.
        tried += [item for item in more if not isinstance(item[3], Layout) or item[3].served.native]
        precision = lower
    return _evaluate(demand, can, tried, precision)


_Tried = tuple[Offer, int, int, Layout | Loss]


def _layouts(demand: Demand, available: tuple[Offer, ...], precision: str) -> list[_Tried]:
    found: list[_Tried] = []
    for offer in available:
        tried = [
            (offer, tp, pp, layout(demand, offer, tp, pp, precision))
            for tp, pp in _splits(demand, offer, precision)
        ]
        if not any(isinstance(item[3], Layout) for item in tried) and _free(demand):
            tried += [
                (offer, tp, pp, layout(demand, offer, tp, pp, precision))
                for tp, pp in pipelines(demand.model, precision, offer.gpus_per_node)
            ]
        if not tried:
            tried = [(offer, 1, 1, _too_few(demand, offer))]
        found += tried
    return found


def _splits(demand: Demand, offer: Offer, precision: str) -> tuple[tuple[int, int], ...]:
    engine = demand.engine
    return splits(
        demand.model,
        precision,
        offer.gpus_per_node,
        tp=engine.tensor_parallel_size,
        pp=engine.pipeline_parallel_size,
        gpus=demand.args.hardware.gpus_per_replica,
    )


def _free(demand: Demand) -> bool:
    engine = demand.engine
    pins = (engine.tensor_parallel_size, engine.pipeline_parallel_size, demand.args.hardware.gpus_per_replica)
    return all(pin is None for pin in pins)


def _too_few(demand: Demand, offer: Offer) -> Loss:
    pinned = demand.engine.tensor_parallel_size
    path = "engine.tensor_parallel_size" if pinned is not None else "hardware.gpus_per_replica"
    reason = f"a node of {offer.label} has {offer.gpus_per_node} GPUs, and a replica lives on one node"
    return Loss("memory", reason, path)


def _check_pins(demand: Demand, precision: str, available: tuple[Offer, ...]) -> None:
    engine, model = demand.engine, demand.model
    tp, pp, gpus = (
        engine.tensor_parallel_size,
        engine.pipeline_parallel_size,
        demand.args.hardware.gpus_per_replica,
    )
    largest = max(offer.gpus_per_node for offer in available)
    legal = legal_tp(model, precision, largest)
    wrong: list[Violation] = []
    allowed = f"one of {', '.join(map(str, legal))} for {model.id}"
    fix = f"Use {legal[-1]}, the largest that fits a node, or fewer; more replicas use the other GPUs."
    if tp is not None and (reason := tp_refusal(model, tp, precision)) is not None:
        wrong.append(Violation("engine.tensor_parallel_size", tp, f"{allowed} ({reason})", fix))
    if pp is not None and pp > model.layers:
        wrong.append(
            Violation("engine.pipeline_parallel_size", pp, f"at most {model.layers} layers", "Lower it.")
        )
    if gpus is not None and tp is not None and gpus != tp * (1 if pp is None else pp):
        if pp is not None or gpus % tp:
            wrong.append(
                Violation(
                    "hardware.gpus_per_replica",
                    gpus,
                    f"tensor_parallel_size x pipeline_parallel_size = {tp * (1 if pp is None else pp)}",
                    "Set it to that, or leave it out.",
                )
            )
    elif (
        gpus is not None and tp is None and not splits(model, precision, max(gpus, largest), pp=pp, gpus=gpus)
    ):
        wrong.append(Violation("hardware.gpus_per_replica", gpus, allowed, fix))
    if wrong:
        raise InvalidInput(wrong)


def _evaluate(demand: Demand, can: Capabilities, tried: list[_Tried], precision: str) -> Outcome:
    considered: list[Considered] = []
    best: Solution | None = None
    known: dict[tuple[object, ...], Fit | Loss] = {}
    least = max(1, demand.args.scaling.min_replicas or 1)
    for offer, tp, pp, found in sorted(tried, key=lambda item: _floor(item, least)):
        outcome: Solution | Loss
        if isinstance(found, Loss):
            outcome = found
        elif best is not None and _floor((offer, tp, pp, found), least) > best.fleet.steady_usd + 1e-9:
            outcome = Loss("cost", _dearer(offer, tp * pp, least, best), "cost")
        else:
            outcome = _solve(demand, can, found, known)
        if isinstance(outcome, Solution) and (best is None or outcome.order < best.order):
            best = outcome
        considered.append(Considered(offer, tp, pp, precision, outcome))
    return Outcome(best, tuple(considered))


def _solve(
    demand: Demand, can: Capabilities, found: Layout, known: dict[tuple[object, ...], Fit | Loss]
) -> Solution | Loss:
    """What a replica bears depends on the GPU and its links, not on the machine's price."""
    offer = found.offer
    key = (offer.gpu.id, offer.gpu.form, offer.link_bytes_per_s, found.tp, found.pp, found.served.precision)
    fitted = known.get(key)
    if fitted is None:
        fitted = known[key] = fit(demand, found)
    if isinstance(fitted, Loss):
        return fitted
    placed = Fit(
        layout=found,
        replica=fitted.replica,
        bears=fitted.bears,
        batch_limited_by=fitted.batch_limited_by,
        kv_tokens=fitted.kv_tokens,
        mean_rps=fitted.mean_rps,
        peak_rps=fitted.peak_rps,
    )
    counted = fleet(demand, placed, can)
    return counted if isinstance(counted, Loss) else Solution(placed, counted)


def _floor(item: _Tried, least: int) -> float:
    """The least that a candidate can cost per hour: its fewest replicas, as many on a node as its GPUs allow."""
    offer, tp, pp, _ = item
    return offer.hourly(least, tp * pp, max(1, offer.gpus_per_node // (tp * pp)))


def _dearer(offer: Offer, gpus: int, least: int, best: Solution) -> str:
    floor = _floor((offer, gpus, 1, Loss("cost", "", "")), least)
    return f"{least} replica{'s' * (least > 1)} alone cost ${floor:.2f}/h; the choice costs ${best.fleet.steady_usd:.2f}/h"


def every_layout(demand: Demand) -> Iterator[Layout]:
    """All candidates that fit, for tests that look for a cheaper one."""
    precision = requested(demand.model, demand.args.model.precision)
    for *_, found in _layouts(demand, offers(demand.args), precision):
        if isinstance(found, Layout):
            yield found
