"""Settings that every engine has which batches token by token. They carry vLLM's names, so that a stack
changes engine by changing `kind`; an engine's own module adds what differs.

Trap: a field left out means "the planner decides", so a default here would silently pin a decision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from servingstack.engines.extra import Extras
from servingstack.engines.limits import TokenLimits
from servingstack.fields import Frozen, Number, Whole, YesNo

_IMAGE = re.compile(r"[a-z0-9][a-z0-9./:_-]*@sha256:[0-9a-f]{64}")


class TokenSettings(BaseModel):
    """Settings of an engine that batches token by token. Every one left out is decided by the planner."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)
    extras: ClassVar[Extras]
    limits: ClassVar[TokenLimits]
    api_key_variable: ClassVar[str | None] = None
    """Where the server reads the key that it asks of clients; None where only a flag, in clear, would do."""

    tensor_parallel_size: Whole | None = Field(default=None, ge=1, le=1024)
    """GPUs over which each layer is split (SGLang's `--tp-size`). Default: the cheapest split that fits and
    keeps the SLO."""
    pipeline_parallel_size: Whole | None = Field(default=None, ge=1, le=1024)
    """Groups of GPUs over which the layers are spread (SGLang's `--pp-size`). Default 1 unless the model
    fits no other way."""
    gpu_memory_utilization: Number | None = Field(default=None, gt=0.1, le=0.98)
    """Share of a GPU's memory that the engine takes in all, activations and CUDA graphs included (SGLang's
    smaller `--mem-fraction-static` is computed from it). Default 0.90."""
    max_num_seqs: Whole | None = Field(default=None, ge=1, le=100_000)
    """Most sequences in a batch (SGLang's `--max-running-requests`). Default: the largest batch that keeps
    the SLO."""
    max_num_batched_tokens: Whole | None = Field(default=None, ge=1, le=10_000_000)
    """Most tokens in a step (SGLang's `--chunked-prefill-size`, of prompts). Default: vLLM's own for such a
    GPU, or fewer where their activations would take too much memory; at least `max_num_seqs`."""
    enable_prefix_caching: YesNo = True
    """Whether equal beginnings of prompts are computed once (SGLang's radix cache). Default yes."""
    enable_chunked_prefill: YesNo = True
    """Whether long prompts are cut so that others keep decoding. Default yes."""
    max_loras: Whole | None = Field(default=None, ge=1, le=256)
    """Most adapters of `model.adapters` in one batch; the others wait in the host's memory (SGLang's
    `--max-loras-per-batch`, which counts the model itself as one more). Default: all of them."""
    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] | None = None
    """Type of the activations, to which weights that are not quantised are cast. Default: bfloat16, or half
    on GPUs without it."""
    load_format: Literal["auto", "safetensors", "runai_streamer", "fastsafetensors"] | None = None
    """How weights are read. Default `auto`."""
    trust_remote_code: YesNo = False
    """Whether code from the model's repository may run; needs `model.revision`. Default no."""
    image: str | None = None
    """Own image, by digest; a tag before the digest tells the release:
    `registry/engine:v0.30.0@sha256:...`. Default: the pinned release's image."""
    extra_args: tuple[str, ...] = ()
    """More flags of the server, one element each: `["--enable-auto-tool-choice",
    "--tool-call-parser=hermes"]`. Flags with a field of their own are refused. Default: none."""
    extra_env: Annotated[Mapping[str, str], Frozen] = Field(default_factory=dict[str, str])
    """More environment variables; no secrets. Default: none."""

    @field_validator("extra_args", mode="before")
    @classmethod
    def _arguments_are_a_list(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("a list with one argument per element | Write a list instead of one string.")
        return value

    @field_validator("image")
    @classmethod
    def _image_has_a_digest(cls, value: str | None) -> str | None:
        if value is not None and not _IMAGE.fullmatch(value):
            raise ValueError(
                f"an image by digest, `name:v{cls.extras.version}@sha256:<64 hex digits>` | "
                "Pin the digest: a tag such as `latest` moves."
            )
        return value

    @field_validator("extra_args")
    @classmethod
    def _arguments_are_free(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := cls.extras.arguments(value):
            release = f"{cls.extras.name} {cls.extras.version}"
            raise ValueError(f"flags of {release} that no field covers | {'; '.join(wrong)}")
        return value

    @field_validator("extra_env")
    @classmethod
    def _variables_are_free(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        if wrong := cls.extras.variables(value):
            raise ValueError(f"variables that neither the plan nor a secret holds | {'; '.join(wrong)}")
        return value

    def released(self) -> tuple[str, str | None]:
        """Image reference and its release; None for an own image whose tag names no release."""
        if self.image is None:
            return self.limits.image.reference, self.limits.image.version
        return self.image, self.limits.version_of(self.image)
