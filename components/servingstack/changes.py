"""What differs between two plans, or two of anything plain, by dotted path.

Trap: a list of plain values that lost its first item is one change, not a change of every item. So such lists
are compared whole, and lists of objects item by item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Follow from the decision, or only explain it.
_EXPLANATION = (
    "library_version",
    "args_key",
    "alternatives",
    "assumed",
    "warnings",
    "architecture.why",
    "batching.curve",
)


@dataclass(frozen=True)
class Change:
    """One field that differs. None stands for "not there"."""

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.path}: {_shown(self.before)} => {_shown(self.after)}"


def changes(before: Any, after: Any, path: str = "") -> Iterator[Change]:
    """Every leaf that differs, in order of the keys."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from changes(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
    elif _objects(before) and _objects(after) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, f"{path}[{index}]")
    elif before != after:
        yield Change(path, before, after)


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def decision_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """The fields of two plans (as JSON objects) that differ, without what only explains them."""
    return tuple(change for change in changes(before, after) if not change.path.startswith(_EXPLANATION))


def _shown(value: Any) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
