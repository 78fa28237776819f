"""How the number of instances follows the load: requests in flight per instance, or a backlog per instance.

Resource id and dimension as in dg/endpoint-auto-scaling-prerequisites; the two policies of an asynchronous
endpoint as in dg/async-inference-autoscale.

Traps:
- The id is built from the endpoint's name, never from its configuration's: a wrong one is accepted and has no
  effect.
- The service refuses another type of machine while the scaler is registered (dg/endpoint-scaling), and the
  scaler refers to the endpoint, so Pulumi would change the endpoint first. `_machine` turns that around.
  While such a change is deployed, nobody scales.
- Without an instance there is no backlog per instance, so target tracking cannot wake an endpoint from zero.
  A step of its own does, on `HasBacklogWithoutCapacity`.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan

from .facts import NAMESPACE, SCALABLE_NAMESPACE, VARIANT_DIMENSION
from .metrics import MINUTE_S
from .names import alarm_name
from .parts import After, Body, Ref, regional, section, tagged
from .storage import BUCKET_CLOSED

MACHINE = "scaled-machine"
TARGET = "aws:appautoscaling/target:Target"
POLICY = "aws:appautoscaling/policy:Policy"
ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"
WAKE_ALARM = "WakeFromZero"
WAKE_S = 2 * MINUTE_S
"""From a first request to the start of an instance: a minute's value to be published, and another for the
alarm to read it."""
_WAKE_COOLDOWN_S = 300
"""The service's own example and default of a step (botocore, StepScalingPolicyConfiguration.Cooldown)."""


def bodies(plan: ServingPlan) -> list[Body]:
    """Nothing for a fleet of a fixed size."""
    chosen = section(plan)
    if chosen.tracking is None:
        return []
    scalable = {
        **_scaled(plan),
        "min_capacity": plan.scaling.min_replicas,
        "max_capacity": plan.scaling.max_replicas,
    }
    found = [
        _machine(plan),
        Body("scaling-target", TARGET, tagged(plan, scalable)),
        Body("scaling-policy", POLICY, regional(plan, _tracking(plan))),
    ]
    if chosen.asynchronous is not None and chosen.asynchronous.wakes_from_zero:
        found += _wake(plan)
    return found


def _scaled(plan: ServingPlan) -> dict[str, Any]:
    variant = section(plan).variant
    return {
        "service_namespace": SCALABLE_NAMESPACE,
        "scalable_dimension": VARIANT_DIMENSION,
        "resource_id": After(
            Ref("endpoint", "endpointName", "endpoint/", f"/variant/{variant}"), Ref(MACHINE, "key")
        ),
    }


def _machine(plan: ServingPlan) -> Body:
    """The type of machine that is scaled, as a file in the stack's bucket. Nobody reads it: a change of it
    takes the scaler away, before the endpoint changes, and brings it back after."""
    file = {
        "bucket": Ref("bucket", "bucket"),
        "key": f"deployment/{MACHINE}",
        "content": plan.architecture.instance_type,
        "content_type": "text/plain",
    }
    token = "aws:s3/bucketObject:BucketObject"
    return Body(MACHINE, token, regional(plan, file), needs=BUCKET_CLOSED, first_away="content")


def _policy(plan: ServingPlan, role: str, kind: str, **configuration: Any) -> dict[str, Any]:
    """A policy on the registered target, to which its ids refer."""
    return {
        "name": f"{plan.names['endpoint']}-{role}",
        "policy_type": kind,
        "service_namespace": Ref("scaling-target", "service_namespace"),
        "scalable_dimension": Ref("scaling-target", "scalable_dimension"),
        "resource_id": Ref("scaling-target", "resource_id"),
        **configuration,
    }


def _tracking(plan: ServingPlan) -> dict[str, Any]:
    tracked = section(plan).tracking
    assert tracked is not None
    configuration: dict[str, Any] = {
        "target_value": tracked.target,
        "scale_out_cooldown": tracked.scale_out_cooldown_s,
        "scale_in_cooldown": tracked.scale_in_cooldown_s,
        "disable_scale_in": False,
    }
    if tracked.predefined is not None:
        configuration["predefined_metric_specification"] = {"predefined_metric_type": tracked.predefined}
    else:
        configuration["customized_metric_specification"] = {
            "metric_name": tracked.metric,
            "namespace": NAMESPACE,
            "statistic": "Average",
            "dimensions": [{"name": "EndpointName", "value": Ref("endpoint", "endpointName")}],
        }
    name = "in-flight" if tracked.predefined is not None else "backlog"
    return _policy(
        plan, name, "TargetTrackingScaling", target_tracking_scaling_policy_configuration=configuration
    )


def _wake(plan: ServingPlan) -> list[Body]:
    """One instance as soon as a request waits and there is none."""
    step = {
        "adjustment_type": "ChangeInCapacity",
        "metric_aggregation_type": "Maximum",
        "cooldown": _WAKE_COOLDOWN_S,
        "step_adjustments": [{"metric_interval_lower_bound": "0", "scaling_adjustment": 1}],
    }
    alarm = {
        "name": alarm_name(plan.names["endpoint"], WAKE_ALARM),
        "alarm_description": "Starts the first instance when a request waits and there is none.",
        "namespace": NAMESPACE,
        "metric_name": "HasBacklogWithoutCapacity",
        "dimensions": {"EndpointName": Ref("endpoint", "endpointName")},
        "statistic": "Maximum",
        "period": MINUTE_S,
        "evaluation_periods": 1,
        "datapoints_to_alarm": 1,
        "threshold": 1.0,
        "comparison_operator": "GreaterThanOrEqualToThreshold",
        "treat_missing_data": "notBreaching",
        "alarm_actions": [Ref("wake-policy", "arn")],
    }
    return [
        Body(
            "wake-policy",
            POLICY,
            regional(plan, _policy(plan, "wake", "StepScaling", step_scaling_policy_configuration=step)),
        ),
        Body("wake-alarm", ALARM, tagged(plan, alarm)),
    ]
