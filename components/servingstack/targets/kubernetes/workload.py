"""The engine's own objects: pod template, Deployment, Service, service account, warm-up script, weights
volume.

`pod_template` is the whole shape of a replica and knows nothing of the Deployment around it, so that a
replica over several nodes (a LeaderWorkerSet) can use the same template.

Trap: a Service's name becomes environment variables of every pod in the namespace unless `enableServiceLinks`
is off, and an engine may read one of them as a setting of its own.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from servingstack.plan import EnvVar, Flag, ServingPlan, Toleration
from servingstack.targets.kubernetes import parts, sharing
from servingstack.targets.kubernetes.parts import Body, Manifest, manifest

SCRIPTS_PATH = "/etc/servingstack"
GPU_TAINT = "nvidia.com/gpu"
FETCH_MEMORY = "1Gi"
"""Of what fetches adapters: Python and the hub's client, which writes in chunks."""
STARTUP_POLL_S = 5
"""Between two tries of the start-up probe's script."""
STARTUP_MARGIN_S = 15
"""What the kubelet gives the script beyond its own deadline: a last try, and the exec itself."""
HEALTH_TIMEOUT_S = 5
PRE_STOP_S = 15
"""Most that a stopping replica waits before it is told to stop, so that the front door has seen it leave: the
door's own health checks and name resolution take less (see front_door.py)."""
MINIMUM_CLIENT_DRAIN_S = 5


def objects(plan: ServingPlan) -> list[Manifest]:
    """Everything that makes the engine run, the Deployment last."""
    found = [service_account(plan), warm_up_config(plan)]
    if parts.placement(plan).weights_storage_class is not None:
        found.append(weights(plan))
    return [*found, engine_service(plan), deployment(plan)]


def service_account(plan: ServingPlan) -> Manifest:
    """An identity without a token: no pod of the stack talks to the cluster's API."""
    metadata = parts.metadata(plan, plan.names["engine"], parts.engine_component(plan))
    return manifest("service-account", "v1", "ServiceAccount", metadata, automountServiceAccountToken=False)


def warm_up_config(plan: ServingPlan) -> Manifest:
    """The startup probe's script and what it sends, and the engine's own files."""
    metadata = parts.metadata(plan, _warm_up_name(plan), parts.engine_component(plan))
    return manifest("warm-up", "v1", "ConfigMap", metadata, data=_warm_up_files(plan), immutable=True)


def _warm_up_name(plan: ServingPlan) -> str:
    return parts.files_name(plan.names["config"], _warm_up_files(plan))


def _warm_up_files(plan: ServingPlan) -> dict[str, str]:
    container, door = plan.container, parts.front_door(plan)
    warm_up = container.warm_up
    settings = {
        "port": container.port,
        "health_path": container.health_path,
        "health_timeout_s": HEALTH_TIMEOUT_S,
        "startup_s": plan.timeouts.startup_s,
        "poll_s": STARTUP_POLL_S,
        "path": warm_up.path,
        "body": warm_up.body,
        "requests": warm_up.requests,
        "timeout_s": warm_up.timeout_s,
        "api_key_variable": next(
            (
                variable.name
                for variable in container.env
                if variable.secret_name is not None
                and (variable.secret_name, variable.secret_key)
                == (door.api_key_secret_name, door.api_key_secret_key)
            ),
            None,
        ),
    }
    return {
        "warm_up.py": _script("warm_up.py"),
        "warm_up.json": json.dumps(settings, indent=2, sort_keys=True) + "\n",
        **_fetch_files(plan),
        **{file_key(path): text for path, text in container.files.items()},
    }


def _script(name: str) -> str:
    script = resources.files("servingstack.targets.kubernetes").joinpath(name)
    return script.read_text(encoding="utf-8")


def _fetch_files(plan: ServingPlan) -> dict[str, str]:
    """What is fetched before the engine starts, and who does it."""
    if not plan.container.downloads:
        return {}
    ranks = {adapter.path: adapter.rank for adapter in plan.architecture.adapters}
    wanted = [each.model_dump() | {"rank": ranks[each.path]} for each in plan.container.downloads]
    return {
        "fetch.py": _script("fetch.py"),
        "fetch.json": json.dumps(wanted, indent=2, sort_keys=True) + "\n",
    }


def file_key(path: str) -> str:
    """An absolute path as a key of a ConfigMap, which has no slashes."""
    return path.strip("/").replace("/", "__")


def weights(plan: ServingPlan) -> Manifest:
    """A volume that keeps weights and compiled kernels between starts."""
    place = parts.placement(plan)
    metadata = parts.metadata(plan, plan.names["weights"], parts.engine_component(plan))
    spec: Body = {
        "accessModes": [place.weights_access_mode],
        "storageClassName": place.weights_storage_class,
        "resources": {"requests": {"storage": parts.memory(place.weights_volume_bytes)}},
    }
    return manifest("weights", "v1", "PersistentVolumeClaim", metadata, spec=spec)


def engine_service(plan: ServingPlan) -> Manifest:
    """The replicas one by one: without an address of its own, so that the front door sees each of them."""
    component = parts.engine_component(plan)
    metadata = parts.metadata(plan, plan.names["engine"], component)
    spec: Body = {
        "type": "ClusterIP",
        "clusterIP": "None",
        "selector": parts.selector(plan, component),
        "ports": [{"name": name, "port": port, "targetPort": port} for name, port in _ports(plan)],
    }
    return manifest("engine-service", "v1", "Service", metadata, spec=spec)


def _ports(plan: ServingPlan) -> list[tuple[str, int]]:
    """Requests, and metrics where they have a port of their own. Nothing outside the pod reaches gRPC: it
    would pass by the front door."""
    own = plan.container.metrics_port
    found = [(parts.HTTP_PORT, plan.container.port)]
    return found if own is None else [*found, (parts.METRICS_PORT, own)]


def _for_pulumi(plan: ServingPlan) -> dict[str, str] | None:
    """What Pulumi's provider is told of the Deployment."""
    if plan.scaling.min_replicas == 0:
        # A stack that may rest at zero replicas never becomes ready on its own, so nobody waits for it.
        return {"pulumi.com/skipAwait": "true"}
    if not plan.scaling.autoscaled:
        # The count may still be owned by the autoscaler that was there before; it is ours now.
        return {"pulumi.com/patchForce": "true"}
    return None


def deployment(plan: ServingPlan) -> Manifest:
    """The replicas. Their number stands here only if no autoscaler owns it."""
    component = parts.engine_component(plan)
    rollout = plan.rollout
    spec: Body = {
        "selector": {"matchLabels": parts.selector(plan, component)},
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": rollout.max_surge, "maxUnavailable": rollout.max_unavailable},
        },
        "progressDeadlineSeconds": rollout.progress_deadline_s,
        "template": pod_template(plan),
    }
    if not plan.scaling.autoscaled:
        spec["replicas"] = plan.scaling.min_replicas
    metadata = parts.metadata(plan, plan.names["engine"], component, annotations=_for_pulumi(plan))
    return manifest("deployment", "apps/v1", "Deployment", metadata, spec=spec)


def pod_template(plan: ServingPlan) -> Body:
    """One replica."""
    component = parts.engine_component(plan)
    annotations = {
        # Karpenter may move a replica to a cheaper node, and a cold start costs more than that saves.
        "karpenter.sh/do-not-disrupt": "true",
    }
    return {
        "metadata": {
            "labels": parts.labels(plan, component) | sharing.labels(plan),
            "annotations": annotations,
        },
        "spec": _pod_spec(plan),
    }


def _pod_spec(plan: ServingPlan) -> Body:
    spec: Body = {
        "serviceAccountName": plan.names["engine"],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": parts.pod_security(plan.container.user_id),
        "terminationGracePeriodSeconds": plan.timeouts.grace_s,
        "tolerations": gpu_tolerations(plan),
        "topologySpreadConstraints": _spread(plan),
        "containers": [_engine_container(plan)],
        "volumes": _volumes(plan),
    }
    if plan.container.downloads:
        spec["initContainers"] = [_fetcher(plan)]
    if node_selector := parts.placement(plan).node_selector:
        spec["nodeSelector"] = node_selector
    if (affinity := sharing.affinity(plan)) is not None:
        spec["affinity"] = affinity
    return spec


def gpu_tolerations(plan: ServingPlan) -> list[Body]:
    """The key that GKE taints GPU nodes by, cut or not, whatever the value (kserve
    docs/samples/accelerators), and the planned ones: elsewhere whoever makes the nodes chooses, as AKS' guide
    does with `sku=gpu:NoSchedule` (learn.microsoft.com/azure/aks/use-node-taints)."""
    place = parts.placement(plan)
    own = {"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}
    return [own, *(_toleration(each) for each in place.tolerations)]


def _toleration(planned: Toleration) -> Body:
    match: Body = {"operator": "Exists"}
    if planned.value is not None:
        match = {"operator": "Equal", "value": planned.value}
    effect = {} if planned.effect is None else {"effect": planned.effect}
    return {"key": planned.key, **match, **effect}


def _spread(plan: ServingPlan) -> list[Body]:
    """Over zones, then over nodes; a preference, since GPUs may be free in one zone only."""
    keys = dict.fromkeys((parts.placement(plan).topology_key, "kubernetes.io/hostname"))
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": parts.selector(plan, parts.engine_component(plan))},
            # Old replicas that a rollout is about to remove do not count.
            "matchLabelKeys": ["pod-template-hash"],
        }
        for key in keys
    ]


def _engine_container(plan: ServingPlan) -> Body:
    container = plan.container
    return {
        "name": "engine",
        "image": container.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [parts.literal(each) for each in container.command],
        "args": [parts.literal(each) for flag in container.flags for each in arguments(flag)],
        "env": [environment(variable) for variable in container.env],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in _ports(plan)],
        "resources": _resources(plan),
        "startupProbe": _startup_probe(plan),
        "readinessProbe": _health_probe(plan, period_s=5, failures=3),
        "livenessProbe": _health_probe(plan, period_s=10, failures=6),
        "lifecycle": {"preStop": {"sleep": {"seconds": pre_stop_s(plan)}}},
        "securityContext": parts.container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(plan),
    }


def _fetcher(plan: ServingPlan) -> Body:
    """Fetches adapters with the engine's image. The hub must be asked, whatever the engine is told of it."""
    requests = {"cpu": "100m", "memory": FETCH_MEMORY}
    mounted = ("scripts", "cache", *(name for name, _ in _writable(plan)))
    return {
        "name": "fetch",
        "image": plan.container.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", f"{SCRIPTS_PATH}/fetch.py", f"{SCRIPTS_PATH}/fetch.json"],
        "env": [environment(each) for each in plan.container.env if each.name != "HF_HUB_OFFLINE"],
        "resources": {"requests": requests, "limits": {"memory": FETCH_MEMORY}},
        "securityContext": parts.container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount for mount in _mounts(plan) if mount["name"] in mounted],
    }


def arguments(flag: Flag) -> list[str]:
    """A flag and its further values, each an element of the argument list."""
    return [argument(flag), *flag.values]


def argument(flag: Flag) -> str:
    """A flag as one element of the argument list: no shell ever reads it."""
    return f"--{flag.name}" if flag.value is None else f"--{flag.name}={flag.value}"


def environment(variable: EnvVar) -> Body:
    """A variable: plain, or a reference to a secret that exists."""
    if variable.secret_name is None:
        value = None if variable.value is None else parts.literal(variable.value)
        return {"name": variable.name, "value": value}
    reference = {"name": variable.secret_name, "key": variable.secret_key}
    return {"name": variable.name, "valueFrom": {"secretKeyRef": reference}}


def _resources(plan: ServingPlan) -> Body:
    """No CPU limit: its throttling stops the loop that feeds the GPUs, and the request already holds the
    cores."""
    architecture = plan.architecture
    gpus = parts.gpus(plan)
    disk = parts.memory(architecture.disk_bytes)
    return {
        "requests": {
            "cpu": parts.cpu(architecture.cpu_request),
            "memory": parts.memory(architecture.memory_request_bytes),
            "ephemeral-storage": disk,
        },
        "limits": {
            "memory": parts.memory(architecture.memory_limit_bytes),
            "ephemeral-storage": disk,
            parts.placement(plan).gpu_resource: str(gpus),
        },
    }


def _startup_probe(plan: ServingPlan) -> Body:
    """Holds the other probes back until the replica is warm: one run of the script, which waits and tries
    again itself, so that the planned time is the bound even where a request hangs."""
    command = ["python3", f"{SCRIPTS_PATH}/warm_up.py", f"{SCRIPTS_PATH}/warm_up.json"]
    return {
        "exec": {"command": command},
        "timeoutSeconds": plan.timeouts.startup_s + STARTUP_MARGIN_S,
        "failureThreshold": 1,
    }


def _health_probe(plan: ServingPlan, *, period_s: int, failures: int) -> Body:
    return {
        "httpGet": {"path": plan.container.health_path, "port": plan.container.port, "scheme": "HTTP"},
        "periodSeconds": period_s,
        "timeoutSeconds": HEALTH_TIMEOUT_S,
        "failureThreshold": failures,
    }


def pre_stop_s(plan: ServingPlan) -> int:
    """Wait before the engine is told to stop: what the grace period leaves beside the drain, at most 15 s."""
    spare = plan.timeouts.grace_s - plan.timeouts.drain_s - MINIMUM_CLIENT_DRAIN_S
    return max(1, min(PRE_STOP_S, spare))


def _volumes(plan: ServingPlan) -> list[Body]:
    place, architecture = parts.placement(plan), plan.architecture
    cache: Body = {"emptyDir": {"sizeLimit": parts.memory(architecture.disk_bytes)}}
    if place.weights_storage_class is not None:
        cache = {"persistentVolumeClaim": {"claimName": plan.names["weights"]}}
    shared = {"medium": "Memory", "sizeLimit": parts.memory(architecture.shared_memory_bytes)}
    volumes: list[Body] = [
        {"name": "scripts", "configMap": {"name": _warm_up_name(plan), "defaultMode": 0o444}},
        {"name": "cache", **cache},
        {"name": "shared-memory", "emptyDir": shared},
    ]
    volumes += [{"name": name, "emptyDir": {}} for name, _ in _writable(plan)]
    if place.weights_claim is not None:
        claim = {"claimName": place.weights_claim, "readOnly": True}
        volumes.append({"name": "model", "persistentVolumeClaim": claim})
    for index, claimed in enumerate(place.adapter_claims):
        claim = {"claimName": claimed, "readOnly": True}
        volumes.append({"name": f"adapters-{index}", "persistentVolumeClaim": claim})
    for index, file in enumerate(plan.container.secret_files):
        volumes.append(
            {"name": f"secret-{index}", "secret": {"secretName": file.secret_name, "defaultMode": 0o440}}
        )
    return volumes


def _mounts(plan: ServingPlan) -> list[Body]:
    container = plan.container
    mounts: list[Body] = [
        {"name": "scripts", "mountPath": SCRIPTS_PATH, "readOnly": True},
        {"name": "cache", "mountPath": container.cache_path},
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]
    mounts += [{"name": name, "mountPath": path} for name, path in _writable(plan)]
    mounts += [
        {"name": "scripts", "mountPath": path, "subPath": file_key(path), "readOnly": True}
        for path in container.files
    ]
    if parts.placement(plan).weights_claim is not None:
        mounts += _model_mounts(plan)
    mounts += [
        {"name": f"adapters-{index}", "mountPath": path, "readOnly": True}
        for index, path in enumerate(parts.placement(plan).adapter_claims.values())
    ]
    mounts += [
        {"name": f"secret-{index}", "mountPath": file.path, "subPath": file.secret_key, "readOnly": True}
        for index, file in enumerate(container.secret_files)
    ]
    return mounts


def _model_mounts(plan: ServingPlan) -> list[Body]:
    """The volume with the weights: whole, or the directories that the engine asks for."""
    container = plan.container
    if not container.volume_mounts:
        return [{"name": "model", "mountPath": container.model_path, "readOnly": True}]
    return [
        {"name": "model", "mountPath": path, "subPath": below, "readOnly": True}
        for below, path in container.volume_mounts.items()
    ]


def _writable(plan: ServingPlan) -> list[tuple[str, Any]]:
    """The other directories that must be writable, with their volumes' names; /tmp always."""
    paths = dict.fromkeys(("/tmp", *plan.container.writable_paths))
    return [(f"writable-{index}", path) for index, path in enumerate(paths)]
