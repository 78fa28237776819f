"""Alerts as CloudWatch's alarms, where they are sent, and the two that take a deployment back.

An alert with one condition is one alarm; with several, each is an alarm without actions and a composite one
acts when all hold.

Traps:
- `statistic` and `extended_statistic` exclude each other, and so does a single metric and metric math. Every
  alarm on metrics is metric math here, with one shape.
- A topic under the key `alias/aws/sns` takes nothing from CloudWatch (that key's policy cannot be changed),
  so the topic has no key; its messages name an alarm and no data.
- The endpoint names its rollback alarms, so they are there before it and hold the same names in every plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from servingstack.plan import ServingPlan
from servingstack.watched import Alert, Condition, Metric

from .metrics import MINUTE_S, Series, scaled
from .names import alarm_name
from .parts import Account, Body, Given, Joined, Json, Ref, region, regional, section, tagged
from .rights import VERSION

METRIC_ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"
COMPOSITE_ALARM = "aws:cloudwatch/compositeAlarm:CompositeAlarm"
TOPIC = "aws:sns/topic:Topic"
_OPERATORS = {
    ">": "GreaterThanThreshold",
    ">=": "GreaterThanOrEqualToThreshold",
    "<": "LessThanThreshold",
    "<=": "LessThanOrEqualToThreshold",
}
RESULT = "result"
RECOVERY_S = 300
"""How long a PromQL alarm must be quiet before it is over."""
DESCRIPTION_LENGTH = 1024
"""Longest AlarmDescription (botocore, cloudwatch PutMetricAlarm)."""
ROLLBACK_MINUTES = (2, 3)
"""Bad minutes, and out of how many, that take a deployment back: one bad minute may be a client's."""


def bodies(plan: ServingPlan) -> list[Body]:
    """Topics, rollback alarms, then every alert."""
    found = [*_topics(plan), *_rollback(plan)]
    for alert in plan.monitoring.alerts:
        found += _alert(plan, alert)
    return found


def _topics(plan: ServingPlan) -> Iterator[Body]:
    chosen = section(plan)
    if not chosen.own_topic:
        yield Body("topic", TOPIC, tagged(plan, {"name": plan.names["topic"]}))
        alarms = Account("log-group", f"arn:aws:cloudwatch:{region(plan)}:", f":alarm:{plan.name}*")
        yield _sends(plan, "topic", "cloudwatch.amazonaws.com", {"ArnLike": {"aws:SourceArn": alarms}})
        for index, address in enumerate(chosen.notify_emails):
            subscription = {"topic": Ref("topic", "arn"), "protocol": "email", "endpoint": address}
            yield Body(
                f"topic-email-{index}",
                "aws:sns/topicSubscription:TopicSubscription",
                regional(plan, subscription),
            )
    if chosen.asynchronous is not None:
        yield Body("results-topic", TOPIC, tagged(plan, {"name": plan.names["results"]}))
        yield _sends(plan, "results-topic", None, {})


def _sends(plan: ServingPlan, role: str, service: str | None, condition: dict[str, Any]) -> Body:
    """Who may send to a topic: a service of this account, and nobody in the clear."""
    topic = Ref(role, "arn")
    statements: list[dict[str, Any]] = [
        {
            "Sid": "OnlyOverTls",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sns:Publish",
            "Resource": topic,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    ]
    if service is not None:
        statements.append(
            {
                "Sid": "OnlyOwnAlarms",
                "Effect": "Allow",
                "Principal": {"Service": service},
                "Action": "sns:Publish",
                "Resource": topic,
                "Condition": condition,
            }
        )
    document = Json({"Version": VERSION, "Statement": statements})
    return Body(
        f"{role}-policy",
        "aws:sns/topicPolicy:TopicPolicy",
        regional(plan, {"arn": topic, "policy": document}),
    )


def _rollback(plan: ServingPlan) -> list[Body]:
    """What an update watches. No actions: the service itself acts."""
    chosen = section(plan).deployment
    series = Series(plan.names["endpoint"], plan.architecture.gpus_per_node)
    errors = series.invocation("Invocation5XXErrors", "Average")
    slow = series.latency("ModelLatency", "p95")
    bad, window = ROLLBACK_MINUTES
    rows = (
        ("rollback_errors", errors, chosen.rollback_error_share, "server errors"),
        ("rollback_latency", slow, chosen.rollback_latency_s, "slow answers"),
    )
    found: list[Body] = []
    for key, metric, threshold, what in rows:
        condition = Condition(
            expression="value",
            metrics={"value": metric},
            threshold=threshold,
            period_s=MINUTE_S,
            evaluation_periods=window,
            datapoints=bad,
        )
        text = f"Takes a deployment of {plan.name} back: {what}."
        properties = _metric_alarm(plan, plan.names[key], condition, text)
        found.append(Body(key.replace("_", "-"), METRIC_ALARM, tagged(plan, properties)))
    return found


def _alert(plan: ServingPlan, alert: Alert) -> list[Body]:
    endpoint, role = plan.names["endpoint"], f"alarm-{alert.name}"
    if len(alert.conditions) == 1:
        name = alarm_name(endpoint, alert.name)
        properties = _alarm(plan, name, alert, alert.conditions[0]) | _actions(plan)
        return [Body(role, METRIC_ALARM, tagged(plan, properties))]
    parts = [
        Body(
            f"{role}-{index}",
            METRIC_ALARM,
            tagged(plan, _alarm(plan, alarm_name(endpoint, alert.name, index), alert, condition)),
        )
        for index, condition in enumerate(alert.conditions)
    ]
    pieces: list[str | Ref] = []
    for part in parts:
        pieces += [" AND " if pieces else "", 'ALARM("', Ref(part.role, "name"), '")']
    properties = {
        "alarm_name": alarm_name(endpoint, alert.name),
        "alarm_description": _description(alert),
        "alarm_rule": Joined(tuple(piece for piece in pieces if piece != "")),
        **_actions(plan),
    }
    return [*parts, Body(role, COMPOSITE_ALARM, tagged(plan, properties))]


def _description(alert: Alert) -> str:
    """What an alarm's message says: severity, what users lose, where to read on."""
    where = alert.runbook if alert.runbook_url is None else alert.runbook_url
    return f"[{alert.severity}] {alert.summary} Runbook: {where}"[:DESCRIPTION_LENGTH]


def _actions(plan: ServingPlan) -> dict[str, Any]:
    topic = Given("alarm_topic_arn") if section(plan).own_topic else Ref("topic", "arn")
    return {"alarm_actions": [topic], "ok_actions": [topic]}


def _alarm(plan: ServingPlan, name: str, alert: Alert, condition: Condition) -> dict[str, Any]:
    if not condition.metrics:
        return {
            "name": name,
            "alarm_description": _description(alert),
            "evaluation_interval": condition.period_s,
            "evaluation_criteria": {
                "promql_criteria": {
                    "query": condition.expression,
                    "pending_period": alert.for_s,
                    "recovery_period": RECOVERY_S,
                }
            },
        }
    return _metric_alarm(plan, name, condition, _description(alert))


def _metric_alarm(plan: ServingPlan, name: str, condition: Condition, text: str) -> dict[str, Any]:
    """Metric math, always: each series by its name in the expression, in the signal's unit."""
    del plan
    queries = [_query(key, metric) for key, metric in condition.metrics.items()]
    expression = scaled(condition.expression, condition.metrics)
    queries.append({"id": RESULT, "expression": expression, "label": "value", "return_data": True})
    return {
        "name": name,
        "alarm_description": text,
        "comparison_operator": _OPERATORS[condition.comparison],
        "threshold": condition.threshold,
        "evaluation_periods": condition.evaluation_periods,
        "datapoints_to_alarm": condition.datapoints,
        "treat_missing_data": "notBreaching",
        "metric_queries": queries,
    }


def _query(key: str, metric: Metric) -> dict[str, Any]:
    return {
        "id": key,
        "return_data": False,
        "metric": {
            "namespace": metric.namespace,
            "metric_name": metric.name,
            "dimensions": metric.dimensions,
            "period": metric.period_s,
            "stat": metric.statistic,
        },
    }
