"""What a body says of another resource before it exists: placeholders that the shell fills.

Trap: an id that is put together from names would let Pulumi create things in the wrong order, and be wrong as
soon as a name changes. So a body never spells one out; it names the role it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .limits import ROLES

Body = dict[str, Any]


@dataclass(frozen=True)
class Ref:
    """An output of another resource of the stack."""

    role: str
    output: str = "id"
    """In the SDK's spelling: `principal_id`."""


@dataclass(frozen=True)
class Given:
    """A field of `existing`."""

    field: str


@dataclass(frozen=True)
class Text:
    """Pieces of a text, some of which are only known later."""

    pieces: tuple[str | Ref | Given, ...]


@dataclass(frozen=True)
class Json:
    """A document as text, with placeholders inside."""

    document: Any


@dataclass(frozen=True)
class RoleId:
    """A built-in role, in the subscription of what it is granted on."""

    name: str
    on: Given

    @property
    def uuid(self) -> str:
        """The role's own id."""
        return ROLES[self.name]


@dataclass(frozen=True)
class Part:
    """One resource: its role in the stack, its type, what it takes, and what it must wait for beside that."""

    role: str
    kind: str
    """Module and class of the SDK: `app.ContainerApp`."""
    body: Body
    after: tuple[str, ...] = ()


def placeholders(value: Any) -> Iterator[Ref | Given]:
    """Every one in a body."""
    if isinstance(value, Ref | Given):
        yield value
    elif isinstance(value, RoleId):
        yield value.on
    elif isinstance(value, Text):
        yield from (piece for piece in value.pieces if not isinstance(piece, str))
    elif isinstance(value, Json):
        yield from placeholders(value.document)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from placeholders(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from placeholders(inner)
