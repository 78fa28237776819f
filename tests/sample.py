"""A plan made by hand, for tests of what renders plans: it does not move when the planner learns something.

`sample_plan(scaling={"min_replicas": 0}, ...)` changes one part of it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel

from servingstack._version import __version__
from servingstack.args import ServingStackArgs
from servingstack.engines import vllm
from servingstack.naming import kubernetes_names, standard_labels
from servingstack.plan import (
    Architecture,
    Batching,
    ColdStart,
    Cost,
    CurvePoint,
    Estimate,
    Expected,
    FrontDoor,
    MemoryBar,
    Placement,
    Rollout,
    Scaling,
    ServingPlan,
    Timeouts,
)
from servingstack.planner.demand import weights_directory
from servingstack.planner.door import Kept, door_size
from servingstack.signals import Stack, monitoring
from servingstack.targets.kubernetes import front_door
from servingstack.targets.kubernetes.capabilities import CAPABILITIES

GIB = 1024**3

DOCUMENT: dict[str, Any] = {
    "name": "chat",
    "model": {
        "id": "meta-llama/Meta-Llama-3-8B-Instruct",
        "token_secret": {"name": "hf-token", "key": "token"},
    },
    "target": {"option": "kubernetes"},
    "slo": {"ttft_p95": "500ms", "tpot_p95": "50ms"},
    "traffic": {"requests_per_second": 4},
    "hardware": {"accelerators": ["a100-80gb"]},
    "engine": {"kind": "vllm", "tensor_parallel_size": 2},
}


def sample_plan(document: dict[str, Any] | None = None, /, **changes: Any) -> ServingPlan:
    """The plan, with parts replaced: a value, or a dict of fields for a part that is a model."""
    args = ServingStackArgs.parse(DOCUMENT if document is None else document)
    parts: dict[str, Any] = {
        "architecture": _ARCHITECTURE,
        "batching": _BATCHING,
        "scaling": _SCALING,
        "timeouts": _TIMEOUTS,
        "rollout": Rollout(strategy="rolling", max_surge=0, max_unavailable=1, progress_deadline_s=900),
        "placement": _PLACEMENT,
        "cost": _COST,
    }
    directory = weights_directory(args.model.source, CAPABILITIES)
    parts["architecture"] = _changed(parts["architecture"], {"weights_directory": directory})
    names = kubernetes_names(args.name)
    for part, value in parts.items():
        parts[part] = _changed(value, changes.pop(part, None))
    key = args.api_key_secret
    door = FrontDoor(
        image=front_door.IMAGE, replicas=2, port=8080, stats_port=8404, max_concurrent=96, max_queue=64,
        **_door_size(parts["scaling"], parts["timeouts"], changes.get("front_door")),
        api_key_secret_name=None if key is None else key.name,
        api_key_secret_key=None if key is None else key.key,
    )  # fmt: skip
    cluster = args.target.kubernetes.model_copy(update={"namespace": parts["placement"].namespace})
    there = args.model_copy(update={"target": args.target.model_copy(update={"kubernetes": cluster})})
    stack = Stack(
        there, names,
        parts["architecture"], parts["scaling"], parts["timeouts"], parts["cost"],
    )  # fmt: skip
    container = vllm.container(args, parts["architecture"], parts["batching"], parts["timeouts"])
    return ServingPlan(
        library_version=__version__,
        args_key=args.key(),
        name=args.name,
        names=names,
        labels=standard_labels(args.name, parts["architecture"].engine, dict(args.labels or {})),
        exposure=args.exposure,
        container=_changed(container, changes.pop("container", None)),
        front_door=_changed(door, changes.pop("front_door", None)),
        monitoring=_changed(monitoring(stack), changes.pop("monitoring", None)),
        expected=_EXPECTED,
        alternatives=(),
        warnings=changes.pop("warnings", ()),
        assumed=(),
        overrides=changes.pop("overrides", {}),
        **parts,
        **changes,
    )


def _door_size(scaling: Scaling, timeouts: Timeouts, change: dict[str, Any] | None) -> dict[str, int]:
    door = {} if change is None else change
    size = door_size(
        proxies=door.get("replicas", 2), replicas=scaling.max_replicas + scaling.surge_replicas,
        max_concurrent=door.get("max_concurrent", 96), max_queue=door.get("max_queue", 64),
        kept=Kept(timeouts.drain_s, timeouts.request_s, scaling.hold_s),
    )  # fmt: skip
    return asdict(size)


def _changed(part: BaseModel, change: Any) -> Any:
    if isinstance(change, dict):
        return type(part).model_validate(part.model_dump() | change)
    return part if change is None else change


def _estimate(value: float) -> Estimate:
    return Estimate(value=value, low=0.7 * value, high=1.4 * value, source="sample")


_ARCHITECTURE = Architecture(
    option="kubernetes", cloud=None, region=None,
    model="meta-llama/Meta-Llama-3-8B-Instruct", task="generate", engine="vllm", engine_version="0.30.0",
    accelerator="a100-80gb", accelerator_form="sxm", instance_type=None, gpus_per_replica=2, gpus_per_node=8,
    tensor_parallel_size=2, pipeline_parallel_size=1, precision="bf16", dtype="bfloat16",
    kv_cache_dtype="auto", max_model_len=8192, gpu_memory_utilization=0.9, kv_cache_tokens=900_000,
    weight_bytes=16_060_000_000,
    memory_per_gpu=MemoryBar(
        total=85_094_000_000, weights=8_030_000_000, kv_cache=62_000_000_000, overhead=6_000_000_000,
        reserved=8_509_400_000,
    ),
    cpu_request=8, memory_request_bytes=60 * GIB, memory_limit_bytes=80 * GIB, shared_memory_bytes=4 * GIB,
    disk_bytes=60 * GIB, why="the sample",
)  # fmt: skip

_BATCHING = Batching(
    kind="continuous", max_num_seqs=64, max_num_batched_tokens=8192, prefix_caching=True,
    chunked_prefill=True, limited_by="slo.tpot_p95",
    curve=(
        CurvePoint(batch_size=64, ttft_ms=210, tpot_ms=31, output_tokens_per_s=2060, requests_per_s=8,
        within_slo=True),
    ),
)  # fmt: skip

_SCALING = Scaling(
    autoscaled=True, min_replicas=2, max_replicas=4, mean_replicas=1, peak_replicas=2, warm_replicas=1,
    surge_replicas=0, placeholder_pods=1, metric="queue_depth", threshold=12, threshold_arithmetic="sample",
    fallback_replicas=3, scale_out_window_s=0, scale_in_delay_s=300, scale_in_period_s=120,
    scale_to_zero_after_s=None, hold_s=None,
    cold_start=ColdStart(node_s=0, image_s=90, weights_s=60, engine_s=90, total_s=240),
)  # fmt: skip

_TIMEOUTS = Timeouts(
    request_s=30, stream_s=600, queue_s=10, enforced_by="front door", startup_s=600, drain_s=60, grace_s=90
)  # fmt: skip

_PLACEMENT = Placement(
    namespace="serving", create_namespace=True, node_selector={}, topology_key="topology.kubernetes.io/zone",
    prepull_images=True, weights_storage_class=None, weights_access_mode="ReadWriteMany",
    ingress_namespace=None, monitoring_namespace="monitoring", monitor_labels={"release": "prometheus"},
    prometheus="http://prometheus-operated.monitoring.svc:9090", prometheus_auth=None,
)  # fmt: skip

_COST = Cost(
    hourly_usd=8, peak_hourly_usd=16, monthly_usd=5840, warm_monthly_usd=2920, per_gpu_hour_usd=2,
    per_million_output_tokens_usd=0.6, basis="reference", price_date="2026-11-01", price_source="sample",
)  # fmt: skip

_EXPECTED = Expected(
    ttft_p50_ms=_estimate(210), ttft_p95_ms=_estimate(380), tpot_p50_ms=_estimate(28),
    tpot_p95_ms=_estimate(34), latency_p95_ms=_estimate(9000), output_tokens_per_s=_estimate(2060),
    requests_per_s=_estimate(8), utilisation_at_mean=0.25, utilisation_at_peak=0.5,
)  # fmt: skip
