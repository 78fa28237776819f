"""Physical names, planned, so that dashboards, alarms and rights are plain texts.

Traps:
- What cannot be changed (a model, an endpoint configuration) is replaced before the old one goes, and two of
  one name cannot be. Its name therefore ends in a hash of what it holds, and room for that is kept here.
- A role and a dashboard are the account's and not a region's.
- An endpoint can never become asynchronous, nor stop being it: UpdateEndpoint answers "The
  AsyncInferenceConfig parameter cannot be removed from this endpoint" (aws/sagemaker-python-sdk#3124). The
  mode is therefore in the endpoint's name, so that the other mode is another endpoint, made before the old
  one goes.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from servingstack.naming import physical_name

from .facts import ALARM_NAME_LENGTH, NAME_LENGTH, ROLE_NAME_LENGTH

HASH = 10
BUCKET_PREFIX_LENGTH = 37
"""Longest prefix of a bucket's name (terraform-provider-aws internal/service/s3/bucket.go, bucket_prefix)."""
VARIANT = "main"
"""A deployment with guardrails needs the same variant before and after it
(dg/deployment-guardrails-exclusions)."""


def names_of(stack: str, *, queued: bool) -> dict[str, str]:
    """Physical names by role. The endpoint has the stack's own name, which callers type; where requests are
    queued, with its mode."""
    hashed = NAME_LENGTH - HASH - 1
    endpoint = physical_name(stack, "async", NAME_LENGTH) if queued else stack
    return {
        "endpoint": endpoint,
        "model": physical_name(stack, "model", hashed),
        "config": physical_name(stack, "config", hashed),
        "bucket": physical_name(stack, "sagemaker", BUCKET_PREFIX_LENGTH - 1),
        "data_bucket": physical_name(stack, "sagemaker-data", BUCKET_PREFIX_LENGTH - 1),
        "topic": physical_name(stack, "alarms", ALARM_NAME_LENGTH),
        "results": physical_name(stack, "results", ALARM_NAME_LENGTH),
        "log_group": f"/aws/sagemaker/Endpoints/{endpoint}",
        "rollback_errors": physical_name(stack, "rollback-errors", ALARM_NAME_LENGTH),
        "rollback_latency": physical_name(stack, "rollback-latency", ALARM_NAME_LENGTH),
    }


def names_in(stack: str, region: str) -> dict[str, str]:
    """Physical names of what an account has once, whatever its region: those of two regions must differ."""
    part = f"sagemaker-{region}"
    return {
        "role": physical_name(stack, part, ROLE_NAME_LENGTH),
        "dashboard": physical_name(stack, part, ALARM_NAME_LENGTH),
    }


def alarm_name(stack: str, alert: str, part: int | None = None) -> str:
    """Of an alert, or of one of its conditions."""
    return physical_name(stack, alert if part is None else f"{alert}-{part}", ALARM_NAME_LENGTH)


def hash_of(name: str) -> str:
    """The hash that a name ends in; nothing for no name."""
    return name[-HASH:]


def with_hash(name: str, content: Any) -> str:
    """The name of something immutable: it changes exactly when the content does."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:HASH]}"
