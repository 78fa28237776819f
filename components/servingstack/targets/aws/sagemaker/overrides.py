"""Which of SageMaker's resources take an override, and what of them the plan owns.

Trap: names of what cannot be changed follow its planned content. An override would change the content and not
the name, and the replacement would collide with the old one; so those resources take none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets.overriding import applied

from .everything import bodies
from .parts import Body

_NAME = "Names follow from the stack's `name`."
_TAGS = "Set `labels`."
_REGION = "Set target.region."
_COMMON = {"name": _NAME, "tags": _TAGS, "region": _REGION}
_BUCKET = {"bucket": _NAME, "bucket_prefix": _NAME, "tags": _TAGS, "region": _REGION}
MANAGED: dict[str, dict[str, str]] = {
    "role": _COMMON | {"assume_role_policy": "Set target.sagemaker.own_role to bring a role of your own."},
    "log-group": _COMMON,
    "bucket": _BUCKET,
    "data-bucket": _BUCKET,
    "scaling-target": {
        "min_capacity": "Set scaling.min_replicas.",
        "max_capacity": "Set scaling.max_replicas.",
        "resource_id": "There is one variant to scale.",
        "scalable_dimension": "There is one variant to scale.",
        "service_namespace": "There is one variant to scale.",
        "tags": _TAGS,
        "region": _REGION,
    },
    "topic": _COMMON,
    "results-topic": _COMMON,
}
"""Fields that the plan owns, by role. Model, configuration, endpoint, policies, alarms take no override."""


def check(plan: ServingPlan) -> None:
    """Raises `InvalidInput` for overrides that the plan's resources do not take: no SDK is asked for it."""
    apply(bodies(plan), plan.overrides)


def apply(bodies: Sequence[Body], overrides: Mapping[str, Mapping[str, Any]]) -> tuple[Body, ...]:
    """What is planned, with the overrides merged in. Raises `InvalidInput`."""
    return applied(bodies, MANAGED, overrides)
