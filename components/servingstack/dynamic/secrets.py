"""Tokens at the moment of a call: from the environment, or from a secret key of the stack's config.

Trap: whatever a dynamic resource is given, or answers with, is in the state. So tokens are no property of it;
they are read where they are used, and masked in every error on its way out.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pulumi.dynamic import ConfigureRequest

MASK = "[secret]"
_SHORTEST = 6
"""Shorter values are no tokens, and masking them would make a text unreadable."""
T = TypeVar("T")

_known: set[str] = set()
"""Every token that was read in this process."""


class Failed(Exception):
    """What a service answered, without credentials."""


def read(names: Mapping[str, str], config: ConfigureRequest | None) -> dict[str, str]:
    """Tokens by role, those that are there. `names`: role -> `ENVIRONMENT_VARIABLE config:key`, where the
    environment wins."""
    found: dict[str, str] = {}
    for role, both in names.items():
        variable, _, key = both.partition(" ")
        value = os.environ.get(variable)
        if value is None and config is not None:
            value = config.config.get(key)
        if value is not None and value != "":
            found[role] = str(value)
            _known.add(str(value))
    return found


def masked(text: str, also: Iterable[str] = ()) -> str:
    """The text without any token that this process knows."""
    for token in sorted({*_known, *also}, key=len, reverse=True):
        if len(token) >= _SHORTEST:
            text = text.replace(token, MASK)
    return text


def guarded(call: Callable[..., T]) -> Callable[..., T]:
    """What goes wrong, said in one line without credentials: an error of a client may quote its request."""

    @functools.wraps(call)
    def wrapper(*args: Any, **kwargs: Any) -> T:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            text = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
            raise Failed(masked(text)) from None

    return wrapper
