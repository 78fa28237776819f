"""Azure's resources, as `tables.Kind` rows, by azure-native's rules for what replaces.

Those rules (pulumi-azure-native provider/pkg/gen: params.go, properties.go, replacement.go): names and
the resource group in the path, whatever the specification's `x-ms-mutability` does not let update, and
the list of replacement.go. The Python SDK carries the same mutability as `visibility`, which the tests
read.

The trap: azure-native updates in place whatever the specification does not mark, and some of that Azure
then refuses: a role assignment's role, for one. Those stand in `refuses`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.engine.clouds.tables import Kind, Reference

SUBSCRIPTION = "11111111-1111-4111-8111-111111111111"
TENANT = "22222222-2222-4222-8222-222222222222"
REGION = "eastus"
GROUP = "serving"
SETTINGS = {"subscription": SUBSCRIPTION, "tenant": TENANT, "region": REGION}

ENVIRONMENT = "azure-native:app:ManagedEnvironment"
APP = "azure-native:app:ContainerApp"
IDENTITY = "azure-native:managedidentity:UserAssignedIdentity"
ROLE_ASSIGNMENT = "azure-native:authorization:RoleAssignment"
WORKSPACE = "azure-native:operationalinsights:Workspace"
ACTION_GROUP = "azure-native:monitor:ActionGroup"
RESOURCE_GROUP = "azure-native:resources:ResourceGroup"

_GROUP = "/subscriptions/{subscription}/resourceGroups/{resourceGroupName}"
_PROVIDERS = _GROUP + "/providers/"
_PATH = "names and group of the path are ForceNew (azure-native provider/pkg/gen/params.go)"
_LOCATION = "location is x-ms-mutability create, read"
_TYPED = {"azureApiVersion": "test"}


def _outputs(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {**_TYPED, "name": f"{{{name}}}", "type": type_, **more}


KINDS: dict[str, Kind] = {
    RESOURCE_GROUP: Kind(
        source="azure-native provider/pkg/gen/replacement.go: Resources ResourceGroup location; " + _PATH,
        replaces=("location", "resourceGroupName"),
        updates=("managedBy", "tags"),
        id=_GROUP,
        outputs=_outputs("Microsoft.Resources/resourceGroups", "resourceGroupName"),
        name="resourceGroupName",
        auto_name=True,
        unique=("resourceGroupName",),
    ),
    ENVIRONMENT: Kind(
        source="azure-rest-api-specs specification/app ManagedEnvironments.json: x-ms-mutability; " + _PATH,
        replaces=(
            "environmentName",
            "infrastructureResourceGroup",
            "location",
            "resourceGroupName",
            "vnetConfiguration.dockerBridgeCidr",
            "vnetConfiguration.infrastructureSubnetId",
            "vnetConfiguration.internal",
            "vnetConfiguration.platformReservedCidr",
            "vnetConfiguration.platformReservedDnsIP",
            "zoneRedundant",
        ),
        updates=(
            "appInsightsConfiguration",
            "appLogsConfiguration",
            "availabilityZones",
            "customDomainConfiguration",
            "daprAIConnectionString",
            "daprAIInstrumentationKey",
            "diskEncryptionConfiguration",
            "identity",
            "ingressConfiguration",
            "kind",
            "openTelemetryConfiguration",
            "peerAuthentication",
            "peerTrafficConfiguration",
            "publicNetworkAccess",
            "tags",
            "vnetConfiguration",
            "workloadProfiles",
        ),
        keeps=("infrastructureResourceGroup", "location", "publicNetworkAccess"),
        id=_PROVIDERS + "Microsoft.App/managedEnvironments/{environmentName}",
        outputs=_outputs(
            "Microsoft.App/managedEnvironments",
            "environmentName",
            defaultDomain="happy-{hash}.{location}.azurecontainerapps.io",
            staticIp="10.0.0.7",
            provisioningState="Succeeded",
            eventStreamEndpoint="",
        ),
        name="environmentName",
        auto_name=True,
        unique=("environmentName", "resourceGroupName"),
        references=(
            Reference(
                "appLogsConfiguration.logAnalyticsConfiguration.customerId", WORKSPACE, by="customerId"
            ),
        ),
    ),
    APP: Kind(
        source="azure-rest-api-specs specification/app ContainerApps.json: x-ms-mutability of environmentId, "
        "managedEnvironmentId and kind; " + _PATH,
        replaces=(
            "containerAppName",
            "environmentId",
            "kind",
            "location",
            "managedEnvironmentId",
            "resourceGroupName",
        ),
        updates=(
            "configuration",
            "extendedLocation",
            "identity",
            "managedBy",
            "patchingConfiguration",
            "tags",
            "template",
            "workloadProfileName",
        ),
        keeps=("location", "managedEnvironmentId", "environmentId", "workloadProfileName"),
        id=_PROVIDERS + "Microsoft.App/containerApps/{containerAppName}",
        outputs=_outputs(
            "Microsoft.App/containerApps",
            "containerAppName",
            latestRevisionName="{containerAppName}--{hash}",
            latestReadyRevisionName="{containerAppName}--{hash}",
            latestRevisionFqdn="{containerAppName}--{hash}.internal.test.azurecontainerapps.io",
            customDomainVerificationId="{hash}",
            outboundIpAddresses=[],
            provisioningState="Succeeded",
            runningStatus="Running",
        ),
        name="containerAppName",
        auto_name=True,
        unique=("containerAppName", "resourceGroupName"),
        references=tuple(
            Reference(
                name,
                ENVIRONMENT,
                holds="Container Apps API ManagedEnvironments_Delete: 'Delete a Managed Environment if it "
                "does not have any container apps.'",
            )
            for name in ("environmentId", "managedEnvironmentId")
        ),
    ),
    IDENTITY: Kind(
        source=f"azure-rest-api-specs specification/msi: {_LOCATION}; {_PATH}",
        replaces=("location", "resourceGroupName", "resourceName"),
        updates=("tags",),
        keeps=("location",),
        id=_PROVIDERS + "Microsoft.ManagedIdentity/userAssignedIdentities/{resourceName}",
        outputs=_outputs(
            "Microsoft.ManagedIdentity/userAssignedIdentities",
            "resourceName",
            clientId="{uuid}",
            principalId="{uuid}",
            tenantId="{tenant}",
        ),
        name="resourceName",
        auto_name=True,
        unique=("resourceName", "resourceGroupName"),
    ),
    ROLE_ASSIGNMENT: Kind(
        source="azure-native provider/pkg/gen/replacement.go: RoleAssignment principalId, scope; " + _PATH,
        replaces=("principalId", "roleAssignmentName", "scope"),
        updates=("condition", "conditionVersion", "description"),
        # learn.microsoft.com/azure/role-based-access-control/troubleshooting: UpdateNotPermitted
        refuses=("roleDefinitionId", "principalType", "delegatedManagedIdentityResourceId"),
        id="{scope}/providers/Microsoft.Authorization/roleAssignments/{roleAssignmentName}",
        outputs=_outputs("Microsoft.Authorization/roleAssignments", "roleAssignmentName"),
        name="roleAssignmentName",
        auto_name=True,
        # one assignment for one principal, role and scope (RoleAssignmentExists), whatever its name
        unique=("principalId", "roleDefinitionId", "scope"),
        references=(Reference("principalId", IDENTITY, by="principalId"),),
    ),
    WORKSPACE: Kind(
        source=f"azure-rest-api-specs specification/operationalinsights: {_LOCATION}; {_PATH}",
        replaces=("location", "resourceGroupName", "workspaceName"),
        updates=(
            "defaultDataCollectionRuleResourceId",
            "features",
            "forceCmkForQuery",
            "identity",
            "publicNetworkAccessForIngestion",
            "publicNetworkAccessForQuery",
            "retentionInDays",
            "sku",
            "tags",
            "workspaceCapping",
        ),
        keeps=("location", "retentionInDays", "workspaceCapping", "features", "sku"),
        id=_PROVIDERS + "Microsoft.OperationalInsights/workspaces/{workspaceName}",
        outputs=_outputs(
            "Microsoft.OperationalInsights/workspaces",
            "workspaceName",
            customerId="{uuid}",
            provisioningState="Succeeded",
        ),
        name="workspaceName",
        auto_name=True,
        unique=("workspaceName", "resourceGroupName"),
    ),
}


def _monitor(type_: str, name: str, updates: tuple[str, ...], **more: Any) -> Kind:
    return Kind(
        source=f"azure-rest-api-specs specification/monitor: {_LOCATION}; {_PATH}",
        replaces=("location", "resourceGroupName", name),
        updates=updates,
        keeps=("location",),
        id=_PROVIDERS + type_ + f"/{{{name}}}",
        outputs=_outputs(type_, name),
        name=name,
        auto_name=True,
        unique=(name, "resourceGroupName"),
        **more,
    )


KINDS |= {
    "azure-native:monitor:MetricAlert": _monitor(
        "Microsoft.Insights/metricAlerts",
        "ruleName",
        (
            "actions",
            "autoMitigate",
            "criteria",
            "description",
            "enabled",
            "evaluationFrequency",
            "scopes",
            "severity",
            "tags",
            "targetResourceRegion",
            "targetResourceType",
            "windowSize",
        ),
        references=(
            Reference("actions.actionGroupId", ACTION_GROUP),
            Reference("scopes", APP, within=r"(.+/providers/Microsoft\.App/containerApps/[^/]+)"),
        ),
    ),
    "azure-native:monitor:ScheduledQueryRule": _monitor(
        "Microsoft.Insights/scheduledQueryRules",
        "ruleName",
        (
            "actions",
            "autoMitigate",
            "checkWorkspaceAlertsStorageConfigured",
            "criteria",
            "description",
            "displayName",
            "enabled",
            "evaluationFrequency",
            "identity",
            "kind",
            "muteActionsDuration",
            "overrideQueryTimeRange",
            "resolveConfiguration",
            "scopes",
            "severity",
            "skipQueryValidation",
            "tags",
            "targetResourceTypes",
            "windowSize",
        ),
        references=(
            Reference("actions.actionGroups", ACTION_GROUP),
            Reference("scopes", WORKSPACE, within=r"(?i)(.+/workspaces/[^/]+)"),
        ),
    ),
    ACTION_GROUP: _monitor(
        "Microsoft.Insights/actionGroups",
        "actionGroupName",
        (
            "armRoleReceivers",
            "automationRunbookReceivers",
            "azureAppPushReceivers",
            "azureFunctionReceivers",
            "emailReceivers",
            "enabled",
            "eventHubReceivers",
            "groupShortName",
            "identity",
            "incidentReceivers",
            "itsmReceivers",
            "logicAppReceivers",
            "smsReceivers",
            "tags",
            "voiceReceivers",
            "webhookReceivers",
        ),
    ),
    "azure-native:monitor:DiagnosticSetting": Kind(
        source="azure-rest-api-specs specification/monitor diagnosticsSettings_API.json: "
        "name and resourceUri in the path; " + _PATH,
        replaces=("name", "resourceUri"),
        updates=(
            "eventHubAuthorizationRuleId",
            "eventHubName",
            "logAnalyticsDestinationType",
            "logs",
            "marketplacePartnerId",
            "metrics",
            "serviceBusRuleId",
            "storageAccountId",
            "workspaceId",
        ),
        id="{resourceUri}/providers/Microsoft.Insights/diagnosticSettings/{name}",
        outputs={**_TYPED, "type": "Microsoft.Insights/diagnosticSettings"},
        auto_name=True,
        unique=("name", "resourceUri"),
        references=(
            Reference("workspaceId", WORKSPACE),
            Reference("resourceUri", ENVIRONMENT, within=r"(.+/managedEnvironments/[^/]+)"),
            Reference("resourceUri", APP, within=r"(.+/containerApps/[^/]+)"),
        ),
    ),
    "azure-native:applicationinsights:Workbook": Kind(
        source=f"azure-rest-api-specs specification/applicationinsights workbooks: {_LOCATION}; {_PATH}",
        replaces=("location", "resourceGroupName", "resourceName"),
        updates=(
            "category",
            "description",
            "displayName",
            "identity",
            "kind",
            "serializedData",
            "sourceId",
            "storageUri",
            "tags",
            "version",
        ),
        keeps=("location", "sourceId", "version"),
        id=_PROVIDERS + "Microsoft.Insights/workbooks/{resourceName}",
        outputs=_outputs("Microsoft.Insights/workbooks", "resourceName", revision="{hash}"),
        name="resourceName",
        auto_name=True,
        unique=("resourceName", "resourceGroupName"),
    ),
    "azure-native:portal:Dashboard": Kind(
        source=f"azure-rest-api-specs specification/portal portal.json: {_LOCATION}; {_PATH}",
        replaces=("dashboardName", "location", "resourceGroupName"),
        updates=("properties", "tags"),
        keeps=("location",),
        id=_PROVIDERS + "Microsoft.Portal/dashboards/{dashboardName}",
        outputs=_outputs("Microsoft.Portal/dashboards", "dashboardName"),
        name="dashboardName",
        auto_name=True,
        unique=("dashboardName", "resourceGroupName"),
    ),
    "azure-native:app:ManagedEnvironmentsStorage": Kind(
        source="azure-rest-api-specs specification/app ManagedEnvironmentsStorages.json; " + _PATH,
        replaces=("environmentName", "resourceGroupName", "storageName"),
        updates=("properties",),
        id=_PROVIDERS + "Microsoft.App/managedEnvironments/{environmentName}/storages/{storageName}",
        outputs=_outputs("Microsoft.App/managedEnvironments/storages", "storageName"),
        name="storageName",
        auto_name=True,
        unique=("environmentName", "resourceGroupName", "storageName"),
        references=(Reference("environmentName", ENVIRONMENT, by="environmentName"),),
    ),
}

INVOKES: dict[str, Mapping[str, Any]] = {
    "azure-native:authorization:getClientConfig": {
        "clientId": "33333333-3333-4333-8333-333333333333",
        "objectId": "44444444-4444-4444-8444-444444444444",
        "subscriptionId": SUBSCRIPTION,
        "tenantId": TENANT,
    },
}
"""What a program may ask the provider for; anything else fails with its name."""
