"""The input: what a model server must achieve, said once, the same from YAML, Pulumi config and Python.

Only `name`, `model` and `target` are required. `None` means "decide for me"; what was decided is printed by
the plan under `assumed`. Everything here is plain (no Pulumi inputs): these values decide what exists. What
is only handed on to a resource (a kubeconfig, a token) belongs to the option's `Existing`.

Trap: fields nobody sets must stay unset. The lock file's key is a hash of the args *as written*, so a
validator here never fills a field in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from servingstack.adapter_args import AdapterArgs
from servingstack.engines.batcher import MeasuredBatch
from servingstack.errors import InvalidInput, from_pydantic
from servingstack.fields import (
    MODEL_ID,
    MODEL_SOURCE,
    REVISION,
    STACK_NAME,
    Address,
    AlertLabel,
    DataKey,
    Frozen,
    LabelKey,
    LabelName,
    Number,
    SubdomainName,
    Whole,
    YesNo,
)
from servingstack.hardware_args import (
    MAX_BYTES,
    MAX_REPLICAS,
    HardwareArgs,
    Labels,
    NodeArgs,
    SharingArgs,
    TolerationArgs,
)
from servingstack.later import AutoEngine, EngineArgs, Measured
from servingstack.naming import KUBERNETES_ROLES, standard_labels
from servingstack.overflow import OverflowArgs
from servingstack.plain import problems
from servingstack.targets.aws.sagemaker.settings import SageMakerArgs
from servingstack.targets.azure.container_apps.settings import ContainerAppsArgs
from servingstack.targets.gcp.cloud_run.settings import CloudRunArgs
from servingstack.targets.modal.settings import ModalArgs
from servingstack.targets.replicate.settings import ReplicateArgs
from servingstack.units import Count, Duration, Seconds, Size
from servingstack.wording import known_fields

Precision = Literal["auto", "bf16", "fp16", "fp8", "int8", "awq", "gptq", "mxfp4"]
Option = Literal["auto", "kubernetes", "cloud-run", "sagemaker", "container-apps", "modal", "replicate"]
"""The options that this release can provision. Each has a folder under `targets/`."""

# Bounds of the input: far beyond what is built today, and no sum overflows, no search runs away.
MAX_RATE = 10_000.0
"""Requests per second of one stack; larger services are several stacks behind a load balancer."""
MAX_TOKENS = 10_000_000
"""The longest context of any model of the catalog (Llama 4 Scout, 10M tokens)."""
MAX_PARAMETERS = 1e15
LEAST_RATE = 1e-6
"""One request in eleven days: below, a price per token has no digits left."""
LEAST_AVAILABILITY = 50.0
"""Percent. Below, the value is a fraction that was meant as a percentage."""
DEFAULT_REQUEST_S = 30.0
"""A caller that waits longer has usually given up; `request_timeout` documents it as its default."""
DEFAULT_RPS, PEAK_TO_MEAN = 1.0, 2.0
"""What `traffic` documents of a mean rate and a peak that nobody gave."""
LONGEST_STREAM = timedelta(hours=24)
"""HAProxy's own timers end at 2^31 ms, 24.8 days; a leaving replica waits this long for its streams."""
_OWN_LABELS = standard_labels("", "")

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


class SecretKey(BaseModel):
    """A key of a secret that exists already, where the stack runs. Never the secret itself."""

    model_config = _CONFIG
    name: SubdomainName
    """Name of the existing secret."""
    key: DataKey = "token"
    """Key inside it. Default `token`."""


class ModelArgs(BaseModel):
    """Which model, from where, at which precision."""

    model_config = _CONFIG
    id: str = Field(max_length=200, pattern=MODEL_ID)
    """Model id, as on the Hugging Face hub: `meta-llama/Llama-3.1-70B-Instruct`. In the catalog, or with
    `config`."""
    source: str = Field(default="hf", max_length=1024, pattern=MODEL_SOURCE)
    """Where the model comes from: `hf` (the hub), `pvc://<claim>/<path>` (a volume that has it),
    `azurefile://<share>/<path>` (a share that has it, on Container Apps), `image://<path>` (a folder of
    `engine.image`, on Cloud Run), for Triton a repository `s3://`, `gs://`, `as://<account>/<container>/<path>`,
    or `files` (those in `engine.models`). Default `hf`."""
    revision: str | None = Field(default=None, pattern=REVISION)
    """Commit or tag of the repository. Default: the hub's main branch, which may move."""
    precision: Precision = "auto"
    """Precision of the weights. Default `auto`: what the repository holds, or a lower one the GPU can run if
    only that fits."""
    max_model_len: Whole | None = Field(default=None, ge=1, le=MAX_TOKENS)
    """Longest prompt plus answer, tokens. Default: the smallest power of two that holds the traffic twice
    over, at most the model's own."""
    token_secret: SecretKey | None = None
    """Existing secret with the hub token; a gated model needs one. Default: none."""
    task: Literal["generate", "embed", "classify", "other"] | None = None
    """What the model does. Default: the catalog's row; with `config`, what its class does; else
    `generate`."""
    gated: YesNo | None = None
    """Whether the repository asks for a licence to be accepted. Default: the catalog's row; no for a model
    outside it."""
    config: Annotated[Mapping[str, Any], Frozen] | None = None
    """Keys of the model's Hugging Face config.json, for a model outside the catalog. Default: the catalog's
    row."""
    parameters: Count | None = Field(default=None, ge=1, le=MAX_PARAMETERS)
    """Number of parameters, `8B` or plain. Default: by formula from the architecture."""
    active_parameters: Count | None = Field(default=None, ge=1, le=MAX_PARAMETERS)
    """Parameters used per token, for mixtures of experts. Default: by formula."""
    weight_bytes: Size | None = Field(default=None, gt=0, le=MAX_BYTES)
    """Size of the weights as stored, with a unit (`16GB`). Default: parameters x bytes of the precision."""
    flops_per_request: Count | None = Field(default=None, gt=0, le=1e18)
    """Floating-point operations of one request, for a model that reads no tokens. Default: from parameters
    and `traffic.input_tokens`."""
    batch_times: tuple[MeasuredBatch, ...] = ()
    """Measured times of batches, for an engine that batches whole requests; they win over the planner's own
    model. Default: none."""
    adapters: tuple[AdapterArgs, ...] = Field(default=(), max_length=256)
    """LoRA adapters of a model that generates, served beside it under names of their own. Default: none."""

    @model_validator(mode="after")
    def _adapters_are_told_apart(self) -> Self:
        names = [self.id, *(adapter.name for adapter in self.adapters)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(
                f"adapters under names of their own; {twice} is taken, by another or the model | Rename it."
            )
        moved = next((each for each in self.adapters if each.revision and "://" in each.source), None)
        if moved is not None:
            raise ValueError(
                f"no revision for adapter {moved.name}, which lies on a volume | Remove the revision."
            )
        return self


class SloArgs(BaseModel):
    """What users of the model must see. Percentiles are over 30 days."""

    model_config = _CONFIG
    ttft_p50: Duration | None = None
    """Median time to first token. Default: none asked."""
    ttft_p95: Duration | None = None
    """Time to first token that 95 % of the requests keep. Default: none asked."""
    ttft_p99: Duration | None = None
    """Time to first token that 99 % of the requests keep. Default: none asked."""
    tpot_p50: Duration | None = None
    """Median time per output token after the first. Default: none asked."""
    tpot_p95: Duration | None = None
    """Time per output token that 95 % of the requests keep. Default: none asked."""
    tpot_p99: Duration | None = None
    """Time per output token that 99 % of the requests keep. Default: none asked."""
    latency_p50: Duration | None = None
    """Median time of a whole request. Default: none asked."""
    latency_p95: Duration | None = None
    """Time of a whole request that 95 % of the requests keep. Default: none asked."""
    latency_p99: Duration | None = None
    """Time of a whole request that 99 % of the requests keep. Default: none asked."""
    availability: Number = Field(default=99.9, ge=LEAST_AVAILABILITY, lt=100)
    """Share of requests answered without a server error, percent over 30 days, at least 50. Default 99.9."""

    @field_validator("availability", mode="before")
    @classmethod
    def _availability_is_a_percentage(cls, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value  # refused by the field itself
        if not LEAST_AVAILABILITY <= value < 100:
            meant = value * 100  # 0.99 would be a promise of less than one request in a hundred
            fix = f"Did you mean {meant:.10g}?" if LEAST_AVAILABILITY <= meant < 100 else "Correct the value."
            raise ValueError(f"a percentage from 50 to below 100 | {fix}")
        return value

    @model_validator(mode="after")
    def _percentiles_rise(self) -> Self:
        for kind in ("ttft", "tpot", "latency"):
            asked = [(p, getattr(self, f"{kind}_{p}")) for p in ("p50", "p95", "p99")]
            given = [(p, value) for p, value in asked if value is not None]
            for (low, smaller), (high, larger) in pairwise(given):
                if smaller > larger:
                    raise ValueError(
                        f"{kind}_{low} at most {kind}_{high} | Raise {kind}_{high} or lower {kind}_{low}."
                    )
        return self


class TrafficArgs(BaseModel):
    """How much load, of what shape. At most one of the three rates."""

    model_config = _CONFIG
    kind: Literal["online", "batch", "experiment"] = "online"
    """`online` waits for answers; `batch` has a deadline and no latency SLO; `experiment` may be cold.
    Default `online`."""
    requests_per_second: Number | None = Field(default=None, ge=LEAST_RATE, le=MAX_RATE)
    """Mean rate of requests, 1/s. Default 1 if no rate is given."""
    output_tokens_per_second: Number | None = Field(default=None, ge=LEAST_RATE, le=MAX_RATE * 1000)
    """Mean rate of generated tokens, 1/s, instead of requests. Default: none, the rate of requests counts."""
    concurrent_users: Number | None = Field(default=None, ge=LEAST_RATE, le=MAX_RATE * 100)
    """Requests in flight at the mean, instead of a rate. Default: none, the rate of requests counts."""
    peak_requests_per_second: Number | None = Field(default=None, ge=LEAST_RATE, le=MAX_RATE)
    """Highest rate of requests, 1/s. Default: twice the mean."""
    input_tokens: Whole = Field(default=1024, ge=1, le=MAX_TOKENS)
    """Mean length of a prompt, tokens. Default 1024."""
    output_tokens: Whole = Field(default=256, ge=1, le=MAX_TOKENS)
    """Mean length of an answer, tokens. Default 256."""
    shared_prefix_tokens: Whole = Field(default=0, ge=0, le=MAX_TOKENS)
    """Tokens at the start of every prompt that are the same, served from the prefix cache. Default 0."""
    ramp: Duration | None = None
    """How long the traffic takes from the mean to the peak. Default 5m."""
    deadline: Duration | None = None
    """For `batch`: how long a request may wait in all. Default: none."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        rates = ("requests_per_second", "output_tokens_per_second", "concurrent_users")
        given = [name for name in rates if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"one rate of {', '.join(rates)} | Keep one of {', '.join(given)}.")
        mean, peak = self.requests_per_second, self.peak_requests_per_second
        if mean is not None and peak is not None and peak < mean:
            raise ValueError(
                f"peak_requests_per_second of at least {mean:g} | Raise the peak or lower the mean."
            )
        if self.shared_prefix_tokens >= self.input_tokens:
            raise ValueError(
                f"shared_prefix_tokens below input_tokens ({self.input_tokens}) | Lower the prefix."
            )
        if self.deadline is not None and self.kind != "batch":
            raise ValueError("deadline only with kind: batch | Use slo.latency_p95 for online traffic.")
        return self


class KubernetesArgs(BaseModel):
    """A cluster that exists: where in it the stack lives, and what it has."""

    model_config = _CONFIG
    namespace: LabelName = "serving"
    """Namespace of the stack. Default `serving`."""
    create_namespace: YesNo = True
    """Whether the stack creates and owns the namespace, with pod security `restricted`. Default yes."""
    prometheus: Address | None = None
    """Address of the Prometheus that KEDA asks. Default: the operator's own service in
    `monitoring_namespace`."""
    prometheus_auth: SubdomainName | None = None
    """Name of a KEDA TriggerAuthentication in the namespace, for a Prometheus that asks for one. Default:
    none."""
    monitoring_namespace: LabelName = "monitoring"
    """Namespace of Prometheus and Grafana; they may reach the metrics ports. Default `monitoring`."""
    monitor_labels: Labels | None = None
    """Labels that the Prometheus operator selects monitors and rules by. Default: none."""
    check_requirements: YesNo = True
    """Whether a preview fails already where the cluster lacks KEDA's or the Prometheus operator's kinds. It
    reads their CustomResourceDefinitions, which takes the right to do so. Default yes."""
    grafana: Address | None = None
    """Address of your Grafana, for the `dashboard_url` output. Default: none, the output is the path below
    it."""
    weights_storage_class: SubdomainName | None = None
    """Storage class of the volume that keeps weights between starts. Default: none, each pod downloads to its
    own disk."""
    weights_access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = "ReadWriteMany"
    """Access mode of that volume; `ReadWriteOnce` ties all replicas to one node. Default `ReadWriteMany`."""
    ingress_namespace: LabelName | None = None
    """Namespace from which clients come, for the network policy. Default: any namespace of the cluster."""
    topology_key: LabelKey = "topology.kubernetes.io/zone"
    """Node label over which replicas are spread. Default: the zone."""
    prepull_images: YesNo = True
    """Whether a DaemonSet keeps the engine's image on every GPU node. Default yes."""

    @model_validator(mode="after")
    def _others_namespaces_stay_theirs(self) -> Self:
        if self.create_namespace and (self.namespace == "default" or self.namespace.startswith("kube-")):
            raise ValueError(
                "a namespace that is neither `default` nor `kube-...` with create_namespace: true, which"
                " would put pod security `restricted` on it | Use another, or set create_namespace: false."
            )
        return self


class TargetArgs(BaseModel):
    """Where it runs."""

    model_config = _CONFIG
    option: Option = "auto"
    """How it is provisioned. Default `auto`: the cheapest of the cloud's own options that meets the demands,
    else, and without a cloud, `kubernetes`."""
    cloud: Literal["auto", "aws", "gcp", "azure"] | None = None
    """Cloud that it runs on, or that a cluster's nodes are priced by; `auto` for the cheapest of all.
    Default: that of the option; for `kubernetes` none, a reference price is used and labelled so; with
    hardware.instance_type, the clouds that have it."""
    region: str | None = None
    """Region of that cloud, which the catalog must know. Default: the cheapest in the catalog."""
    kubernetes: KubernetesArgs = KubernetesArgs.model_construct()
    """Settings of the `kubernetes` option."""
    sagemaker: SageMakerArgs = SageMakerArgs.model_construct()
    """Settings of the `sagemaker` option. Default: none set."""
    cloud_run: CloudRunArgs = CloudRunArgs.model_construct()
    """Settings of the `cloud-run` option. Default: none set."""
    container_apps: ContainerAppsArgs = ContainerAppsArgs.model_construct()
    """Settings of the `container-apps` option. Default: none set."""
    modal: ModalArgs = ModalArgs.model_construct()
    """Settings of the `modal` option. Default: none set."""
    replicate: ReplicateArgs = ReplicateArgs.model_construct()
    """Settings of the `replicate` option. Default: none set."""
    overflow: OverflowArgs | None = None
    """A serverless endpoint that takes what the replicas of option `kubernetes` cannot take in time. Default:
    none."""


class ScalingArgs(BaseModel):
    """How many replicas, and when that changes. Always by queue depth, never by CPU or memory."""

    model_config = _CONFIG
    min_replicas: Whole | None = Field(default=None, ge=0, le=MAX_REPLICAS)
    """Fewest replicas. Default: what the mean traffic and the warm capacity need, at least 1."""
    max_replicas: Whole | None = Field(default=None, ge=1, le=MAX_REPLICAS)
    """Most replicas. Default: what the peak needs, plus a margin."""
    scale_to_zero_after: Seconds | None = None
    """Idle time after which no replica is kept; goes with `min_replicas: 0`. Default: never."""
    hold: Seconds | None = None
    """How long the front door holds a request while a replica starts from zero. Default: the planned cold
    start."""
    queue_depth: Whole | None = Field(default=None, ge=1, le=10_000)
    """Waiting requests per replica at which another is added. Default: from the SLO's budget for waiting."""
    scale_in_delay: Seconds | None = None
    """How long the load must be low before a replica is taken away, at most 1h. Default: the cold start, at
    least 5m."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        low, high = self.min_replicas, self.max_replicas
        if low is not None and high is not None and low > high:
            raise ValueError(
                f"min_replicas at most max_replicas ({high}) | Lower min_replicas or raise max_replicas."
            )
        if (low == 0) != (self.scale_to_zero_after is not None):
            raise ValueError(
                "min_replicas: 0 and scale_to_zero_after, both or neither | Add the other, or remove it."
            )
        if self.hold is not None and self.scale_to_zero_after is None:
            raise ValueError("hold only with scale_to_zero_after | Add the other, or remove hold.")
        if self.scale_in_delay is not None and self.scale_in_delay.total_seconds() > 3600:
            raise ValueError("scale_in_delay of at most 1h (Kubernetes' own limit) | Shorten it.")
        return self


class RolloutArgs(BaseModel):
    """How a change reaches the replicas."""

    model_config = _CONFIG
    surge: YesNo | None = None
    """Whether a rollout may start one replica more than planned. Default: only at one replica, which must not
    go away."""


class AlertArgs(BaseModel):
    """Who hears of a broken objective."""

    model_config = _CONFIG
    labels: Annotated[Mapping[AlertLabel, str], Frozen] | None = None
    """Labels on every alert, for the routes of your Alertmanager. Default: none."""
    runbook_base_url: Address | None = None
    """Where you serve the files of `docs/runbooks`; every alert then links to `<base>/<page>.md`. Default:
    none, an alert names its page in this library's repository."""


def _false_is_none(value: Any) -> Any:
    """`alerts: false` reads as `dashboards: false` does; a null in a document means "not set"."""
    return None if value is False else value


_FALSE_IS_NONE = BeforeValidator(_false_is_none, json_schema_input_type=AlertArgs | Literal[False] | None)


class ObservabilityArgs(BaseModel):
    """Dashboards and alerts. The objectives are those of `slo`, always recorded for whichever is on."""

    model_config = _CONFIG
    dashboards: YesNo = True
    """Whether a dashboard is provisioned. Default yes."""
    alerts: Annotated[AlertArgs | None, _FALSE_IS_NONE] = AlertArgs.model_construct()
    """Alerts; `false` for none. Default: on; a `null` in a document counts as left out."""


class ServingStackArgs(BaseModel):
    """What a model server must achieve. Only `name`, `model` and `target` are required."""

    model_config = _CONFIG
    name: str = Field(pattern=STACK_NAME)
    """Name of the stack: lower case letters, digits and hyphens, at most 40."""
    model: ModelArgs
    """Which model."""
    target: TargetArgs
    """Where it runs."""
    slo: SloArgs = SloArgs.model_construct()
    """What its users must see. Default: availability alone."""
    traffic: TrafficArgs = TrafficArgs.model_construct()
    """How much load. Default: one request per second of 1024 tokens in and 256 out."""
    hardware: HardwareArgs = HardwareArgs.model_construct()
    """What hardware may be used. Default: any."""
    engine: EngineArgs = AutoEngine.model_construct()
    """The model server and its settings. Default: the planner chooses."""
    measured: Measured = None
    """A benchmark of this model on the planned hardware; it wins over the planner's own estimates. In a file:
    the path of what `servingstack bench`, vLLM, SGLang, AIPerf, GenAI-Perf or perf_analyzer wrote, a list of
    such paths, or `{files: ..., accelerator: ...}`. Default: `bench.<env>.<stack>.json` beside the lock file
    if it is there, else none."""
    colocate: str | None = Field(default=None, pattern=STACK_NAME)
    """Group of stacks of this environment that are packed on the same GPUs, each with the share of memory
    that it needs; on nodes with one GPU that is shared by turns (`hardware.nodes[].sharing`). Their turns are
    not isolated: whoever names a group accepts that beside its latency objectives. Default: none."""
    scaling: ScalingArgs = ScalingArgs.model_construct()
    """How many replicas. Default: from traffic and SLO."""
    warm: Annotated[Whole, Field(ge=0, le=MAX_REPLICAS)] | Literal["auto"] = "auto"
    """Replicas kept ready beyond what the mean traffic needs. Default `auto`: from ramp and cold start."""
    request_timeout: Seconds | None = None
    """Longest time of a whole unstreamed request, and of a stream's first byte and idle gap; at least 1s.
    Default 30s."""
    stream_timeout: Seconds | None = None
    """Longest time of a whole streamed request. Default: ten times the request timeout, at least 10m."""
    exposure: Literal["private", "internal", "public"] = "private"
    """Who can reach it: the cluster, the network, or everyone. Default `private`."""
    api_key_secret: SecretKey | None = None
    """Existing secret with the API key that callers must send. Default: none, the network policy alone guards
    it."""
    rollout: RolloutArgs = RolloutArgs.model_construct()
    """How a change reaches the replicas. Default: one by one."""
    observability: ObservabilityArgs = ObservabilityArgs.model_construct()
    """Dashboards and alerts. Default: both on."""
    labels: Labels | None = None
    """Labels on every resource. Default: none but the product's own."""
    overrides: Annotated[Mapping[str, Mapping[str, Any]], Frozen] | None = None
    """Last resort: properties merged into a child by its role, `{deployment: {metadata: {annotations:
    ...}}}`. Managed fields are refused."""

    @field_validator("name", mode="before")
    @classmethod
    def _name_is_plain(cls, value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError("a plain string; a Pulumi Output decides nothing | Use a plain name.")
        # A Service called vllm makes the kubelet inject VLLM_PORT=tcp://..., which vLLM reads as its own
        # setting.
        if value == "vllm" or value.startswith("vllm-"):
            raise ValueError(
                "a name that does not begin with `vllm`, whose Service would inject VLLM_PORT | Rename it."
            )
        ending = value.rpartition("-")[2] if "-" in value else ""
        if ending in KUBERNETES_ROLES:
            raise ValueError(
                f"a name that does not end in `-{ending}`: a stack `{value.removesuffix(f'-{ending}')}` "
                "beside it would own an object of the same name | Rename it."
            )
        return value

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.traffic.kind == "batch" and (asked := latency_objectives(self.slo)):
            raise ValueError(
                f"no latency objective with traffic.kind: batch | Remove slo.{asked[0]}, or use kind: online."
            )
        tpot = [name for name in latency_objectives(self.slo) if name.startswith("tpot")]
        if tpot and self.traffic.output_tokens == 1:
            raise ValueError(
                f"no slo.{tpot[0]} with traffic.output_tokens: 1, after which no token comes | Remove it."
            )
        if self.stream_timeout is not None and self.stream_timeout > LONGEST_STREAM:
            raise ValueError("stream_timeout of at most 24h | Shorten it.")
        return self

    @classmethod
    def parse(cls, document: Mapping[str, Any] | ServingStackArgs) -> ServingStackArgs:
        """A document as args. Raises `InvalidInput` with every violation, credentials in plain text among
        them."""
        found = {item.path: item for item in problems(document)}
        try:
            args = cls.validated(document)
        except InvalidInput as error:
            raise InvalidInput(({item.path: item for item in error.violations} | found).values()) from None
        if found:
            raise InvalidInput(found.values())
        return args

    @classmethod
    def validated(cls, document: Mapping[str, Any] | ServingStackArgs) -> ServingStackArgs:
        """The same for a document that was searched for credentials already."""
        if isinstance(document, ServingStackArgs):
            return document
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise from_pydantic(error, document, known_fields(cls)) from None

    @field_validator("labels")
    @classmethod
    def _labels_are_not_ours(cls, value: Mapping[str, str] | None) -> Mapping[str, str] | None:
        if value is not None and (taken := [key for key in value if key in _OWN_LABELS]):
            raise ValueError(f"no {', '.join(taken)}, which the stack sets itself | Use a key of your own.")
        return value

    @property
    def request_s(self) -> float:
        """`request_timeout` with its default, seconds."""
        return DEFAULT_REQUEST_S if self.request_timeout is None else self.request_timeout.total_seconds()

    def key(self) -> str:
        """Hash of the args as written: unset fields are left out, so a new default does not change it."""
        written = self.model_dump(mode="json", exclude_unset=True)
        text = json.dumps(written, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def latency_objectives(slo: SloArgs) -> list[str]:
    """The latency objectives that are asked for, by field name."""
    return [
        name for name in SloArgs.model_fields if name != "availability" and getattr(slo, name) is not None
    ]


__all__ = [
    "AdapterArgs",
    "AlertArgs",
    "AutoEngine",
    "HardwareArgs",
    "InvalidInput",
    "KubernetesArgs",
    "MeasuredBatch",
    "ModelArgs",
    "NodeArgs",
    "ObservabilityArgs",
    "RolloutArgs",
    "ScalingArgs",
    "SecretKey",
    "ServingStackArgs",
    "SharingArgs",
    "SloArgs",
    "TargetArgs",
    "TolerationArgs",
    "TrafficArgs",
]
