"""Where a user's `overrides` meet an option's bodies: deep-merged by role, lists replaced.

Trap: an override of what the plan decides would make plan, dashboard and service say different things. Each
option names such fields, with the input's own field for each.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, TypeVar, cast

from servingstack.errors import InvalidInput, Violation

Managed = Mapping[str, Mapping[str, str]]
"""Fields that the plan owns by role, each with what to use instead. Other roles take no override at all."""


def merged(base: Any, change: Any) -> Any:
    """`change` over `base`: objects are merged key by key, everything else is replaced."""
    if not (isinstance(base, dict) and isinstance(change, Mapping)):
        return change
    mine, theirs = cast("dict[str, Any]", base), cast("Mapping[str, Any]", change)
    return {**mine, **{key: merged(mine.get(key), value) for key, value in theirs.items()}}


class Part(Protocol):
    """One resource of an option as data: a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def role(self) -> str: ...
    @property
    def body(self) -> dict[str, Any]: ...


P = TypeVar("P", bound=Part)


def applied(
    parts: Sequence[P], managed: Managed, overrides: Mapping[str, Mapping[str, Any]]
) -> tuple[P, ...]:
    """The parts with the overrides merged in. Raises `InvalidInput` with everything that is wrong with
    them."""
    if wrong := list(violations([part.role for part in parts], managed, overrides)):
        raise InvalidInput(wrong)
    return tuple(
        dataclasses.replace(part, body=merged(part.body, overrides[part.role]))
        if part.role in overrides
        else part
        for part in parts
    )


def violations(
    roles: Collection[str], managed: Managed, overrides: Mapping[str, Mapping[str, Any]]
) -> Iterator[Violation]:
    """Everything that is wrong with overrides of these roles."""
    open_roles = [role for role in roles if role in managed]
    for role, change in overrides.items():
        if role not in open_roles:
            close = get_close_matches(role, open_roles, n=1)
            fix = f"Did you mean `{close[0]}`?" if close else "Use one of them, or remove it."
            allowed = f"a role that takes one: {', '.join(open_roles)}"
            yield Violation(f"overrides.{role}", None, allowed, fix)
            continue
        for path, value in _leaves(change):
            owner = next((own for own in managed[role] if _touches(path, own)), None)
            if owner is not None:
                allowed = f"anything but what the plan owns ({owner})"
                yield Violation(f"overrides.{role}.{path}", value, allowed, managed[role][owner])


def _leaves(change: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in change.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            yield from _leaves(cast("Mapping[str, Any]", value), path)
        else:
            yield path, value


def _touches(path: str, owned: str) -> bool:
    """Whether setting `path` changes something under `owned`, or replaces the whole around it."""
    return path == owned or path.startswith(f"{owned}.") or owned.startswith(f"{path}.")


# What Python says of a keyword argument that a function has not, however the function is called.
_UNKNOWN = re.compile(r"unexpected keyword argument '([^']+)'")


@contextmanager
def properties_known(overrides: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Raises `InvalidInput` instead of the SDK's TypeError where an override sets a property that a resource
    has not: only the SDK knows all of them."""
    try:
        yield
    except TypeError as error:
        found = _UNKNOWN.search(str(error))
        name = "" if found is None else found[1]
        wrong = [
            Violation(
                f"overrides.{role}.{spelt}",
                change[spelt],
                "a property of the resource, as the provider's SDK for Python spells it",
                "Correct the name, or remove it.",
            )
            for role, change in overrides.items()
            for spelt in change
            if _snake(spelt) == _snake(name)
        ]
        if not wrong:
            raise
        raise InvalidInput(wrong) from error


def _snake(name: str) -> str:
    """Some options spell properties as the provider's API does, and the SDK does not."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
