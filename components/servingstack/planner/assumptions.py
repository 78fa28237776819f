"""Every value that nobody gave, with where it comes from, in the input's own paths.

Trap: a default that is not listed is a decision nobody reviews. A test compares this list with the input's
optional fields.
"""

from __future__ import annotations

from collections.abc import Iterator

from servingstack.catalog import GIB
from servingstack.engines.batcher import Batcher
from servingstack.plan import Assumption, Scaling

from . import operations
from .batches import BatchReplica
from .demand import Demand
from .memory import GPU_MEMORY_UTILIZATION
from .search import Solution

_ONLY_SUCH_NODES = "the cluster is taken to have such nodes, and no other GPUs that the pods could land on"
_Row = tuple[object, str, object, str]
"""What was given (None for nothing), path, what was decided, why."""


def assumptions(demand: Demand, chosen: Solution, scaling: Scaling) -> tuple[Assumption, ...]:
    """What was decided because nobody said otherwise."""
    rows = (
        *_target(demand),
        *_hardware(demand, chosen),
        *_engine(demand, chosen),
        *_scaling(demand, chosen, scaling),
    )
    return tuple(
        Assumption(path=path, value=str(value), why=why) for given, path, value, why in rows if given is None
    )


def _unless_set(demand: Demand, part: str, name: str) -> object:
    """None where the field was left out, for fields whose default is not None."""
    owner = demand.args if not part else getattr(demand.args, part)
    return getattr(owner, name) if name in owner.model_fields_set else None


def _target(demand: Demand) -> Iterator[_Row]:
    args = demand.args
    if args.target.option == "auto":
        yield None, "target.option", demand.can.option, _why_option(demand)
    cluster, alone = args.target.kubernetes, "default"
    if demand.can.on_kubernetes:
        named = cluster.namespace if "namespace" in cluster.model_fields_set else None
        yield named, "target.kubernetes.namespace", cluster.namespace, "default"
        alone = "default: the cluster alone"
    yield _unless_set(demand, "", "exposure"), "exposure", args.exposure, alone
    if args.model.source == "hf":
        yield args.model.revision, "model.revision", "main", "the hub's main branch, which may move"
    for index, each in enumerate(args.model.adapters):
        given = each.revision if "://" not in each.source else "a volume"
        yield given, f"model.adapters[{index}].revision", "main", "the hub's main branch, which may move"
    availability = f"{args.slo.availability:g} %"
    yield _unless_set(demand, "slo", "availability"), "slo.availability", availability, "default"


def _why_option(demand: Demand) -> str:
    """Why `auto` came to this option."""
    if not demand.can.on_kubernetes:
        return "the cheapest option that can"
    if demand.args.hardware.nodes is not None:
        return "nodes are described, which only a cluster has"
    if demand.args.target.cloud is None:
        return "no cloud was named, so a cluster that you bring"
    return "no service of the cloud can, so a cluster that you bring"


def _hardware(demand: Demand, chosen: Solution) -> Iterator[_Row]:
    hardware, found = demand.args.hardware, chosen.fit.layout
    offer, host = found.offer, found.host
    yield hardware.accelerators, "hardware.accelerators", offer.gpu.id, "the cheapest that meets the demands"
    if offer.instance_type is None:
        # Only a cluster has nodes of no known type.
        node = f"{found.gpus} x {offer.gpu.device}, {host.cpu:g} cores, {host.memory_request / GIB:.0f} GiB"
        yield hardware.nodes, "hardware.nodes", node, f"not given: {_ONLY_SUCH_NODES}"
    else:
        if demand.can.on_kubernetes:
            yield None, "hardware.nodes", f"of type {offer.instance_type}", f"not given: {_ONLY_SUCH_NODES}"
        yield hardware.instance_type, "hardware.instance_type", offer.instance_type, "the cheapest"
        region = offer.region if offer.region else "none"
        yield demand.args.target.region, "target.region", region, "the cheapest of the catalog"
    yield hardware.gpus_per_replica, "hardware.gpus_per_replica", found.gpus, "the cheapest split that fits"
    if offer.basis in ("reference", "unknown"):
        yield None, "hardware.prices", f"${offer.usd_per_gpu:.2f} per GPU and hour", offer.price_source
    if not demand.can.on_kubernetes:
        return  # a machine is rented whole, so nothing is set
    yield hardware.cpu_request, "hardware.cpu_request", f"{host.cpu:g}", "2 cores and one per GPU"
    request = f"{host.memory_request // GIB}Gi"
    yield hardware.memory_request, "hardware.memory_request", request, "processes, loading, shared memory"
    yield hardware.memory_limit, "hardware.memory_limit", f"{host.memory_limit // GIB}Gi", "the request"


def _engine(demand: Demand, chosen: Solution) -> Iterator[_Row]:
    engine, fit, found = demand.engine, chosen.fit, chosen.fit.layout
    if demand.args.model.precision == "auto":
        converted = found.served.quantization is not None
        why = "converted while loading: only this fits" if converted else "what the repository holds"
        yield None, "model.precision", found.served.precision, why
    if demand.batcher is not None:
        yield from _batcher(demand.batcher, chosen)
        return
    yield engine.tensor_parallel_size, "engine.tensor_parallel_size", found.tp, "divides heads and node"
    yield engine.pipeline_parallel_size, "engine.pipeline_parallel_size", found.pp, "within one node"
    share = engine.gpu_memory_utilization
    yield share, "engine.gpu_memory_utilization", GPU_MEMORY_UTILIZATION, "the planner's constant"
    yield engine.max_num_seqs, "engine.max_num_seqs", fit.replica.places, f"limit: {fit.batch_limited_by}"
    tokens = engine.max_num_batched_tokens
    yield tokens, "engine.max_num_batched_tokens", found.step_tokens, "the engine's own for such a GPU"
    yield engine.kv_cache_dtype, "engine.kv_cache_dtype", "auto", "that of the activations"
    if demand.room is not None:
        yield engine.max_loras, "engine.max_loras", demand.room.adapters, "every adapter in each batch"
    dtype = None if engine.dtype == "auto" else engine.dtype
    yield dtype, "engine.dtype", found.served.dtype, "what the GPU computes in"
    for name in ("enable_prefix_caching", "enable_chunked_prefill"):
        given = True if name in engine.model_fields_set else None
        yield given, f"engine.{name}", str(getattr(engine, name)).lower(), "default"


def _batcher(batcher: Batcher, chosen: Solution) -> Iterator[_Row]:
    replica, why = chosen.fit.replica, f"limit: {chosen.fit.batch_limited_by}"
    if isinstance(replica, BatchReplica):
        yield batcher.max_batch_size, batcher.batch_path, replica.batch, why
        delay = f"{replica.delay_s * 1000:g}ms"
        yield batcher.queue_delay_s, batcher.delay_path, delay, "what the objectives leave, at most a batch"


def _scaling(demand: Demand, chosen: Solution, scaling: Scaling) -> Iterator[_Row]:
    args, fleet = demand.args, chosen.fleet
    asked = args.scaling
    yield asked.min_replicas, "scaling.min_replicas", fleet.low, "mean traffic and warm replicas"
    yield asked.max_replicas, "scaling.max_replicas", fleet.high, "the peak and a margin of 25 %"
    if args.warm == "auto":
        yield None, "warm", fleet.warm, operations.ramp_text(demand, chosen)
    depth = f"{scaling.threshold:g}" + (" a second" if scaling.counts == "per_second" else "")
    yield asked.queue_depth, "scaling.queue_depth", depth, scaling.threshold_arithmetic
    delay = f"{scaling.scale_in_delay_s}s"
    yield asked.scale_in_delay, "scaling.scale_in_delay", delay, "the cold start, at least 5m"
    if fleet.hold_s is not None:
        yield asked.hold, "scaling.hold", f"{fleet.hold_s}s", "the planned cold start"
    if demand.can.surge == "fleet":
        return  # the service starts a whole new version beside the old one
    surge = str(fleet.surge == 1).lower()
    yield args.rollout.surge, "rollout.surge", surge, "only at one replica, which must not go away"
