"""Which fields of which resource the plan owns, so that no override can make it say another thing.

Trap: an override of what is immutable would replace the environment and everything in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets.overriding import applied

from .bodies import parts
from .refs import Part

_NAMES = "Names follow from the stack's `name`."
_REGION = "Set target.region."
_GROUP = "Set target.container_apps.resource_group."
_PLACED = {"resourceGroupName": _GROUP, "location": _REGION, "tags": "Set `labels`."}
MANAGED: dict[str, dict[str, str]] = {
    "app": {
        **_PLACED,
        "containerAppName": _NAMES,
        "environmentId": "Set existing.environment_id.",
        "managedEnvironmentId": "Set existing.environment_id.",
        "workloadProfileName": "Set hardware.accelerators.",
        "identity": "The stack has an identity of its own.",
        "configuration.activeRevisionsMode": "Exactly one revision serves; a new one takes over when it is "
        "ready.",
        "configuration.ingress": "Set `exposure`.",
        "configuration.secrets": "Name secrets of target.container_apps.key_vault.",
        "configuration.registries": "Set target.container_apps.registry.",
        "configuration.identitySettings": "The identity is for pulling and for secrets alone.",
        "template.containers": "Use the engine's own settings, `extra_args` for one, or a transform.",
        "template.initContainers": "Use a transform of the app.",
        "template.scale": "Set scaling.min_replicas and max_replicas.",
        "template.volumes": "Set model.source.",
        "template.terminationGracePeriodSeconds": "Set request_timeout.",
        "template.revisionSuffix": "Each change makes a revision of its own.",
    },
    "environment": {
        **_PLACED,
        "environmentName": _NAMES,
        "workloadProfiles": "Set hardware.accelerators.",
        "vnetConfiguration.infrastructureSubnetId": "Set existing.subnet_id.",
        "vnetConfiguration.internal": "Set `exposure`.",
        "appLogsConfiguration": "Alerts and dashboard read these logs.",
        "zoneRedundant": "Set target.container_apps.zone_redundant.",
        "identity": "The stack has an identity of its own.",
    },
    "workspace": {
        **_PLACED,
        "workspaceName": _NAMES,
        "retentionInDays": "Set target.container_apps.log_retention_days.",
    },
    "action-group": {
        "resourceGroupName": _GROUP,
        "actionGroupName": _NAMES,
        "groupShortName": _NAMES,
        "emailReceivers": "Set target.container_apps.notify_emails.",
    },
}
"""By role, each field with what to use instead. Other roles take no override at all."""


def check(plan: ServingPlan) -> None:
    """Raises `InvalidInput` for overrides that the plan's resources do not take: no SDK is asked for it."""
    apply(parts(plan), plan.overrides)


def apply(planned: Sequence[Part], overrides: Mapping[str, Mapping[str, Any]]) -> tuple[Part, ...]:
    """What is planned, with the overrides merged in. Raises `InvalidInput`."""
    return applied(planned, MANAGED, overrides)
