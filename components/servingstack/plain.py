"""What may stand nowhere in a document: a value of a secret, and anything that is not plain.

Trap: a Pulumi Output in a text is the sentence "Calling __str__ on an Output is not supported", and it
decides nothing. It is refused where it stands, by what it is and not by what it prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from pydantic import BaseModel

from servingstack.errors import Violation
from servingstack.redact import REDACTED, looks_like_secret

_SECRET_FIX = "Name an existing secret, or use `{config: KEY}` with `pulumi config set --secret KEY`."
_PLAIN = str | int | float | timedelta | None


def problems(value: Any, path: str = "") -> Iterator[Violation]:
    """Every `secure:` value, every text or key that looks like a credential, every value that is not
    plain."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value)
        if "secure" in items:
            yield secret_violation(path)
            return
        for key, inner in items.items():
            if looks_like_secret(key):
                yield Violation(f"{path}.{REDACTED}", REDACTED, "no credential in plain text", _SECRET_FIX)
            yield from problems(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast(Sequence[Any], value)):
            yield from problems(inner, f"{path}[{index}]")
    elif looks_like_secret(value):
        yield Violation(path, REDACTED, "no credential in plain text", _SECRET_FIX)
    elif not isinstance(value, _PLAIN):
        kind = type(cast(object, value)).__name__
        allowed = "a plain value; a Pulumi Output decides nothing"
        fix = "Use a plain value, or hand it on in `existing` if the option has a field for it."
        yield Violation(path, f"an object of type {kind}", allowed, fix)


def secret_violation(path: str) -> Violation:
    """A `secure:` value where none may be."""
    allowed = "no secure value inside an object (Pulumi hands it out in plain text)"
    fix = "Give it a key of its own (`pulumi config set --secret KEY`) and write `{config: KEY}` here."
    return Violation(path, REDACTED, allowed, fix)


__all__ = ["problems", "secret_violation"]
