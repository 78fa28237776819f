"""The plan: every decision, as one frozen value that renders to JSON, is locked, reviewed and compared.

The planner makes it, the shell only reads it. Units are in the names: `_s`, `_ms`, `_bytes`, `_usd`. vLLM's
own names are used for its settings.

Trap: a locked plan is rendered as it stands by a later release, so a field is only ever added, and with a
default that reproduces the old rendering.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from servingstack.overflow import Overflow
from servingstack.targets.aws.sagemaker.section import SageMakerSection
from servingstack.targets.azure.container_apps.section import ContainerAppsSection
from servingstack.targets.capabilities import TimeoutKind
from servingstack.targets.gcp.cloud_run.section import CloudRunSection
from servingstack.targets.modal.section import ModalSection
from servingstack.targets.replicate.section import ReplicateSection
from servingstack.watched import Monitoring

SCHEMA_VERSION = 1

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Estimate(BaseModel):
    """A number with its band and its source; no estimate stands without them."""

    model_config = _CONFIG
    value: float
    low: float
    """Lower end of the error band."""
    high: float
    """Upper end of the error band."""
    source: str
    """What it comes from: the model's name, or a measured point."""


# ---- container: what the engine says about itself, read by every target ----


class Flag(BaseModel):
    """One setting of the engine. An option's data says how it is delivered: as an argument, as an environment
    variable."""

    model_config = _CONFIG
    name: str
    """The engine's own name, with hyphens and no leading ones: `max-model-len`."""
    value: str | None = None
    """None for a switch, or where `values` has several."""
    values: tuple[str, ...] = ()
    """Of a flag that takes several, each an argument of its own after the flag."""


class EnvVar(BaseModel):
    """One environment variable: a literal, or a reference to a secret that exists."""

    model_config = _CONFIG
    name: str
    value: str | None = None
    secret_name: str | None = None
    secret_key: str | None = None


class WarmUp(BaseModel):
    """Requests that are sent before a replica takes traffic; counted nowhere."""

    model_config = _CONFIG
    path: str
    body: dict[str, Any]
    requests: int
    timeout_s: float


class SecretFile(BaseModel):
    """A key of a secret that exists, as a file in the container."""

    model_config = _CONFIG
    path: str
    secret_name: str
    secret_key: str


class Download(BaseModel):
    """A repository of the hub that must be in the container before the engine starts."""

    model_config = _CONFIG
    repository: str
    revision: str | None
    """None for its main branch."""
    path: str
    """Directory that will hold it, below the cache."""


class Container(BaseModel):
    """The engine's container, without any cloud's words."""

    model_config = _CONFIG
    image: str
    """By digest: `name@sha256:...`."""
    command: tuple[str, ...]
    """Exec form, up to where the flags begin."""
    flags: tuple[Flag, ...]
    env: tuple[EnvVar, ...]
    port: int
    metrics_path: str
    health_path: str
    """Answers 200 once the engine can serve."""
    cache_path: str
    """Directory for weights and compiled kernels; must be writable and large."""
    model_path: str | None = None
    """Where a volume with the weights is mounted, when they do not come from the hub."""
    writable_paths: tuple[str, ...] = ()
    """Other directories that must be writable."""
    user_id: int = 1000
    """Unprivileged user that the image can run as."""
    warm_up: WarmUp
    public_paths: tuple[str, ...]
    """Paths that clients may call; all others stay closed."""
    protocol: Literal["openai", "triton", "torchserve", "replicate"] = "openai"
    """What clients speak: OpenAI's API, Triton's `/v2` (KServe v2), TorchServe's `/predictions`,
    Replicate's predictions."""
    metrics_port: int | None = None
    """Where metrics are served; None for `port`."""
    grpc_port: int | None = None
    """Where the engine listens for gRPC; None for nowhere."""
    files: dict[str, str] = Field(default_factory=dict[str, str])
    """Texts that the container finds at absolute paths: configuration, small scripts."""
    repository_files: dict[str, str] = Field(default_factory=dict[str, str])
    """Texts that the store of models must hold below its root, since the stack cannot write there."""
    volume_mounts: dict[str, str] = Field(default_factory=dict[str, str])
    """Path in the container by path within the weights' volume, instead of the whole at `model_path`."""
    secret_files: tuple[SecretFile, ...] = ()
    """Credentials that a client library reads from a file."""
    downloads: tuple[Download, ...] = ()
    """What is fetched first, by whoever starts the container: the engine cannot name a revision for it."""


# ---- decisions ----


class MemoryBar(BaseModel):
    """How one GPU's memory is filled, bytes."""

    model_config = _CONFIG
    total: int
    """What the driver reports."""
    weights: int
    kv_cache: int
    overhead: int
    """Activations, CUDA graphs, communication buffers, CUDA context."""
    reserved: int
    """Left outside gpu_memory_utilization."""
    adapters: int = 0
    """Room for LoRA adapters."""


class GpuPart(BaseModel):
    """What a replica takes instead of whole GPUs."""

    model_config = _CONFIG
    kind: Literal["mig", "turn"]
    """A slice that it has alone, or a turn on a GPU that others share without isolation."""
    name: str
    """`1g.10gb`; of a turn its share of the memory, `35%`."""
    price_share: float
    """Of a whole GPU's price."""
    memory_share: float
    """Of a whole GPU's memory, which a turn keeps to; 1 for a slice, which is a device of its own."""
    turns: int
    """Pods that may be on the GPU at once; 1 for a slice."""
    group: str | None = None
    """Stacks that share the GPU; None for a slice, or a turn among anybody's."""


class Adapter(BaseModel):
    """A LoRA adapter that clients can name as the model."""

    model_config = _CONFIG
    name: str
    path: str
    """Directory in the container."""
    rank: int


class Architecture(BaseModel):
    """What runs, on what."""

    model_config = _CONFIG
    option: str
    cloud: str | None
    region: str | None
    model: str
    """Model id, as clients name it."""
    task: str
    engine: str
    engine_version: str | None
    """None for an own image whose tag names no release."""
    accelerator: str
    """GPU id of the catalog."""
    accelerator_form: str
    instance_type: str | None
    """None on a cluster whose nodes are not known by type."""
    gpus_per_replica: int
    gpus_per_node: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    precision: str
    """Precision of the weights as served."""
    quantization: str | None = None
    """The engine's name for it, when the engine must be told."""
    dtype: str
    """Precision of activations: `bfloat16` or `half`."""
    kv_cache_dtype: str
    max_model_len: int
    gpu_memory_utilization: float
    kv_cache_tokens: int
    """Tokens of all sequences together that one replica can hold."""
    weight_bytes: int
    memory_per_gpu: MemoryBar
    cpu_request: float
    """Cores per replica."""
    memory_request_bytes: int
    memory_limit_bytes: int
    shared_memory_bytes: int
    disk_bytes: int
    """Scratch and weights on the node's disk, per replica."""
    why: str
    """The decision in a sentence."""
    gpu_part: GpuPart | None = None
    """None for whole GPUs."""
    adapters: tuple[Adapter, ...] = ()
    max_loras: int = 0
    """Adapters that can be in one batch."""
    max_lora_rank: int = 0
    """Rank that room is set aside for."""
    image_family: str = "upstream"
    """Whose build of the engine's image: the engine's own, or the vendor's."""
    weights_directory: str | None = None
    """Directory in the container that holds the weights; None where the engine fetches them."""


class CurvePoint(BaseModel):
    """One batch size of the latency-throughput curve of a replica."""

    model_config = _CONFIG
    batch_size: int
    ttft_ms: float
    """Of a prompt that arrives while this many sequences decode, without waiting in the queue."""
    tpot_ms: float
    output_tokens_per_s: float
    requests_per_s: float
    within_slo: bool


class Batching(BaseModel):
    """How requests share a GPU. Never one at a time."""

    model_config = _CONFIG
    kind: Literal["continuous", "dynamic"]
    max_num_seqs: int
    """Most sequences in a batch: the largest that keeps the SLO and fits the KV cache."""
    max_num_batched_tokens: int
    prefix_caching: bool
    chunked_prefill: bool
    curve: tuple[CurvePoint, ...]
    limited_by: str
    """What stops the batch from growing: an objective, the KV cache, the engine's own limit."""
    queue_delay_ms: float = 0.0
    """How long a request waits for company; 0 with continuous batching."""


class ColdStart(BaseModel):
    """How long a replica takes from nothing to ready, seconds, part by part."""

    model_config = _CONFIG
    node_s: float
    image_s: float
    weights_s: float
    engine_s: float
    """Framework start, compilation, CUDA graphs, warm-up."""
    total_s: float


class Scaling(BaseModel):
    """How many replicas, and when that changes."""

    model_config = _CONFIG
    autoscaled: bool
    """False when min and max are equal; then the workload owns its replica count."""
    min_replicas: int
    max_replicas: int
    mean_replicas: int
    """What the mean traffic needs."""
    peak_replicas: int
    """What the peak needs."""
    warm_replicas: int
    """Ready beyond what the mean traffic needs; part of min_replicas."""
    surge_replicas: int
    """More that a rollout may start for a while."""
    placeholder_pods: int
    """Low-priority pods that keep GPU nodes started for the next replicas."""
    metric: str
    """Signal id, always queue depth or the nearest that the option has."""
    threshold: float
    """Requests per replica at which another is added."""
    counts: Literal["waiting", "in_flight", "per_second", "backlog"] = "waiting"
    """Which requests the threshold counts: those that wait, all that are in flight, those that come in a
    second, or those that callers left to be answered into a store and that are not done."""
    threshold_arithmetic: str
    fallback_replicas: int
    """Kept when the metric cannot be read."""
    scale_out_window_s: int
    scale_in_delay_s: int
    """How long the load must be low before a replica goes; 0 where that is not the stack's to say."""
    scale_in_period_s: int
    """At most one step per such period; 0 where all that are spare go at once, or nobody knows."""
    scale_to_zero_after_s: int | None
    hold_s: int | None
    """How long the front door holds a request while a replica starts from zero."""
    cold_start: ColdStart


class Timeouts(BaseModel):
    """Every time limit on the serving path, seconds, and who enforces it."""

    model_config = _CONFIG
    request_s: int
    """Whole unstreamed request; first byte and idle gap of a stream."""
    stream_s: int
    """Whole streamed request."""
    queue_s: int
    """Longest wait in the front door's queue."""
    enforced_by: str
    kind: TimeoutKind = "front-door"
    """How `request_s` is kept."""
    client_s: int | None = None
    """What a client must set itself, where no part of the path ends a request in time; None where one
    does."""
    startup_s: int
    """Until a new replica must be ready; the progress deadline and await timeout are longer."""
    drain_s: int
    """For requests in flight when a replica is asked to stop."""
    grace_s: int
    """Until a stopping replica is killed; above drain_s."""


class Rollout(BaseModel):
    """How a change reaches the replicas. Never all at once."""

    model_config = _CONFIG
    strategy: Literal["rolling", "blue-green", "canary", "revision"]
    """`revision`: the service starts the new version beside the old one and moves to it once it is ready."""
    max_surge: int
    max_unavailable: int
    progress_deadline_s: int


class FrontDoor(BaseModel):
    """The proxy before the replicas: time limits, a bounded queue, an allow-list, the API key, draining."""

    model_config = _CONFIG
    image: str
    replicas: int
    port: int
    stats_port: int
    max_concurrent: int
    """Requests in flight per engine replica before the queue; the engine's batch plus its own queue."""
    max_queue: int
    """Waiting requests; above it the answer is 429."""
    api_key_secret_name: str | None = None
    api_key_secret_key: str | None = None
    max_body_bytes: int = 16 * 1024 * 1024
    """Largest request body: a prompt of a million tokens at 16 bytes each."""
    cluster_domain: str = "cluster.local"
    """The cluster's DNS domain (kubelet `clusterDomain`): the proxy resolves full names only, without search
    list."""
    slots: int
    """Replicas that one proxy can know at once: a rollout's and leaving ones included."""
    max_connections: int
    """Of one proxy: in flight, queued, held, and as many that idle."""
    memory_bytes: int
    """Of one proxy; request and limit."""
    drain_s: int
    """How long a stopping proxy keeps what it has taken."""
    overflow: Overflow | None = None
    """Where it sends what would wait too long; none where it refuses that."""


class Expected(BaseModel):
    """What users of the model will see at the peak, with its uncertainty."""

    model_config = _CONFIG
    ttft_p50_ms: Estimate
    ttft_p95_ms: Estimate
    tpot_p50_ms: Estimate
    tpot_p95_ms: Estimate
    latency_p95_ms: Estimate
    output_tokens_per_s: Estimate
    """Of one replica at the chosen batch."""
    requests_per_s: Estimate
    """Of one replica at the chosen batch."""
    utilisation_at_mean: float
    utilisation_at_peak: float


class Cost(BaseModel):
    """What it costs. `monthly_usd` is 730 hours at the minimum number of replicas, which may be none."""

    model_config = _CONFIG
    hourly_usd: float
    peak_hourly_usd: float
    monthly_usd: float
    warm_monthly_usd: float
    """The part of monthly_usd that pays for warm replicas and placeholder pods."""
    per_gpu_hour_usd: float
    machine_hourly_usd: float | None = None
    """What a machine costs that is paid whole; None where GPUs are paid alone."""
    replicas_per_machine: int = 1
    """Replicas that such a machine holds."""
    per_million_output_tokens_usd: float | None
    """None for a task that writes no tokens."""
    basis: str
    """`on-demand`, `own`, or `reference` for a cluster whose price is not known."""
    price_date: str
    price_source: str
    mean_hourly_usd: float | None = None
    """With what the mean traffic needs, or the minimum where that is more; None in older plans."""
    expected_monthly_usd: float | None = None
    """730 hours of that: what a stack costs that never sleeps."""

    @property
    def expected(self) -> float:
        """A month at the mean traffic, as far as the plan knows it."""
        return self.monthly_usd if self.expected_monthly_usd is None else self.expected_monthly_usd


class Alternative(BaseModel):
    """A plan that was considered, and why it lost."""

    model_config = _CONFIG
    option: str
    accelerator: str
    instance_type: str | None
    gpus_per_replica: int
    tensor_parallel_size: int
    precision: str
    replicas: int | None
    hourly_usd: float | None
    lost_because: str
    gpu_part: str | None = None
    """Profile or share where it is no whole GPU."""


class PlanWarning(BaseModel):
    """Something that will work, but that a reviewer should know."""

    model_config = _CONFIG
    code: str
    """Stable name, `gated-model-without-token`."""
    path: str
    """Field of the input that it is about."""
    message: str
    """What, why, and what to do."""


class Assumption(BaseModel):
    """A value that nobody gave, and where it comes from."""

    model_config = _CONFIG
    path: str
    value: str
    why: str


class Toleration(BaseModel):
    """A taint of the GPU nodes that the pods put up with."""

    model_config = _CONFIG
    key: str
    value: str | None = None
    """None for any value."""
    effect: str | None = None
    """None for every effect."""


class Placement(BaseModel):
    """Where the replicas go, in a cluster's terms."""

    model_config = _CONFIG
    namespace: str
    create_namespace: bool
    node_selector: dict[str, str]
    tolerations: tuple[Toleration, ...] = ()
    """Taints of the nodes beside the GPU resource's own key, which is always tolerated."""
    topology_key: str
    gpu_resource: str = "nvidia.com/gpu"
    gpu_group: str | None = None
    """Label of pods that may share a GPU with each other and with no others; None where none is shared."""
    adapter_claims: dict[str, str] = Field(default_factory=dict[str, str])
    """Directory in the container by existing claim that holds adapters."""
    prepull_images: bool
    weights_storage_class: str | None
    weights_access_mode: str
    weights_volume_bytes: int = 0
    """Size of the volume that keeps weights; 0 without one."""
    weights_claim: str | None = None
    """An existing claim that holds the weights (`pvc://`)."""
    ingress_namespace: str | None
    monitoring_namespace: str
    monitor_labels: dict[str, str]
    prometheus: str
    prometheus_auth: str | None
    grafana: str | None = None
    """Address of Grafana, where it is known."""
    check_requirements: bool = False
    """Whether the kinds that others must have installed are looked up before anything is created."""


class ServingPlan(BaseModel):
    """Every decision about one stack."""

    model_config = _CONFIG
    schema_version: Literal[1] = SCHEMA_VERSION
    """Of this shape; a lock of another one is refused."""
    library_version: str
    args_key: str
    """Hash of the args as written; a lock file is stale when it differs."""
    name: str
    names: dict[str, str]
    """Physical names by role."""
    labels: dict[str, str]
    exposure: Literal["private", "internal", "public"]
    architecture: Architecture
    batching: Batching
    scaling: Scaling
    timeouts: Timeouts
    rollout: Rollout
    container: Container
    front_door: FrontDoor | None
    placement: Placement | None
    """For options on Kubernetes."""
    monitoring: Monitoring
    expected: Expected
    cost: Cost
    alternatives: tuple[Alternative, ...]
    warnings: tuple[PlanWarning, ...]
    assumed: tuple[Assumption, ...]
    overrides: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    sagemaker: SageMakerSection | None = None
    cloud_run: CloudRunSection | None = None
    container_apps: ContainerAppsSection | None = None
    modal: ModalSection | None = None
    replicate: ReplicateSection | None = None
    """Decisions of one option alone; None for every other."""

    def summary(self) -> dict[str, Any]:
        """The few values a reviewer must see move: the component's inputs, so that a preview shows them."""
        architecture, scaling, expected = self.architecture, self.scaling, self.expected
        mean = None if scaling.min_replicas else self.cost.mean_hourly_usd
        return {
            "option": architecture.option,
            "model": architecture.model,
            "engine": _release(architecture),
            "gpu": _device(architecture),
            "instance_type": architecture.instance_type,
            "gpus_per_replica": architecture.gpus_per_replica,
            "tensor_parallel_size": architecture.tensor_parallel_size,
            "precision": architecture.precision,
            **({"adapters": _named(architecture)} if architecture.adapters else {}),
            # A plan that knows nothing of a value has zero there, and a source that says so.
            "max_model_len": architecture.max_model_len or None,
            "max_num_seqs": self.batching.max_num_seqs,
            "min_replicas": scaling.min_replicas,
            "max_replicas": scaling.max_replicas,
            "warm_replicas": scaling.warm_replicas,
            "queue_depth": _rounded(scaling.threshold),
            "request_timeout_s": self.timeouts.request_s,
            **{name: _known(getattr(expected, name)) for name in ("ttft_p95_ms", "tpot_p95_ms")},
            "hourly_usd": _rounded(self.cost.hourly_usd),
            **({} if mean is None else {"mean_hourly_usd": _rounded(mean)}),
        }


def _known(estimate: Estimate) -> Any:
    return None if estimate.source.startswith("none") else _rounded(estimate.value)


def _named(architecture: Architecture) -> str:
    return ", ".join(adapter.name for adapter in architecture.adapters)


def _device(architecture: Architecture) -> str:
    """The GPU, and which part of it: `a100-80gb 1g.10gb`."""
    part = architecture.gpu_part
    return architecture.accelerator if part is None else f"{architecture.accelerator} {part.name}"


def _release(architecture: Architecture) -> str:
    version = architecture.engine_version
    return f"{architecture.engine} {'of an own image' if version is None else version}"


def _rounded(value: float) -> float:
    """Three significant digits: a preview must not change for the fourth."""
    return float(f"{value:.3g}")
