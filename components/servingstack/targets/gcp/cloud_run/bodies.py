"""The plan as what Google's provider takes: one body per resource, by role, in the SDK's spelling. Pure.

Traps:
- CPU must be allocated at all times with a GPU (`cpu_idle` false), and a body that leaves `resources` half
  filled gets the service's defaults for the rest.
- Without `max_instance_request_concurrency` an instance gets 80 requests, whatever its batch is.
- The variable PORT is Cloud Run's own: the port is said in `ports`, where the engine listens.
- A policy on a metric that has no data yet is refused, unless its validation is switched off; a new service
  has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets import launch
from servingstack.watched import Alert, Objective

from . import collector
from . import scope as s
from .section import SEVERITY, CloudRunSection

Body = dict[str, Any]
SERVICE, MONITORED = "service", "monitored"
WEIGHTS, COLLECTOR, UPTIME = "weights", "collector", "uptime-check"
LIVENESS_PERIOD_S, LIVENESS_FAILURES, PROBE_TIMEOUT_S = 30, 3, 5
"""A dead engine is started again within a minute and a half."""
EVALUATION_S = 60
"""As often as Cloud Run's metrics are sampled."""
AUTO_CLOSE_S = 1800
"""When an incident ends without data; the shortest there is (monitoring v3, AlertStrategy.autoClose)."""
UPTIME_PERIOD_S, UPTIME_TIMEOUT_S = 60, 10
MOST_GOAL = 0.9999
"""Highest goal of an objective in Cloud Monitoring (terraform-provider-google, monitoring slo: goal)."""
PROMQL = "condition_prometheus_query_language"
_SEVERITY = {"page": "CRITICAL", "ticket": "WARNING"}
READER, ACCESSOR, INVOKER, WRITER = (
    "roles/storage.objectViewer",
    "roles/secretmanager.secretAccessor",
    "roles/run.invoker",
    "roles/monitoring.metricWriter",
)


@dataclass(frozen=True)
class Part:
    """One resource: its role in the stack, the SDK's class, and what it takes."""

    role: str
    kind: str
    body: Body = field(default_factory=dict[str, Any])


def section(plan: ServingPlan) -> CloudRunSection:
    """The plan's own part. ValueError for a plan of another option."""
    if plan.cloud_run is None:
        raise ValueError(f"{plan.name} is not planned for Cloud Run")
    return plan.cloud_run


def parts(plan: ServingPlan) -> tuple[Part, ...]:
    """Every resource, in the order in which they are needed."""
    watched = plan.monitoring.alerts or plan.monitoring.dashboards
    return (
        Part("account", "Account", account(plan)),
        *access(plan),
        *collecting(plan),
        Part(SERVICE, "Service", service(plan)),
        *invokers(plan),
        *([Part(MONITORED, "GenericService", monitored(plan)), *objectives(plan)] if watched else []),
        *([Part(UPTIME, "UptimeCheckConfig", uptime_check(plan))] if section(plan).uptime_check else []),
        *(
            Part(alert_role(alert), "AlertPolicy", alert_policy(plan, alert))
            for alert in plan.monitoring.alerts
        ),
        *([Part("dashboard", "Dashboard")] if plan.monitoring.dashboards else []),
    )


def account(plan: ServingPlan) -> Body:
    """An identity of the stack's own, which may do nothing but what `access` grants."""
    return {
        "account_id": plan.names["account"],
        "display_name": f"{plan.name} on Cloud Run",
        "description": "Reads the weights and secrets of one model server.",
    }


def access(plan: ServingPlan) -> list[Part]:
    """What the identity may read; the member is added where the account is known."""
    own = section(plan)
    found = []
    if own.bucket is not None:
        found.append(Part("access-weights", "BucketIAMMember", {"bucket": own.bucket, "role": READER}))
    for name in sorted({each.secret for each in own.secrets.values()}):
        body = {"secret_id": name, "role": ACCESSOR}
        found.append(Part(f"access-{name}", "SecretIamMember", body))
    return found


def collecting(plan: ServingPlan) -> list[Part]:
    """What the collector needs: its file, and the right to write metrics. The ids are added where they are
    known."""
    own = section(plan)
    if own.collector is None:
        return []
    secret = {"secret_id": plan.names["collector"], "replication": {"auto": {}}, "labels": own.labels}
    return [
        Part("collector-file", "Secret", secret),
        Part("collector-version", "SecretVersion", {"secret_data": collector.config(own.collector)}),
        Part("collector-access", "SecretIamMember", {"role": ACCESSOR}),
        Part("collector-writer", "IAMMember", {"role": WRITER}),
    ]


def invokers(plan: ServingPlan) -> list[Part]:
    """Who may call. One binding each: adding a caller touches no other."""
    return [
        Part(f"invoker-{_slug(member)}", "ServiceIamMember", {"role": INVOKER, "member": member})
        for member in section(plan).invokers
    ]


def _slug(member: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", member).strip("-")


def service(plan: ServingPlan) -> Body:
    """The service; traffic goes to the newest revision that is ready."""
    own = section(plan)
    body: Body = {
        "name": plan.names["service"],
        "location": plan.architecture.region,
        "description": f"{plan.architecture.model} by {plan.architecture.engine}",
        "ingress": own.ingress,
        "labels": own.labels,
        "deletion_protection": own.deletion_protection,
        "template": template(plan),
        "traffics": [{"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", "percent": 100}],
    }
    if own.binary_authorization:
        body["binary_authorization"] = {"use_default": True}
    return body


def template(plan: ServingPlan) -> Body:
    """A revision; the identity and the network are added where they are known."""
    own, scaling = section(plan), plan.scaling
    body: Body = {
        "labels": own.labels,
        "execution_environment": "EXECUTION_ENVIRONMENT_GEN2",
        "node_selector": {"accelerator": own.accelerator},
        "gpu_zonal_redundancy_disabled": not own.zonal_redundancy,
        "max_instance_request_concurrency": own.max_concurrency,
        "scaling": {
            "min_instance_count": scaling.min_replicas,
            "max_instance_count": scaling.max_replicas,
            "concurrency_utilization": own.concurrency_utilization,
            "cpu_utilization": own.cpu_utilization,
        },
        "timeout": f"{plan.timeouts.request_s}s",
        "session_affinity": own.session_affinity,
        "containers": [container(plan), *_collector(own)],
    }
    volumes = [*_weights(own), *(_secret_volume(*each) for each in _files(own))]
    if own.collector is not None:
        latest = {"secret": plan.names["collector"], "version": "latest"}
        volumes.append(_secret_volume(COLLECTOR, f"{collector.DIRECTORY}/{collector.FILE}", latest))
    return body | {"volumes": volumes} if volumes else body


def container(plan: ServingPlan) -> Body:
    """The engine, started by the launcher, which says when it is warm."""
    own, planned, api_key = section(plan), plan.container, _api_key(plan)
    mounts = [{"name": WEIGHTS, "mount_path": own.mount_path}] if own.mount_path is not None else []
    mounts += [{"name": name, "mount_path": path.rpartition("/")[0]} for name, path, _ in _files(own)]
    body: Body = {
        "name": "engine",
        "image": own.image,
        "commands": launch.command(plan, ready_port=own.ready_port, api_key=api_key),
        "args": launch.flags(plan),
        "envs": environment(plan),
        "ports": {"name": "http1", "container_port": planned.port},
        "resources": {
            "limits": {"cpu": str(own.cpu), "memory": f"{own.memory_gib}Gi", "nvidia.com/gpu": "1"},
            "cpu_idle": False,
            "startup_cpu_boost": True,
        },
        "startup_probe": {
            "http_get": {"path": "/", "port": own.ready_port},
            "period_seconds": own.startup_period_s,
            "timeout_seconds": PROBE_TIMEOUT_S,
            "failure_threshold": own.startup_failures,
        },
        "liveness_probe": {
            "http_get": {"path": planned.health_path, "port": planned.port},
            "period_seconds": LIVENESS_PERIOD_S,
            "timeout_seconds": PROBE_TIMEOUT_S,
            "failure_threshold": LIVENESS_FAILURES,
        },
    }
    return body | {"volume_mounts": mounts} if mounts else body


def _api_key(plan: ServingPlan) -> tuple[str, str] | None:
    """Name and key of the secret that callers must send, where the engine has it in a variable. By both: the
    token of the hub may be another version of that secret."""
    own = section(plan)
    for each in plan.container.env:
        if each.secret_name is not None and each.secret_name == own.api_key_secret:
            key = each.secret_key or ""
            if own.api_key_secret_key in (None, key):
                return each.secret_name, key
    return None


def _collector(own: CloudRunSection) -> list[Body]:
    """Google's collector, started once the engine is warm."""
    if own.collector is None:
        return []
    limits = {"cpu": str(own.collector.cpu), "memory": f"{own.collector.memory_gib}Gi"}
    return [
        {
            "name": COLLECTOR,
            "image": own.collector.image,
            "depends_ons": ["engine"],
            "resources": {"limits": limits, "cpu_idle": False},
            "volume_mounts": [{"name": COLLECTOR, "mount_path": collector.DIRECTORY}],
        }
    ]


def environment(plan: ServingPlan) -> list[Body]:
    """Literals, and references to secrets; never a secret itself."""
    own = section(plan)
    found: list[Body] = []
    for variable in plan.container.env:
        if variable.secret_name is None:
            found.append({"name": variable.name, "value": variable.value})
            continue
        chosen = own.secrets[variable.name]
        reference = {"secret": chosen.secret, "version": chosen.version}
        found.append({"name": variable.name, "value_source": {"secret_key_ref": reference}})
    return found


def _weights(own: CloudRunSection) -> list[Body]:
    """The bucket, read-only, for an engine that does not read it itself. Folders that only exist in objects'
    names are seen with `implicit-dirs`."""
    if own.mount_path is None:
        return []
    gcs = {"bucket": own.bucket, "read_only": True, "mount_options": ["implicit-dirs"]}
    return [{"name": WEIGHTS, "gcs": gcs}]


def _files(own: CloudRunSection) -> list[tuple[str, str, Body]]:
    """Secrets that are files: volume name, path, and which version."""
    found = [(path, each) for path, each in own.secrets.items() if path.startswith("/")]
    return [
        (f"secret-{index}", path, {"secret": each.secret, "version": each.version})
        for index, (path, each) in enumerate(found)
    ]


def _secret_volume(name: str, path: str, chosen: Body) -> Body:
    item = {"path": path.rpartition("/")[2], "version": chosen["version"]}
    return {"name": name, "secret": {"secret": chosen["secret"], "items": [item]}}


# ---- what is watched ----


def monitored(plan: ServingPlan) -> Body:
    """The service as Cloud Monitoring's objectives know it."""
    labels = {"service_name": plan.names["service"], "location": str(plan.architecture.region)}
    return {
        "service_id": plan.names[MONITORED],
        "display_name": plan.name,
        "basic_service": {"service_type": "CLOUD_RUN", "service_labels": labels},
        "user_labels": section(plan).labels,
    }


def objectives(plan: ServingPlan) -> list[Part]:
    """One objective each; the service they belong to is added where it is known."""
    return [
        Part(f"slo-{_hyphens(objective.id)}", "Slo", slo(plan, objective))
        for objective in plan.monitoring.objectives
        # The engine's own have alerts alone: their metric exists once an engine has written it.
        if objective.percent / 100 <= MOST_GOAL and not objective.id.startswith(("ttft", "tpot"))
    ]


def slo(plan: ServingPlan, objective: Objective) -> Body:
    """Requests that are good, of all, over 30 days."""
    scope = scope_of(plan)
    if objective.threshold_ms is None:
        bad = f'{scope.filter(s.REQUESTS)} AND metric.label."response_code_class"="5xx"'
        ratio = {"bad_service_filter": bad, "total_service_filter": scope.filter(s.REQUESTS)}
        indicator: Body = {"good_total_ratio": ratio}
    else:
        cut = {"distribution_filter": scope.filter(s.LATENCIES), "range": {"max": objective.threshold_ms}}
        indicator = {"distribution_cut": cut}
    return {
        "slo_id": _hyphens(objective.id),
        "display_name": f"{plan.name}: {objective.id}",
        "goal": round(objective.percent / 100, 6),
        "rolling_period_days": objective.window_days,
        "request_based_sli": indicator,
        "user_labels": section(plan).labels,
    }


def scope_of(plan: ServingPlan) -> s.Scope:
    """Where the service's series are."""
    return s.Scope(plan.names["service"], plan.architecture.region)


def _hyphens(name: str) -> str:
    return name.replace("_", "-")


def alert_role(alert: Alert) -> str:
    """`alert-ServingQueueFull-page`: two severities of one alert are two policies."""
    return f"alert-{alert.name}-{alert.severity}"


def alert_policy(plan: ServingPlan, alert: Alert) -> Body:
    """One alert with its PromQL condition; the channels, and the id of the uptime check, are added where they
    are known."""
    documentation: Body = {
        "subject": f"{alert.name}: {plan.name}",
        "content": f"{alert.summary}\n\nRunbook: {alert.runbook}",
        "mime_type": "text/markdown",
    }
    if alert.runbook_url is not None:
        documentation["links"] = [{"display_name": "Runbook", "url": alert.runbook_url}]
    condition = {
        "query": alert.expression,
        "duration": f"{alert.for_s}s",
        "evaluation_interval": f"{EVALUATION_S}s",
        "alert_rule": alert.name,
        "disable_metric_validation": True,
    }
    return {
        "display_name": f"{plan.name}: {alert.name} ({alert.severity})",
        "combiner": "OR",
        "severity": _SEVERITY[alert.severity],
        "conditions": [{"display_name": alert.name, PROMQL: condition}],
        "documentation": documentation,
        "alert_strategy": {"auto_close": f"{AUTO_CLOSE_S}s"},
        "user_labels": section(plan).labels | alert.labels | {SEVERITY: alert.severity},
    }


def uptime_check(plan: ServingPlan) -> Body:
    """Google's checkers, as a caller that IAM lets in; the host is added where it is known."""
    return {
        "display_name": f"{plan.name}: health",
        "period": f"{UPTIME_PERIOD_S}s",
        "timeout": f"{UPTIME_TIMEOUT_S}s",
        "http_check": {
            "path": plan.container.health_path,
            "port": 443,
            "use_ssl": True,
            "validate_ssl": True,
            "service_agent_authentication": {"type": "OIDC_TOKEN"},
        },
        "user_labels": section(plan).labels,
    }
