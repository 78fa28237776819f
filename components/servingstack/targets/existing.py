"""From a mapping, as a stack file has it, to an option's `Existing`: one way for every option.

Trap: a field that is spelt wrong would be handed on to nothing, and the stack would make what exists already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from servingstack.errors import InvalidInput, Violation

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def parse(kind: type[T], given: Mapping[str, Any] | T | None, example: str) -> T:
    """An instance of a dataclass whose fields are all optional. Raises `InvalidInput` for a field there is
    not."""
    if given is None or isinstance(given, kind):
        return kind() if given is None else given
    if not isinstance(given, Mapping):
        shown, allowed = f"a {type(given).__name__}", "an object with what exists"
        raise InvalidInput([Violation("existing", shown, allowed, f"Write {example}.")])
    names = [field.name for field in fields(kind)]
    if wrong := [_unknown(str(name), names) for name in given if name not in names]:
        raise InvalidInput(wrong)
    return kind(**given)


def nothing(kind: type[T], given: Mapping[str, Any] | T | None, instead: str) -> T:
    """An instance of a dataclass without fields; `instead` says where what it would hold comes from. Raises
    `InvalidInput` for whatever is given."""
    if given is None or isinstance(given, kind):
        return kind() if given is None else given
    names = [f".{name}" for name in given] if isinstance(given, Mapping) else [""]
    if wrong := [
        Violation(f"existing{name}", "given", f"nothing: {instead}", "Remove it.") for name in names
    ]:
        raise InvalidInput(wrong)
    return kind()


def _unknown(name: str, names: list[str]) -> Violation:
    close = get_close_matches(name, names, n=1)
    fix = f"Did you mean `{close[0]}`?" if close else "Remove it."
    return Violation(f"existing.{name}", None, f"one of {', '.join(names)}", fix)
