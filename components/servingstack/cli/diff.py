"""What a change of the stack files means: decisions, cost, resources, against the same files at a git ref.

Trap: both sides are rendered with the installed library. A change that comes from upgrading it shows only
where a lock file at the ref holds what was deployed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servingstack.changes import Change, changes, decision_changes
from servingstack.cli.graph import Resource, resources
from servingstack.cli.source import Planned
from servingstack.plan import ServingPlan


@dataclass(frozen=True)
class StackDiff:
    """One stack, then and now."""

    given: tuple[Change, ...]
    """Fields of the input."""
    decision: tuple[Change, ...]
    monthly_before: float
    monthly_after: float
    expected_before: float
    """At the mean traffic."""
    expected_after: float
    asleep: bool
    """Whether it may have no replica, then or now, so that the fewest say nothing of what it costs."""
    added: tuple[Resource, ...]
    removed: tuple[Resource, ...]
    changed: tuple[tuple[Resource, tuple[Change, ...]], ...]

    @property
    def empty(self) -> bool:
        return not (self.given or self.decision or self.added or self.removed or self.changed)


@dataclass(frozen=True)
class Difference:
    """All stacks, then and now."""

    ref: str
    stacks: Mapping[str, StackDiff]
    removed_stacks: list[str]
    """Stacks of the ref that are gone."""
    removed_monthly: float
    problems: tuple[str, ...] = ()
    """Why stacks of the ref could not be planned; they stand here as new."""

    @property
    def asleep(self) -> bool:
        return any(one.asleep for one in self.stacks.values())

    @property
    def monthly_change(self) -> float:
        """USD per month, all stacks together."""
        return (
            sum(one.monthly_after - one.monthly_before for one in self.stacks.values()) - self.removed_monthly
        )

    def document(self, name: str) -> dict[str, Any]:
        """One stack's difference as plain JSON."""
        one = self.stacks[name]
        return {
            "ref": self.ref,
            "problems": list(self.problems),
            "input": [_change(change) for change in one.given],
            "decision": [_change(change) for change in one.decision],
            "monthly_usd": {
                "before": round(one.monthly_before, 2),
                "after": round(one.monthly_after, 2),
                "change": round(one.monthly_after - one.monthly_before, 2),
            },
            "expected_monthly_usd": {
                "before": round(one.expected_before, 2),
                "after": round(one.expected_after, 2),
                "change": round(one.expected_after - one.expected_before, 2),
            },
            "resources": {
                "added": [_identity(item) for item in one.added],
                "removed": [_identity(item) for item in one.removed],
                "changed": [
                    _identity(item) | {"fields": [_change(c) for c in found]} for item, found in one.changed
                ],
            },
        }


def compare(
    ref: str,
    before: Mapping[str, Planned],
    after: Mapping[str, Planned],
    graphs: Mapping[str, tuple[Resource, ...]],
    problems: Sequence[str] = (),
) -> Difference:
    """Each stack that is there now against the one of that name at the ref."""
    gone = sorted(set(before) - set(after))
    return Difference(
        ref,
        {name: _stack(before.get(name), item, graphs[name]) for name, item in after.items()},
        gone,
        sum(before[name].deployed.cost.monthly_usd for name in gone),
        tuple(problems),
    )


def _stack(old: Planned | None, new: Planned, graph: tuple[Resource, ...]) -> StackDiff:
    old_graph = () if old is None else resources(old)
    then, now = ({(item.type, item.name): item for item in side} for side in (old_graph, graph))
    both = [(then[key], item) for key, item in now.items() if key in then]
    found = [(item, tuple(changes(earlier.inputs, item.inputs))) for earlier, item in both]
    return StackDiff(
        given=() if old is None else tuple(changes(_given(old), _given(new))),
        decision=decision_changes({} if old is None else _decisions(old.deployed), _decisions(new.deployed)),
        monthly_before=0.0 if old is None else old.deployed.cost.monthly_usd,
        monthly_after=new.deployed.cost.monthly_usd,
        expected_before=0.0 if old is None else old.deployed.cost.expected,
        expected_after=new.deployed.cost.expected,
        asleep=any(each.deployed.scaling.min_replicas == 0 for each in (old, new) if each is not None),
        added=tuple(item for key, item in now.items() if key not in then),
        removed=tuple(item for key, item in then.items() if key not in now),
        changed=tuple((item, fields) for item, fields in found if fields),
    )


def _given(stack: Planned) -> dict[str, Any]:
    """The input, defaults filled in; what it reads from elsewhere by the name of the field alone."""
    return stack.entry.args.model_dump(mode="json") | {
        "existing": dict.fromkeys(stack.entry.existing, "given")
    }


def _decisions(plan: ServingPlan) -> dict[str, Any]:
    """What a reviewer weighs: the summary, and the parts of the plan that decide how it behaves."""
    return plan.summary() | {"timeouts": plan.timeouts.model_dump(mode="json")}


def _change(change: Change) -> dict[str, Any]:
    return {"path": change.path, "before": change.before, "after": change.after}


def _identity(item: Resource) -> dict[str, str]:
    return {"type": item.type, "name": item.name}
