"""What is only handed on to Modal: nothing. Tokens are read where they are used (`servingstack.dynamic`).

Trap: a token given here would be a property of a resource, and so in the state.
"""

from __future__ import annotations

from dataclasses import dataclass

INSTEAD = (
    "tokens come from MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or from the secret config "
    "modal:token_id and modal:token_secret"
)


@dataclass(frozen=True)
class ModalExisting:
    """Has no field."""
