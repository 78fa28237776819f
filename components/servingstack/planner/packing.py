"""Stacks of one environment that share GPUs (`colocate`): whether a group fits, what it costs, who is in it.

Each member is planned alone, with a share of one GPU's memory that it keeps to and with the worst the others
may do to its time. What is left is a sum: a node of the group has one GPU and at most one pod of each member,
so the group fits every node if the members' shares, cores, memory and turns do.

Trap: a member's own lock does not move when another member grows. So the sum is taken over the plans that
will be deployed, locked ones among them, each time anything is planned or deployed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from servingstack.args import NodeArgs, ServingStackArgs
from servingstack.catalog import GIB
from servingstack.errors import Violation
from servingstack.plan import GpuPart, ServingPlan

ROUNDING = 1e-9
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Entry:
    """One stack of an environment."""

    path: str
    """Where it stands in the document: `stacks[1]`."""
    args: ServingStackArgs
    plan: ServingPlan


@dataclass(frozen=True, slots=True)
class Member:
    """One stack of a group."""

    entry: Entry
    part: GpuPart

    @property
    def name(self) -> str:
        return self.entry.plan.name

    @property
    def share(self) -> float:
        """Of one GPU's memory."""
        return self.part.memory_share

    @property
    def memory(self) -> int:
        """The same in bytes."""
        return self.entry.plan.architecture.memory_per_gpu.total

    def __str__(self) -> str:
        return f"{self.name} {self.memory / GIB:.1f} GiB ({self.share:.0%})"


@dataclass(frozen=True, slots=True)
class Group:
    """Stacks that share GPUs."""

    name: str
    members: tuple[Member, ...]

    @property
    def share(self) -> float:
        """What the members take of one GPU's memory together."""
        return sum(member.share for member in self.members)

    @property
    def gpus(self) -> int:
        """GPUs at the fewest replicas: the member with the most decides, the others lie beside it."""
        return max(member.entry.plan.scaling.min_replicas for member in self.members)

    @property
    def hourly_usd(self) -> float:
        """What those GPUs cost, whoever uses them."""
        first = self.members[0]
        return self.gpus * first.entry.plan.cost.per_gpu_hour_usd / first.part.price_share

    @property
    def idle_usd(self) -> float:
        """The part of it that no member's own plan counts, per hour."""
        return self.hourly_usd - sum(member.entry.plan.cost.hourly_usd for member in self.members)

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.name,
            "members": [member.name for member in self.members],
            "accelerator": self.members[0].entry.plan.architecture.accelerator,
            "gpus": self.gpus,
            "memory_share": round(self.share, 4),
            "hourly_usd": round(self.hourly_usd, 4),
            "idle_usd": round(self.idle_usd, 4),
        }

    def sentence(self) -> str:
        """What was packed, and what it costs once."""
        listed = ", ".join(map(str, self.members))
        accelerator = self.members[0].entry.plan.architecture.accelerator
        return (
            f"Group {self.name}: {listed} share {self.gpus} x {accelerator}, {self.share:.0%} of its memory, "
            f"at ${self.hourly_usd:.2f}/h in all, ${self.idle_usd:.2f}/h of it for what nobody takes."
        )


def groups(entries: Iterable[Entry]) -> tuple[Group, ...]:
    """The groups of an environment by name, members in the document's order."""
    found: dict[str, list[Member]] = {}
    for entry in entries:
        part = entry.plan.architecture.gpu_part
        if part is not None and part.group is not None:
            found.setdefault(part.group, []).append(Member(entry, part))
    return tuple(Group(name, tuple(members)) for name, members in sorted(found.items()))


def violations(entries: Sequence[Entry]) -> list[Violation]:
    """What keeps a group off its GPUs, naming members and GiB."""
    return [violation for group in groups(entries) for violation in _of_group(group)]


def bins(members: Iterable[Member]) -> tuple[tuple[Member, ...], ...]:
    """The members on as few GPUs as first-fit decreasing finds."""
    return first_fit(members, lambda member: member.share)


def first_fit(
    items: Iterable[Item], share: Callable[[Item], float], most: int | None = None
) -> tuple[tuple[Item, ...], ...]:
    """Items on as few GPUs as first-fit decreasing finds, at most so many on each; the order of equals is the
    given one."""
    found: list[list[Item]] = []
    for item in sorted(items, key=lambda each: -share(each)):
        for held in found:
            room = sum(map(share, held)) + share(item) <= 1 + ROUNDING
            if room and (most is None or len(held) < most):
                held.append(item)
                break
        else:
            found.append([item])
    return tuple(map(tuple, found))


def _of_group(group: Group) -> Iterator[Violation]:
    yield from _differences(group)
    if group.share > 1 + ROUNDING:
        yield _too_large(group)
    turns = min(member.part.turns for member in group.members)
    if len(group.members) > turns:
        names = ", ".join(member.name for member in group.members)
        allowed = f"at most {turns} stacks, the turns of one GPU; {len(group.members)} are in it: {names}"
        fix = "Raise sharing.time_slices of the nodes, or split the group."
        yield Violation(_path(group.members[-1]), group.name, allowed, fix)
    yield from _host(group)


def _path(member: Member) -> str:
    return f"{member.entry.path}.colocate" if member.entry.path else "colocate"


def _too_large(group: Group) -> Violation:
    whole = group.members[0].memory / group.members[0].share
    needed = sum(member.memory for member in group.members)
    split = "; ".join(
        f"{group.name}-{number}: {', '.join(member.name for member in each)}"
        for number, each in enumerate(bins(group.members), start=1)
    )
    listed = ", ".join(map(str, group.members))
    accelerator = group.members[0].entry.plan.architecture.accelerator
    allowed = (
        f"stacks that fit one {accelerator} of {whole / GIB:.1f} GiB together; {listed} need "
        f"{needed / GIB:.1f} GiB, {(needed - whole) / GIB:.1f} too much"
    )
    fix = f"Use a larger GPU, less traffic or context a stack, or several groups: {split}."
    return Violation(_path(group.members[-1]), group.name, allowed, fix)


def _differences(group: Group) -> Iterator[Violation]:
    """Members must mean the same nodes, in the same namespace: the pods find each other by a label there."""
    first = group.members[0]
    for member in group.members[1:]:
        for what, where in (("namespace", "target.kubernetes.namespace"), ("nodes", "hardware.nodes")):
            if _side(member, what) != _side(first, what):
                allowed = f"the {what} of {first.name}, which is in the group too: {_side(first, what)}"
                path = f"{member.entry.path}.{where}" if member.entry.path else where
                fix = "Say it once, in `defaults`; pin hardware.accelerators where the nodes differ."
                yield Violation(path, _side(member, what), allowed, fix)


def _side(member: Member, what: str) -> str:
    plan = member.entry.plan
    place = plan.placement
    if what == "namespace":
        return "" if place is None else place.namespace
    labels = {} if place is None else place.node_selector
    shown = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    whole = round(member.memory / member.share / GIB)
    kind = f"{plan.architecture.accelerator} ({plan.architecture.accelerator_form}, {whole} GiB)"
    return f"{kind}, {member.part.turns} turns{', ' + shown if shown else ''}"


def _host(group: Group) -> Iterator[Violation]:
    """The members' pods are on one node: its cores and memory must hold all of them."""
    node = _node(group.members[0])
    if node is None:
        return
    plans = [member.entry.plan.architecture for member in group.members]
    cpu, memory = sum(each.cpu_request for each in plans), sum(each.memory_request_bytes for each in plans)
    path = _path(group.members[-1])
    if cpu > node.cpu + ROUNDING:
        allowed = f"stacks that one node holds: together they ask {cpu:g} cores of {node.cpu:g}"
        yield Violation(path, group.name, allowed, "Use larger nodes, or lower hardware.cpu_request.")
    if memory > node.memory:
        allowed = (
            f"stacks that one node holds: together they ask {memory / GIB:.0f} GiB of memory of "
            f"{node.memory / GIB:.0f}"
        )
        yield Violation(path, group.name, allowed, "Use nodes with more memory, or split the group.")


def _node(member: Member) -> NodeArgs | None:
    """The node that the member was planned for; None where a locked plan's input named others."""
    plan = member.entry.plan
    labels = {} if plan.placement is None else plan.placement.node_selector
    for node in member.entry.args.hardware.nodes or ():
        same = node.accelerator == plan.architecture.accelerator and dict(node.selector or {}) == labels
        if same and node.sharing is not None:
            return node
    return None
