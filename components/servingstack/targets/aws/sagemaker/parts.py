"""The small values that SageMaker's resources are written in: plain until the shell makes them Pulumi's.

A body is one resource as data. Where it needs what only a deployment knows (another resource's ARN, an id
that the user handed in), it holds one of the markers here, which the shell resolves; so every body can be
read, compared and hashed without a cloud.

Trap: a name that is fixed while its content can change is a collision at the first replacement. `Hashed` is
the name of such a thing: the plan's own hash, and one of the ids that were handed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from servingstack.plan import ServingPlan

from .section import SageMakerSection


@dataclass(frozen=True)
class Ref:
    """An attribute of another resource of the stack, in a text."""

    role: str
    attribute: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Given:
    """A field of `existing`, whole."""

    field: str


@dataclass(frozen=True)
class After:
    """A value that is computed anew when another resource has been: whoever cannot change it goes before that
    one does, and comes back after it."""

    value: Ref
    other: Ref


@dataclass(frozen=True)
class Account:
    """The account's id, as the fifth part of another resource's ARN, in a text."""

    role: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Joined:
    """A text of several parts."""

    parts: tuple[str | Ref, ...]


@dataclass(frozen=True)
class Hashed:
    """A name with a hash of values that only the deployment knows; the name alone where there are none."""

    name: str
    over: tuple[Ref | Given, ...] = ()


@dataclass(frozen=True)
class Json:
    """A document as JSON text, sorted, so that a change of it is a change of the resource."""

    content: Any


@dataclass(frozen=True)
class Body:
    """One resource."""

    role: str
    """Its part in the stack: the end of its logical name, and the key of an override."""
    token: str
    """Pulumi's type."""
    body: dict[str, Any]
    """In the SDK's spelling."""
    needs: tuple[str, ...] = ()
    """Roles that must be there first, beside those it refers to."""
    ignores: tuple[str, ...] = ()
    """What another part owns once it exists."""
    timeout_s: int | None = None
    """How long creating and updating may take; None for the provider's own."""
    first_away: str = ""
    """Property whose change replaces the resource, the old one first; none where that is the provider's to
    say."""
    retain: bool = False
    """Whether it stays when the stack goes."""
    content: str = ""
    """Hash of what cannot be changed, for the logical name: other content is another resource, not a replaced
    one. So a change that fails midway can be taken back: the old one is still in the stack under its own
    name, while a replaced one would be made again and meet itself."""


def section(plan: ServingPlan) -> SageMakerSection:
    """The option's part of a plan that was made for it. ValueError for another option's."""
    if plan.sagemaker is None:
        raise ValueError(f"the plan of {plan.name} is for option {plan.architecture.option}")
    return plan.sagemaker


def keeps_data(plan: ServingPlan) -> bool:
    """Whether anything that users write is kept: captured, or put into the queue and answered."""
    chosen = section(plan)
    return bool(chosen.data_capture_percent) or chosen.asynchronous is not None


def region(plan: ServingPlan) -> str:
    """The planned region, in which every resource is made whatever the provider's default says."""
    if plan.architecture.region is None:
        raise ValueError(f"the plan of {plan.name} names no region")
    return plan.architecture.region


def regional(plan: ServingPlan, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties with the region."""
    return {**properties, "region": region(plan)}


def tagged(plan: ServingPlan, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties with region and tags."""
    return {**regional(plan, properties), "tags": dict(plan.labels)}


def markers(value: Any) -> Iterator[Ref | Given | Account]:
    """Every marker within a value."""
    if isinstance(value, Ref | Given | Account):
        yield value
    elif isinstance(value, Hashed):
        yield from value.over
    elif isinstance(value, After):
        yield from (value.value, value.other)
    elif isinstance(value, Joined):
        yield from (part for part in value.parts if isinstance(part, Ref))
    elif isinstance(value, Json):
        yield from markers(value.content)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from markers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from markers(inner)


def as_text(value: Any) -> Any:
    """A value with its markers spelt out, for hashes and previews."""
    if isinstance(value, Mapping):
        return {key: as_text(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_text(inner) for inner in value]
    if isinstance(value, Json):
        return as_text(value.content)
    if isinstance(value, Joined):
        return "".join(map(_spelt, value.parts))
    return _spelt(value)


def _spelt(value: Any) -> Any:
    if isinstance(value, Ref):
        return f"{value.before}${{{value.role}.{value.attribute}}}{value.after}"
    if isinstance(value, After):
        return _spelt(value.value)
    if isinstance(value, Account):
        return f"{value.before}${{account}}{value.after}"
    if isinstance(value, Given):
        return f"${{existing.{value.field}}}"
    return value.name if isinstance(value, Hashed) else value
