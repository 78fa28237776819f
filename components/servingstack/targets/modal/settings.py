"""Settings of Modal that the rest of the input has no field for.

Trap: an app of a name is one app. Whoever deploys under it replaces what is there, so a name that another
program uses is only taken over on purpose (`adopt`).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from servingstack.fields import Whole, YesNo

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)

# modal 1.6.4, _utils/name_utils.py: is_valid_object_name, is_valid_environment_name without its periods.
OBJECT_NAME = r"^[a-zA-Z0-9_.-]{1,64}$"
ENVIRONMENT_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$"


class ModalArgs(BaseModel):
    """What Modal alone needs to know."""

    model_config = _CONFIG
    environment: Annotated[str, StringConstraints(pattern=ENVIRONMENT_NAME)] | None = None
    """Environment of the workspace. Default: the workspace's own default."""
    registry_secret: Annotated[str, StringConstraints(pattern=OBJECT_NAME)] | None = None
    """Modal secret with what a private registry asks for (`REGISTRY_USERNAME`, `REGISTRY_PASSWORD`, or a
    cloud's own keys). Default: none, the image is public."""
    buffer_containers: Whole = Field(default=0, ge=0, le=100)
    """Containers kept idle beyond those that are needed while there is traffic; each is paid like any other.
    Default 0: the warm capacity is in `min_containers`."""
    keep_cache: YesNo = False
    """Whether the volume with downloaded weights and compiled kernels stays when the stack is destroyed.
    Default no: what is in it can be had again."""
    adopt: YesNo = False
    """Whether an app of this name that another program deployed is replaced. Default no: it is an error."""
