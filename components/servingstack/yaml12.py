"""YAML as Pulumi's own reader takes it (the 1.2 core schema), with the traps of PyYAML's defaults closed.

Trap: PyYAML reads YAML 1.1. There `no` is false, `1:30` is 90, `1e6` is a text, and of two equal keys the
last one wins without a word. Here they are a text, a text, a number, and an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from servingstack.errors import InvalidInput, Unreadable, Violation

_DEPTH = 40
_VALUES = 100_000  # of a document after its aliases are expanded; more is a mistake or an attack


class _Loader(yaml.SafeLoader):
    """Strings, numbers, true, false and null; nothing else is guessed."""


_Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]{0,30})", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)


def load(text: str, source: str) -> Any:
    """The one document in `text`, as plain values. Raises `InvalidInput` that names `source` and the line."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        _refuse_repeated_keys(node, set())
        content = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = source if mark is None else f"{source} line {mark.line + 1}"
        raise _not_yaml(where, str(error.problem or error.context)) from None
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _not_yaml(source, reason) from None
    _check(content, source, source, [0], 0)
    return content


def _not_yaml(where: str, reason: str) -> InvalidInput:
    fix = (
        "Indent with spaces, not with tabs." if "\\t" in reason else "Correct this place or the line before."
    )
    return InvalidInput([Unreadable(where, None, "YAML", f"not YAML: {reason}. {fix}")])


def _refuse_repeated_keys(node: yaml.Node | None, visited: set[int]) -> None:
    """On the nodes, before merge keys (`<<`) are spread: those may well repeat a key."""
    if node is None or id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for inner in node.value:
            _refuse_repeated_keys(inner, visited)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, inner in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and first.setdefault(key.value, line) != line:
                message = f"the key `{key.value}` a second time (first in line {first[key.value]})"
                raise yaml.MarkedYAMLError(problem=message, problem_mark=key.start_mark)
            _refuse_repeated_keys(inner, visited)


def _check(value: Any, path: str, source: str, count: list[int], depth: int) -> None:
    """Refuse what no document of ours needs: endless or huge structures, keys that are not text."""
    count[0] += 1
    if depth > _DEPTH or count[0] > _VALUES:
        allowed = f"at most {_DEPTH} levels and {_VALUES} values"
        fix = f"more than {allowed.removeprefix('at most ')}. Write it without deep or recursive aliases."
        raise InvalidInput([Unreadable(source, None, allowed, fix)])
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidInput([Violation(path, key, "keys that are text", f"Write `'{key}':`.")])
            _check(inner, f"{path}.{key}", source, count, depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check(inner, f"{path}[{index}]", source, count, depth + 1)
    elif value is not None and not isinstance(value, str | bool | int | float):
        allowed = "text, numbers, true, false, null, lists, objects"
        raise InvalidInput(
            [Violation(path, f"a {type(value).__name__}", allowed, "Write it as one of these.")]
        )
