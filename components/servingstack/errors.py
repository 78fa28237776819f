"""What goes wrong, said the same way everywhere: the field's path, the value given, what is allowed, what to
do.

Two kinds, never mixed: `InvalidInput` (the document is wrong, exit 2) and `Infeasible` (the document is
right, but no plan meets it, exit 1). Both carry data, so that the command line can print them as text or
as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from servingstack.redact import REDACTED, looks_like_secret, masked, names_secret
from servingstack.wording import did_you_mean, said, tag

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


SHOWN = 6
"""Considered plans that an error text lists; the error holds them all."""


@dataclass(frozen=True)
class Violation:
    """One thing wrong with the input."""

    path: str
    """Dotted path of the field, as in the YAML document: `slo.ttft_p95`, `hardware.accelerators[1]`."""
    value: Any
    """The value given; `None` for a missing field. Never a secret."""
    allowed: str
    """What is allowed there, in words or as a list of values."""
    fix: str
    """What to do about it."""

    def __post_init__(self) -> None:
        """No error repeats a credential, whoever made it."""
        if looks_like_secret(str(self.value)) or (self.value is not None and names_secret(self.path)):
            object.__setattr__(self, "value", REDACTED)
        for name in ("path", "allowed", "fix"):
            if looks_like_secret(text := getattr(self, name)):
                object.__setattr__(self, name, masked(text))

    def __str__(self) -> str:
        given = "nothing" if self.value is None else repr(self.value)
        return f"{self.path}: got {given}; allowed: {self.allowed}. {self.fix}"


class Unreadable(Violation):
    """A text that cannot be read at all: no value was given, the fix says all."""

    def __str__(self) -> str:
        return f"{self.path}: {self.fix}"


class InvalidInput(ValueError):
    """The input is wrong. Holds every violation found, not only the first."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations: tuple[Violation, ...] = tuple(violations)
        count = len(self.violations)
        heading = f"{count} problem{'s' if count != 1 else ''} in the input:"
        super().__init__("\n".join([heading, *(f"  {violation}" for violation in self.violations)]))


@dataclass(frozen=True)
class Nearest:
    """The smallest change that would make an infeasible demand feasible."""

    change: str
    """In the input's own words: `slo.ttft_p95: 900ms`."""
    consequence: str
    """What it costs or gives."""


class Infeasible(ValueError):
    """No plan meets the demands. Names the limit that binds and the nearest changes that would help."""

    def __init__(self, binding: str, nearest: Sequence[Nearest] = (), considered: Sequence[str] = ()) -> None:
        self.binding = binding
        self.nearest: tuple[Nearest, ...] = tuple(nearest)
        self.considered: tuple[str, ...] = tuple(considered)
        lines = [f"no plan meets this: {binding}"]
        lines += [f"  would work: {item.change} ({item.consequence})" for item in self.nearest]
        lines += [f"  considered: {item}" for item in self.considered[:SHOWN]]
        if len(self.considered) > SHOWN:
            lines.append(f"  ... and {len(self.considered) - SHOWN} more that fail alike")
        super().__init__("\n".join(lines))


def dotted(location: Iterable[int | str]) -> str:
    """A pydantic error location as a path a reader finds in the document."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path or "(document)"


def from_pydantic(error: ValidationError, document: Any, known: dict[str, list[str]]) -> InvalidInput:
    """Turn pydantic's report on `document` into violations, one for each path.

    `known` maps the path of an object to its field names, for "did you mean"."""
    items = error.errors(include_url=False)
    inner = {item["loc"][:depth] for item in items for depth in range(1, len(item["loc"]))}
    # A list whose items are wrong is "too short" as well, because pydantic counts the right ones.
    telling = [item for item in items if item["type"] != "too_short" or item["loc"] not in inner]
    found: dict[str, Violation] = {}
    for item in telling:
        violation = _violation(item, document, known)
        earlier = found.get(violation.path)
        if earlier is not None:  # one for each member of a union
            violation = replace(earlier, allowed=f"{earlier.allowed}, or {violation.allowed}")
        found[violation.path] = violation
    return InvalidInput(found.values())


def _violation(item: ErrorDetails, document: Any, known: dict[str, list[str]]) -> Violation:
    path = dotted(_in_document(item, document))
    if item["type"] in ("union_tag_not_found", "union_tag_invalid"):
        return _kind(item, path, known)
    value = None if item["type"] == "missing" else _printable(item["input"])
    allowed, fix = said(item, path if path != "(document)" else "", known)
    if item["type"] == "literal_error":
        fix = did_you_mean(str(item["input"]), re.findall(r"'([^']*)'", item["msg"]), fix)
    elif item["type"] == "extra_forbidden":
        parent, _, field = path.rpartition(".")
        names = known.get(re.sub(r"\[\d+\]", "", parent), [])
        allowed = f"one of {', '.join(names)}" if names else allowed
        fix = did_you_mean(field, names, fix)
    return Violation(path, value, allowed, fix)


def _kind(item: ErrorDetails, path: str, known: dict[str, list[str]]) -> Violation:
    """An object that does not say which of several kinds it is, or names none of them."""
    field = item.get("ctx", {}).get("discriminator", "kind").strip("'")
    path = f"{path}.{field}"
    given = cast(Mapping[str, Any], item["input"]).get(field) if isinstance(item["input"], Mapping) else None
    allowed, fix = tag(given, known.get(path, []))
    return Violation(path, _printable(given), allowed, fix)


def _in_document(item: ErrorDetails, document: Any) -> list[int | str]:
    """The location without what pydantic adds to it: a union's tag (`engine.vllm.dtype`) is no level of the
    document. A field that is missing, or that should be, ends the location."""
    path: list[int | str] = []
    for position, part in enumerate(item["loc"], start=1):
        if isinstance(document, Mapping) and part in document:
            document = cast(Mapping[Any, Any], document)[part]
        elif isinstance(document, list | tuple) and isinstance(part, int):
            document = (
                cast(Sequence[Any], document)[part] if part < len(cast(Sequence[Any], document)) else None
            )
        elif item["type"] != "missing" or position < len(item["loc"]):
            continue
        path.append(part)
    return path


def _printable(value: Any) -> Any:
    """Long values and whole objects say little in an error line."""
    if looks_like_secret(str(value)):
        return REDACTED
    if isinstance(value, dict):
        return f"an object with {', '.join(map(str, value))}" if value else "an empty object"
    text = str(value)
    short = text if len(text) <= 80 else text[:77] + "..."
    return value if value is None or (isinstance(value, bool | int | float) and text == short) else short
