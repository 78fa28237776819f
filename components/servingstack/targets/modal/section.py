"""What is decided for Modal alone, as a part of the plan.

Trap: a locked plan is rendered by a later release, so every value that reaches Modal stands here, also those
that follow from a limit of the service.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ModalSection(BaseModel):
    """Decisions of Modal alone. Field names are those of `modal.App.cls` where it has one."""

    model_config = _CONFIG
    app: str
    environment: str | None
    """None for the workspace's default."""
    label: str
    """First part of the endpoint's host name, after the workspace."""
    gpu: str
    """Kind and number, `H100!:2`; the mark says that no other kind is taken in its place."""
    cpu: float
    """Physical cores."""
    memory_mib: int
    region: str | None
    """None for wherever there is room, at the plain price."""
    min_containers: int
    max_containers: int
    buffer_containers: int
    scaledown_window_s: int
    """Idle time after which a container beyond the fewest is taken away; never below a cold start."""
    max_inputs: int
    """Requests that a container receives at once; more wait before it."""
    target_inputs: int
    """Requests at once per container at which another is started."""
    timeout_s: int
    """Of one request from when a container has it."""
    startup_timeout_s: int
    """Of a container until it is warm; the first one fills the cache."""
    ready_port: int
    requires_proxy_auth: bool
    """Whether Modal lets in only callers with a token of the workspace."""
    cache_volume: str
    """Volume for weights and compiled kernels, made where it is missing."""
    keep_cache: bool
    weights_volume: str | None = None
    """Volume that holds the weights, mounted read-only."""
    secrets: dict[str, tuple[str, ...]]
    """Keys by secret that the app needs; it is not deployed without them."""
    api_key: tuple[str, str] | None = None
    """Secret and variable of it that callers must send as a key."""
    registry_secret: str | None
    memory_snapshot: bool = False
    """Snapshots of a GPU's memory are in alpha and for one GPU alone, and an engine must be put to sleep for
    them."""
    tags: dict[str, str]
    adopt: bool
