"""The input's description of a LoRA adapter.

Trap: the rank is asked for, not looked up: planning needs no network, and room on the GPU is set aside by it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from servingstack.fields import ADAPTER_SOURCE, MODEL_ID, REVISION, Whole


class AdapterArgs(BaseModel):
    """A LoRA adapter. All adapters of a model are served by the model's own replicas: no stack each."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    name: str = Field(max_length=100, pattern=MODEL_ID)
    """What clients send as `model` to get its answers."""
    source: str = Field(max_length=1024, pattern=ADAPTER_SOURCE)
    """Where it comes from: a repository on the Hugging Face hub, `owner/name`, or `pvc://<claim>/<path>`."""
    rank: Whole = Field(ge=1, le=512)
    """Its rank: `r` in its adapter_config.json. Room on the GPU is set aside by it."""
    revision: str | None = Field(default=None, pattern=REVISION)
    """Commit or tag of the repository. Default: the hub's main branch, which may move."""
