"""Every way to serve the demand, and the cheapest that meets all of it.

The search is exhaustive. It only skips what cannot win: where the fewest replicas alone cost more than the
best plan so far. A separate plain loop in the tests finds the same winner.

Trap: ties must break the same way each time, or a preview changes without a cause.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from servingstack.catalog import Gpu, Model
from servingstack.errors import InvalidInput, Violation

from .candidate import STAGES, Fit, Layout, Loss, Open, fit, layout, narrowed, opened
from .demand import Demand
from .fleet import Fleet, fleet, kept_rps
from .hardware import Offer, offers
from .parallelism import Pins, legal_tp, pipelines, splits, tp_refusal, uneven
from .precision import cast_on, fallback, requested

Order: TypeAlias = tuple[float, float, float, float, int, str, str]


@dataclass(frozen=True, slots=True)
class Solution:
    """One plan that meets every demand."""

    fit: Fit
    fleet: Fleet

    @property
    def order(self) -> Order:
        """What is minimised, and how ties break: a price per GPU says nothing of the machine around it, so of
        those that cost the same the one that is cheapest in the catalog is taken, then the smallest."""
        found, offer = self.fit.layout, self.fit.layout.offer
        gpus = round(self.fleet.high * found.gpus * offer.price_share, 6)
        return (
            round(self.fleet.steady_usd, 6),
            round(self.fleet.peak_usd, 6),
            gpus,
            offer.list_usd,
            0 if offer.memory_per_node is None else offer.memory_per_node,
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

    @property
    def label(self) -> str:
        """`2 x l4 (g6.12xlarge) with bf16`."""
        stages = f" in {self.pp} stages" if self.pp > 1 else ""
        kept = cast_on(self.offer.gpu, self.precision)
        return f"{self.tp * self.pp} x {self.offer.label}{stages} with {kept}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found."""

    best: Solution | None
    considered: tuple[Considered, ...]

    def binding(self) -> tuple[Considered, Loss]:
        """The candidate that came furthest and its loss; among equals the nearest miss."""
        return min(self._lost(), key=lambda pair: _distance(pair[1]))

    def nearest_first(self, path: str) -> list[tuple[Considered, Loss]]:
        """Everything that failed: at that field of the input first, and among them the nearest miss."""
        return sorted(self._lost(), key=lambda pair: (pair[1].path != path, _distance(pair[1])))

    def _lost(self) -> list[tuple[Considered, Loss]]:
        return [(item, item.outcome) for item in self.considered if isinstance(item.outcome, Loss)]


def _distance(lost: Loss) -> tuple[int, float]:
    return -STAGES.index(lost.stage), lost.excess


def search(demand: Demand) -> Outcome:
    """Try everything. Raises `InvalidInput` for pins that are illegal for the model."""
    precision = requested(demand.model, demand.args.model.precision, demand.kind.limits)
    available = offers(demand.args, demand.can)
    if demand.batcher is not None:
        return _evaluate(demand, _whole(demand, available, precision))
    _check_pins(demand, precision, available)
    tried = _layouts(demand, available, precision)
    lower = fallback(demand.model, demand.args.model.precision)
    if lower is not None and not any(isinstance(found, Layout) for *_, found in tried):
        more = _layouts(demand, available, lower)
        # Only where the arithmetic runs at that precision: else it would be smaller, but no faster.
        tried += [item for item in more if not isinstance(item[-1], Layout) or item[-1].served.native]
    return _evaluate(demand, tried)


_Tried = tuple[Offer, int, int, str, Layout | Loss]
"""Where, in how many shards and stages, at which precision, and what became of it."""


def _whole(demand: Demand, available: tuple[Offer, ...], precision: str) -> list[_Tried]:
    """Whole copies on each GPU of a replica, for an engine that does not split a model."""
    asked = demand.args.hardware.gpus_per_replica
    gpus = 1 if asked is None else asked
    return [
        (offer, gpus, 1, precision, layout(demand, offer, gpus, 1, precision))
        if gpus <= offer.most_gpus
        else (offer, gpus, 1, precision, _too_few(demand, offer))
        for offer in available
    ]


def _layouts(demand: Demand, available: tuple[Offer, ...], precision: str) -> list[_Tried]:
    found: list[_Tried] = []
    model, pins = demand.model, pins_of(demand)
    for offer in available:
        tried = _filled(demand, offer, precision, splits(model, precision, offer.most_gpus, pins))
        for more in (uneven, pipelines) if pins.free else ():
            if not any(isinstance(item[-1], Layout) for item in tried):
                tried += _filled(demand, offer, precision, more(model, precision, offer.most_gpus))
        found += tried if tried else [(offer, 1, 1, precision, _too_few(demand, offer))]
    return found


def _filled(demand: Demand, offer: Offer, precision: str, sizes: tuple[tuple[int, int], ...]) -> list[_Tried]:
    return [(offer, tp, pp, precision, layout(demand, offer, tp, pp, precision)) for tp, pp in sizes]


def pins_of(demand: Demand) -> Pins:
    """What the user fixed of the split."""
    engine = demand.engine
    return Pins(
        engine.tensor_parallel_size, engine.pipeline_parallel_size, demand.args.hardware.gpus_per_replica
    )


def _too_few(demand: Demand, offer: Offer) -> Loss:
    pinned = demand.engine.tensor_parallel_size
    path = "engine.tensor_parallel_size" if pinned is not None else "hardware.gpus_per_replica"
    reason = f"a node of {offer.label} has {offer.gpus_per_node} GPUs, and a replica lives on one node"
    if offer.cut is not None:
        reason = f"{offer.label} is a part of a GPU, which no model can be split over with another"
    return Loss("memory", reason, path)


def _check_pins(demand: Demand, precision: str, available: tuple[Offer, ...]) -> None:
    """A pin that is illegal for the model, whatever the hardware, lists what is legal."""
    pins, model = pins_of(demand), demand.model
    largest = max(offer.most_gpus for offer in available)
    legal = legal_tp(model, precision, largest)
    if not legal:
        raise InvalidInput([_unsplittable(model, precision)])
    allowed = f"one of {', '.join(map(str, legal))} for {model.id}"
    fix = f"Use {legal[-1]}, the largest that fits a node, or fewer; more replicas use the other GPUs."
    wrong: list[Violation] = []
    if pins.tp is not None and (reason := tp_refusal(model, pins.tp, precision)) is not None:
        wrong.append(Violation("engine.tensor_parallel_size", pins.tp, f"{allowed} ({reason})", fix))
    if pins.pp is not None and pins.pp > model.layers:
        fewer = f"at most {model.layers}, the model's layers"
        wrong.append(Violation("engine.pipeline_parallel_size", pins.pp, fewer, "Lower it."))
    if not wrong and pins.gpus is not None:
        wrong += _gpu_violations(pins, pins.gpus, model, precision, allowed)
    if wrong:
        raise InvalidInput(wrong)


def _unsplittable(model: Model, precision: str) -> Violation:
    """No size at all is legal, not even one GPU: the engine does not load such weights."""
    reason = tp_refusal(model, 1, precision)
    fix = "Use a repository at another precision, or correct model.config."
    return Violation("model.id", model.id, f"weights that the engine can load ({reason})", fix)


def _gpu_violations(pins: Pins, gpus: int, model: Model, precision: str, allowed: str) -> Iterator[Violation]:
    path = "hardware.gpus_per_replica"
    stages = pins.pp
    if stages is None and pins.tp is not None:
        stages = max(1, gpus // pins.tp)
    if pins.tp is not None and stages is not None and gpus != pins.tp * stages:
        product = "tensor_parallel_size x pipeline_parallel_size"
        fix = "Set it to that, or leave it out."
        shown = pins.tp * stages
        yield Violation(path, gpus, f"{product} = {shown}", fix)
    elif not splits(model, precision, gpus, pins):
        yield Violation(path, gpus, allowed, "Use one of these; more replicas use the other GPUs.")


@dataclass(frozen=True, slots=True)
class _Open:
    """A layout that is worth a closer look, and the least it can cost per hour."""

    layout: Layout
    batch: Open
    replicas: int
    floor: float


_Key = tuple[Gpu, float, int, int, str]


class _Memory:
    """What was found for a GPU and its links, which does not depend on the machine's price."""

    def __init__(self) -> None:
        self.opened: dict[_Key, Open | Loss] = {}
        self.narrowed: dict[_Key, Open] = {}
        self.fitted: dict[_Key, Fit] = {}


def _evaluate(demand: Demand, tried: list[_Tried]) -> Outcome:
    """Cheapest first by what each must cost at least; the rest cannot win once that exceeds the best."""
    memory = _Memory()
    considered: list[Considered] = []
    worth: list[tuple[_Tried, _Open]] = []
    for item in tried:
        outcome = _open(demand, item[-1], memory)
        if isinstance(outcome, Loss):
            considered.append(Considered(*item[:-1], outcome))
        else:
            worth.append((item, outcome))
    best: Solution | None = None
    for (offer, tp, pp, precision, _), entry in sorted(worth, key=lambda pair: pair[1].floor):
        outcome = _solve(demand, entry, best, memory)
        if isinstance(outcome, Solution) and (best is None or outcome.order < best.order):
            best = outcome
        considered.append(Considered(offer, tp, pp, precision, outcome))
    return Outcome(best, tuple(considered))


def _key(found: Layout) -> _Key:
    gpu, link = found.offer.gpu, found.offer.link_bytes_per_s
    return gpu, link, found.tp, found.pp, found.served.precision


def _open(demand: Demand, found: Layout | Loss, memory: _Memory) -> _Open | Loss:
    if isinstance(found, Loss):
        return found
    key = _key(found)
    wide = memory.opened.get(key)
    if wide is None:
        wide = memory.opened[key] = opened(demand, found)
    return wide if isinstance(wide, Loss) else _floored(demand, found, wide)


def _floored(demand: Demand, found: Layout, batch: Open) -> _Open:
    """No plan keeps fewer replicas than its traffic takes at the highest rate that there can be."""
    given = demand.args.scaling.min_replicas
    least = max(1, 1 if given is None else given)
    if demand.in_flight is not None:
        needed = demand.in_flight / batch.replica.places
    else:
        needed = kept_rps(demand, found) / batch.most
    least = max(least, math.ceil(needed - 1e-9))
    per_node = max(1, found.offer.gpus_per_node // found.gpus)
    return _Open(found, batch, least, found.offer.hourly(least, found.gpus, per_node))


def _solve(demand: Demand, entry: _Open, best: Solution | None, memory: _Memory) -> Solution | Loss:
    if best is not None and entry.floor > best.fleet.steady_usd + 1e-9:
        return _dearer(entry, best)
    key = _key(entry.layout)
    batch = memory.narrowed.get(key)
    if batch is None:
        batch = memory.narrowed[key] = narrowed(demand, entry.batch)
    closer = _floored(demand, entry.layout, batch)
    if best is not None and closer.floor > best.fleet.steady_usd + 1e-9:
        return _dearer(closer, best)
    fitted = memory.fitted.get(key)
    if fitted is None:
        fitted = memory.fitted[key] = fit(demand, entry.layout, batch)
    placed = dataclasses.replace(fitted, layout=entry.layout)
    counted = fleet(demand, placed)
    return counted if isinstance(counted, Loss) else Solution(placed, counted)


def _dearer(entry: _Open, best: Solution) -> Loss:
    count = f"{entry.replicas} replica{'s' * (entry.replicas > 1)}"
    reason = f"at least {count}, ${entry.floor:.2f}/h"
    steady = best.fleet.steady_usd  # 0 for hardware that costs nothing
    return Loss("price", reason, "", entry.floor / steady if steady > 0 else math.inf)
