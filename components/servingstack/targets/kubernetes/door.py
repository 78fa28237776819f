"""The front door's objects: its ConfigMap, Deployment and the Service that callers use.

What the proxy does stands in front_door.py, how large it is in the plan; here it only gets a pod.

Trap: the door must roll without a gap, since it is the only way in: a new pod is ready before an old one
goes.
"""

from __future__ import annotations

from servingstack.plan import FrontDoor, ServingPlan
from servingstack.targets.haproxy import PROXY_TOKEN_ENV
from servingstack.targets.kubernetes import front_door, parts
from servingstack.targets.kubernetes.parts import Body, Manifest, manifest

PRESTOP_S = 5
"""Until every node has taken a stopping door out of the Service; it still answers in this time."""
STARTUP_S = 5
"""Until a new door has resolved its replicas and checked them: one DNS answer and one check."""


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
            "terminationGracePeriodSeconds": termination_grace_s(plan),
            "topologySpreadConstraints": [spread],
            "containers": [container(plan)],
            "volumes": [{"name": "config", "configMap": {"name": _config_name(plan)}}],
        },
    }


def termination_grace_s(plan: ServingPlan) -> int:
    """Above the wait before the drain and the drain."""
    return PRESTOP_S + parts.front_door(plan).drain_s + 5


def container(plan: ServingPlan) -> Body:
    """The proxy. Ready does not ask for a replica: without one, callers must get a 503 that says when to come
    back, and be counted. The image's stop signal is SIGUSR1, which drains."""
    door = parts.front_door(plan)
    return {
        "name": "front-door",
        "image": door.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["haproxy", "-db", "-f", f"{front_door.CONFIG_DIR}/haproxy.cfg"],
        "ports": [
            {"name": parts.HTTP_PORT, "containerPort": door.port, "protocol": "TCP"},
            {"name": parts.METRICS_PORT, "containerPort": door.stats_port, "protocol": "TCP"},
        ],
        "env": _environment(door),
        "resources": _resources(door),
        "startupProbe": _probe(period_s=1, failures=30),
        "readinessProbe": {**_probe(period_s=5, failures=2), "initialDelaySeconds": STARTUP_S},
        "livenessProbe": _probe(period_s=10, failures=3),
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(PRESTOP_S)]}}},
        "securityContext": parts.container_security(),
        "volumeMounts": [{"name": "config", "mountPath": front_door.CONFIG_DIR, "readOnly": True}],
    }


def _resources(door: FrontDoor) -> Body:
    """No CPU limit: it would delay tokens, and the proxy's two threads bound it."""
    held = {"memory": parts.memory(door.memory_bytes), "ephemeral-storage": "64Mi"}
    return {"requests": {"cpu": "250m", **held}, "limits": held}


def _environment(door: FrontDoor) -> list[Body]:
    found: dict[str, Body] = {}
    if door.api_key_secret_name is not None:
        found[front_door.API_KEY_ENV] = {"name": door.api_key_secret_name, "key": door.api_key_secret_key}
    if door.overflow is not None and door.overflow.proxy_token_secret is not None:
        secret = door.overflow.proxy_token_secret
        found |= {name: {"name": secret, "key": name} for name in PROXY_TOKEN_ENV.values()}
    return [{"name": name, "valueFrom": {"secretKeyRef": key}} for name, key in found.items()]


def _probe(period_s: int, failures: int) -> Body:
    return {
        "httpGet": {"path": front_door.READY_PATH, "port": parts.METRICS_PORT},
        "periodSeconds": period_s,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
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
