"""Values of inputs and outputs by path, templates of rows, and where two values differ.

The trap: a path walks through lists, so that of one variant's field is that of every variant's.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.engine.clouds.tables import Kind

Json = Any


def fill(template: Json, names: Mapping[str, Json]) -> Json:
    """A template of a row with its names filled in; a name that is absent is empty text, alone it is None."""
    if not isinstance(template, str):
        return copy.deepcopy(template)
    alone = re.fullmatch(r"\{(\w+)\}", template)
    if alone:
        return copy.deepcopy(names.get(alone[1]))
    return re.sub(r"\{(\w+)\}", lambda found: str(names.get(found[1], "")), template)


def with_defaults(kind: Kind, inputs: Mapping[str, Json]) -> dict[str, Json]:
    """The inputs and what the provider adds; a default below something that is absent adds nothing."""
    full: dict[str, Json] = copy.deepcopy(dict(inputs))
    for path, value in kind.defaults.items():
        *parents, last = path.split(".")
        for parent in walk(full, parents):
            if isinstance(parent, dict) and parent.get(last) is None:
                parent[last] = copy.deepcopy(value)
    return full


def shown_within(kind: Kind) -> tuple[str, ...]:
    """Outputs that the service writes into the inputs."""
    return tuple(path for path in kind.outputs if "." in path)


def kept(kind: Kind) -> tuple[str, ...]:
    """Paths whose absence among new inputs is no change."""
    return kind.keeps + shown_within(kind)


def write(inputs: dict[str, Json], path: str, value: Json) -> None:
    *parents, last = path.split(".")
    for parent in walk(inputs, parents):
        if isinstance(parent, dict):
            parent[last] = value


def walk(value: Json, path: list[str]) -> Iterator[Json]:
    """Every value at a path; lists are walked through."""
    if isinstance(value, list):
        for item in value:
            yield from walk(item, path)
    elif not path:
        yield value
    elif isinstance(value, Mapping) and value.get(path[0]) is not None:
        yield from walk(value[path[0]], path[1:])


def named_values(inputs: Mapping[str, Json], path: str, within: str) -> list[str]:
    found: list[str] = []
    for value in walk(dict(inputs), path.split(".")):
        if isinstance(value, str) and value:
            found += re.findall(rf"^{within}$" if within == r"(.+)" else within, value)
    return found


def changed_paths(old: Json, new: Json, keeps: tuple[str, ...], path: str = "") -> list[str]:
    """Paths at which two values differ; what is left out of the new one and kept by the service does not.

    What is added or gone counts with all that is in it: one immutable part of it is enough to replace."""
    if isinstance(old, Mapping) or isinstance(new, Mapping):
        if not (_is(Mapping, old) and _is(Mapping, new)):
            return [path]
        was, now = (each if isinstance(each, Mapping) else {} for each in (old, new))
        found: list[str] = []
        for key in sorted({*was, *now}):
            below = f"{path}.{key}" if path else key
            if key in now or below not in keeps:
                found += changed_paths(was.get(key), now.get(key), keeps, below)
        return found
    if _is(list, old) and _is(list, new) and not (_empty(old) and _empty(new)):
        pairs = itertools.zip_longest(old or [], new or [])
        return sorted({each for was, now in pairs for each in changed_paths(was, now, keeps, path)})
    return [] if old == new or (_empty(old) and _empty(new)) else [path]


def _is(kind: type, value: Json) -> bool:
    return isinstance(value, kind) or _empty(value)


def _empty(value: Json) -> bool:
    return value is None or value in ("", [], {})
