"""Which option serves a stack: the one that is named, or the cheapest of those that can.

Trap: what an option costs is only known once it is planned, so each that may serve is planned to the end; a
service that is refused late, by its own limits, loses like any other and says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from servingstack.args import ServingStackArgs
from servingstack.errors import Infeasible, InvalidInput, Violation
from servingstack.plan import Alternative, PlanWarning, ServingPlan
from servingstack.targets import (
    REGISTRY,
    Capabilities,
    all_capabilities,
    check_overrides,
    planning,
    published,
)

from .assemble import assemble
from .checks import check_engine, option_violations
from .demand import resolve
from .hardware import CLOUDS
from .refusal import Unmet
from .search import Order, search

Refusal = InvalidInput | Infeasible


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan and what the search minimised for it."""

    plan: ServingPlan
    order: Order


def choose(args: ServingStackArgs) -> ServingPlan:
    """The plan of the option that is named, else the cheapest. Raises what refuses it; where several were
    tried, what refused the last, with the others' reasons."""
    planned: list[Planned] = []
    refused: list[tuple[Capabilities, Refusal]] = []
    for group in candidates(args):
        for can in group:
            try:
                planned.append(plan_for(args, can))
            except (InvalidInput, Infeasible) as refusal:
                refused.append((can, refusal))
        if planned:
            break
    if not planned:
        raise _refusal(refused)
    best, *others = sorted(planned, key=lambda each: each.order)
    lost = [*(_dearer(each, best) for each in others), *(_unable(can, reason) for can, reason in refused)]
    plan = best.plan
    return plan.model_copy(
        update={
            "alternatives": (*lost, *plan.alternatives),
            "warnings": (*plan.warnings, *_brought(plan, refused), *_unused(args, plan)),
        }
    )


def _brought(plan: ServingPlan, refused: list[tuple[Capabilities, Refusal]]) -> Iterator[PlanWarning]:
    """A cluster was chosen because no service of the cloud can: somebody must have one."""
    if not refused or plan.placement is None:
        return
    names = ", ".join(can.option for can, _ in refused)
    yield PlanWarning(
        code="cluster-to-bring",
        path="target.option",
        message=(
            f"{names} cannot serve this (see the alternatives), so it is planned for a Kubernetes cluster "
            "that you bring, with such nodes. Set target.option: kubernetes if that is meant."
        ),
    )


def _unused(args: ServingStackArgs, plan: ServingPlan) -> Iterator[PlanWarning]:
    """Settings of options that an automatic choice did not take."""
    chosen = plan.architecture.option
    for option, entry in REGISTRY.items():
        name = "kubernetes" if option == "kubernetes" else entry.settings
        if name is not None and option != chosen and name in args.target.model_fields_set:
            yield PlanWarning(
                code="settings-not-used",
                path=f"target.{name}",
                message=f"{chosen} was chosen, so what is set for {option} says nothing here.",
            )


def candidates(args: ServingStackArgs) -> list[list[Capabilities]]:
    """The options to plan for, in groups of which the first that serves wins: a cloud's own before a cluster
    that one must bring. Nodes that are described are a cluster's; a vendor beside the clouds is only taken
    when it is named."""
    every, target = all_capabilities(), args.target
    if target.option != "auto":
        return [[can for can in every if can.option == target.option]]
    brought = [can for can in every if can.cloud is None]
    if target.cloud is None or args.hardware.nodes is not None:
        return [brought]
    return [[can for can in every if can.cloud in CLOUDS and target.cloud in ("auto", can.cloud)], brought]


def plan_for(args: ServingStackArgs, can: Capabilities) -> Planned:
    """The plan on one option. Raises `InvalidInput` or `Infeasible`."""
    found = [*option_violations(args, can), *planning(can.option).violations(args)]
    if found:
        raise InvalidInput(found)
    if can.published:
        made = published(can.option).whole(args)
        return Planned(made, (made.cost.hourly_usd, made.cost.peak_hourly_usd, 0.0, 0.0, 0, can.option, ""))
    demand = resolve(args, can)
    check_engine(demand)
    outcome = search(demand)
    if outcome.best is None:
        raise Unmet(args, outcome, can)
    made = assemble(demand, outcome, outcome.best)
    check_overrides(made)
    return Planned(made, outcome.best.order)


def _refusal(refused: list[tuple[Capabilities, Refusal]]) -> Refusal:
    """What to raise where no option serves: an input that is wrong everywhere, else what binds at last."""
    unable = next((reason for _, reason in reversed(refused) if isinstance(reason, Infeasible)), None)
    if unable is None:
        return InvalidInput(_everywhere(refused))
    others = [f"option {can.option}: {_first(reason)}" for can, reason in refused if reason is not unable]
    whole = unable.told() if isinstance(unable, Unmet) else unable
    return Infeasible(whole.binding, whole.nearest, (*whole.considered, *others))


def _everywhere(refused: list[tuple[Capabilities, Refusal]]) -> Iterator[Violation]:
    """What is wrong for every option once, as it is; and what only some options refuse, each with whose it
    is: any of them is a way out."""
    by_option = {can.option: reason.violations for can, reason in refused if isinstance(reason, InvalidInput)}
    common = [
        each for each in next(iter(by_option.values())) if all(each in found for found in by_option.values())
    ]
    if common:
        yield from common  # no option serves before these are mended; the rest may then be none
        return
    for option, found in by_option.items():
        for each in found:
            own = each.allowed if f"option {option}" in each.allowed else f"option {option}: {each.allowed}"
            yield replace(each, allowed=own)


def _first(reason: Refusal) -> str:
    """The limit that binds, or what is wrong first."""
    return reason.binding if isinstance(reason, Infeasible) else str(reason.violations[0])


def _dearer(each: Planned, best: Planned) -> Alternative:
    mine, theirs = each.order[0], best.order[0]
    return _row(each.plan, f"costs ${mine:.2f}/h at the mean against ${theirs:.2f}/h")


def _row(plan: ServingPlan, reason: str) -> Alternative:
    architecture = plan.architecture
    return Alternative(
        option=architecture.option,
        accelerator=architecture.accelerator,
        instance_type=architecture.instance_type,
        gpus_per_replica=architecture.gpus_per_replica,
        tensor_parallel_size=architecture.tensor_parallel_size,
        precision=architecture.precision,
        replicas=plan.scaling.min_replicas,
        hourly_usd=plan.cost.hourly_usd,
        lost_because=reason,
    )


def _unable(can: Capabilities, reason: Refusal) -> Alternative:
    """An option that cannot serve: no hardware of it was chosen."""
    return Alternative(
        option=can.option,
        accelerator="",
        instance_type=None,
        gpus_per_replica=0,
        tensor_parallel_size=0,
        precision="",
        replicas=None,
        hourly_usd=None,
        lost_because=_first(reason),
    )


__all__ = ["candidates", "choose", "plan_for"]
