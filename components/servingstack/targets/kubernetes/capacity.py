"""What makes the next replica start sooner: the image on every GPU node, and GPU nodes held by placeholder
pods.

Both run the engine's own image with a command that only waits, so they pull what a replica will need and
bring no image of their own.

Traps:
- An image that says NVIDIA_VISIBLE_DEVICES=all sees every GPU of its node without having asked for one.
  `void` (NVIDIA container toolkit) hides them from pods that only wait.
- A placeholder below priority -10 is no reason for cluster-autoscaler to add a node
  (its flag --expendable-pods-priority-cutoff, default -10), which is the placeholder's whole purpose.
"""

from __future__ import annotations

from servingstack.naming import physical_name
from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import parts, sharing
from servingstack.targets.kubernetes.parts import Body, Manifest, manifest
from servingstack.targets.kubernetes.workload import gpu_tolerations

PRIORITY = -10
_GPU_NODE_LABELS = (
    "nvidia.com/gpu.present",  # NVIDIA's GPU feature discovery
    "cloud.google.com/gke-accelerator",  # GKE, every GPU pool
    "k8s.amazonaws.com/accelerator",  # EKS node groups: cluster-autoscaler knows GPU nodes by it
    "karpenter.k8s.aws/instance-gpu-name",  # EKS with Karpenter
    "kubernetes.azure.com/accelerator",  # AKS, every GPU pool (its reserved labels)
)
"""Labels that GPU nodes have, any one of them; used when the plan does not name the nodes by labels of their
own."""
_WAITING_RESOURCES = {"cpu": "10m", "memory": "16Mi", "ephemeral-storage": "16Mi"}


def objects(plan: ServingPlan) -> list[Manifest]:
    """The pre-pull if asked for, placeholders if planned."""
    found = [prepull(plan)] if parts.placement(plan).prepull_images else []
    if plan.scaling.placeholder_pods > 0:
        found += [priority(plan), placeholders(plan)]
    return found


def prepull(plan: ServingPlan) -> Manifest:
    """A pod on every GPU node that keeps the engine's image there."""
    spec = _waiting_pod(plan, dict(_WAITING_RESOURCES)) | _on_gpu_nodes(plan)
    spec["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    body: Body = {
        "selector": {"matchLabels": parts.selector(plan, parts.PREPULL)},
        # An image is pulled on all nodes at once, or a rollout would wait for it node by node.
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {"metadata": {"labels": parts.labels(plan, parts.PREPULL)}, "spec": spec},
    }
    # A node without room, or still pulling, is no reason for a deployment to wait.
    metadata = parts.metadata(
        plan, plan.names["prepull"], parts.PREPULL, annotations={"pulumi.com/skipAwait": "true"}
    )
    return manifest("prepull", "apps/v1", "DaemonSet", metadata, spec=body)


def priority(plan: ServingPlan) -> Manifest:
    """The placeholders' priority: below every pod that does something. It has no namespace, so its name holds
    it."""
    name = physical_name(f"{parts.placement(plan).namespace}-{plan.name}", "placeholder")
    return manifest(
        "priority",
        "scheduling.k8s.io/v1",
        "PriorityClass",
        {"name": name, "labels": parts.labels(plan, parts.PLACEHOLDER)},
        value=PRIORITY,
        globalDefault=False,
        preemptionPolicy="Never",
        description=f"Pods that hold GPU nodes for the next replicas of {plan.name}.",
    )


def placeholders(plan: ServingPlan) -> Manifest:
    """Pods that hold what a replica needs, and give way to one at once."""
    architecture = plan.architecture
    gpus = parts.gpus(plan)
    requests = {
        "cpu": parts.cpu(architecture.cpu_request),
        "memory": parts.memory(architecture.memory_request_bytes),
        "ephemeral-storage": _WAITING_RESOURCES["ephemeral-storage"],
    }
    spec = _waiting_pod(plan, requests, {parts.placement(plan).gpu_resource: str(gpus)})
    labels = parts.labels(plan, parts.PLACEHOLDER) | sharing.labels(plan)
    spec["priorityClassName"] = priority(plan).name
    spec["terminationGracePeriodSeconds"] = 0
    if node_selector := parts.placement(plan).node_selector:
        spec["nodeSelector"] = node_selector
    if (affinity := sharing.affinity(plan)) is not None:
        spec["affinity"] = affinity
    body: Body = {
        "replicas": plan.scaling.placeholder_pods,
        "selector": {"matchLabels": parts.selector(plan, parts.PLACEHOLDER)},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    # Pending is what a placeholder is meant to be while its node starts.
    metadata = parts.metadata(
        plan, plan.names["placeholder"], parts.PLACEHOLDER, annotations={"pulumi.com/skipAwait": "true"}
    )
    return manifest("placeholder", "apps/v1", "Deployment", metadata, spec=body)


def _waiting_pod(plan: ServingPlan, requests: dict[str, str], devices: dict[str, str] | None = None) -> Body:
    limits = {key: requests[key] for key in ("memory", "ephemeral-storage")}
    container: Body = {
        "name": "wait",
        "image": plan.container.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "resources": {"requests": requests, "limits": limits | ({} if devices is None else devices)},
        "securityContext": parts.container_security(),
    }
    return {
        "serviceAccountName": plan.names["engine"],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": parts.pod_security(plan.container.user_id),
        # `sleep` as the first process does not hear SIGTERM.
        "terminationGracePeriodSeconds": 1,
        "tolerations": gpu_tolerations(plan),
        "containers": [container],
    }


def _on_gpu_nodes(plan: ServingPlan) -> Body:
    if node_selector := parts.placement(plan).node_selector:
        return {"nodeSelector": node_selector}
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in _GPU_NODE_LABELS]
    required = {"nodeSelectorTerms": terms}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
