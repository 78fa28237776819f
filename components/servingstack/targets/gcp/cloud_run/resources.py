"""The shell: a plan's bodies as Pulumi resources. It reads the plan and takes no decision.

Traps:
- A revision whose identity cannot read its secret or bucket yet fails, and the deployment with it: the
  service waits for the grants.
- The provider waits twenty minutes for a service, and a large model starts in up to thirty: the time-outs
  come from the plan.
- The console makes a name of its own for each dashboard and policy; nothing here may depend on one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pulumi

from servingstack.plan import ServingPlan
from servingstack.targets.existing import parse

from .bodies import MONITORED, PROMQL, SERVICE, UPTIME, Part, parts
from .dashboard import dashboard
from .endpoint import endpoint
from .existing import CloudRunExisting
from .overrides import apply
from .scope import CHECK_ID

try:
    import pulumi_gcp as gcp
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "target `cloud-run` needs the extra `gcp`: pip install 'servingstack[gcp]'"
    ) from error

TOKEN = "servingstack:gcp:CloudRunService"
"""Never changes: it is in the URN of every child."""
PROVIDER_WAIT_S = 1200
"""terraform-provider-google, resource_cloud_run_v2_service.go: DefaultTimeout(20 * time.Minute)."""
_MARGIN_S = 300
EXAMPLE = '{"project": ...}'
CONSOLE = "https://console.cloud.google.com/monitoring/dashboards/builder/"


def build(
    name: str,
    plan: ServingPlan,
    existing: Mapping[str, Any] | CloudRunExisting | None,
    opts: pulumi.ResourceOptions,
) -> CloudRunService:
    """What `ServingStack` calls of every option. Raises `InvalidInput`."""
    return CloudRunService(name, plan, opts, existing=parse(CloudRunExisting, existing, EXAMPLE))


class CloudRunService(pulumi.ComponentResource):
    """A plan's service on Cloud Run with what watches it. Usable alone with a plan."""

    endpoint: pulumi.Output[dict[str, Any]]
    """How to call it: `url`, `protocol`, `auth`, `invoke_example`, `timeout`."""
    dashboard_url: pulumi.Output[str | None]
    """The dashboard in the console; None without one."""

    def __init__(
        self,
        name: str,
        plan: ServingPlan,
        opts: pulumi.ResourceOptions | None = None,
        *,
        existing: CloudRunExisting | None = None,
    ) -> None:
        """Register every resource of `plan`. Raises `InvalidInput` for overrides that are refused, and for
        ids that are missing or have no use."""
        given = CloudRunExisting() if existing is None else existing
        given.check(plan)
        planned = apply(parts(plan), plan.overrides)
        super().__init__(TOKEN, name, {"service": plan.names["service"]}, opts)
        made: dict[str, Any] = {}
        for part in planned:
            body = part.body | _handed_on(plan, part, given, made)
            constructor = _CLASSES[part.kind]()
            made[part.role] = constructor(f"{name}-{part.role}", opts=self._options(plan, part, made), **body)
        self.endpoint = made[SERVICE].uri.apply(lambda url: endpoint(plan, url))
        board = made.get("dashboard")
        self.dashboard_url = pulumi.Output.from_input(None) if board is None else board.id.apply(_console)
        self.register_outputs({"endpoint": self.endpoint, "dashboard_url": self.dashboard_url})

    def _options(self, plan: ServingPlan, part: Part, made: Mapping[str, Any]) -> pulumi.ResourceOptions:
        if part.role != SERVICE:
            return pulumi.ResourceOptions(parent=self)
        grants = [resource for role, resource in made.items() if role.startswith(("access-", "collector-"))]
        return pulumi.ResourceOptions(parent=self, depends_on=grants, custom_timeouts=timeouts(plan))


def timeouts(plan: ServingPlan) -> pulumi.CustomTimeouts:
    """How long Pulumi waits for a revision: a start, and a machine before it."""
    machine = math.ceil(plan.scaling.cold_start.node_s + plan.scaling.cold_start.image_s)
    wait = max(PROVIDER_WAIT_S, plan.timeouts.startup_s + machine + _MARGIN_S)
    return pulumi.CustomTimeouts(create=f"{wait}s", update=f"{wait}s", delete=f"{PROVIDER_WAIT_S}s")


def _handed_on(
    plan: ServingPlan, part: Part, given: CloudRunExisting, made: Mapping[str, Any]
) -> dict[str, Any]:
    """What only the deployment knows: ids of what exists, and of what was made before."""
    found: dict[str, Any] = {}
    if given.project is not None and part.kind not in ("BucketIAMMember", "SecretVersion", "IAMMember"):
        found["project"] = given.project
    if part.kind in ("BucketIAMMember", "SecretIamMember", "IAMMember"):
        found |= {"member": made["account"].member} | _collectors(part, made)
    elif part.kind == "SecretVersion":
        found["secret"] = made["collector-file"].id
    elif part.kind == "Service":
        found["template"] = part.body["template"] | _identity_and_network(plan, given, made)
    elif part.kind == "ServiceIamMember":
        found |= {"name": made[SERVICE].name, "location": made[SERVICE].location}
    elif part.kind == "Slo":
        found["service"] = made[MONITORED].service_id
    elif part.kind == "AlertPolicy":
        found |= _alert(part, given, made)
    elif part.kind == "UptimeCheckConfig":
        host = made[SERVICE].uri.apply(_host)
        found["monitored_resource"] = {"type": "uptime_url", "labels": _labels(host, given)}
    elif part.kind == "Dashboard":
        found["dashboard_json"] = json.dumps(dashboard(plan), sort_keys=True)
    return found


def _alert(part: Part, given: CloudRunExisting, made: Mapping[str, Any]) -> dict[str, Any]:
    """Who hears of it, and for the alert on the uptime check that check's id in its query."""
    channels = given.notification_channels
    found: dict[str, Any] = {} if channels is None else {"notification_channels": channels}
    (condition,) = part.body["conditions"]
    asked = condition[PROMQL]
    if CHECK_ID in asked["query"]:
        query = made[UPTIME].uptime_check_id.apply(
            lambda check: asked["query"].replace(CHECK_ID, check or "")
        )
        found["conditions"] = [{**condition, PROMQL: {**asked, "query": query}}]
    return found


def _collectors(part: Part, made: Mapping[str, Any]) -> dict[str, Any]:
    """The collector's file, and the project that the identity is of."""
    if part.role == "collector-access":
        return {"secret_id": made["collector-file"].secret_id}
    return {"project": made["account"].project} if part.kind == "IAMMember" else {}


def _host(url: str | None) -> str:
    """A service's address without its scheme; mocks have none."""
    return "" if url is None else url.removeprefix("https://")


def _labels(host: pulumi.Output[str], given: CloudRunExisting) -> dict[str, Any]:
    return {"host": host} | ({} if given.project is None else {"project_id": given.project})


def _identity_and_network(
    plan: ServingPlan, given: CloudRunExisting, made: Mapping[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = {"service_account": made["account"].email}
    own = plan.cloud_run
    if own is not None and own.vpc_egress is not None:
        ids = {"network": given.network, "subnetwork": given.subnetwork}
        interface = {name: value for name, value in ids.items() if value is not None}
        found["vpc_access"] = {"egress": own.vpc_egress, "network_interfaces": [interface]}
    return found


def _console(identity: str) -> str:
    """A dashboard's id is `projects/<project>/dashboards/<uuid>`."""
    pieces = identity.split("/")
    project = pieces[1] if len(pieces) > 1 else ""
    return f"{CONSOLE}{pieces[-1]}?project={project}"


# Looked up when used: the SDK loads a module at its first use.
_CLASSES: dict[str, Any] = {
    "Account": lambda: gcp.serviceaccount.Account,
    "AlertPolicy": lambda: gcp.monitoring.AlertPolicy,
    "BucketIAMMember": lambda: gcp.storage.BucketIAMMember,
    "Dashboard": lambda: gcp.monitoring.Dashboard,
    "GenericService": lambda: gcp.monitoring.GenericService,
    "IAMMember": lambda: gcp.projects.IAMMember,
    "Secret": lambda: gcp.secretmanager.Secret,
    "SecretIamMember": lambda: gcp.secretmanager.SecretIamMember,
    "SecretVersion": lambda: gcp.secretmanager.SecretVersion,
    "Service": lambda: gcp.cloudrunv2.Service,
    "ServiceIamMember": lambda: gcp.cloudrunv2.ServiceIamMember,
    "Slo": lambda: gcp.monitoring.Slo,
    "UptimeCheckConfig": lambda: gcp.monitoring.UptimeCheckConfig,
}

__all__ = ["CloudRunService", "build"]
