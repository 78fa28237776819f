"""What is decided for Container Apps alone, as a part of the plan.

Trap: a locked plan is rendered as it stands by a later release, so a field is only ever added, and with a
default that reproduces the old rendering.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Probe(BaseModel):
    """One question over HTTP."""

    model_config = _CONFIG
    port: int
    path: str
    period_s: int
    timeout_s: int
    failures: int
    initial_delay_s: int = 1


class Probes(BaseModel):
    """The three of a container."""

    model_config = _CONFIG
    startup: Probe
    readiness: Probe
    liveness: Probe


class Share(BaseModel):
    """A share with the weights, read only."""

    model_config = _CONFIG
    storage: str
    """Name of the storage in the environment."""
    mount_path: str
    protocol: Literal["nfs", "smb"]
    link: bool
    """Whether the stack links the share to its environment; an existing one has it already."""
    account: str | None = None
    share: str | None = None
    key_secret: str | None = None
    """The vault's secret with the account's key, for `smb`."""


class ContainerAppsSection(BaseModel):
    """Decisions of Container Apps alone."""

    model_config = _CONFIG
    create_resource_group: bool
    create_environment: bool
    create_workspace: bool
    create_action_group: bool
    """False too where nobody is alerted."""
    workload_profile: str
    """Name in the environment."""
    workload_profile_type: str
    workload_profiles: dict[str, str] = Field(default_factory=dict[str, str])
    """Of the stack's own environment: types by name, the app's among them."""
    subnet: bool
    internal: bool
    """Whether the environment has an address in your network alone."""
    external: bool
    """Whether callers outside the environment are let in."""
    allowed_ranges: tuple[str, ...] = ()
    """Addresses that are let in; empty for every one."""
    zone_redundant: bool
    log_retention_days: int
    registry: str | None
    key_vault: str | None
    secrets: dict[str, str] = Field(default_factory=dict[str, str])
    """The vault's secrets by the name that they have in the app."""
    engine_cores: float
    engine_gib: float
    door_cores: float
    door_gib: float
    concurrent_requests: int | None
    """Of a replica, at which another is added; None where the number of replicas is fixed."""
    cool_down_s: int | None
    """Idle time before the last replica goes; None where one is kept."""
    ready_port: int
    """Where the engine's launcher says that it is warm."""
    engine_probes: Probes
    door_probes: Probes
    grace_s: int
    share: Share | None
    shared_memory_on_disk: bool
    """Whether /dev/shm is a directory on the replica's disk, for an engine that needs more than the service's
    64 MiB."""
    notify_emails: tuple[str, ...] = ()
    quota: str
    """What the subscription must be allowed, as the service names it."""
