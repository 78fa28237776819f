"""What differs between two plans, or two of anything plain, by dotted path, and in words.

Traps:
- A list of plain values that lost its first item is one change, not a change of every item. So such lists
  are compared whole; lists of objects by their names, else item by item.
- Two long values that are cut alike look the same. So the words show where they differ, never how they begin.
- A fresh estimate differs from a locked one in its tenth digit. So computed numbers are compared at three.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
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
_EXACT = ("percent", "gpu_memory_utilization")
"""Numbers that are promised or handed on as given: their fourth digit is a decision."""
_NAMES = ("name", "alert", "record", "title", "id")
"""What tells objects of a list apart: Kubernetes, Prometheus rules, Grafana panels, the plan's own."""
_LONGEST = 60
_CONTEXT = 20
"""Characters shown before the place where two long texts part."""
_FEW = 6
"""Lines that the inside of one value may take."""
_PATHS = 12


@dataclass(frozen=True)
class Change:
    """One field that differs. None stands for "not there"."""

    path: str
    before: Any
    after: Any

    def lines(self) -> tuple[str, ...]:
        """What differs, in a line or a few; never two sides that look the same."""
        return tuple(_lines(self.path, self.before, self.after))

    def __str__(self) -> str:
        return "; ".join(line.strip() for line in self.lines())


def changes(before: Any, after: Any, path: str = "") -> Iterator[Change]:
    """Every leaf that differs, in order of the keys."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from changes(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
    elif (old := _by_name(before)) is not None and (new := _by_name(after)) is not None:
        for name in [*new, *(gone for gone in old if gone not in new)]:
            yield from changes(old.get(name), new.get(name), f"{path}[{name}]")
        orders = [[name for name in side if name in old and name in new] for side in (old, new)]
        if orders[0] != orders[1]:
            yield Change(f"{path} (order)", *orders)
    elif _objects(before) and _objects(after) and len(before) == len(after):
        for index, (first, second) in enumerate(zip(before, after, strict=True)):
            yield from changes(first, second, f"{path}[{index}]")
    elif before != after:
        yield Change(path, before, after)


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _by_name(value: Any) -> dict[str, Any] | None:
    """A list of objects by name; None where they have none of their own."""
    if not _objects(value):
        return None
    names = [_name(item) for item in value]
    named = {name: item for name, item in zip(names, value, strict=True) if name is not None}
    return named if len(named) == len(value) else None


def decision_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """The fields of two plans (as JSON objects) that differ, without noise and what only explains them."""
    return tuple(
        change
        for change in changes(before, after)
        if not change.path.startswith(_EXPLANATION) and not _noise(change)
    )


def _noise(change: Change) -> bool:
    old, new = change.before, change.after
    if not (isinstance(old, float) and isinstance(new, float)) or change.path.endswith(_EXACT):
        return False
    return not (old.is_integer() and new.is_integer()) and f"{old:.3g}" == f"{new:.3g}"


def summarised(found: Sequence[Change]) -> list[str]:
    """Lines for the changes of one thing: many alike are counted and named by path alone."""
    lines = [line for change in found for line in change.lines()]
    if len(lines) <= _FEW or (counted := _counted(found)) is None:
        rest = len(lines) - 2 * _PATHS
        return lines if rest <= 0 else [*lines[: 2 * _PATHS], f"... and {rest} more lines; --json has all"]
    return [f"{counted}: {_listed([change.path for change in found])}"]


def _counted(found: Sequence[Change]) -> str | None:
    """How many of what changed, where it is all of a kind."""
    paths = [change.path for change in found]
    if all(path.startswith("panels[") for path in paths):
        return f"{len({path.partition(']')[0] for path in paths})} panels changed"
    if all(path.endswith((".expr", ".expression", ".query")) for path in paths):
        return f"{len(paths)} expressions changed"
    return None


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _PATHS} more" if len(paths) > _PATHS else ""
    return ", ".join(paths[:_PATHS]) + more


def _lines(path: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, str) and isinstance(new, str):
        yield from _text_lines(path, old, new)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_lines(path, old, new)
    else:
        yield _pair(path, _shown(old), _shown(new), repr(old), repr(new))


def _pair(path: str, old: str, new: str, whole_old: str, whole_new: str) -> str:
    return f"{path}: {old} => {new}" if old != new else f"{path}: {_parted(whole_old, whole_new)}"


def _text_lines(path: str, old: str, new: str) -> Iterator[str]:
    documents = [_json(old), _json(new)]
    if None not in documents and (inner := tuple(changes(*documents))):
        if len(inner) > _FEW:
            counted = _counted(inner)
            heading = f"{len(inner)} values changed" if counted is None else counted
            yield f"{path}: {heading}: {_listed([change.path for change in inner])}"
        else:
            for change in inner:
                yield from _lines(f"{path}: {change.path}", change.before, change.after)
    elif "\n" in old or "\n" in new:
        yield from _differing_lines(path, old, new)
    else:
        yield f"{path}: {_parted(old, new)}"


def _json(text: str) -> Any:
    """A text's JSON object or list, None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _differing_lines(path: str, old: str, new: str) -> Iterator[str]:
    then, now = old.splitlines(), new.splitlines()
    found: list[str] = []
    for tag, start, end, first, last in SequenceMatcher(None, then, now, autojunk=False).get_opcodes():
        gone, came = ([line.strip() for line in side] for side in (then[start:end], now[first:last]))
        if tag == "replace" and len(gone) == len(came):
            found += [f"  {_parted(*both)}" for both in zip(gone, came, strict=True)]
        elif tag != "equal":
            found += [f"  - {_cut(line)}" for line in gone] + [f"  + {_cut(line)}" for line in came]
    if len(found) == 1:
        yield f"{path}: {found[0].strip()}"
        return
    yield f"{path}: {len(found)} lines differ" if found else f"{path}: only line ends differ"
    yield from found[:_FEW]
    if len(found) > _FEW:
        yield f"  ... and {len(found) - _FEW} more lines"


def _list_lines(path: str, old: list[Any], new: list[Any]) -> Iterator[str]:
    """The elements that came, went, or have another value."""
    then, now = (
        [item if isinstance(item, str) else json.dumps(item) for item in side] for side in (old, new)
    )
    gone: list[str] = []
    came: list[str] = []
    for tag, start, end, first, last in SequenceMatcher(None, then, now, autojunk=False).get_opcodes():
        if tag != "equal":
            gone += then[start:end]
            came += now[first:last]
    if _objects(old) and _objects(new):
        yield from _object_lines(path, gone, came)
        return
    lines: list[str] = []
    for item in tuple(gone):
        partner = next((other for other in came if _alike(item, other)), None)
        if partner is None and len(gone) == len(came) == 1 and len(item) > _LONGEST:  # a script
            partner = came[0]
        if partner is not None:
            gone.remove(item)
            came.remove(partner)
            lines += [f"{path}: {item} (moved)"] if item == partner else _text_lines(path, item, partner)
    lines += [f"{path}: - {_cut(item)}" for item in gone] + [f"{path}: + {_cut(item)}" for item in came]
    yield from lines[: 2 * _FEW]
    if len(lines) > 2 * _FEW:
        yield f"{path}: ... and {len(lines) - 2 * _FEW} more elements"


def _object_lines(path: str, gone: list[str], came: list[str]) -> Iterator[str]:
    """Objects that share names with others of their list, counted by name."""
    then, now = (Counter(str(_name(json.loads(item))) for item in side) for side in (gone, came))
    for word, counted in (("changed", then & now), ("removed", then - now), ("added", now - then)):
        if counted:
            names = [name if count == 1 else f"{name} ({count})" for name, count in counted.items()]
            yield f"{path}: {counted.total()} {word}: {_listed(names)}"
    if not gone and not came:
        yield f"{path}: only the order differs"


def _name(item: Mapping[str, Any]) -> str | None:
    return next((item[key] for key in _NAMES if isinstance(item.get(key), str)), None)


def _alike(old: str, new: str) -> bool:
    """Whether both are the same option of a command line."""
    return old == new or ("=" in old and old.partition("=")[0] == new.partition("=")[0])


def _parted(old: str, new: str) -> str:
    """Two texts, long ones from a little before the place where they part."""
    if old != new and max(len(old), len(new)) <= _LONGEST:
        return f"{old} => {new}"
    same = next(
        (at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )
    start = max(0, same - _CONTEXT)
    dots = "..." if start else ""
    sides = [f"{dots}{_cut(text[start:])}" for text in (old, new)]
    if sides[0] == sides[1]:
        sides = [f"{side} ({len(text)} characters)" for side, text in zip(sides, (old, new), strict=True)]
    return " => ".join(sides)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return str(value) if len(str(value)) <= 8 else f"{value:.6g}"
    return _cut(value if isinstance(value, str) else json.dumps(value, default=str))


def _cut(text: str) -> str:
    line = text.replace("\n", " ")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
