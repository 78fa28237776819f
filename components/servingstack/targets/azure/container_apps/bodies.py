"""The plan as what Azure takes: one part per resource, by role, in the order in which they are needed. Pure.

Traps:
- A role assignment reaches the service that checks it some time after it was made; the app that needs it
  waits for the assignment, and Azure itself tries again.
- A log alert's rule looks at one workspace, and its window must hold the longest that its query asks for.
- An environment that logs to `azure-monitor` sends nothing until a diagnostic setting says where to.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan

from .app import IDENTITY, container_app, section, tags
from .refs import Body, Given, Part, Ref, RoleId, Text
from .rules import metric_alert, query_rule, rule_role
from .workbook import workbook

LOG_CATEGORIES = ("ContainerAppConsoleLogs", "ContainerAppSystemLogs", "ContainerAppHTTPLogs")
"""Of a managed environment (learn.microsoft.com/azure/azure-monitor/reference/supported-logs/
microsoft-app-managedenvironments-logs)."""


def parts(plan: ServingPlan) -> tuple[Part, ...]:
    """Every resource."""
    own = section(plan)
    grants = role_assignments(plan)
    granted = tuple(part.role for part in grants)
    found = [
        *(
            [Part("resource-group", "resources.ResourceGroup", _resource_group(plan))]
            if own.create_resource_group
            else []
        ),
        *(
            [Part("workspace", "operationalinsights.Workspace", _workspace(plan))]
            if own.create_workspace
            else []
        ),
        Part("identity", "managedidentity.UserAssignedIdentity", _identity(plan)),
        *grants,
    ]
    if own.create_environment:
        found.append(Part("environment", "app.ManagedEnvironment", _environment(plan)))
        found.append(Part("environment-logs", "monitor.DiagnosticSetting", _environment_logs(plan)))
    if own.share is not None and own.share.link:
        found.append(Part("storage", "app.ManagedEnvironmentsStorage", _storage(plan), after=granted))
    found.append(Part("app", "app.ContainerApp", container_app(plan, group(plan)), after=granted))
    found.append(Part("app-metrics", "monitor.DiagnosticSetting", _app_metrics(plan)))
    return (*found, *_watching(plan))


def _watching(plan: ServingPlan) -> list[Part]:
    own, found = section(plan), list[Part]()
    if own.create_action_group:
        found.append(Part("action-group", "monitor.ActionGroup", _action_group(plan)))
    for alert in plan.monitoring.alerts:
        role = rule_role(alert)
        if alert.conditions[0].metrics:
            found.append(Part(role, "monitor.MetricAlert", metric_alert(plan, alert, group(plan))))
        else:
            found.append(Part(role, "monitor.ScheduledQueryRule", query_rule(plan, alert, group(plan))))
    if plan.monitoring.dashboards:
        found.append(Part("dashboard", "applicationinsights.Workbook", workbook(plan, group(plan))))
    return found


def group(plan: ServingPlan) -> Any:
    """Name of the resource group."""
    own = section(plan)
    return Ref("resource-group", "name") if own.create_resource_group else plan.names["resource-group"]


def workspace(plan: ServingPlan) -> Ref | Given:
    """Id of the logs' workspace."""
    return Ref("workspace") if section(plan).create_workspace else Given("workspace_id")


def _placed(plan: ServingPlan) -> Body:
    return {"resourceGroupName": group(plan), "location": plan.architecture.region, "tags": tags(plan)}


def _resource_group(plan: ServingPlan) -> Body:
    return {
        "resourceGroupName": plan.names["resource-group"],
        "location": plan.architecture.region,
        "tags": tags(plan),
    }


def _workspace(plan: ServingPlan) -> Body:
    """Only identities of the tenant read it; no shared key is used by anyone."""
    return _placed(plan) | {
        "workspaceName": plan.names["workspace"],
        "sku": {"name": "PerGB2018"},
        "retentionInDays": section(plan).log_retention_days,
        "features": {"disableLocalAuth": True, "enableLogAccessUsingOnlyResourcePermissions": True},
    }


def _identity(plan: ServingPlan) -> Body:
    return _placed(plan) | {"resourceName": plan.names["identity"]}


def role_assignments(plan: ServingPlan) -> list[Part]:
    """What the identity may do: pull from one registry, read the secrets that are named, each by itself."""
    own = section(plan)
    found: list[Part] = []
    if own.registry is not None:
        found.append(_grant("may-pull", "AcrPull", Given("registry_id"), "", "Pull the stack's images."))
    secrets = set(own.secrets.values())
    if own.share is not None and own.share.key_secret is not None:
        secrets.add(own.share.key_secret)
    for secret in sorted(secrets):
        role, below = f"may-read-{secret}", f"/secrets/{secret}"
        found.append(_grant(role, "Key Vault Secrets User", Given("key_vault_id"), below, "Read one secret."))
    return found


def _grant(role: str, name: str, on: Given, below: str, why: str) -> Part:
    body: Body = {
        "principalId": Ref("identity", "principal_id"),
        # Without it, Azure looks the principal up in a directory that may not have it yet.
        "principalType": "ServicePrincipal",
        "roleDefinitionId": RoleId(name, on),
        "scope": Text((on, below)) if below else on,
        "description": why,
    }
    return Part(role, "authorization.RoleAssignment", body)


def _environment(plan: ServingPlan) -> Body:
    own = section(plan)
    body = _placed(plan) | {
        "environmentName": plan.names["environment"],
        # No counts: they are refused for consumption profiles.
        "workloadProfiles": [
            {"name": "Consumption", "workloadProfileType": "Consumption"},
            *({"name": name, "workloadProfileType": kind} for name, kind in own.workload_profiles.items()),
        ],
        "appLogsConfiguration": {"destination": "azure-monitor"},
        "peerTrafficConfiguration": {"encryption": {"enabled": True}},
        "zoneRedundant": own.zone_redundant,
    }
    if own.subnet:
        body["vnetConfiguration"] = {
            "infrastructureSubnetId": Given("subnet_id"),
            "internal": own.internal,
        }
    if own.share is not None and own.share.key_secret is not None:
        body["identity"] = {"type": "UserAssigned", "userAssignedIdentities": [IDENTITY]}
    return body


def _environment_logs(plan: ServingPlan) -> Body:
    return {
        "name": "servingstack",
        "resourceUri": Ref("environment"),
        "workspaceId": workspace(plan),
        "logs": [{"category": name, "enabled": True} for name in LOG_CATEGORIES],
        "logAnalyticsDestinationType": "Dedicated",
    }


def _app_metrics(plan: ServingPlan) -> Body:
    return {
        "name": "servingstack",
        "resourceUri": Ref("app"),
        "workspaceId": workspace(plan),
        "metrics": [{"category": "AllMetrics", "enabled": True}],
    }


def _storage(plan: ServingPlan) -> Body:
    own = section(plan)
    share = own.share
    assert share is not None
    if share.protocol == "nfs":
        properties: Body = {
            "nfsAzureFile": {
                "server": f"{share.account}.file.core.windows.net",
                "shareName": f"/{share.account}/{share.share}",
                "accessMode": "ReadOnly",
            }
        }
    else:
        key = f"https://{own.key_vault}.vault.azure.net/secrets/{share.key_secret}"
        properties = {
            "azureFile": {
                "accountName": share.account,
                "shareName": share.share,
                "accessMode": "ReadOnly",
                "accountKeyVaultProperties": {"identity": IDENTITY, "keyVaultUrl": key},
            }
        }
    return {
        "environmentName": Ref("environment", "name"),
        "resourceGroupName": group(plan),
        "storageName": share.storage,
        "properties": properties,
    }


def _action_group(plan: ServingPlan) -> Body:
    return {
        "actionGroupName": plan.names["action-group"],
        "resourceGroupName": group(plan),
        "location": "Global",
        "groupShortName": plan.names["action-group-short"],
        "enabled": True,
        "emailReceivers": [
            {"name": f"mail-{index}", "emailAddress": address, "useCommonAlertSchema": True}
            for index, address in enumerate(section(plan).notify_emails)
        ],
        "tags": tags(plan),
    }
