"""What is decided for SageMaker alone, as a part of the plan.

Trap: a locked plan is rendered as it stands by a later release, so a field is only ever added, and with a
default that reproduces the old rendering.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Tracking(BaseModel):
    """Target tracking of the number of instances."""

    model_config = _CONFIG
    predefined: str | None
    """Metric that the scaler knows by name; None for a metric of CloudWatch."""
    metric: str
    """Its name in CloudWatch."""
    target: float
    """Per instance."""
    scale_out_cooldown_s: int
    scale_in_cooldown_s: int


class Deployment(BaseModel):
    """How a change reaches the fleet, and when it is taken back."""

    model_config = _CONFIG
    kind: Literal["all-at-once", "canary", "rolling"]
    step_percent: int
    """Share of the fleet in the first step, or in each of a rolling one; 100 for all at once."""
    bake_s: int
    """How long the rollback alarms watch each step."""
    timeout_s: int
    rollback_alarms: tuple[str, ...]
    """The same two names in every plan."""
    rollback_error_share: float
    """Share of server errors within a minute at which a deployment is taken back."""
    rollback_latency_s: float
    """95th percentile of the model's time within a minute at which it is."""


class Asynchronous(BaseModel):
    """How requests wait, and how long they may."""

    model_config = _CONFIG
    max_in_flight: int
    """Requests that an instance is given at a time."""
    invocation_timeout_s: int
    """Clients send it with each request: InvocationTimeoutSeconds."""
    time_to_live_s: int
    """Clients send it with each request: RequestTTLSeconds."""
    wakes_from_zero: bool


class Client(BaseModel):
    """What a client must set itself."""

    model_config = _CONFIG
    connect_timeout_s: int
    read_timeout_s: int
    max_attempts: int


class SageMakerSection(BaseModel):
    """Decisions of SageMaker alone."""

    model_config = _CONFIG
    mode: Literal["real-time", "asynchronous"]
    variant: str
    initial_instances: int
    image: str
    """In the region's registry."""
    image_repository_arn: str
    inference_ami: str
    environment: dict[str, str] = Field(default_factory=dict[str, str])
    """Everything that the container is told; it has no arguments."""
    model_data: str | None
    """Weights in a bucket, uncompressed; None where the engine fetches them from the hub."""
    server_file: str | None
    """Path in the container of the stack's own limits inside the server."""
    download_timeout_s: int
    startup_timeout_s: int
    network_isolation: bool
    vpc: bool
    kms_key: bool
    weights_key: bool = False
    """Whether the weights' bucket has a KMS key, which the role may decrypt with."""
    own_role: bool
    own_topic: bool
    notify_emails: tuple[str, ...] = ()
    data_capture_percent: int = 0
    bucket: bool
    """Whether the stack has buckets: one for its server file; another one, which outlives it, for captured
    data and for asynchronous requests and answers."""
    expire_days: int
    tracking: Tracking | None
    """None where the number of instances is fixed."""
    deployment: Deployment
    asynchronous: Asynchronous | None = None
    client: Client
    quota: str = ""
    """Instances that a deployment needs at once, as the service's quotas name them."""
