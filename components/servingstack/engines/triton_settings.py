"""Triton's settings: the models of a repository, and the server that loads them.

Trap: what is left out is decided by the planner and printed; what is given is written as it stands and
checked against Triton's own rules (`triton_rules`), all of them at once, before anything is created.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator

from servingstack.fields import Frozen, Whole, YesNo
from servingstack.units import Duration, Size

from .triton_tensors import (
    CONFIG,
    MAX_BATCH,
    MAX_VERSION,
    DynamicBatching,
    EnsembleStep,
    InstanceGroup,
    ModelWarmUp,
    SequenceBatching,
    TritonInput,
    TritonOutput,
)

Backend = Literal["python", "onnxruntime", "tensorrt", "pytorch", "vllm", "tensorrtllm"]
MAX_BYTES = 10**15
Resources = Annotated[Whole, Field(ge=1, le=1_000_000)]
_IMAGE = re.compile(r"[a-z0-9][a-z0-9./:_-]*@sha256:[0-9a-f]{64}")
_VERSIONED = re.compile(r"[1-9][0-9]*/[A-Za-z0-9._-]+")

DEFAULT_EDGES_MS = (100.0, 500.0, 2000.0, 5000.0)
"""Edges of the latency histogram where a configuration names none (core 73aad7c3,
metric_model_reporter.h:66)."""


class TritonModel(BaseModel):
    """One model of the repository."""

    model_config = CONFIG
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")
    """Its name, which is its directory's."""
    backend: Backend | None = None
    """What runs it. Required but for an ensemble."""
    version: Whole = Field(default=1, ge=1, le=MAX_VERSION)
    """Directory of the version that is served. Default 1."""
    input: tuple[TritonInput, ...] = ()
    """Inputs."""
    output: tuple[TritonOutput, ...] = ()
    """Outputs."""
    max_batch_size: Whole | None = Field(default=None, ge=0, le=MAX_BATCH)
    """Largest batch; 0 for a model without a batch dimension. Default: the largest that keeps the SLO and
    fits the GPU."""
    instance_group: tuple[InstanceGroup, ...] | None = Field(default=None, min_length=1)
    """Copies. Default: one on every GPU of the replica."""
    dynamic_batching: DynamicBatching | Literal[False] = DynamicBatching.model_construct()
    """Batching of independent requests; `false` for none. Default on, where there is a batch dimension."""
    sequence_batching: SequenceBatching | None = None
    """Batching of stateful sequences, instead of dynamic batching. Default: none."""
    ensemble: tuple[EnsembleStep, ...] = ()
    """Steps, for a model that is a chain of others. Default: none."""
    model_warmup: tuple[ModelWarmUp, ...] = ()
    """Requests that Triton sends while it loads the model. Default: none, the replica's own warm-up does
    it."""
    response_cache: YesNo = False
    """Whether equal requests are answered from a cache. Default no."""
    decoupled: YesNo = False
    """Whether one request may have several answers, or none. Default no; yes for vllm and tensorrtllm."""
    latency_edges: tuple[Duration, ...] | None = Field(default=None, min_length=1)
    """Edges of its latency histogram. Default: 1, 2 and 5 times each power of ten up to the request timeout,
    and the objectives' own."""
    parameters: Annotated[Mapping[str, str], Frozen] = Field(default_factory=dict[str, str])
    """Parameters of the backend or of the model's own code. Default: none."""
    default_model_filename: str | None = None
    """File in the version's directory, where it is not the backend's default. Default: that."""
    cc_model_filenames: Annotated[Mapping[str, str], Frozen] = Field(default_factory=dict[str, str])
    """TensorRT engine by compute capability (`"8.9": l4.plan`). Default: none."""
    optimization: Annotated[Mapping[str, Any], Frozen] = Field(default_factory=dict[str, Any])
    """`ModelOptimizationPolicy`, by its own field names. Default: none."""
    files: Annotated[Mapping[str, str], Frozen] = Field(default_factory=dict[str, str])
    """Small files of the model by path below its directory (`1/model.py`), for `model.source: files`.
    Default: none."""
    weight_bytes: Size | None = Field(default=None, ge=0, le=MAX_BYTES)
    """GPU memory of one copy. Default: the stack's model for the one that is called, else 0."""

    @property
    def largest_preferred(self) -> int:
        """The largest size that is asked for; 0 for none."""
        dynamic, sequence = self.dynamic_batching, self.sequence_batching
        sizes = (
            () if dynamic is False or dynamic.preferred_batch_size is None else dynamic.preferred_batch_size
        )
        return max((*sizes, *(() if sequence is None else sequence.preferred_batch_size)), default=0)

    @field_validator("files")
    @classmethod
    def _files_lie_in_a_version(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        if wrong := [path for path in value if not _VERSIONED.fullmatch(path)]:
            raise ValueError(
                "paths such as 1/model.py, the version before the file | "
                f"Move {', '.join(wrong)}; config.pbtxt is rendered from the fields."
            )
        return value


class TritonSettings(BaseModel):
    """Settings of Triton. Every one left out is decided by the planner."""

    model_config = CONFIG
    kind: Literal["triton"]
    models: tuple[TritonModel, ...] = ()
    """The models of the repository. Requests are planned for the one named as `model.id`'s last part, else
    for the first ensemble, else for the first. Default: one of that name, with a config.pbtxt of its own in
    the repository, which then decides."""
    image: str | None = None
    """Own image, by digest: `nvcr.io/nvidia/tritonserver:26.08-py3@sha256:...`. Backends vllm and tensorrtllm
    are in images of their own. Default: the pinned release's."""
    grpc: YesNo = False
    """Whether gRPC listens on 8001 inside the replica. Callers pass the front door, which speaks HTTP.
    Default no."""
    response_cache_size: Size | None = Field(default=None, gt=0, le=MAX_BYTES)
    """Host memory of the response cache. Default: 256 MiB where a model uses it."""
    rate_limit_resources: Annotated[Mapping[str, Resources], Frozen] = Field(default_factory=dict[str, int])
    """How many there are of each resource of the rate limiter. Default: the most that any instance asks."""
    shared_memory_per_instance: Size | None = Field(default=None, gt=0, le=MAX_BYTES)
    """Of each copy of a python model in /dev/shm; grows with the requests. Default 64 MiB, doubled for
    growth."""
    backend_config: Annotated[Mapping[str, Mapping[str, str]], Frozen] = Field(
        default_factory=dict[str, Mapping[str, str]]
    )
    """Settings by backend: `{tensorrt: {version-compatible: "true"}}`. Default: none."""
    storage_secret: str | None = Field(default=None, min_length=1)
    """Existing secret for a private bucket, with the keys that its cloud's variables are called by. Default:
    none; the bucket must be readable without."""
    storage_region: str | None = Field(default=None, pattern=r"^[a-z0-9-]+$")
    """AWS region of an s3:// repository. Default: Triton's own search."""
    extra_args: tuple[str, ...] = ()
    """More flags of `tritonserver`, one element each. Flags with a field of their own are refused. Default:
    none."""
    extra_env: Annotated[Mapping[str, str], Frozen] = Field(default_factory=dict[str, str])
    """More environment variables; no secrets. Default: none."""

    @field_validator("image")
    @classmethod
    def _image_has_a_digest(cls, value: str | None) -> str | None:
        if value is not None and not _IMAGE.fullmatch(value):
            raise ValueError(
                "an image by digest, `name:26.08-py3@sha256:<64 hex digits>` | Pin the digest: a tag moves."
            )
        return value

    @property
    def has_python(self) -> bool:
        """Whether a model runs in Python processes of its own."""
        return any(model.backend in PYTHON_BACKENDS for model in self.models)

    def called(self, model_id: str) -> TritonModel:
        """The model that requests are planned for."""
        last = model_id.rpartition("/")[2]
        named = next((model for model in self.models if model.name in (model_id, last)), None)
        chain = next((model for model in self.models if model.ensemble), None)
        return named or chain or self.models[0]

    def served(self) -> tuple[str, ...]:
        """Models that clients call: all but the steps of ensembles."""
        steps = {step.model_name for model in self.models for step in model.ensemble}
        return tuple(model.name for model in self.models if model.name not in steps)


PYTHON_BACKENDS = ("python", "vllm")
"""Backends whose instances are Python processes with shared memory (the vllm backend is a Python-based
one)."""
