"""A small model on a big GPU, and what would put the rest of it to use: a slice, or others beside it.

Trap: a suggestion that was not planned may not work. So each is a search of its own, for the same demands on
the same GPU, cut or shared; what keeps them and costs clearly less is what is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from servingstack import catalog
from servingstack.args import NodeArgs, ServingStackArgs, SharingArgs
from servingstack.errors import InvalidInput
from servingstack.plan import ServingPlan
from servingstack.targets import Capabilities, capabilities

from .demand import resolve
from .packing import Entry, first_fit
from .search import Solution, search

BUSY = 0.30
"""A GPU that is busier at the peak is no small model's."""
CHEAPER = 0.7
"""Share of the price below which a part of the GPU is worth a word."""
TURNS = 4
"""Pods on one GPU that a suggestion reckons with."""
_ROOMY = {"count": 1000, "cpu": 1000.0, "memory": "100Ti"}
"""A node that is short of nothing: what is asked is whether the GPU would do."""


@dataclass(frozen=True, slots=True)
class Board:
    """The GPU that a plan takes whole."""

    accelerator: str
    form: str
    usd: float
    """Per GPU and hour."""


def slice_of(args: ServingStackArgs, can: Capabilities, board: Board) -> Solution | None:
    """The cheapest slice of the GPU that meets every demand."""
    found: list[Solution] = []
    for profile in catalog.mig_profiles(board.accelerator):
        if len(profile.starts) > 1:
            mig = {profile.name: len(profile.starts)}
            found += _solved(args, can, _node(board, mig=mig))
    return min(found, key=lambda solution: solution.order, default=None)


def turn_of(args: ServingStackArgs, can: Capabilities, board: Board) -> Solution | None:
    """The smallest share of the GPU's memory that meets every demand while others use it as well."""
    node = _node(board, sharing=SharingArgs(time_slices=TURNS, renamed=True))
    return next(iter(_solved(args.model_copy(update={"colocate": "others"}), can, node)), None)


def _node(board: Board, **part: object) -> NodeArgs:
    return NodeArgs.model_validate(
        {
            "accelerator": board.accelerator,
            "form": board.form,
            "gpus": 1,
            "hourly_price": board.usd,
            **_ROOMY,
            **part,
        }
    )


def _solved(args: ServingStackArgs, can: Capabilities, node: NodeArgs) -> Iterator[Solution]:
    free = {"nodes": (node,), "accelerators": None, "instance_type": None, "gpus_per_replica": None}
    free |= {"max_gpus": None, "max_hourly_cost": None, "prices": None}
    tried = args.model_copy(
        update={
            "hardware": args.hardware.model_copy(update=free),
            "target": args.target.model_copy(update={"cloud": None, "region": None}),
            "measured": None,
        }
    )
    try:
        best = search(resolve(tried, can)).best
    except InvalidInput:
        return
    if best is not None:
        yield best


def sentence(args: ServingStackArgs, chosen: Solution, can: Capabilities, busy: float) -> str | None:
    """What to do about a GPU of which a plan needs little; None where it needs enough of it."""
    layout = chosen.fit.layout
    offer = layout.offer
    if not can.on_kubernetes or offer.cut is not None or layout.gpus != 1 or busy >= BUSY:
        return None
    board = Board(offer.gpu.id, offer.gpu.form, offer.usd_per_gpu)
    whole = chosen.fleet.hourly_usd
    smaller = slice_of(args, can, board)
    if smaller is not None and smaller.fleet.hourly_usd <= CHEAPER * whole:
        profile = smaller.fit.layout.offer.gpu.part
        count = next(len(p.starts) for p in catalog.mig_profiles(board.accelerator) if p.name == profile)
        return (
            f"A slice {profile} meets every demand: cut the GPUs (hardware.nodes[].mig: "
            f"{{{profile}: {count}}}), {_saved(whole, smaller)}"
        )
    shared = turn_of(args, can, board)
    if shared is not None and shared.fleet.hourly_usd <= CHEAPER * whole:
        share = shared.fit.layout.offer.gpu.part
        return (
            f"It needs {share} of the GPU's memory even with {TURNS - 1} busy neighbours: share the GPU with "
            "other stacks (hardware.nodes[].sharing, and the same `colocate` on each), "
            f"{_saved(whole, shared)}"
        )
    return None


def _saved(whole: float, other: Solution) -> str:
    less = (whole - other.fleet.hourly_usd) * 730.0
    return f"${other.fleet.hourly_usd:.2f}/h instead of ${whole:.2f}/h, ${less:.0f} a month less."


@dataclass(frozen=True, slots=True)
class _Small:
    """A stack with a whole GPU of which it needs a part."""

    plan: ServingPlan
    share: float
    replicas: int
    usd: float
    """Of the GPU, per hour."""


def together(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Which stacks of an environment would fit one GPU together, and what that would save: a sentence for
    each set, the largest saving first."""
    found: dict[tuple[str, str], list[_Small]] = {}
    for entry in entries:
        small = _small(entry)
        if small is not None:
            architecture = entry.plan.architecture
            found.setdefault((architecture.accelerator, architecture.accelerator_form), []).append(small)
    said: list[tuple[float, str]] = []
    for (accelerator, _), smalls in found.items():
        for each in first_fit(smalls, lambda small: small.share, TURNS):
            saved = sum(one.plan.cost.hourly_usd for one in each) - max(
                one.replicas * one.usd for one in each
            )
            if len(each) > 1 and saved > 0:
                names = ", ".join(f"{one.plan.name} ({one.share:.0%})" for one in each)
                said.append(
                    (
                        saved,
                        f"{names} fit one {accelerator} together: give them one `colocate` on nodes "
                        f"with a single {accelerator} shared by turns, ${saved * 730.0:.0f} a month less.",
                    )
                )
    return tuple(sentence for _, sentence in sorted(said, key=lambda pair: -pair[0]))


def _small(entry: Entry) -> _Small | None:
    plan = entry.plan
    architecture = plan.architecture
    can = capabilities(architecture.option)
    whole = architecture.gpu_part is None and architecture.gpus_per_replica == 1
    if not whole or not can.on_kubernetes or plan.expected.utilisation_at_peak >= BUSY:
        return None
    board = Board(architecture.accelerator, architecture.accelerator_form, plan.cost.per_gpu_hour_usd)
    shared = turn_of(entry.args, can, board)
    if shared is None:
        return None
    cut = shared.fit.layout.offer.price_share
    return _Small(plan, cut, shared.fleet.low, board.usd)


__all__ = ["BUSY", "Board", "sentence", "slice_of", "together", "turn_of"]
