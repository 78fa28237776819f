"""What cannot be met: the limit that binds, and the nearest changes that would help.

Trap: a demand is never bent to fit. Each suggestion relaxes one demand alone, by as little as was found to be
enough, and has been planned: what is suggested works.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from servingstack import catalog
from servingstack.args import ServingStackArgs, latency_objectives
from servingstack.engines.registry import tuning
from servingstack.errors import Infeasible, InvalidInput, Nearest
from servingstack.targets import Capabilities, planning
from servingstack.units import format_duration

from .assemble import assemble
from .checks import option_violations
from .demand import resolve
from .precision import siblings
from .search import Outcome, Solution, search

_FACTORS = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
_ABOVE_FLOOR = (1.25, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Times what the fastest hardware takes without load: tried where no factor of what was asked is enough."""
MOST = 4
"""Suggestions; more would hide the near ones."""


class Unmet(Infeasible):
    """What binds, without the nearest changes: they take a search for each, and where another option serves,
    nobody asks for them."""

    def __init__(self, args: ServingStackArgs, outcome: Outcome, can: Capabilities) -> None:
        nearest_miss, loss = outcome.binding()
        considered = dict.fromkeys(
            f"{item.label}: {lost.reason}" for item, lost in outcome.nearest_first(loss.path)
        )
        binding = f"{loss.path}: {nearest_miss.label}: {loss.reason}"
        super().__init__(binding, (), tuple(considered)[:12])
        self._asked = args, outcome, can

    def told(self) -> Infeasible:
        """The error to raise: with the nearest changes."""
        args, outcome, can = self._asked
        _, loss = outcome.binding()
        found = list(_nearest(args, can, _floors(outcome)))
        found.sort(
            key=lambda item: (not item.change.startswith(loss.path), not item.change.startswith("engine."))
        )
        return Infeasible(self.binding, found[:MOST], self.considered)


def _solve(args: ServingStackArgs, can: Capabilities) -> Solution | None:
    """The plan that a change would give, if the option takes it: a service refuses by limits of its own,
    some of which only a whole plan shows."""
    try:
        demand = resolve(args, can)
        outcome = search(demand)
        if outcome.best is None or can.on_kubernetes:
            return outcome.best
        if option_violations(args, can) or planning(can.option).violations(args):
            return None
        assemble(demand, outcome, outcome.best)
    except (InvalidInput, Infeasible):
        return None
    return outcome.best


def _with(args: ServingStackArgs, part: str, **fields: Any) -> ServingStackArgs:
    inner = getattr(args, part)
    return args.model_copy(update={part: inner.model_copy(update=fields)})


def _cost(solution: Solution) -> str:
    found = solution.fit.layout
    size = f"{found.gpus} x {found.offer.gpu.device}"
    return f"{solution.fleet.span} of {size}, ${solution.fleet.hourly_usd:.2f}/h"


def _floors(outcome: Outcome) -> dict[str, float]:
    """By limit, the fastest that a single request was on any hardware, as a ratio of what was asked."""
    found: dict[str, float] = {}
    for _, loss in outcome.nearest_first(""):
        if loss.stage == "latency":
            found[loss.path] = min(loss.excess, found.get(loss.path, loss.excess))
    return found


def _factors(floor: float | None) -> Iterator[float]:
    """By what to lengthen a limit, rising."""
    yield from _FACTORS
    if floor is not None:
        yield from (floor * more for more in _ABOVE_FLOOR if floor * more > _FACTORS[-1])


def _nearest(args: ServingStackArgs, can: Capabilities, floors: dict[str, float]) -> Iterator[Nearest]:
    yield from _durations(args, can, floors)
    yield from _hardware(args, can)
    yield from _model(args, can)
    yield from _pins(args, can)
    yield from _traffic(args, can)


def _durations(args: ServingStackArgs, can: Capabilities, floors: dict[str, float]) -> Iterator[Nearest]:
    names, helped = latency_objectives(args.slo), False
    for name in names:
        for factor in _factors(floors.get(f"slo.{name}")):
            longer = _longer(args, name, factor)
            found = _solve(_with(args, "slo", **{name: longer}), can)
            if found is not None:
                yield Nearest(f"slo.{name}: {format_duration(longer)}", _cost(found))
                helped = True
                break
    if not helped and len(names) > 1:
        yield from _together(args, can)
    seconds = args.request_s
    for factor in _factors(floors.get("request_timeout")):
        longer = timedelta(seconds=round(seconds * factor))
        found = _solve(args.model_copy(update={"request_timeout": longer, "stream_timeout": None}), can)
        if found is not None:
            yield Nearest(f"request_timeout: {format_duration(longer)}", _cost(found))
            break


def _longer(args: ServingStackArgs, name: str, factor: float) -> timedelta:
    asked: timedelta = getattr(args.slo, name)
    return timedelta(milliseconds=_readable(asked.total_seconds() * 1000 * factor))


def _together(args: ServingStackArgs, can: Capabilities) -> Iterator[Nearest]:
    """Objectives of which none helps alone: one by one, each that no hardware keeps is lengthened to a
    little above what the fastest takes, until there is a plan or nothing is left to lengthen."""
    for more in _ABOVE_FLOOR:
        relaxed, changed = args, dict[str, timedelta]()
        for _ in latency_objectives(args.slo):
            outcome = search(resolve(relaxed, can))
            if outcome.best is not None:
                break
            floors = _floors(outcome)
            name = next(
                (n for n in latency_objectives(args.slo) if f"slo.{n}" in floors and n not in changed), None
            )
            if name is None:
                break
            changed[name] = _longer(args, name, floors[f"slo.{name}"] * more)
            relaxed = _with(relaxed, "slo", **changed)
        found = _solve(relaxed, can)
        if found is not None and changed:
            change = ", ".join(f"slo.{name}: {format_duration(longer)}" for name, longer in changed.items())
            yield Nearest(change, _cost(found))
            return


def _readable(milliseconds: float) -> int:
    """Two significant digits, rounded up."""
    step = 1
    while milliseconds / step > 100:
        step *= 10
    return -int(-milliseconds // step) * step


def _hardware(args: ServingStackArgs, can: Capabilities) -> Iterator[Nearest]:
    hardware = args.hardware
    if hardware.max_gpus is not None:
        found = _solve(_with(args, "hardware", max_gpus=None), can)
        if found is not None:
            fleet = found.fleet
            asked = 0 if args.scaling.max_replicas is None else args.scaling.max_replicas
            gpus = (max(fleet.peak, fleet.low, asked) + fleet.surge) * found.fit.layout.gpus
            yield Nearest(f"hardware.max_gpus: {gpus}", _cost(found))
    if hardware.max_hourly_cost is not None:
        found = _solve(_with(args, "hardware", max_hourly_cost=None), can)
        if found is not None:
            yield Nearest(f"hardware.max_hourly_cost: {found.fleet.peak_usd:.2f}", _cost(found))
    if hardware.accelerators is not None and hardware.nodes is None:
        found = _solve(_with(args, "hardware", accelerators=None), can)
        if found is not None:
            yield Nearest(f"hardware.accelerators: [{found.fit.layout.offer.gpu.id}]", _cost(found))
    if hardware.instance_type is not None:
        found = _solve(_with(args, "hardware", instance_type=None), can)
        if found is not None:
            name = found.fit.layout.offer.instance_type or "left out"
            yield Nearest(f"hardware.instance_type: {name}", _cost(found))
    if hardware.nodes is not None:
        yield from _nodes(args, can)


def _nodes(args: ServingStackArgs, can: Capabilities) -> Iterator[Nearest]:
    """More of the same nodes, else other ones."""
    nodes = args.hardware.nodes or ()
    for factor in (1, 2, 4, 8, 16):
        more = tuple(node.model_copy(update={"count": node.count + factor}) for node in nodes)
        found = _solve(_with(args, "hardware", nodes=more), can)
        if found is not None:
            kinds = ", ".join(f"{node.count} x {node.gpus} x {node.accelerator}" for node in more)
            yield Nearest(f"hardware.nodes: {kinds}", _cost(found))
            return
    found = _solve(_with(args, "hardware", nodes=None), can)
    if found is not None:
        gpu = found.fit.layout.offer.gpu.id
        yield Nearest(f"hardware.nodes: nodes with {found.fit.layout.gpus} x {gpu}", _cost(found))


def _model(args: ServingStackArgs, can: Capabilities) -> Iterator[Nearest]:
    demand = resolve(args, can)
    length = demand.max_model_len
    while length // 2 >= demand.sequence_tokens:
        length //= 2
        found = _solve(_with(args, "model", max_model_len=length), can)
        if found is not None:
            yield Nearest(f"model.max_model_len: {length}", _cost(found))
            break
    if args.model.precision != "fp8" and demand.model.precision in ("bf16", "fp16", "fp32"):
        found = _solve(_with(args, "model", precision="fp8"), can)
        if found is not None:
            yield Nearest("model.precision: fp8", _cost(found))
    yield from _adapters(args, can)
    yield from _repositories(args, can)


def _adapters(args: ServingStackArgs, can: Capabilities) -> Iterator[Nearest]:
    """Fewer LoRA adapters in a batch: the others wait in the host's memory."""
    places = len(args.model.adapters)
    while places > 1:
        places //= 2
        fewer = tuning(args).model_copy(update={"max_loras": places})
        found = _solve(args.model_copy(update={"engine": fewer}), can)
        if found is not None:
            yield Nearest(f"engine.max_loras: {places}", _cost(found))
            return


def _repositories(args: ServingStackArgs, can: Capabilities) -> Iterator[Nearest]:
    """Quantised repositories of the same model that the catalog knows: one per precision."""
    model = catalog.model(args.model.id)
    if model is None or args.model.config is not None or args.model.precision != "auto":
        return
    tried = {model.precision}
    for other in siblings(model):
        if other.precision in tried:
            continue
        found = _solve(_with(args, "model", id=other.id), can)
        if found is not None:
            tried.add(other.precision)
            yield Nearest(f"model.id: {other.id}", _cost(found))


def _pins(args: ServingStackArgs, can: Capabilities) -> Iterator[Nearest]:
    """Decisions that the user fixed, set free one at a time."""
    fixed: list[tuple[str, str]] = [
        *(("engine", name) for name in ("tensor_parallel_size", "pipeline_parallel_size", "max_num_seqs")),
        *(("engine", name) for name in ("max_num_batched_tokens", "kv_cache_dtype", "dtype")),
        ("hardware", "gpus_per_replica"),
        ("scaling", "max_replicas"),
    ]
    for part, name in fixed:
        if getattr(getattr(args, part), name, None) is None:
            continue
        found = _solve(_with(args, part, **{name: None}), can)
        if found is not None:
            shown = found.fleet.peak if name == "max_replicas" else "left out"
            yield Nearest(f"{part}.{name}: {shown}", _cost(found))
    if args.rollout.surge is False:
        found = _solve(_with(args, "rollout", surge=True), can)
        if found is not None:
            yield Nearest("rollout.surge: true", _cost(found))
    cluster = args.target.kubernetes
    if cluster.weights_access_mode == "ReadWriteOnce":
        shared = cluster.model_copy(update={"weights_access_mode": "ReadWriteMany"})
        found = _solve(_with(args, "target", kubernetes=shared), can)
        if found is not None:
            yield Nearest("target.kubernetes.weights_access_mode: ReadWriteMany", _cost(found))
    if args.scaling.scale_to_zero_after is not None:
        found = _solve(_with(args, "scaling", scale_to_zero_after=None, min_replicas=None), can)
        if found is not None:
            yield Nearest("scaling.scale_to_zero_after: left out, with min_replicas", _cost(found))


def _traffic(args: ServingStackArgs, can: Capabilities) -> Iterator[Nearest]:
    mean, peak = args.traffic.requests_per_second, args.traffic.peak_requests_per_second
    if mean is None:
        return
    for factor in (0.5, 0.25, 0.1):
        less = {
            "requests_per_second": mean * factor,
            "peak_requests_per_second": None if peak is None else peak * factor,
        }
        found = _solve(_with(args, "traffic", **less), can)
        if found is not None:
            yield Nearest(f"traffic.requests_per_second: {mean * factor:.3g}", _cost(found))
            return
