"""`servingstack lock`: write the lock file, or say what would change in it if it were written now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servingstack import lock
from servingstack.cli.source import Planned, Source
from servingstack.errors import InvalidInput, Violation


@dataclass(frozen=True)
class LockReport:
    """What was done with a lock file."""

    path: str
    written: bool
    states: Mapping[str, str]
    """By stack: `absent`, `matching` or `stale` before it was written; `removed` for one that is gone."""
    changed: Mapping[str, tuple[str, ...]]
    replaced: str | None = None
    """Why the file that was there could not be used."""

    def document(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "written": self.written,
            "replaced": self.replaced,
            "stacks": {
                name: {"state": state, "changed": list(self.changed.get(name, ()))}
                for name, state in self.states.items()
            },
        }

    def text(self) -> str:
        lines = [f"{'wrote' if self.written else 'current:'} {self.path}"]
        if self.replaced is not None:
            lines.append(f"  the file before it could not be used: {self.replaced}")
        for name, state in self.states.items():
            lines.append(f"  {name}: {_WORDS[state] if self.written else 'matching'}")
            lines += [f"    {change}" for change in self.changed.get(name, ())]
        return "\n".join(lines)


_WORDS = {"absent": "new", "matching": "the same args", "stale": "new args", "removed": "removed"}


def _report(source: Source, planned: Mapping[str, Planned], *, written: bool) -> LockReport:
    states: dict[str, str] = {name: item.lock.state for name, item in planned.items()}
    for name in sorted(set(source.lock.stacks if source.lock is not None else ()) - set(planned)):
        states[name] = "removed"
    changed = {
        name: tuple(line for change in item.lock.changed for line in change.lines())
        for name, item in planned.items()
        if item.lock.changed
    }
    broken = None if source.broken_lock is None else str(source.broken_lock)
    return LockReport(str(source.lock_path), written, states, changed, broken)


def write_lock(source: Source, planned: Mapping[str, Planned]) -> LockReport:
    """Write fresh plans of every stack."""
    report = _report(source, planned, written=True)
    lock.write(source.lock_path, lock.make({name: item.fresh for name, item in planned.items()}))
    return report


def check_lock(source: Source, planned: Mapping[str, Planned]) -> LockReport:
    """Raises `InvalidInput` unless every stack is locked with its present args, and no other stack is.

    A plan that a newer library would make otherwise is reported, and no error: the locked one is deployed."""
    report = _report(source, planned, written=False)
    words = {"absent": "not locked", "stale": "its args were changed since", "removed": "no such stack"}
    violations = [
        Violation(
            f"{source.lock_path.name}: {name}",
            words[state],
            "a lock of the present args",
            _what_to_do(source.lock_command, report.changed.get(name, ())),
        )
        for name, state in report.states.items()
        if state != "matching"
    ]
    if violations:
        raise InvalidInput(violations)
    return report


def _what_to_do(again: str, changed: tuple[str, ...]) -> str:
    """The command first, then what it will change, one a line."""
    first = f"First run `{again}`, then review the file and commit it."
    return "\n".join(
        [first, *(["    Locked => now:"] if changed else []), *(f"      {line}" for line in changed)]
    )


def lock_note(item: Planned, source: Source) -> str:
    """How the lock file stands to this plan, in a line or a few."""
    name = source.lock_path.name
    if item.lock.state == "absent":
        return f"Lock: not in {name}; `{source.lock_command}` writes it." if source.is_environment else ""
    if item.lock.state == "matching" and not item.lock.changed:
        return f"Lock: {name} holds this plan."
    heading = (
        f"Lock: STALE, the args were changed after {name} was written: run `{source.lock_command}`. "
        "Locked => now:"
        if item.lock.state == "stale"
        else f"Lock: {name} matches and is deployed; this release would decide otherwise. Locked => fresh:"
    )
    return "\n".join([heading, *(f"  {line}" for change in item.lock.changed for line in change.lines())])
