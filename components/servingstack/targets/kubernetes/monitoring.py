"""What Prometheus and Grafana are told: two monitors, the rules, the dashboard.

Fields as in prometheus-operator v0.92.0 (pkg/apis/monitoring/v1), whose definitions the tests' API server
holds them to. `job` is the name of the Service, which is where the plan's queries look.

Traps:
- Only ready endpoints of the engine are scraped: a replica that warms up has counters already, and none of
  its requests may count anywhere. The label that says so depends on the discovery role, so both are read.
- `honorLabels` stays false: with it, a metric's own `job` or `namespace` label would hide it from every
  query.
"""

from __future__ import annotations

import json

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import front_door, parts
from servingstack.targets.kubernetes.dashboard import dashboard
from servingstack.targets.kubernetes.parts import Body, Manifest, manifest
from servingstack.watched import Alert, RecordingRule

API = "monitoring.coreos.com/v1"
INTERVAL = "15s"
"""As often as Kubernetes scales; a scrape that is older than a decision is noise in it."""
_READY = (
    "__meta_kubernetes_endpoint_ready",  # role endpoints
    "__meta_kubernetes_endpointslice_endpoint_conditions_ready",  # role endpointslice
)


def objects(plan: ServingPlan) -> list[Manifest]:
    """Monitors always, since the scaler reads them too; rules and dashboard as planned."""
    found = [engine_monitor(plan), door_monitor(plan)]
    if plan.monitoring.recording_rules or plan.monitoring.alerts:
        found.append(rules(plan))
    if plan.monitoring.dashboards:
        found.append(dashboard_config(plan))
    return found


def engine_monitor(plan: ServingPlan) -> Manifest:
    """Scrape every ready replica."""
    # One of the two labels is empty, and the separator is a semicolon.
    ready = {"sourceLabels": list(_READY), "action": "keep", "regex": "true;|;true"}
    port = parts.HTTP_PORT if plan.container.metrics_port is None else parts.METRICS_PORT
    endpoint = _endpoint(port, plan.container.metrics_path) | {"relabelings": [ready]}
    return _monitor(plan, "engine-monitor", plan.names["engine"], parts.engine_component(plan), [endpoint])


def door_monitor(plan: ServingPlan) -> Manifest:
    """Scrape the front door: the proxy's own metrics, and what it holds while no replica is up."""
    metrics, held = (
        _endpoint(parts.METRICS_PORT, path) for path in (front_door.METRICS_PATH, front_door.HELD_PATH)
    )
    # Two targets on one port would write one `up`. So the second has a job of its own, and its samples get
    # the first one's back.
    job = plan.names["service"]
    held["relabelings"] = [{"action": "replace", "targetLabel": "job", "replacement": f"{job}-held"}]
    held["metricRelabelings"] = [{"action": "replace", "targetLabel": "job", "replacement": job}]
    return _monitor(plan, "door-monitor", plan.names["door"], parts.DOOR, [metrics, held])


def _endpoint(port: str, path: str) -> Body:
    return {"port": port, "path": path, "interval": INTERVAL, "honorLabels": False}


def _monitor(plan: ServingPlan, role: str, name: str, component: str, endpoints: list[Body]) -> Manifest:
    metadata = parts.metadata(plan, name, component, extra_labels=parts.placement(plan).monitor_labels)
    spec: Body = {"selector": {"matchLabels": parts.selector(plan, component)}, "endpoints": endpoints}
    return manifest(role, API, "ServiceMonitor", metadata, spec=spec)


def rules(plan: ServingPlan) -> Manifest:
    """Recording rules, then alerts that read them, in groups of their own."""
    name, monitoring = plan.names["rules"], plan.monitoring
    groups = (
        (f"{name}-records", [_record(rule) for rule in monitoring.recording_rules]),
        (f"{name}-alerts", [_alert(alert) for alert in monitoring.alerts]),
    )
    spec = {"groups": [{"name": title, "rules": content} for title, content in groups if content]}
    extra = parts.placement(plan).monitor_labels
    metadata = parts.metadata(plan, name, parts.engine_component(plan), extra_labels=extra)
    return manifest("rules", API, "PrometheusRule", metadata, spec=spec)


def _record(rule: RecordingRule) -> Body:
    body: Body = {"record": rule.record, "expr": rule.expression}
    return body | {"labels": rule.labels} if rule.labels else body


def _alert(alert: Alert) -> Body:
    annotations = {"summary": alert.summary}
    if alert.runbook:
        annotations["runbook"] = alert.runbook
    if alert.runbook_url is not None:
        annotations["runbook_url"] = alert.runbook_url
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": f"{alert.for_s}s",
        "labels": alert.labels | {"severity": alert.severity},
        "annotations": annotations,
    }


def dashboard_config(plan: ServingPlan) -> Manifest:
    """The dashboard, where Grafana's sidecar finds it (grafana chart: `sidecar.dashboards.label`, its
    default)."""
    content = json.dumps(dashboard(plan), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    metadata = parts.metadata(
        plan, plan.names["dashboard"], parts.engine_component(plan), extra_labels={"grafana_dashboard": "1"}
    )
    return manifest(
        "dashboard", "v1", "ConfigMap", metadata, data={f"{plan.names['dashboard']}.json": content}
    )
