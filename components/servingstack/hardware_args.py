"""The input's words for hardware: what may be used, a cluster's GPU nodes, and how their GPUs are cut or
shared.

Trap: a node is described as pods see it. What its GPUs are cut into, and whether turns on them are handed
out, is decided by whoever runs the cluster (the device plugin, MIG manager): saying it here changes no node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from servingstack.fields import Frozen, LabelKey, LabelValue, Number, Whole, YesNo
from servingstack.units import GpuId, Size

MAX_REPLICAS = 5000
"""Kubernetes is made for at most 5,000 nodes (kubernetes.io/docs/setup/best-practices/cluster-large)."""
LEAST_CPU = 0.001
"""Kubernetes counts CPU in thousandths of a core."""
MAX_GPUS = 100_000
MAX_RANKS = 1024
"""GPUs of one replica."""
MAX_USD = 1e9
MAX_BYTES = 10**18
Labels = Annotated[Mapping[LabelKey, LabelValue], Frozen]
_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


class TolerationArgs(BaseModel):
    """A taint of a node."""

    model_config = _CONFIG
    key: LabelKey
    """Key of the taint, such as `sku`."""
    value: LabelValue | None = None
    """Value of the taint. Default: any."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Default: every effect."""


class SharingArgs(BaseModel):
    """How the NVIDIA device plugin shares each GPU of a node between pods."""

    model_config = _CONFIG
    time_slices: Whole = Field(ge=2, le=64)
    """Pods that may be on one GPU at a time: `sharing.timeSlicing.resources[].replicas` of the device
    plugin."""
    renamed: YesNo = False
    """Whether the plugin calls a turn `nvidia.com/gpu.shared` (`renameByDefault`). Default no, as the
    plugin's own: `nvidia.com/gpu`, and then `selector` must tell these nodes from others."""


class NodeArgs(BaseModel):
    """One kind of GPU node of a cluster that exists."""

    model_config = _CONFIG
    accelerator: GpuId
    """GPU of the node, any case, aliases allowed."""
    gpus: Whole = Field(ge=1, le=16)
    """GPUs per node."""
    count: Whole = Field(ge=1, le=MAX_REPLICAS)
    """Nodes of this kind, or the most that its autoscaler adds."""
    cpu: Number = Field(ge=LEAST_CPU, le=10_000)
    """CPU cores that pods can have on a node (allocatable)."""
    memory: Size = Field(gt=0, le=MAX_BYTES)
    """Memory that pods can have on a node (allocatable), with a unit."""
    form: Literal["sxm", "pcie", "nvl"] | None = None
    """Board of the GPU, which sets its bandwidth and link. Default: the catalog's most common."""
    hourly_price: Number | None = Field(default=None, ge=0, le=MAX_USD)
    """What a node costs, USD per hour. Default: a reference price per GPU, labelled so."""
    selector: Labels | None = None
    """Labels that select these nodes; needed where the cluster has another GPU too. Default: none, the GPU
    request alone places the pod."""
    tolerations: tuple[TolerationArgs, ...] = ()
    """Taints of these nodes that the pods put up with. Default: none beside `nvidia.com/gpu`, which is always
    tolerated."""
    scale_from_zero: YesNo = False
    """Whether a node must first be started by an autoscaler, which adds to a cold start. Default no."""
    mig: Annotated[Mapping[str, Annotated[Whole, Field(ge=1, le=8)]], Frozen] | None = Field(
        default=None, min_length=1
    )
    """Slices into which each GPU of the node is cut (multi-instance GPU), by profile: `{1g.10gb: 7}`. A
    replica then takes one slice. Default: whole GPUs."""
    mig_strategy: Literal["mixed", "single"] = "mixed"
    """The device plugin's: `mixed` names a slice `nvidia.com/mig-1g.10gb`, `single` (and GKE)
    `nvidia.com/gpu`; then `selector` must tell these nodes from others. Default `mixed`."""
    sharing: SharingArgs | None = None
    """Whether several pods share each GPU by turns, without isolation. Default: none does."""


class HardwareArgs(BaseModel):
    """What hardware may be used, and how much. All optional."""

    model_config = _CONFIG
    accelerators: tuple[GpuId, ...] | None = Field(default=None, min_length=1)
    """GPUs that may be used. Default: every GPU the target has."""
    instance_type: str | None = None
    """One instance type only. Default: the cheapest that meets the demands."""
    gpus_per_replica: Whole | None = Field(default=None, ge=1, le=MAX_RANKS)
    """GPUs of one replica. Default: the cheapest split that fits and keeps the SLO."""
    max_gpus: Whole | None = Field(default=None, ge=1, le=MAX_GPUS)
    """Most GPUs at any moment, the surge of a rollout included. Default: no limit but the nodes."""
    spot: Literal["never", "prefer", "only"] = "never"
    """Whether interruptible capacity may be used. Default `never`."""
    max_hourly_cost: Number | None = Field(default=None, gt=0, le=MAX_USD)
    """Most that the stack may cost at its peak, USD per hour. Default: no limit."""
    prices: Annotated[Mapping[str, Annotated[Number, Field(ge=0, le=MAX_USD)]], Frozen] | None = None
    """Own or committed prices, USD per hour by instance type or GPU id. Default: the catalog's on-demand
    price."""
    nodes: tuple[NodeArgs, ...] | None = Field(default=None, min_length=1)
    """The GPU nodes of a cluster that exists. Default: not known; any GPU of `accelerators` is taken to be
    there."""
    cpu_request: Number | None = Field(default=None, ge=LEAST_CPU, le=10_000)
    """CPU cores requested by a replica. Default: from the number of GPUs."""
    memory_request: Size | None = Field(default=None, gt=0, le=MAX_BYTES)
    """Host memory requested by a replica, with a unit. Default: from its processes, their loading buffers and
    shared memory, at most `memory_limit`."""
    memory_limit: Size | None = Field(default=None, gt=0, le=MAX_BYTES)
    """Host memory limit of a replica, with a unit. Default: the request."""

    @model_validator(mode="after")
    def _limit_holds_request(self) -> Self:
        if self.memory_request and self.memory_limit and self.memory_limit < self.memory_request:
            raise ValueError(
                "memory_limit of at least memory_request | Raise the limit or lower the request."
            )
        return self
