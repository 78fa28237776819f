"""What is only handed on to Replicate: nothing. The token is read where it is used (`servingstack.dynamic`).

Trap: a token given here would be a property of a resource, and so in the state.
"""

from __future__ import annotations

from dataclasses import dataclass

INSTEAD = "the token comes from REPLICATE_API_TOKEN, or from the secret config replicate:token"


@dataclass(frozen=True)
class ReplicateExisting:
    """Has no field."""
