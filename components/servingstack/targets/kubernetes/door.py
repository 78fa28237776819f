"""The front door's objects: its ConfigMap, Deployment and the Service that callers use.

What the proxy does stands in front_door.py; here it only gets a pod.

Trap: the door must roll without a gap, since it is the only way in: a new pod is ready before an old one
goes.
"""

from __future__ import annotations

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import front_door, parts
from servingstack.targets.kubernetes.parts import Body, Manifest, manifest


def objects(plan: ServingPlan) -> list[Manifest]:
    """Everything the door needs."""
    return [config(plan), deployment(plan), service(plan)]


def config(plan: ServingPlan) -> Manifest:
    """The proxy's files."""
    metadata = parts.metadata(plan, _config_name(plan), parts.DOOR)
    files = front_door.config_files(plan)
    return manifest("door-config", "v1", "ConfigMap", metadata, data=files, immutable=True)


def _config_name(plan: ServingPlan) -> str:
    """The proxy reads its files once, so a change of them must be a change of the pod: of the name it
    mounts."""
    return parts.files_name(plan.names["door"], front_door.config_files(plan))


def deployment(plan: ServingPlan) -> Manifest:
    """The proxies. Their number is planned, and nothing else changes it."""
    spec: Body = {
        "replicas": parts.front_door(plan).replicas,
        "selector": {"matchLabels": parts.selector(plan, parts.DOOR)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": _pod_template(plan),
    }
    metadata = parts.metadata(plan, plan.names["door"], parts.DOOR)
    return manifest("door", "apps/v1", "Deployment", metadata, spec=spec)


def _pod_template(plan: ServingPlan) -> Body:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": parts.selector(plan, parts.DOOR)},
        "matchLabelKeys": ["pod-template-hash"],
    }
    return {
        "metadata": {"labels": parts.labels(plan, parts.DOOR)},
        "spec": {
            "serviceAccountName": plan.names["engine"],
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": parts.pod_security(front_door.USER_ID),
            "terminationGracePeriodSeconds": front_door.termination_grace_s(plan),
            "topologySpreadConstraints": [spread],
            "containers": [{**front_door.door_container(plan), "imagePullPolicy": "IfNotPresent"}],
            "volumes": front_door.door_volumes(_config_name(plan)),
        },
    }


def service(plan: ServingPlan) -> Manifest:
    """What callers type. The metrics port is for the monitor; the network policy keeps others from it."""
    door = parts.front_door(plan)
    spec: Body = {
        "type": "ClusterIP",
        "selector": parts.selector(plan, parts.DOOR),
        "ports": [
            {"name": parts.HTTP_PORT, "port": door.port, "targetPort": door.port, "protocol": "TCP"},
            {
                "name": parts.METRICS_PORT,
                "port": door.stats_port,
                "targetPort": door.stats_port,
                "protocol": "TCP",
            },
        ],
    }
    return manifest(
        "service", "v1", "Service", parts.metadata(plan, plan.names["service"], parts.DOOR), spec=spec
    )
