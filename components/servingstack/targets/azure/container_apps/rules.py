"""Alerts as Azure Monitor's rules: on a query over the workspace, or on a metric of the app.

Traps:
- A rule's severity is a number, 0 the worst.
- A query rule's query must look no further back than its window, and its window's values are few.
- A rule on logs that has no row does not fire; on a metric without samples neither.
"""

from __future__ import annotations

import re
from typing import Any

from servingstack.plan import ServingPlan
from servingstack.watched import Alert, Condition, Metric

from .app import section, tags
from .refs import Body, Given, Ref

_SEVERITY = {"page": 1, "ticket": 3}
"""Of 0 to 4: error, and informational (azure-mgmt-monitor 7.0.0, AlertSeverity)."""
_EVERY = {"page": "PT5M", "ticket": "PT15M"}
_OPERATORS = {">": "GreaterThan", ">=": "GreaterThanOrEqual", "<": "LessThan", "<=": "LessThanOrEqual"}


def rule_role(alert: Alert) -> str:
    """Its role in the stack: `serving-availability-burn-page`."""
    words = re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", alert.name).lower()
    return f"{words}-{alert.severity}"


def rule_name(plan: ServingPlan, alert: Alert) -> str:
    """Physical name, unique in the resource group."""
    return f"{plan.names['app']}-{rule_role(alert)}"


def action_group(plan: ServingPlan) -> Ref | Given:
    """Where alerts go."""
    return Ref("action-group") if section(plan).create_action_group else Given("action_group_id")


def duration(seconds: int) -> str:
    """In ISO 8601, as Azure writes its few values."""
    days, hours, minutes = seconds // 86400, seconds // 3600, seconds // 60
    if seconds % 86400 == 0:
        return f"P{days}D"
    return f"PT{hours}H" if seconds % 3600 == 0 else f"PT{minutes}M"


def query_rule(plan: ServingPlan, alert: Alert, group: Any) -> Body:
    """One row of the query is the alert."""
    (condition,) = alert.conditions
    logs = Ref("workspace") if section(plan).create_workspace else Given("workspace_id")
    return {
        "ruleName": rule_name(plan, alert),
        "resourceGroupName": group,
        "location": plan.architecture.region,
        "kind": "LogAlert",
        "displayName": f"{plan.name}: {alert.name}",
        "description": _description(alert),
        "severity": _SEVERITY[alert.severity],
        "enabled": True,
        "autoMitigate": True,
        "scopes": [logs],
        "evaluationFrequency": _EVERY[alert.severity],
        "windowSize": duration(condition.period_s),
        "criteria": {"allOf": [_rows(condition)]},
        # The tables come into being with their first row, minutes after the environment.
        "skipQueryValidation": True,
        "actions": {"actionGroups": [action_group(plan)], "customProperties": _properties(alert)},
        "tags": tags(plan),
    }


def _rows(condition: Condition) -> Body:
    return {
        "query": condition.expression,
        "timeAggregation": "Count",
        "operator": _OPERATORS[condition.comparison],
        "threshold": condition.threshold,
        "failingPeriods": {
            "numberOfEvaluationPeriods": condition.evaluation_periods,
            "minFailingPeriodsToAlert": condition.datapoints,
        },
    }


def metric_alert(plan: ServingPlan, alert: Alert, group: Any) -> Body:
    """All samples of a window beyond the threshold."""
    (condition,) = alert.conditions
    (found,) = condition.metrics.values()
    return {
        "ruleName": rule_name(plan, alert),
        "resourceGroupName": group,
        "location": "global",
        "description": _description(alert),
        "severity": _SEVERITY[alert.severity],
        "enabled": True,
        "autoMitigate": True,
        "scopes": [Ref("app")],
        "evaluationFrequency": "PT5M",
        "windowSize": duration(condition.period_s),
        "criteria": {
            "odataType": "Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria",
            "allOf": [_criterion(condition, found)],
        },
        "actions": [{"actionGroupId": action_group(plan), "webHookProperties": _properties(alert)}],
        "tags": tags(plan),
    }


def _criterion(condition: Condition, found: Metric) -> Body:
    return {
        "criterionType": "StaticThresholdCriterion",
        "name": found.name,
        "metricNamespace": found.namespace,
        "metricName": found.name,
        "timeAggregation": found.statistic,
        "operator": _OPERATORS[condition.comparison],
        "threshold": condition.threshold,
    }


def _description(alert: Alert) -> str:
    where = alert.runbook if alert.runbook_url is None else alert.runbook_url
    return f"{alert.summary} Runbook: {where}"


def _properties(alert: Alert) -> dict[str, str]:
    """What an alert's receiver routes by."""
    found = alert.labels | {"severity": alert.severity, "runbook": alert.runbook}
    return found if alert.runbook_url is None else found | {"runbook_url": alert.runbook_url}
