"""Pieces that every manifest is made of: metadata, selectors, quantities, security contexts.

Trap: a selector is immutable. It holds the stack's name and the component alone, so that no label a user adds
or changes ever forces a Deployment to be replaced.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import Any

from servingstack.plan import FrontDoor, Placement, ServingPlan

NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
DOOR = "front-door"
PREPULL = "prepull"
PLACEHOLDER = "placeholder"
METRICS_PORT = "metrics"
HTTP_PORT = "http"

Body = dict[str, Any]


@dataclass(frozen=True)
class Manifest:
    """One object of the cluster, as plain JSON. `role` is its name inside the stack: overrides and goldens
    use it."""

    role: str
    api_version: str
    kind: str
    name: str
    body: Body
    """Whole, with apiVersion, kind and metadata."""


def manifest(role: str, api_version: str, kind: str, metadata: Body, **content: Any) -> Manifest:
    """A manifest whose body is complete."""
    body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
    return Manifest(role, api_version, kind, metadata["name"], body)


def placement(plan: ServingPlan) -> Placement:
    """Where the stack lives. Raises ValueError for a plan of another option."""
    if plan.placement is None:
        raise ValueError(
            f"the plan of {plan.name!r} is for {plan.architecture.option!r}, which has no cluster"
        )
    return plan.placement


def front_door(plan: ServingPlan) -> FrontDoor:
    """The proxy before the replicas. Raises ValueError for a plan without one."""
    if plan.front_door is None:
        raise ValueError(f"the plan of {plan.name!r} has no front door, which every stack on a cluster has")
    return plan.front_door


def engine_component(plan: ServingPlan) -> str:
    """Value of the component label on the engine's pods."""
    return plan.labels[COMPONENT]


def labels(plan: ServingPlan, component: str) -> dict[str, str]:
    """All labels of an object of this component."""
    return plan.labels | {COMPONENT: component}


def metrics_port(plan: ServingPlan) -> int:
    """Where the engine serves its metrics."""
    own = plan.container.metrics_port
    return plan.container.port if own is None else own


def gpus(plan: ServingPlan) -> int:
    """GPUs that a replica's engine is told to use: its shards, or one per set of whole copies."""
    architecture = plan.architecture
    if plan.batching.kind == "dynamic":
        return architecture.gpus_per_replica
    return architecture.tensor_parallel_size * architecture.pipeline_parallel_size


def selector(plan: ServingPlan, component: str) -> dict[str, str]:
    """The labels that find pods and Services of this component; never more than these."""
    return {NAME: plan.labels[NAME], COMPONENT: component}


def metadata(
    plan: ServingPlan,
    role_name: str,
    component: str,
    extra_labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Body:
    """Metadata of a namespaced object."""
    body: Body = {
        "name": role_name,
        "namespace": placement(plan).namespace,
        "labels": labels(plan, component) | ({} if extra_labels is None else extra_labels),
    }
    return body if annotations is None else body | {"annotations": annotations}


def memory(value: int) -> str:
    """Bytes as the cluster writes them: Gi where whole, else Mi rounded up."""
    gibibytes, rest = divmod(value, 1024**3)
    return f"{gibibytes}Gi" if rest == 0 and gibibytes > 0 else f"{math.ceil(value / 1024**2)}Mi"


def cpu(cores: float) -> str:
    """Cores as the cluster writes them: whole, else in thousandths."""
    return str(int(cores)) if cores == int(cores) else f"{math.ceil(cores * 1000)}m"


def files_name(name: str, files: dict[str, str]) -> str:
    """Name of the ConfigMap that holds these files: with a hash of them.

    Other files are another object, which is there before the pods that want it, and the old one goes after
    the pods that had it. A ConfigMap of a fixed name would be deleted first: pulumi-kubernetes replaces one
    whose data changes (provider/v4 pkg/provider/diff.go, unless `enableConfigMapMutable`)."""
    text = json.dumps(files, sort_keys=True, separators=(",", ":"))
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def pod_security(user_id: int) -> Body:
    """What Pod Security `restricted` asks of a pod
    (kubernetes.io/docs/concepts/security/pod-security-standards).

    fsGroup makes mounted volumes writable for the unprivileged user."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user_id,
        "runAsGroup": user_id,
        "fsGroup": user_id,
        # Without it, the kubelet walks a volume full of weights at every start to change its owner.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def literal(text: str) -> str:
    """A text that the kubelet hands on as it stands: in commands, arguments and variables it would replace
    `$(NAME)` by a variable's value and `$$` by `$` (kubernetes v1.36 third_party/forked/golang/expansion)."""
    return re.sub(r"\$(?=[$(])", "$$", text)


def container_security() -> Body:
    """What `restricted` asks of a container, and a root file system that nobody can write."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
