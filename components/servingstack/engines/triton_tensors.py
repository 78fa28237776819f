"""What a Triton model takes and gives, and how its requests are grouped, in Triton's own words.

The field names are those of `ModelConfig` (triton-inference-server/common, protobuf/model_config.proto at
83adf7cf), so that its documentation answers questions; durations and sizes carry units instead of a suffix.

Trap: Triton's defaults are not ours. A model without `dynamic_batching` is served one request at a time
however large its `max_batch_size`; here batching is on unless it is taken away by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from servingstack.fields import Frozen, Number, Whole, YesNo
from servingstack.units import Duration

CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)
MAX_BATCH = 100_000
MAX_LEVELS = 1000
MAX_VERSION = 10**12
MAX_DIM = 2**31 - 1
Dim = Annotated[Whole, Field(ge=-1, le=MAX_DIM)]
Batch = Annotated[Whole, Field(le=MAX_BATCH, ge=-MAX_BATCH)]
"""What the server refuses of it is said together with the model's own largest batch."""
GpuNumber = Annotated[Whole, Field(ge=0, le=15)]


def _as_key(value: Any) -> Any:
    """YAML has numbers as keys, JSON only texts."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Level = Annotated[str, BeforeValidator(_as_key), StringConstraints(pattern=r"^[1-9][0-9]{0,2}$")]
DataType = Literal[
    "TYPE_BOOL",
    "TYPE_UINT8",
    "TYPE_UINT16",
    "TYPE_UINT32",
    "TYPE_UINT64",
    "TYPE_INT8",
    "TYPE_INT16",
    "TYPE_INT32",
    "TYPE_INT64",
    "TYPE_FP16",
    "TYPE_FP32",
    "TYPE_FP64",
    "TYPE_STRING",
    "TYPE_BF16",
]
"""`DataType` of model_config.proto without TYPE_INVALID."""


class TritonInput(BaseModel):
    """One input tensor."""

    model_config = CONFIG
    name: str = Field(min_length=1)
    """Its name in requests."""
    data_type: DataType
    """Type of its elements."""
    dims: tuple[Dim, ...] = Field(min_length=1)
    """Shape without the batch dimension; -1 for a size that varies."""
    optional: YesNo = False
    """Whether a request may leave it out. Default no."""
    allow_ragged_batch: YesNo = False
    """Whether requests of unequal shapes may share a batch. Default no."""


class TritonOutput(BaseModel):
    """One output tensor."""

    model_config = CONFIG
    name: str = Field(min_length=1)
    """Its name in answers."""
    data_type: DataType
    """Type of its elements."""
    dims: tuple[Dim, ...] = Field(min_length=1)
    """Shape without the batch dimension; -1 for a size that varies."""
    label_filename: str | None = None
    """File beside config.pbtxt with one class label per line. Default: none."""


class RateLimitResource(BaseModel):
    """Something that instances must hold while they run."""

    model_config = CONFIG
    name: str = Field(min_length=1)
    """Any name."""
    count: Whole = Field(ge=1, le=1_000_000)
    """How many of it an instance holds."""
    shared: YesNo = False
    """Whether it is one pool over all GPUs (Triton's `global`). Default: one pool per GPU."""


class InstanceGroup(BaseModel):
    """Copies of a model that run at the same time."""

    model_config = CONFIG
    kind: Literal["KIND_GPU", "KIND_CPU", "KIND_MODEL"] = "KIND_GPU"
    """Where they run; `KIND_MODEL` leaves it to the model. Default KIND_GPU."""
    count: Whole = Field(default=1, ge=1, le=1024)
    """Copies on each GPU of `gpus`, or in all without GPUs. Default 1."""
    gpus: tuple[GpuNumber, ...] = ()
    """GPU numbers as the replica sees them, from 0. Default: every GPU of the replica."""
    profile: tuple[str, ...] = ()
    """Optimisation profiles of a TensorRT engine. Default: the first."""
    resources: tuple[RateLimitResource, ...] = ()
    """What an instance must hold to run; turns the rate limiter on. Default: none."""
    priority: Whole | None = Field(default=None, ge=1, le=1_000_000)
    """Weight in the rate limiter: 2 gets half the chances of 1; turns it on. Default: none."""


class QueuePolicy(BaseModel):
    """What becomes of requests that wait."""

    model_config = CONFIG
    timeout_action: Literal["REJECT", "DELAY"] = "REJECT"
    """At the timeout: refuse, or let all others go first. Default REJECT."""
    default_timeout: Duration | None = None
    """Longest wait in Triton's queue. Default: none, the front door's request timeout ends it."""
    allow_timeout_override: YesNo = False
    """Whether a request may ask for a shorter one. Default no."""
    max_queue_size: Whole = Field(default=0, ge=0, le=10_000_000)
    """Most waiting requests, above it they are refused; 0 for no limit. Default 0: the front door bounds
    it."""


class DynamicBatching(BaseModel):
    """Requests of independent callers in one batch."""

    model_config = CONFIG
    preferred_batch_size: tuple[Batch, ...] | None = None
    """Sizes that are sent at once; a batch of another size waits for the delay. Default: a quarter, a half
    and all of max_batch_size, itself the largest that keeps the SLO."""
    max_queue_delay: Duration | None = None
    """Longest wait for company. Default: what the latency objective leaves, at most the time of a batch."""
    preserve_ordering: YesNo = False
    """Whether answers leave in the order of the requests. Default no."""
    priority_levels: Whole = Field(default=0, ge=0, le=MAX_LEVELS)
    """Number of priorities, 1 is the highest; 0 for none. Default 0."""
    default_priority_level: Whole = Field(default=0, ge=0, le=MAX_LEVELS)
    """Priority of requests that name none; needed with priorities."""
    default_queue_policy: QueuePolicy | None = None
    """Policy of the queue. Default: Triton's, no timeout and no bound."""
    priority_queue_policy: Annotated[Mapping[Level, QueuePolicy], Frozen] = Field(
        default_factory=dict[str, QueuePolicy]
    )
    """Policies of single priorities. Default: the queue's."""


class SequenceControl(BaseModel):
    """An input by which Triton tells a stateful model where a sequence stands."""

    model_config = CONFIG
    name: str = Field(min_length=1)
    """Name of the input."""
    kind: Literal["START", "READY", "END", "CORRID"]
    """What it says."""
    data_type: Literal["int32", "fp32", "bool", "uint64", "int64", "uint32", "string"] = "int32"
    """Type of the input; int32, fp32 or bool for START, READY and END, the others and int32 for CORRID.
    Default int32."""


class SequenceState(BaseModel):
    """State that Triton keeps between the requests of a sequence."""

    model_config = CONFIG
    input_name: str = Field(min_length=1)
    """Input that gets the state."""
    output_name: str = Field(min_length=1)
    """Output that becomes the next state."""
    data_type: DataType
    """Type of its elements."""
    dims: tuple[Dim, ...] = Field(min_length=1)
    """Its shape."""


class SequenceBatching(BaseModel):
    """Requests that belong together, for stateful models; instead of dynamic batching."""

    model_config = CONFIG
    strategy: Literal["direct", "oldest"] = "direct"
    """`direct` keeps a sequence in one slot of one instance; `oldest` batches the oldest of many. Default
    direct."""
    max_sequence_idle: Duration | None = None
    """Idle time after which a sequence is dropped. Default: Triton's, 1 s."""
    control_input: tuple[SequenceControl, ...] = ()
    """Control inputs. Default: none."""
    state: tuple[SequenceState, ...] = ()
    """State that Triton keeps. Default: none, the model keeps its own."""
    max_candidate_sequences: Whole | None = Field(default=None, ge=1, le=1_000_000)
    """Most sequences at once, for `oldest`. Default: twice max_batch_size."""
    preferred_batch_size: tuple[Batch, ...] = ()
    """Sizes that are sent at once, for `oldest`. Default: none."""
    max_queue_delay: Duration | None = None
    """Longest wait for company. Default: none."""
    minimum_slot_utilization: Number | None = Field(default=None, gt=0, le=1)
    """Share of slots that must be filled before the delay ends, for `direct`. Default: none."""


class EnsembleStep(BaseModel):
    """One model of an ensemble, and how its tensors are called in it."""

    model_config = CONFIG
    model_name: str = Field(min_length=1)
    """A model of the same repository."""
    model_version: Whole = Field(default=-1, ge=-1, le=MAX_VERSION)
    """Its version; -1 for the newest. Default -1."""
    input_map: Annotated[Mapping[str, str], Frozen] = Field(min_length=1)
    """The ensemble's tensor by the model's input."""
    output_map: Annotated[Mapping[str, str], Frozen] = Field(min_length=1)
    """The ensemble's tensor by the model's output."""


class ModelWarmUp(BaseModel):
    """Requests that Triton sends itself while it loads a model; the model is ready after them."""

    model_config = CONFIG
    batch_size: Whole = Field(default=1, ge=1, le=MAX_BATCH)
    """Size of the batch. Default 1."""
    count: Whole = Field(default=1, ge=1, le=1024)
    """How often. Default 1."""
    dims: Annotated[Mapping[str, tuple[Dim, ...]], Frozen] = Field(default_factory=dict[str, tuple[int, ...]])
    """Shape by input, where the model's own varies. Default: 1 for each size that varies."""
    data: Literal["zero", "random"] = "zero"
    """What is in it; strings are always empty. Default zero."""
