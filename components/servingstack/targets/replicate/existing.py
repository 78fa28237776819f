"""What is only handed on to Replicate: nothing. The token is read where it is used (`servingstack.dynamic`).

Trap: a token given here would be a property of a resource, and so in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servingstack.errors import InvalidInput, Violation

WHERE = "nothing: the token comes from REPLICATE_API_TOKEN, or from the secret config replicate:token"


@dataclass(frozen=True)
class ReplicateExisting:
    """Has no field."""

    @classmethod
    def parse(cls, given: Mapping[str, Any] | ReplicateExisting | None) -> ReplicateExisting:
        """From a mapping, as a stack file has it. Raises `InvalidInput` for any field."""
        if isinstance(given, ReplicateExisting):
            return given
        if wrong := [Violation(f"existing.{name}", None, WHERE, "Remove it.") for name in given or {}]:
            raise InvalidInput(wrong)
        return cls()
