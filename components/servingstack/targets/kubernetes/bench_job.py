"""The engine's own benchmark as a Job in the engine's image: rendered from a plan, applied by hand, read by
`kubectl logs`.

    servingstack bench dev --stack chat --job | kubectl apply -f -
    kubectl -n serving wait --for=condition=complete --timeout=1h job/chat-bench
    kubectl -n serving logs job/chat-bench > stacks/bench.dev.chat.json

One init container per concurrency, one after another; the last container prints what they wrote, so the Job's
log is the table and nothing else. It asks the front door like any client, and needs no GPU.

Traps:
- The stack's network policy closes every pod that bears its name: this one bears another.
- The sweep ends at the planned batch of the replicas that are always there. Beyond it requests wait, and the
  scaler would add replicas while they are measured.
"""

from __future__ import annotations

from typing import Any

from servingstack.engines.benchmark import Load, command
from servingstack.naming import physical_name
from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import parts
from servingstack.targets.kubernetes.parts import Body, Manifest, manifest
from servingstack.targets.kubernetes.workload import environment

FOLDER, FILE = "/results", "bench.jsonl"
REQUESTS = 32
"""Fewest requests of a level; at least four for each place."""
DEADLINE_S = 3600
"""A level takes minutes; a Job that hangs must not hold its node for ever."""
KEPT_S = 24 * 3600
"""The log is read within a day, then the Job removes itself."""
_CPU, _MEMORY = "2", "8Gi"
"""One busy process with a tokenizer, and the engine's Python packages in memory."""


def levels(plan: ServingPlan) -> tuple[int, ...]:
    """Requests in flight: powers of two up to the planned batch of a replica, times the replicas."""
    most, replicas = plan.batching.max_num_seqs, _replicas(plan)
    sizes = {2**power for power in range(16) if 2**power < most} | {most}
    return tuple(size * replicas for size in sorted(sizes))


def bench_job(plan: ServingPlan, *, input_tokens: int, output_tokens: int) -> Manifest | None:
    """The Job, or None for an engine whose image holds no benchmark. Raises ValueError for a plan of another
    option."""
    steps = [_step(plan, size, input_tokens, output_tokens) for size in levels(plan)]
    if any(step is None for step in steps):
        return None
    placement = parts.placement(plan)
    name = physical_name(plan.name, "bench")
    labels = plan.labels | {parts.NAME: name, parts.COMPONENT: "bench"}
    pod: Body = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": parts.pod_security(plan.container.user_id),
        "initContainers": steps,
        "containers": [_container(plan, "result", ["cat", f"{FOLDER}/{FILE}"], "100m", "128Mi")],
        "volumes": _volumes(plan),
    }
    # From where clients may come; the network policy of the front door lets no other in.
    namespace = placement.namespace if placement.ingress_namespace is None else placement.ingress_namespace
    spec: Body = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": DEADLINE_S,
        "ttlSecondsAfterFinished": KEPT_S,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return manifest("bench", "batch/v1", "Job", metadata, spec=spec)


def _replicas(plan: ServingPlan) -> int:
    return max(1, plan.scaling.min_replicas)


def _step(plan: ServingPlan, concurrency: int, input_tokens: int, output_tokens: int) -> Body | None:
    architecture, door, placement = plan.architecture, parts.front_door(plan), parts.placement(plan)
    host = f"{plan.names['service']}.{placement.namespace}.svc"
    made = command(
        architecture.engine,
        Load(
            url=f"http://{host}:{door.port}",
            model=architecture.model,
            tokenizer=_weights(plan),
            concurrency=concurrency,
            requests=max(REQUESTS, 4 * concurrency),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            conditions={
                "accelerator": architecture.accelerator,
                "gpus_per_replica": str(architecture.gpus_per_replica),
                "precision": architecture.precision,
                "engine": f"{architecture.engine} {architecture.engine_version}",
                "replicas": str(_replicas(plan)),
            },
            folder=FOLDER,
            file=FILE,
        ),
    )
    return None if made is None else _container(plan, f"c{concurrency}", list(made), _CPU, _MEMORY)


def _weights(plan: ServingPlan) -> str:
    """Where the tokenizer is: the path on the volume that the engine is told, or the hub."""
    at = plan.container.model_path
    if at is None:
        return plan.architecture.model
    told = [*plan.container.command, *(flag.value for flag in plan.container.flags if flag.value is not None)]
    return next((text for text in told if text == at or text.startswith(f"{at}/")), at)


def _container(plan: ServingPlan, name: str, arguments: list[str], cpu: str, memory: str) -> Body:
    return {
        "name": name,
        "image": plan.container.image,
        "imagePullPolicy": "IfNotPresent",
        "command": arguments,
        "env": _environment(plan),
        # No CPU limit: a throttled client measures itself.
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}},
        "securityContext": parts.container_security(),
        "volumeMounts": _mounts(plan),
    }


def _environment(plan: ServingPlan) -> list[Body]:
    """The engine's own (caches, the hub's token), and the front door's key under the name both tools read."""
    door = parts.front_door(plan)
    key = (door.api_key_secret_name, door.api_key_secret_key)
    found = [
        environment(variable)
        for variable in plan.container.env
        if variable.secret_name is None or (variable.secret_name, variable.secret_key) != key
    ]
    if door.api_key_secret_name is not None:
        reference = {"name": door.api_key_secret_name, "key": door.api_key_secret_key}
        found.append({"name": "OPENAI_API_KEY", "valueFrom": {"secretKeyRef": reference}})
    return found


def _mounts(plan: ServingPlan) -> list[Body]:
    container = plan.container
    found: list[Body] = [
        {"name": "results", "mountPath": FOLDER},
        {"name": "cache", "mountPath": container.cache_path},
        *({"name": "tmp", "mountPath": path} for path in container.writable_paths if path == "/tmp"),
    ]
    if _claim(plan) is not None and container.model_path is not None:
        found.append({"name": "weights", "mountPath": container.model_path, "readOnly": True})
    return found


def _volumes(plan: ServingPlan) -> list[Body]:
    found: list[Body] = [{"name": name, "emptyDir": {}} for name in ("results", "cache", "tmp")]
    claim = _claim(plan)
    if claim is not None:
        source: dict[str, Any] = {"claimName": claim, "readOnly": True}
        found.append({"name": "weights", "persistentVolumeClaim": source})
    return found


def _claim(plan: ServingPlan) -> str | None:
    return parts.placement(plan).weights_claim
