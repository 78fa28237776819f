"""The simulated nodes of the local cluster: what a node pool of the real instance type reports.

The trap: a simulated node that is roomier than the real one schedules pods that would stay pending for good.
So capacities are the instance types' own and allocatable leaves room for the system and its daemons.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
"""As GKE taints its GPU pools (cloud.google.com/kubernetes-engine/docs/how-to/gpus)."""

ZONES = ("local-a", "local-b")


@dataclass(frozen=True)
class NodeType:
    """Sizes: aws.amazon.com/ec2/instance-types (m6i, g6, p4). GPU labels as gpu-feature-discovery writes them
    (NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery/README.md): the product is the driver's name with
    dashes, the memory is in MiB as nvidia-smi reports it."""

    prefix: str
    instance_type: str
    cpu: int
    memory_gib: int
    gpus: int = 0
    gpu_labels: dict[str, str] = field(default_factory=lambda: {})


NODE_TYPES = (
    NodeType("cpu", "m6i.4xlarge", cpu=16, memory_gib=64),
    NodeType(
        "l4",
        "g6.12xlarge",
        cpu=48,
        memory_gib=192,
        gpus=4,
        gpu_labels={
            "nvidia.com/gpu.product": "NVIDIA-L4",
            "nvidia.com/gpu.memory": "23034",
            "nvidia.com/gpu.family": "ada-lovelace",
            "nvidia.com/gpu.compute.major": "8",
            "nvidia.com/gpu.compute.minor": "9",
        },
    ),
    NodeType(
        "a100",
        "p4de.24xlarge",
        cpu=96,
        memory_gib=1152,
        gpus=8,
        gpu_labels={
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
            "nvidia.com/gpu.memory": "81920",
            "nvidia.com/gpu.family": "ampere",
            "nvidia.com/gpu.compute.major": "8",
            "nvidia.com/gpu.compute.minor": "0",
        },
    ),
)

_ALLOCATABLE_MEMORY = 0.9
"""Share of a node's memory that pods may ask for. Ours: the kubelet's reserve plus a few daemons."""


def _node(kind: NodeType, zone: str) -> dict[str, Any]:
    name = f"{kind.prefix}-{zone.removeprefix('local-')}"
    gpus = str(kind.gpus)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": kind.instance_type,
        "topology.kubernetes.io/region": "local",
        "topology.kubernetes.io/zone": zone,
    }
    shared = {"pods": "110", "ephemeral-storage": "1000Gi"}
    if kind.gpus:
        shared["nvidia.com/gpu"] = gpus
        labels |= kind.gpu_labels
        labels |= {f"nvidia.com/gpu.{key}": gpus for key in ("count", "replicas")}
        labels |= {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.machine": kind.instance_type}
    memory_mib = int(kind.memory_gib * 1024 * _ALLOCATABLE_MEMORY)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": labels},
        "spec": {"taints": [GPU_TAINT] if kind.gpus else []},
        "status": {
            "capacity": {"cpu": str(kind.cpu), "memory": f"{kind.memory_gib}Gi", **shared},
            "allocatable": {"cpu": str(kind.cpu - 1), "memory": f"{memory_mib}Mi", **shared},
        },
    }


def manifests() -> list[dict[str, Any]]:
    """One node of each type in each of two zones."""
    return [_node(kind, zone) for zone in ZONES for kind in NODE_TYPES]
