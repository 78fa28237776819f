"""What is decided for Replicate alone, as a part of the plan.

Trap: a locked plan is rendered by a later release, so every value that reaches Replicate stands here.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ReplicateSection(BaseModel):
    """Decisions of Replicate alone. Field names are those of its API where it has one."""

    model_config = _CONFIG
    owner: str
    name: str
    """Of the deployment; holds a hash of the model, which cannot be changed."""
    model: str
    version: str
    hardware: str
    min_instances: int
    max_instances: int
    concurrency: int
    """Predictions that an instance works on at once."""
    deadline_s: int
    """What callers send as `Cancel-After`."""
    wait_s: int
    """What callers send as `Prefer: wait`; a longer prediction is fetched afterwards."""
    warm_up_input: dict[str, Any] | None
    adopt: bool
