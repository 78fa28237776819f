"""Rule groups as the Prometheus operator's PrometheusRule and Prometheus' own rule files have them.

Trap: a recording rule that reads another belongs below it in one group, where rules run in order; across
groups it reads a value that is an interval old.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import Alert, Monitoring, RecordingRule


def rule_groups(monitoring: Monitoring, name: str) -> list[dict[str, Any]]:
    """`spec.groups`: one group per objective, then one of the alerts. Empty where there are no rules."""
    by_objective: dict[str, list[RecordingRule]] = {}
    for rule in monitoring.recording_rules:
        by_objective.setdefault(rule.labels["sloth_slo"], []).append(rule)
    groups = [
        {"name": f"{name}-{objective.replace('_', '-')}", "rules": [_recording(rule) for rule in rules]}
        for objective, rules in by_objective.items()
    ]
    if monitoring.alerts:
        groups.append({"name": f"{name}-alerts", "rules": [_alerting(alert) for alert in monitoring.alerts]})
    return groups


def _recording(rule: RecordingRule) -> dict[str, Any]:
    return {"record": rule.record, "expr": rule.expression, "labels": dict(rule.labels)}


def _alerting(alert: Alert) -> dict[str, Any]:
    body: dict[str, Any] = {"alert": alert.name, "expr": alert.expression}
    if alert.for_s > 0:
        body["for"] = f"{alert.for_s}s"
    return body | {
        "labels": dict(alert.labels) | {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook_url": alert.runbook_url},
    }
