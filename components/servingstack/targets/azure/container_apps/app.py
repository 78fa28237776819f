"""The container app itself: two containers, their probes, volumes, secrets, scale and ingress.

Field names are those of the REST API (azure-mgmt-appcontainers' models check them in the tests).

Traps:
- The GPU goes to the first container (azure-docs articles/container-apps, gpu-serverless-overview.md), so the
  engine stands before the door.
- A secret that is changed makes no new revision and one that a revision names cannot go, so the app has
  references to the vault alone, of names that do not change with their content.
- A scale rule's numbers are texts.
- Exactly one revision serves; a new one takes over when it is ready, which needs a readiness probe: the
  service adds none for a GPU's profile.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import EnvVar, SecretFile, ServingPlan
from servingstack.targets import haproxy, launch

from . import sidecar
from .limits import SCALE_POLL_S
from .logs import DOOR
from .names import app_secret, secret_of
from .refs import Body, Given, Ref
from .section import ContainerAppsSection, Probe, Probes

ENGINE = "engine"
IDENTITY = Ref("identity")
"""The stack's own: for pulling images and reading secrets."""
INACTIVE_REVISIONS = 10
"""Old revisions that are kept to look at; the service's own default is 100."""
_CACHE, _DRAIN, _WEIGHTS, _SHARED = "cache", "drain", "weights", "shared-memory"


def section(plan: ServingPlan) -> ContainerAppsSection:
    """The plan's own part. ValueError for a plan of another option."""
    if plan.container_apps is None:
        raise ValueError(f"{plan.name} is not planned for Container Apps")
    return plan.container_apps


def tags(plan: ServingPlan) -> dict[str, str]:
    """The labels, under names that Azure takes: no slash."""
    return {key.rpartition("/")[2]: value for key, value in plan.labels.items()}


def container_app(plan: ServingPlan, group: Any) -> Body:
    """The whole."""
    own = section(plan)
    return {
        "containerAppName": plan.names["app"],
        "resourceGroupName": group,
        "location": plan.architecture.region,
        "environmentId": Ref("environment") if own.create_environment else Given("environment_id"),
        "workloadProfileName": own.workload_profile,
        "identity": {"type": "UserAssigned", "userAssignedIdentities": [IDENTITY]},
        "configuration": _configuration(plan),
        "template": _template(plan),
        "tags": tags(plan),
    }


def _configuration(plan: ServingPlan) -> Body:
    own = section(plan)
    body: Body = {
        "activeRevisionsMode": "Single",
        "maxInactiveRevisions": INACTIVE_REVISIONS,
        "ingress": _ingress(plan),
        # For pulling images and reading secrets; no process of the app can ask for a token.
        "identitySettings": [{"identity": IDENTITY, "lifecycle": "None"}],
    }
    if own.registry is not None:
        body["registries"] = [{"server": own.registry, "identity": IDENTITY}]
    if own.secrets:
        body["secrets"] = [
            {
                "name": name,
                "keyVaultUrl": f"https://{own.key_vault}.vault.azure.net/secrets/{secret}",
                "identity": IDENTITY,
            }
            for name, secret in own.secrets.items()
        ]
    return body


def _ingress(plan: ServingPlan) -> Body:
    own, door = section(plan), sidecar.front_door(plan)
    body: Body = {
        "external": own.external,
        "targetPort": door.port,
        "transport": "http",
        "allowInsecure": False,
        "traffic": [{"latestRevision": True, "weight": 100}],
    }
    if own.allowed_ranges:
        body["ipSecurityRestrictions"] = [
            {"name": f"private-{index}", "ipAddressRange": found, "action": "Allow"}
            for index, found in enumerate(own.allowed_ranges)
        ]
    return body


def _template(plan: ServingPlan) -> Body:
    own = section(plan)
    return {
        "containers": [_engine(plan), _door(plan)],
        "scale": _scale(plan),
        "volumes": _volumes(plan),
        "terminationGracePeriodSeconds": own.grace_s,
    }


def _scale(plan: ServingPlan) -> Body:
    own, scaling = section(plan), plan.scaling
    body: Body = {"minReplicas": scaling.min_replicas, "maxReplicas": scaling.max_replicas}
    if own.concurrent_requests is None:
        return body
    metadata = {"concurrentRequests": str(own.concurrent_requests)}
    body["rules"] = [{"name": "requests", "http": {"metadata": metadata}}]
    if own.cool_down_s is not None:
        body |= {"cooldownPeriod": own.cool_down_s, "pollingInterval": SCALE_POLL_S}
    return body


def _engine(plan: ServingPlan) -> Body:
    own, container = section(plan), plan.container
    door = sidecar.front_door(plan)
    key = None
    if door.api_key_secret_name is not None and door.api_key_secret_key is not None:
        key = (door.api_key_secret_name, door.api_key_secret_key)
    drained = (sidecar.DRAINED_FILE, sidecar.LEAVE_S + door.drain_s)
    return {
        "name": ENGINE,
        "image": container.image,
        "command": launch.command(plan, ready_port=own.ready_port, api_key=key, drained=drained),
        "args": launch.flags(plan),
        "env": [environment(variable) for variable in container.env],
        "resources": _resources(own.engine_cores, own.engine_gib),
        "probes": _probes(own.engine_probes),
        "volumeMounts": _engine_mounts(plan),
    }


def _door(plan: ServingPlan) -> Body:
    own, door = section(plan), sidecar.front_door(plan)
    env: list[Body] = [{"name": name, "value": value} for name, value in sidecar.environment(plan).items()]
    if door.api_key_secret_name is not None:
        secret = app_secret(secret_of(door.api_key_secret_name, door.api_key_secret_key))
        env.append({"name": haproxy.API_KEY_ENV, "secretRef": secret})
    return {
        "name": DOOR,
        "image": door.image,
        "command": sidecar.command(),
        "env": env,
        "resources": _resources(own.door_cores, own.door_gib),
        "probes": _probes(own.door_probes),
        "volumeMounts": [{"volumeName": _DRAIN, "mountPath": sidecar.DRAIN_DIR}],
    }


def environment(variable: EnvVar) -> Body:
    """A variable: plain, or a reference to a secret of the app."""
    if variable.secret_name is None:
        return {"name": variable.name, "value": variable.value}
    return {
        "name": variable.name,
        "secretRef": app_secret(secret_of(variable.secret_name, variable.secret_key)),
    }


def _resources(cores: float, gib: float) -> Body:
    return {"cpu": cores, "memory": f"{gib:g}Gi"}


def _probes(probes: Probes) -> list[Body]:
    return [
        _probe("Startup", probes.startup),
        _probe("Readiness", probes.readiness),
        _probe("Liveness", probes.liveness),
    ]


def _probe(kind: str, probe: Probe) -> Body:
    return {
        "type": kind,
        "httpGet": {"path": probe.path, "port": probe.port, "scheme": "HTTP"},
        "initialDelaySeconds": probe.initial_delay_s,
        "periodSeconds": probe.period_s,
        "timeoutSeconds": probe.timeout_s,
        "failureThreshold": probe.failures,
        "successThreshold": 1,
    }


def _volumes(plan: ServingPlan) -> list[Body]:
    own = section(plan)
    names = [_CACHE, _DRAIN, *([_SHARED] if own.shared_memory_on_disk else [])]
    volumes: list[Body] = [{"name": name, "storageType": "EmptyDir"} for name in names]
    if own.share is not None:
        kind = "NfsAzureFile" if own.share.protocol == "nfs" else "AzureFile"
        storage = Ref("storage", "name") if own.share.link else own.share.storage
        volumes.append({"name": _WEIGHTS, "storageType": kind, "storageName": storage})
    return volumes + [_secret_volume(index, file) for index, file in enumerate(plan.container.secret_files)]


def _secret_volume(index: int, file: SecretFile) -> Body:
    item = {
        "secretRef": app_secret(secret_of(file.secret_name, file.secret_key)),
        "path": file.path.rpartition("/")[2],
    }
    return {"name": f"secret-{index}", "storageType": "Secret", "secrets": [item]}


def _engine_mounts(plan: ServingPlan) -> list[Body]:
    own, container = section(plan), plan.container
    mounts: list[Body] = [
        {"volumeName": _CACHE, "mountPath": container.cache_path},
        {"volumeName": _DRAIN, "mountPath": sidecar.DRAIN_DIR},
    ]
    if own.shared_memory_on_disk:
        mounts.append({"volumeName": _SHARED, "mountPath": "/dev/shm"})
    if own.share is not None:
        below = container.volume_mounts or {"": own.share.mount_path}
        mounts += [
            {"volumeName": _WEIGHTS, "mountPath": path, **({"subPath": sub} if sub else {})}
            for sub, path in below.items()
        ]
    mounts += [
        {"volumeName": f"secret-{index}", "mountPath": file.path.rpartition("/")[0]}
        for index, file in enumerate(container.secret_files)
    ]
    return mounts


__all__ = ["IDENTITY", "container_app", "environment", "section", "tags"]
