"""What a user's `overrides` may not touch of a service on Cloud Run; `overriding` merges the rest.

Trap: a single field that is forgotten here lets an override say another thing than the plan and the
dashboard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets.overriding import applied

from .bodies import Part, parts

_PLANNED = "Set the field of the input that decides it."
MANAGED: dict[str, dict[str, str]] = {
    "service": {
        "name": "Names follow from the stack's `name`.",
        "location": "Set target.region.",
        "project": "Set existing.project.",
        "ingress": "Set `exposure`.",
        "labels": "Set `labels`.",
        "deletion_protection": "Set target.cloud_run.deletion_protection.",
        "binary_authorization": "Set target.cloud_run.binary_authorization.",
        "invoker_iam_disabled": "Set target.cloud_run.invokers: callers are checked by IAM.",
        "default_uri_disabled": "The endpoint output is that address.",
        "traffics": "Traffic goes to the newest revision that is ready.",
        "scaling": "Set scaling.min_replicas and max_replicas.",
        "template.containers": "Use the engine's own settings, `extra_args` for one, or a transform.",
        "template.scaling": "Set scaling.min_replicas and max_replicas.",
        "template.max_instance_request_concurrency": _PLANNED,
        "template.timeout": "Set request_timeout.",
        "template.service_account": "The stack has an identity of its own.",
        "template.node_selector": "Set hardware.accelerators.",
        "template.gpu_zonal_redundancy_disabled": "Set target.cloud_run.zonal_redundancy.",
        "template.execution_environment": "GPUs take the second generation.",
        "template.session_affinity": "Set target.cloud_run.session_affinity.",
        "template.health_check_disabled": "A revision takes traffic once it is warm.",
        "template.volumes": "Set model.source.",
        "template.vpc_access": "Set target.cloud_run.vpc_egress.",
        "template.labels": "Set `labels`.",
        "template.revision": "Each change makes a revision of its own.",
    },
    "account": {"account_id": "Names follow from the stack's `name`."},
    "dashboard": {"dashboard_json": "Dashboards are generated; copy it in the console to change it."},
}
"""Fields that the plan owns, by role, each with what to use instead. Other roles take no override at all."""


def check(plan: ServingPlan) -> None:
    """Raises `InvalidInput` for overrides that the plan's resources do not take: no SDK is asked for it."""
    apply(parts(plan), plan.overrides)


def apply(planned: Sequence[Part], overrides: Mapping[str, Mapping[str, Any]]) -> tuple[Part, ...]:
    """What is planned, with the overrides merged in. Raises `InvalidInput`."""
    return applied(planned, MANAGED, overrides)
