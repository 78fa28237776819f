"""What an option can do, as data: checked once, in the planner, never in a target.

Trap: a refusal names the options that can meet the demand, and derives that list from this data. A limit that
is written into code instead is invisible there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

TimeoutKind = Literal["front-door", "set", "fixed", "sidecar", "client"]
"""How a request is bounded: by the stack's own proxy before the replicas or beside each, by a setting of the
service, by a limit of the service that cannot be set, or by nobody but the client."""


@dataclass(frozen=True, slots=True)
class Door:
    """The stack's own proxy, for options that need one to bound time and queue."""

    image: str
    replicas: int
    """Two, so that a node's loss does not close the door; 1 for one beside each replica."""
    port: int
    stats_port: int


@dataclass(frozen=True, slots=True)
class Directory:
    """Where a source's weights are found in the container."""

    root: str
    """Path of the mount or download."""
    keeps_path: bool = False
    """Whether the path after the first segment of the source stays below the root, as it does where a whole
    volume or bucket is mounted; else the root itself holds the weights."""
    whole_files: bool = False
    """Whether only whole files are read fast there, as from a bucket that is mounted by FUSE, or a share."""
    in_image: bool = False
    """Whether the source is a path of the image itself."""


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What a service takes to start a replica, before weights are read."""

    machine_s: float
    """Until a machine with a GPU runs."""
    image_s: float
    """Until the image is there."""
    weights_bytes_per_s: float | None
    """How fast weights from a directory are read; None for the rate of the node's own disk after a
    download."""
    source: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One option."""

    option: str
    exposures: tuple[str, ...]
    """Who can be let in."""
    spot: bool
    """Whether interruptible capacity can be asked for."""
    scale_to_zero: bool
    longest_hold_s: int
    """How long a request may be held while a replica starts."""
    queue_metric: str
    """Signal that scaling follows, `queue_depth` or the nearest that the option has."""
    timeout_enforced_by: str
    """The part of the path that ends a request."""
    longest_request_s: int | None
    """Longest request timeout that can be set; None for no limit of its own."""
    door: Door | None
    on_kubernetes: bool
    cloud: str | None = None
    """None for an option that is no cloud's own."""
    service: str = "vm"
    """The catalog's service whose instance types it rents."""
    replica_is_machine: bool = False
    """Whether each replica takes a whole machine, all of its GPUs paid."""
    container_share: tuple[float, float] | None = None
    """Shares of a machine's cores and memory that a container can have; None for what a cluster's node
    leaves."""
    image_family: str = "upstream"
    """The engines' image rows that it can run: `upstream`, or the vendor's own."""
    scales_on: Literal["waiting", "in_flight", "per_second"] = "waiting"
    """Whether the scaled metric counts requests that wait, all that are in flight, or those that come in a
    second."""
    timeout_kind: TimeoutKind = "front-door"
    surge: Literal["replica", "fleet"] = "replica"
    """What a rollout adds: one replica, or as many as are kept."""
    start: StartFacts | None = None
    """None for a cluster's nodes, whose start follows from the input."""
    directories: Mapping[str, Directory] = field(default_factory=dict[str, Directory])
    """Schemes of `model.source` that it brings into the container, and where."""
    files_in_memory: bool = False
    """Whether what a container writes, a download of weights among it, counts in its memory."""
    drivers: Mapping[str, int] = field(default_factory=dict[str, int])
    """Branch of the machines' NVIDIA driver by GPU id, where the service fixes it."""
    published: bool = False
    """Whether it serves a model that the service has with the model's own server: no engine of this library,
    and a plan that its own `planning.whole` makes."""
    keeps_cache: bool = False
    """Whether what an engine downloads and compiles outlives a replica, on a volume that the option makes."""
