"""What is only handed on to Modal: nothing. Tokens are read where they are used (`servingstack.dynamic`).

Trap: a token given here would be a property of a resource, and so in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servingstack.errors import InvalidInput, Violation

WHERE = (
    "nothing: tokens come from MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or from the secret config "
    "modal:token_id and modal:token_secret"
)


@dataclass(frozen=True)
class ModalExisting:
    """Has no field."""

    @classmethod
    def parse(cls, given: Mapping[str, Any] | ModalExisting | None) -> ModalExisting:
        """From a mapping, as a stack file has it. Raises `InvalidInput` for any field."""
        if isinstance(given, ModalExisting):
            return given
        if wrong := [Violation(f"existing.{name}", None, WHERE, "Remove it.") for name in given or {}]:
            raise InvalidInput(wrong)
        return cls()
