"""The catalog's row types.

Trap: GPU memory is what the driver reports (`nvidia-smi`), not the number in the product's name: an "80 GB"
H100 has 81559 MiB = 85.5e9 bytes, a "24 GB" L4 only 23034 MiB, a "192 GB" B200 only 183359 MiB. Sizing from
the name is wrong in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

MIB = 1024 * 1024
GIB = 1024 * MIB

Cloud: TypeAlias = Literal["aws", "gcp", "azure", "modal", "replicate"]
"""Whose machines they are. `modal` and `replicate` rent containers alone, and are never chosen unasked."""
Form: TypeAlias = Literal["sxm", "pcie", "nvl"]
Interconnect: TypeAlias = Literal["nvlink", "pcie"]
Service: TypeAlias = Literal["vm", "sagemaker-hosting", "cloud-run", "container-apps", "modal", "replicate"]
Task: TypeAlias = Literal["generate", "embed", "classify"]
Precision: TypeAlias = Literal[
    "fp32", "bf16", "fp16", "fp8", "int8", "awq", "gptq", "w4a16", "mxfp4", "nvfp4", "bnb4"
]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU in one form. `id` names the product, `form` the board: an A100-80GB in SXM form has other
    bandwidth, link and power than the PCIe card, so a row is (id, form)."""

    id: str
    """Lower-case id, such as `a100-80gb`."""
    form: Form
    name: str
    """The name that `nvidia-smi` and the device plugin's `nvidia.com/gpu.product` label derive from."""
    memory_bytes: int
    """Total memory as the driver reports it."""
    cuda_bytes: int
    """What CUDA reports as the device's total, and so what an engine's memory fraction is a fraction of:
    up to 3 % less than `memory_bytes`."""
    memory_measured: bool
    """False where `memory_bytes` or `cuda_bytes` is an estimate; `memory_source` says which."""
    bandwidth_bytes_per_s: float
    """Peak memory bandwidth."""
    tflops_16bit: float
    """Dense peak of bf16, or of fp16 where there is no bf16."""
    tflops_fp8: float | None
    """Dense peak of fp8; None where the tensor cores have none."""
    tflops_fp4: float | None
    """Dense peak of fp4; None where the tensor cores have none."""
    interconnect: Interconnect
    """The way to the other GPUs of the same node."""
    link_bytes_per_s: float
    """Peak one-way bandwidth per GPU to the others of its node."""
    compute_capability: tuple[int, int]
    tdp_watts: int
    source: str
    """Where the figures come from."""
    memory_source: str
    """Where `memory_bytes` was read."""
    date: str
    """When the row was compiled, ISO."""
    note: str
    part: str = ""
    """Which part of the GPU this is, such as the slice `1g.10gb`; empty for the whole."""

    @property
    def device(self) -> str:
        """Id, and which part of it: `a100-80gb 1g.10gb`."""
        return f"{self.id} {self.part}" if self.part else self.id

    @property
    def supports_bf16(self) -> bool:
        """bf16 arithmetic: compute capability 8.0 (Ampere) or newer."""
        return self.compute_capability >= (8, 0)

    @property
    def memory_gib(self) -> float:
        """Total memory in GiB."""
        return self.memory_bytes / GIB


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One machine type of one cloud. Prices are kept apart, since they differ by region and date."""

    cloud: Cloud
    service: Service
    name: str
    """The cloud's own spelling. On GCP a machine with an attached accelerator is `n1-standard-4+1xT4`."""
    gpu_id: str
    gpu_form: Form
    gpu_count: int
    vcpus: int
    memory_gib: float
    local_disk_gib: int | None
    """Local (instance) disk; None where it was not looked up, 0 where there is none."""
    interconnect: Interconnect
    """The way between the GPUs of this machine, which can be slower than the board allows."""
    source: str
    date: str

    @property
    def machine_type(self) -> str:
        """The name the cloud's API takes, without the attached accelerator."""
        return self.name.split("+", 1)[0]


@dataclass(frozen=True, slots=True)
class Price:
    """What one instance costs in one region, in US dollars an hour."""

    cloud: Cloud
    instance_type: str
    region: str
    usd_per_hour: float
    """On demand, Linux, for the whole instance."""
    spot_usd_per_hour: float | None
    """An indication of the day it was read, not a fact to budget with; None where unknown."""
    spot_basis: str | None
    """Where the spot price comes from; begins with `ESTIMATE` where it was derived, not read."""
    date: str
    source: str
    estimate: bool
    """True where the on-demand price itself was derived."""
    note: str


@dataclass(frozen=True, slots=True)
class ReferencePrice:
    """What one GPU costs an hour where it is cheapest on demand: a yardstick for a cluster whose real costs
    are not given. It carries its share of the machine's CPU and memory."""

    gpu_id: str
    usd_per_gpu_hour: float
    cloud: Cloud
    instance_type: str
    region: str
    date: str
    source: str

    @property
    def label(self) -> str:
        """One line that says what this price is."""
        return f"reference: {self.cloud} {self.instance_type} in {self.region}, on demand, {self.date}"


@dataclass(frozen=True, slots=True)
class Model:
    """What must be known of a model to size it. Counts are of the text model unless `note` says otherwise."""

    id: str
    """The repository as the catalog spells it."""
    base_id: str
    """The catalog row the architecture comes from; equals `id` unless `id` is an alias."""
    architecture: str
    """Hugging Face class, such as `LlamaForCausalLM`."""
    task: Task
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    """Key/value heads. With MLA this says nothing about the cache, see `kv_lora_rank`."""
    head_dim: int
    """Width of one query/key head as the config declares it, never assumed to be hidden / heads."""
    intermediate: int
    """Width of a dense feed-forward layer; 0 where every layer is a mixture of experts and none is given."""
    experts: int
    """Routed experts per layer; 0 for a dense model."""
    experts_per_token: int
    moe_intermediate: int
    shared_experts: int
    moe_layers: int
    """Layers that are mixtures of experts."""
    kv_lora_rank: int
    """MLA: width of the compressed key/value; 0 without MLA."""
    qk_rope_head_dim: int
    """MLA: width of the rotary key that is cached beside the compressed key/value; 0 without MLA."""
    parameters: int
    """All of them, every expert included: this is what must fit in memory."""
    active_parameters: int
    """Those that one token passes through."""
    expert_parameters: int
    """The routed experts' part of `parameters`."""
    vocab: int
    tie_embeddings: bool
    max_context: int
    """`max_position_embeddings`: the longest context the checkpoint declares."""
    sliding_window: int | None
    """Tokens a windowed layer looks back; None where there is no such layer."""
    sliding_layers: int
    """Layers with that window."""
    precision: Precision
    """Of the checkpoint."""
    group_size: int | None
    """Quantisation group or block: a tensor-parallel shard must be a multiple of it. None where there is
    none."""
    gated: bool
    """True where the download needs an access token."""
    reliable: bool
    """False where the plain formulas do not hold; then the model cannot be sized from this row."""
    unreliable_reason: str
    assumptions: tuple[str, ...]
    """What was assumed in reading the config, one sentence each."""
    source: str
    date: str
    note: str

    @property
    def mla(self) -> bool:
        """Multi-head latent attention: the cache is one latent per layer, held whole by every
        tensor-parallel rank."""
        return self.kv_lora_rank > 0

    @property
    def embedding_parameters(self) -> int:
        """The input embedding, plus the output matrix where that is not the same."""
        return self.vocab * self.hidden * (1 if self.tie_embeddings or self.task != "generate" else 2)

    @property
    def matmul_parameters(self) -> int:
        """Parameters a token is multiplied with: the active ones without the looked-up input embedding."""
        looked_up = 0 if self.tie_embeddings and self.task == "generate" else self.vocab * self.hidden
        return self.active_parameters - looked_up
