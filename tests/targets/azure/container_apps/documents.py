"""Inputs for Container Apps: the least, and one with everything that the option can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.recorder import Run, record

from servingstack.component import ServingStack

APP = "azure-native:app:ContainerApp"
ENVIRONMENT = "azure-native:app:ManagedEnvironment"
DEFAULTS: dict[str, Any] = {
    "name": "chat",
    "model": {"id": "Qwen/Qwen2.5-1.5B-Instruct"},
    "target": {"option": "container-apps"},
}
MAX: dict[str, Any] = {
    "name": "chat",
    "model": {"id": "meta-llama/Llama-3.1-8B-Instruct", "source": "azurefile://models/llama-8b"},
    "target": {
        "option": "container-apps",
        "region": "swedencentral",
        "container_apps": {
            "resource_group": "serving",
            "subnet": True,
            "zone_redundant": True,
            "own_workspace": True,
            "registry": "models.azurecr.io",
            "key_vault": "chat-vault",
            "storage_account": "chatmodels",
            "share_protocol": "nfs",
            "notify_emails": ["oncall@example.com"],
        },
    },
    "slo": {"ttft_p95": "1s", "tpot_p95": "60ms", "latency_p99": "30s", "availability": 99.9},
    "traffic": {"requests_per_second": 5, "peak_requests_per_second": 12, "ramp": "5m"},
    "hardware": {"accelerators": ["a100-80gb"], "max_gpus": 12},
    "scaling": {"min_replicas": 2, "max_replicas": 4},
    "request_timeout": "60s",
    "stream_timeout": "200s",
    "exposure": "internal",
    "api_key_secret": {"name": "chat-key"},
    "labels": {"team": "search"},
    "observability": {
        "alerts": {"labels": {"team": "search"}, "runbook_base_url": "https://runbooks.example.com"}
    },
    "overrides": {"environment": {"kind": "workloadProfiles"}},
}
_PROVIDERS = "/subscriptions/11111111-1111-4111-8111-111111111111/resourceGroups/shared/providers/"
IDS = {
    "environment_id": _PROVIDERS + "Microsoft.App/managedEnvironments/shared",
    "workspace_id": _PROVIDERS + "Microsoft.OperationalInsights/workspaces/logs",
    "subnet_id": _PROVIDERS + "Microsoft.Network/virtualNetworks/net/subnets/apps",
    "registry_id": _PROVIDERS + "Microsoft.ContainerRegistry/registries/models",
    "key_vault_id": _PROVIDERS + "Microsoft.KeyVault/vaults/chat-vault",
    "action_group_id": _PROVIDERS + "Microsoft.Insights/actionGroups/oncall",
}
EXISTING = {name: IDS[name] for name in ("workspace_id", "subnet_id", "registry_id", "key_vault_id")}
OUTPUTS: dict[str, dict[str, Any]] = {
    "azure-native:resources:ResourceGroup": {"name": "chat-serving"},
    "azure-native:managedidentity:UserAssignedIdentity": {
        "principalId": "33333333-3333-4333-8333-333333333333"
    },
    ENVIRONMENT: {"name": "chat-env", "identity": {"type": "UserAssigned", "userAssignedIdentities": {}}},
    APP: {
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {}},
        "configuration": {"ingress": {"fqdn": "chat.internal.happy-sea.eastus.azurecontainerapps.io"}},
    },
    "azure-native:app:ManagedEnvironmentsStorage": {"name": "models"},
}
"""What only Azure knows of a resource."""


def document(base: Mapping[str, Any] = DEFAULTS, **changes: Any) -> dict[str, Any]:
    """A document with parts of it changed; `container_apps` goes to the option's own settings."""
    found = {**base, "target": dict(base["target"])}
    settings = changes.pop("container_apps", None)
    if settings is not None:
        found["target"]["container_apps"] = {**found["target"].get("container_apps", {}), **settings}
    for name, value in changes.items():
        old = found.get(name)
        found[name] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return found


def run_of(
    given: Mapping[str, Any], existing: Mapping[str, Any] | None = None, *, preview: bool = False
) -> Run:
    """What a program with this stack registers."""
    return record(
        lambda: ServingStack("stack", dict(given), existing=existing), preview=preview, outputs=OUTPUTS
    )
