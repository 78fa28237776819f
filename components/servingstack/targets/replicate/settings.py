"""Settings of Replicate that the rest of the input has no field for.

Trap: what an instance does at once is a matter of its model's own server (`concurrency.max` in cog.yaml),
which the API does not tell; one at a time is Cog's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from servingstack.fields import Frozen, Whole, YesNo

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)
OWNER = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"


class ReplicateArgs(BaseModel):
    """What Replicate alone needs to know."""

    model_config = _CONFIG
    owner: Annotated[str, StringConstraints(pattern=OWNER)] | None = None
    """User or organization that the deployment belongs to: the token's. The option needs it."""
    concurrency: Whole = Field(default=1, ge=1, le=1000)
    """Predictions that an instance works on at once, as the model's cog.yaml says. Default 1, Cog's own."""
    warm_up_input: Annotated[Mapping[str, Any], Frozen] | None = None
    """Input of one prediction that is made after each deployment, which waits for it. Default: none is
    made."""
    adopt: YesNo = False
    """Whether a deployment of this name that exists already is taken over. Default no: it is an error."""
