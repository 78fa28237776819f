"""Google's resources, as `tables.Kind` rows; ForceNew as in terraform-provider-google, which pulumi-gcp
bridges.

The trap: a Cloud Run service that was made without a word on `deletionProtection` can be neither
destroyed nor replaced, and an IAM member that stands twice is one grant, which the first deletion takes
from both. The rows refuse both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.engine.clouds.tables import Kind, Reference

PROJECT = "serving-test"
NUMBER = "424242424242"
REGION = "us-central1"
SETTINGS = {"project": PROJECT, "number": NUMBER, "region": REGION}

SERVICE = "gcp:cloudrunv2/service:Service"
ACCOUNT = "gcp:serviceaccount/account:Account"
CHANNEL = "gcp:monitoring/notificationChannel:NotificationChannel"
CUSTOM_SERVICE = "gcp:monitoring/customService:CustomService"
GENERIC_SERVICE = "gcp:monitoring/genericService:GenericService"
SECRET = "gcp:secretmanager/secret:Secret"
METRIC = "gcp:logging/metric:Metric"

_SOURCE = "terraform-provider-google google/services/"
_IAM = "terraform-provider-google google/tpgiamresource/resource_iam_member.go: role, member and condition; "
_MEMBER = Reference(
    "member", ACCOUNT, by="member", within=rf"(serviceAccount:[^@]+@{PROJECT}\.iam\.gserviceaccount\.com)"
)
"""A member of the project's own accounts must be there; any other is somebody else's."""


def _iam(source: str, id_: str, *parent: str, references: tuple[Reference, ...] = ()) -> Kind:
    return Kind(
        source=_IAM + source,
        replaces=(*parent, "role", "member", "condition"),
        keeps=tuple(name for name in parent if name in ("project", "location")),
        id=f"{id_}/{{role}}/{{member}}",
        outputs={"etag": "{hash}"},
        name=None,
        unique=(*(name for name in parent if name not in ("project", "location")), "role", "member"),
        references=(_MEMBER, *references),
    )


KINDS: dict[str, Kind] = {
    SERVICE: Kind(
        source=_SOURCE
        + "cloudrunv2/resource_cloud_run_v2_service.go: ForceNew on location, name, project, tags",
        replaces=("location", "name", "project", "tags"),
        updates=(
            "annotations",
            "binaryAuthorization",
            "buildConfig",
            "client",
            "clientVersion",
            "customAudiences",
            "defaultUriDisabled",
            "deletionPolicy",
            "deletionProtection",
            "description",
            "functionalType",
            "iapEnabled",
            "ingress",
            "invokerIamDisabled",
            "labels",
            "launchStage",
            "multiRegionSettings",
            "scaling",
            "sshEnabled",
            "template",
            "traffics",
        ),
        keeps=("ingress", "launchStage", "scaling", "traffics", "project", "deletionPolicy"),
        defaults={"deletionProtection": True},
        id="projects/{project}/locations/{location}/services/{name}",
        outputs={
            "uri": "https://{name}-{number}.{location}.run.app",
            "urls": [],
            "uid": "{uuid}",
            "etag": "{hash}",
            "latestReadyRevision": "{id}/revisions/{name}-00001-{hash}",
            "latestCreatedRevision": "{id}/revisions/{name}-00001-{hash}",
            "generation": "1",
            "effectiveLabels": "{labels}",
            "pulumiLabels": "{labels}",
            "reconciling": False,
        },
        auto_name=True,
        unique=("name", "location", "project"),
        references=(
            Reference(
                "template.serviceAccount",
                ACCOUNT,
                by="email",
                within=rf"(.+@{PROJECT}\.iam\.gserviceaccount\.com)",
            ),
        ),
        protected_by="deletionProtection",
    ),
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember": _iam(
        "cloudrunv2/iam_cloud_run_v2_service.go: project, location, name",
        "projects/{project}/locations/{location}/services/{name}",
        "project",
        "location",
        "name",
        references=(Reference("name", SERVICE, by="name", within=r"(?:.*/)?([^/]+)"),),
    ),
    ACCOUNT: Kind(
        source=_SOURCE
        + "resourcemanager/resource_google_service_account.go: ForceNew on account_id, project",
        replaces=("accountId", "project"),
        updates=("createIgnoreAlreadyExists", "deletionPolicy", "description", "disabled", "displayName"),
        keeps=("project", "deletionPolicy"),
        id="projects/{project}/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com",
        outputs={
            "email": "{accountId}@{project}.iam.gserviceaccount.com",
            "member": "serviceAccount:{accountId}@{project}.iam.gserviceaccount.com",
            "name": "{id}",
            "uniqueId": "{hash}",
        },
        name="accountId",
        unique=("accountId", "project"),
    ),
    "gcp:serviceaccount/iAMMember:IAMMember": _iam(
        "resourcemanager/iam_service_account.go: service_account_id",
        "{serviceAccountId}",
        "serviceAccountId",
        references=(Reference("serviceAccountId", ACCOUNT, by="name"),),
    ),
    "gcp:projects/iAMMember:IAMMember": _iam(
        "resourcemanager/iam_project.go: project", "{project}", "project"
    ),
    "gcp:storage/bucketIAMMember:BucketIAMMember": _iam(
        "storage/iam_storage_bucket.go: bucket", "b/{bucket}", "bucket"
    ),
    "gcp:secretmanager/secretIamMember:SecretIamMember": _iam(
        "secretmanager/iam_secret_manager_secret.go: project, secret_id",
        "projects/{project}/secrets/{secretId}",
        "project",
        "secretId",
    ),
    "gcp:monitoring/dashboard:Dashboard": Kind(
        source=_SOURCE + "monitoring/resource_monitoring_dashboard.go: ForceNew on project",
        replaces=("project",),
        updates=("dashboardJson", "deletionPolicy"),
        keeps=("project", "deletionPolicy"),
        id="projects/{number}/dashboards/{uuid}",
        name=None,
        unique=(),
    ),
    "gcp:monitoring/alertPolicy:AlertPolicy": Kind(
        source=_SOURCE + "monitoring/resource_monitoring_alert_policy.go: ForceNew on project",
        replaces=("project",),
        updates=(
            "alertStrategy",
            "combiner",
            "conditions",
            "deletionPolicy",
            "displayName",
            "documentation",
            "enabled",
            "notificationChannels",
            "severity",
            "userLabels",
        ),
        keeps=("project", "deletionPolicy"),
        defaults={"enabled": True},
        id="projects/{project}/alertPolicies/{hash}",
        outputs={"name": "{id}", "creationRecords": []},
        name=None,
        unique=(),
        references=(
            Reference(
                "notificationChannels",
                CHANNEL,
                by="name",
                holds="Monitoring API notificationChannels.delete: without force, a channel that a policy "
                "names is not deleted",
            ),
        ),
    ),
    "gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig": Kind(
        source=_SOURCE + "monitoring/resource_monitoring_uptime_check_config.go: ForceNew",
        replaces=(
            "checkerType",
            "httpCheck.requestMethod",
            "monitoredResource",
            "project",
            "resourceGroup",
            "syntheticMonitor",
        ),
        updates=(
            "contentMatchers",
            "deletionPolicy",
            "displayName",
            "httpCheck",
            "logCheckFailures",
            "period",
            "selectedRegions",
            "tcpCheck",
            "timeout",
            "userLabels",
        ),
        keeps=("checkerType", "project", "deletionPolicy"),
        defaults={"period": "300s", "httpCheck.requestMethod": "GET"},
        id="projects/{project}/uptimeCheckConfigs/{hash}",
        outputs={"name": "{id}", "uptimeCheckId": "{hash}"},
        name=None,
        unique=(),
    ),
    CHANNEL: Kind(
        source=_SOURCE + "monitoring/resource_monitoring_notification_channel.go: ForceNew on project",
        replaces=("project",),
        updates=(
            "deletionPolicy",
            "description",
            "displayName",
            "enabled",
            "forceDelete",
            "labels",
            "sensitiveLabels",
            "type",
            "userLabels",
        ),
        keeps=("project", "deletionPolicy"),
        defaults={"enabled": True, "forceDelete": False},
        id="projects/{project}/notificationChannels/{hash}",
        outputs={"name": "{id}", "verificationStatus": "VERIFICATION_STATUS_UNSPECIFIED"},
        name=None,
        unique=(),
    ),
    CUSTOM_SERVICE: Kind(
        source=_SOURCE + "monitoring/resource_monitoring_custom_service.go: ForceNew on service_id, project",
        replaces=("serviceId", "project"),
        updates=("deletionPolicy", "displayName", "telemetry", "userLabels"),
        keeps=("serviceId", "project", "deletionPolicy"),
        id="projects/{project}/services/{serviceId}",
        outputs={"name": "{id}"},
        name="serviceId",
        unique=("serviceId",),
    ),
    GENERIC_SERVICE: Kind(
        source=_SOURCE
        + "monitoring/resource_monitoring_service.go: ForceNew on service_id, basic_service, project",
        replaces=("serviceId", "basicService", "project"),
        updates=("deletionPolicy", "displayName", "userLabels"),
        keeps=("project", "deletionPolicy"),
        id="projects/{project}/services/{serviceId}",
        outputs={"name": "{id}", "telemetries": []},
        name="serviceId",
        unique=("serviceId",),
    ),
    "gcp:monitoring/slo:Slo": Kind(
        source=_SOURCE + "monitoring/resource_monitoring_slo.go: ForceNew on service, slo_id, project",
        replaces=("service", "sloId", "project"),
        updates=(
            "basicSli",
            "calendarPeriod",
            "deletionPolicy",
            "displayName",
            "goal",
            "requestBasedSli",
            "rollingPeriodDays",
            "userLabels",
            "windowsBasedSli",
        ),
        keeps=("sloId", "project", "deletionPolicy"),
        id="projects/{project}/services/{service}/serviceLevelObjectives/{sloId}",
        outputs={"name": "{id}"},
        name="sloId",
        unique=("service", "sloId"),
        references=(Reference("service", f"{CUSTOM_SERVICE}|{GENERIC_SERVICE}", by="serviceId"),),
    ),
    METRIC: Kind(
        source=_SOURCE + "logging/resource_logging_metric.go: ForceNew on project alone",
        replaces=("project",),
        updates=(
            "bucketName",
            "bucketOptions",
            "deletionPolicy",
            "description",
            "disabled",
            "filter",
            "labelExtractors",
            "metricDescriptor",
            "name",
            "valueExtractor",
        ),
        keeps=("metricDescriptor", "project", "deletionPolicy"),
        auto_name=True,
        unique=("name", "project"),
    ),
    "gcp:monitoring/metricDescriptor:MetricDescriptor": Kind(
        source=_SOURCE + "monitoring/resource_monitoring_metric_descriptor.go: ForceNew",
        replaces=("metricKind", "type", "valueType", "labels", "launchStage", "project"),
        updates=("deletionPolicy", "description", "displayName", "metadata", "unit"),
        keeps=("project", "deletionPolicy"),
        id="projects/{project}/metricDescriptors/{type}",
        outputs={"name": "{id}", "monitoredResourceTypes": []},
        name=None,
        unique=("type", "project"),
    ),
}

INVOKES: dict[str, Mapping[str, Any]] = {
    "gcp:organizations/getProject:getProject": {
        "projectId": PROJECT,
        "number": NUMBER,
        "name": PROJECT,
        "id": f"projects/{PROJECT}",
    },
    "gcp:organizations/getClientConfig:getClientConfig": {
        "project": PROJECT,
        "region": REGION,
        "zone": f"{REGION}-a",
        "accessToken": "none",
        "id": PROJECT,
    },
}
"""What a program may ask the provider for; anything else fails with its name."""
