"""The autoscaler: one KEDA ScaledObject on the depth of the queue. It alone owns the replica count.

A stack that may rest at zero has a second trigger, any traffic at all: nothing waits while the last replica
answers, and by the queue alone it would be taken away.

Fields as in KEDA 2.21 (apis/keda/v1alpha1/scaledobject_types.go, pkg/scalers/prometheus_scaler.go).

Traps:
- `AverageValue` divides the query's result by the number of replicas, so the query is a sum and the threshold
  is per replica.
- An empty answer counts as zero unless `ignoreNullValues` says otherwise: a Prometheus without its target
  would scale a busy stack in.
- `cooldownPeriod` is about the step to zero alone; every other step down is the behaviour's.
"""

from __future__ import annotations

from servingstack.plan import ServingPlan
from servingstack.signals.watch import ACTIVITY
from servingstack.targets.kubernetes import parts
from servingstack.targets.kubernetes.parts import Body, Manifest, manifest

POLLING_S = 15
"""How often KEDA looks while nothing runs: the same as Kubernetes looks otherwise
(kube-controller-manager --horizontal-pod-autoscaler-sync-period)."""
NEVER_MORE = "1000000"
"""Per replica: activity wakes a stack and keeps it awake, and never asks for a second replica."""
LONGEST_PERIOD_S = 1800
"""Kubernetes' own limit of a policy (autoscaling/v2 HPAScalingPolicy.periodSeconds)."""
FAILURES_BEFORE_FALLBACK = 3
"""Three looks: one lost scrape or a restart of Prometheus is no outage."""


def objects(plan: ServingPlan) -> list[Manifest]:
    """The scaler, if there is anything to scale."""
    return [scaled_object(plan)] if plan.scaling.autoscaled else []


def scaled_object(plan: ServingPlan) -> Manifest:
    """Scale on queue depth between the planned bounds."""
    scaling = plan.scaling
    spec: Body = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": plan.names["engine"]},
        "minReplicaCount": scaling.min_replicas,
        "maxReplicaCount": scaling.max_replicas,
        "advanced": {
            "horizontalPodAutoscalerConfig": {"name": plan.names["scaler"], "behavior": _behavior(plan)},
        },
        "triggers": _triggers(plan),
    }
    if scaling.min_replicas == 0:
        spec |= {"pollingInterval": POLLING_S, "cooldownPeriod": scaling.scale_to_zero_after_s}
    else:
        spec["fallback"] = {
            "failureThreshold": FAILURES_BEFORE_FALLBACK,
            "replicas": scaling.fallback_replicas,
            # A blind autoscaler adds up to the safe number, but takes nothing away.
            "behavior": "currentReplicasIfHigher",
        }
    metadata = parts.metadata(plan, plan.names["scaler"], parts.engine_component(plan))
    return manifest("scaler", "keda.sh/v1alpha1", "ScaledObject", metadata, spec=spec)


def _behavior(plan: ServingPlan) -> Body:
    scaling = plan.scaling
    period = min(scaling.scale_in_period_s, LONGEST_PERIOD_S)
    one_by_one = {"type": "Pods", "value": 1, "periodSeconds": period}
    return {
        "scaleUp": {"stabilizationWindowSeconds": scaling.scale_out_window_s},
        "scaleDown": {"stabilizationWindowSeconds": scaling.scale_in_delay_s, "policies": [one_by_one]},
    }


def _triggers(plan: ServingPlan) -> list[Body]:
    triggers = [_trigger(plan, plan.scaling.metric, f"{plan.scaling.threshold:g}")]
    if plan.scaling.min_replicas == 0:
        triggers.append(_trigger(plan, ACTIVITY, NEVER_MORE))
    return triggers


def _trigger(plan: ServingPlan, signal: str, threshold: str) -> Body:
    place = parts.placement(plan)
    trigger: Body = {
        "type": "prometheus",
        "name": signal.replace("_", "-"),
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": place.prometheus,
            "query": query(plan, signal),
            "threshold": threshold,
            # Above it, and not at it, a stack at zero wakes.
            "activationThreshold": "0",
            "ignoreNullValues": "false",
        },
    }
    if place.prometheus_auth is not None:
        # It brings `authModes` too: KEDA reads them from either place.
        trigger["authenticationRef"] = {"name": place.prometheus_auth}
    return trigger


def query(plan: ServingPlan, signal: str) -> str:
    """A signal's query. Raises ValueError if the plan does not watch what it scales on."""
    found = [watched.query for watched in plan.monitoring.signals if watched.id == signal]
    if not found:
        raise ValueError(f"the plan of {plan.name!r} scales on {signal!r}, which is none of its signals")
    return found[0]
