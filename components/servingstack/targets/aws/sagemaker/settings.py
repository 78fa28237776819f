"""Settings of SageMaker that the rest of the input has no field for.

Trap: how a fleet is invoked (`mode`) cannot be changed under its callers: a real-time caller gets an answer,
an asynchronous one gets an address in a bucket. The other mode is another endpoint with another name.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from servingstack.fields import Whole, YesNo

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)

Mode = Literal["real-time", "asynchronous"]
Email = Annotated[str, StringConstraints(pattern=r"^[^@\s]{1,64}@[^@\s]{1,255}$")]


class SageMakerArgs(BaseModel):
    """What SageMaker alone needs to know."""

    model_config = _CONFIG
    mode: Mode = "real-time"
    """`real-time` answers the caller within 60 s and keeps at least one instance; `asynchronous` puts answers
    into a bucket and can have no instance at all. The endpoint's name ends in `-async` there: another mode is
    another endpoint at another address, and the old one is deleted. Default `real-time`."""
    vpc: YesNo = False
    """Whether the containers are in a network of your own, with the ids in `existing.subnet_ids` and
    `existing.security_group_ids`. Default no, they are in the service's."""
    network_isolation: YesNo | None = None
    """Whether the containers can reach no network at all. Default: yes where the weights come from a bucket,
    no where they come from the hub."""
    kms_key: YesNo = False
    """Whether captured data, answers and the stack's buckets are encrypted with a key of your own, its ARN in
    `existing.kms_key_arn`. An instance's own disk is not: its hardware encrypts that with a key
    of its own. Default no, with the service's keys."""
    weights_key: YesNo = False
    """Whether the weights' bucket is encrypted with a KMS key of your own, its ARN in
    `existing.weights_key_arn`: the containers' role may then decrypt with it. Default no."""
    own_role: YesNo = False
    """Whether the containers' role is one that exists, its ARN in `existing.role_arn`. Default no, the stack
    makes one with the rights that the plan needs and no other."""
    deployment: Literal["blue-green", "rolling"] = "blue-green"
    """How a change reaches the instances. `blue-green` starts a whole new fleet, moves a part of the traffic
    and then all of it; `rolling` replaces batches and needs fewer instances at a time, at least two in all.
    Default `blue-green`."""
    bake_minutes: Whole = Field(default=10, ge=1, le=60)
    """How long the rollback alarms watch each step of a deployment, minutes. Default 10."""
    data_capture_percent: Whole = Field(default=0, ge=0, le=100)
    """Share of requests and answers that are kept in the bucket, percent. Default 0, none: they hold what
    users write."""
    capture_days: Whole = Field(default=30, ge=1, le=3650)
    """How long captured data and answers of a queue stay in their bucket, days. It outlives the stack, closed
    and encrypted as it was, and empties itself. Default 30."""
    notify_emails: tuple[Email, ...] = Field(default=(), max_length=20)
    """Addresses that alarms are mailed to; each must confirm once. Default: none."""
    own_topic: YesNo = False
    """Whether alarms go to an SNS topic that exists, its ARN in `existing.alarm_topic_arn`. Default no, the
    stack makes one."""
