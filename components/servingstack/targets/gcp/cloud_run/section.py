"""What is decided for Cloud Run alone, as a part of the plan.

Trap: a locked plan is rendered by a later release, so every value that reaches the service stands here,
also those that follow from a limit of the service.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

# Discovery document run v2, Service.ingress and VpcAccess.egress.
Ingress = Literal[
    "INGRESS_TRAFFIC_INTERNAL_ONLY", "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER", "INGRESS_TRAFFIC_ALL"
]
Egress = Literal["ALL_TRAFFIC", "PRIVATE_RANGES_ONLY"]
_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)


OWN_LABELS = ("stack", "component", "part-of", "managed-by")
"""Keys of the labels that every resource of a stack has from the stack itself."""
SEVERITY = "severity"
"""Key of the one more that an alert policy has."""


class SecretVersion(BaseModel):
    """One version of a Secret Manager secret."""

    model_config = _CONFIG
    secret: str
    version: str
    """A number, or `latest`, which each instance resolves when it starts."""


class Quota(BaseModel):
    """A limit of the project in the region that the plan must fit in at its peak, a rollout's instances
    included."""

    model_config = _CONFIG
    id: str
    """As the Cloud Quotas API names it."""
    title: str
    needed: int
    """In the quota's own unit."""
    unit: str


class Collector(BaseModel):
    """The collector of the engine's metrics, beside it."""

    model_config = _CONFIG
    image: str
    cpu: int
    memory_gib: int
    port: int
    """Where the engine serves its metrics."""
    path: str
    interval_s: int


class CloudRunSection(BaseModel):
    """Decisions of Cloud Run alone."""

    model_config = _CONFIG
    accelerator: str
    """The API's name of the GPU."""
    cpu: int
    memory_gib: int
    """Of an instance; its file system, and so what is downloaded, is in it."""
    memory_needed_bytes: int
    """What the replica needs of it: processes and everything it writes."""
    zonal_redundancy: bool
    image: str
    """Where Cloud Run pulls it from, by digest."""
    max_concurrency: int
    """Requests that an instance receives at once; more wait before it."""
    concurrency_utilization: float
    """Share of it at which another instance is started."""
    cpu_utilization: float
    """Share of the CPU at which another is started; the highest there is, since it cannot be switched off."""
    ready_port: int
    startup_period_s: int
    startup_failures: int
    ingress: Ingress
    invokers: tuple[str, ...]
    vpc_egress: Egress | None
    session_affinity: bool
    binary_authorization: bool
    deletion_protection: bool
    bucket: str | None
    """Bucket with the weights, which the identity may read."""
    mount_path: str | None
    """Where it is mounted, read-only; None where the engine reads the bucket itself."""
    secrets: dict[str, SecretVersion] = {}
    """Versions by environment variable, and by path for secrets that are files."""
    api_key_secret: str | None = None
    """The secret that callers must send as a key."""
    api_key_secret_key: str | None = None
    """Its key, as the input has it: the token may be another version of the same secret. None in plans before
    it was told apart."""
    labels: dict[str, str]
    """In Google's spelling: lower case, no dots or slashes."""
    uptime_check: bool
    collector: Collector | None = None
    quotas: tuple[Quota, ...]
