"""From the chosen candidate to the plan: nothing is decided here, everything is written down.

Trap: `assumed` must name every value that nobody gave. A new field of the plan that the planner decides gets
its line in `assumptions`."""

from __future__ import annotations

from servingstack import naming
from servingstack._version import __version__
from servingstack.args import KubernetesArgs
from servingstack.engines import lora, token_container
from servingstack.plan import (
    Architecture,
    Batching,
    CurvePoint,
    GpuPart,
    MemoryBar,
    Placement,
    ServingPlan,
    Toleration,
)
from servingstack.signals import Stack, edge_warnings
from servingstack.targets import planning

from . import operations, outlook, slices
from .assumptions import assumptions
from .batches import BatchReplica
from .candidate import AnyReplica
from .demand import Demand
from .driver import fitted
from .hardware import Offer
from .memory import GPU_MEMORY_UTILIZATION
from .reading import read_whole
from .search import Outcome, Solution
from .warnings import warnings_of


def assemble(demand: Demand, outcome: Outcome, chosen: Solution) -> ServingPlan:
    """The whole plan."""
    args = demand.args
    option = planning(demand.can.option)
    names = option.names(args)
    architecture = _architecture(demand, chosen)
    batching = _batching(demand, chosen)
    timeouts = operations.timeouts(demand, chosen)
    scaling = operations.scaling(demand, chosen, timeouts)
    expected, cost = outlook.expected(chosen), outlook.cost(demand, chosen)
    watched = option.monitoring(Stack(args, names, architecture, scaling, timeouts, cost))
    cheaper = outlook.at_fp8(demand, chosen)
    others = outlook.alternatives(outcome, demand.can.option)
    warnings = warnings_of(demand, chosen, expected, scaling)
    container = demand.kind.container(args, architecture, batching, timeouts)
    container, of_driver = fitted(demand, architecture.accelerator, container)
    container, of_reading = read_whole(demand, container)
    draft = ServingPlan(
        library_version=__version__,
        args_key=args.key(),
        name=args.name,
        names=names,
        labels=naming.standard_labels(args.name, architecture.engine, dict(args.labels or {})),
        exposure=args.exposure,
        architecture=architecture,
        batching=batching,
        scaling=scaling,
        timeouts=timeouts,
        rollout=operations.rollout(demand, chosen, timeouts),
        container=container,
        front_door=operations.front_door(demand, chosen, scaling, timeouts),
        placement=_placement(demand, chosen) if demand.can.on_kubernetes else None,
        monitoring=watched,
        expected=expected,
        cost=cost,
        alternatives=others if cheaper is None else (cheaper, *others),
        warnings=(*warnings, *of_driver, *of_reading, *edge_warnings(watched)),
        assumed=(*demand.assumed, *assumptions(demand, chosen, scaling)),
        overrides={role: dict(fields) for role, fields in (args.overrides or {}).items()},
    )
    return option.complete(draft, args)


def _architecture(demand: Demand, chosen: Solution) -> Architecture:
    found, offer, host = chosen.fit.layout, chosen.fit.layout.offer, chosen.fit.layout.host
    engine = demand.engine
    version = demand.kind.image(demand.args)[1]
    given = engine.gpu_memory_utilization
    return Architecture(
        option=demand.can.option,
        cloud=offer.cloud,
        region=offer.region,
        model=demand.args.model.id,
        task=demand.task,
        engine=demand.kind.kind,
        engine_version=version,
        accelerator=offer.gpu.id,
        accelerator_form=offer.gpu.form,
        instance_type=offer.instance_type,
        gpus_per_replica=found.gpus,
        gpus_per_node=offer.gpus_per_node,
        tensor_parallel_size=found.tp,
        pipeline_parallel_size=found.pp,
        precision=found.served.precision,
        quantization=found.served.quantization,
        dtype=found.served.dtype,
        kv_cache_dtype="auto" if engine.kv_cache_dtype is None else engine.kv_cache_dtype,
        max_model_len=demand.max_model_len,
        gpu_memory_utilization=_utilization(chosen, GPU_MEMORY_UTILIZATION if given is None else given),
        kv_cache_tokens=chosen.fit.kv_tokens,
        weight_bytes=found.weights,
        memory_per_gpu=_bar(chosen),
        cpu_request=host.cpu,
        memory_request_bytes=host.memory_request,
        memory_limit_bytes=host.memory_limit,
        shared_memory_bytes=host.shared_memory,
        disk_bytes=host.disk,
        why=_why(chosen),
        gpu_part=_part(offer),
        adapters=lora.placed(demand.args.model.adapters, token_container.CACHE_PATH),
        max_loras=_places(demand),
        max_lora_rank=0 if demand.room is None else demand.room.rank,
        image_family=demand.can.image_family,
        weights_directory=demand.weights_directory,
    )


def _utilization(chosen: Solution, share: float) -> float:
    """What the engine may take of all memory that it sees: where others see it too, of its own share."""
    cut = chosen.fit.layout.offer.cut
    return share if cut is None or cut.isolated else round(share * cut.memory_share, 4)


def _part(offer: Offer) -> GpuPart | None:
    cut = offer.cut
    if cut is None:
        return None
    return GpuPart(
        kind="mig" if cut.isolated else "turn",
        name=cut.name,
        price_share=cut.price_share,
        memory_share=cut.memory_share,
        turns=cut.turns,
        group=cut.group,
    )


def _places(demand: Demand) -> int:
    """Adapters that can be in one batch."""
    adapters, wanted = len(demand.args.model.adapters), demand.engine.max_loras
    return adapters if wanted is None else min(wanted, adapters)


def _bar(chosen: Solution) -> MemoryBar:
    """One GPU's memory. An engine that batches whole requests keeps no cache: what is left is nobody's."""
    foot, replica = chosen.fit.layout.foot, chosen.fit.replica
    if not isinstance(replica, BatchReplica):
        return foot.bar(replica.places)
    bar = foot.bar(replica.batch)
    return bar.model_copy(update={"kv_cache": 0, "reserved": bar.reserved + bar.kv_cache})


def _why(chosen: Solution) -> str:
    found, fleet = chosen.fit.layout, chosen.fleet
    size = f"{found.gpus} x {found.offer.gpu.device}"
    meets = "is the cheapest that meets" if fleet.low == fleet.high == 1 else "are the cheapest that meet"
    return (
        f"{fleet.span} of {size} with {found.served.precision} weights {meets} every demand, at "
        f"${fleet.hourly_usd:.2f}/h; a replica serves "
        f"{chosen.fit.bears.rate:.3g} requests/s, limited by {chosen.fit.bears.limited_by}."
    )


def _batching(demand: Demand, chosen: Solution) -> Batching:
    fit, engine = chosen.fit, demand.engine
    if isinstance(fit.replica, BatchReplica):
        return _whole_requests(demand, fit.replica, fit.batch_limited_by)
    return Batching(
        kind="continuous",
        max_num_seqs=fit.replica.places,
        max_num_batched_tokens=fit.layout.step_tokens,
        prefix_caching=engine.enable_prefix_caching,
        chunked_prefill=engine.enable_chunked_prefill,
        curve=tuple(_point(demand, fit.replica, size) for size in _sizes(demand, chosen)),
        limited_by=fit.batch_limited_by,
    )


def _whole_requests(demand: Demand, replica: BatchReplica, limited_by: str) -> Batching:
    """A batcher that waits for company; sizes of the curve are those of one copy's batch."""
    sizes = sorted({2**power for power in range(12) if 2**power < 2 * replica.batch} | {replica.batch})
    running = replica.copies * replica.gpus
    return Batching(
        kind="dynamic",
        max_num_seqs=replica.batch,
        max_num_batched_tokens=0,
        queue_delay_ms=round(replica.delay_s * 1000, 3),
        prefix_caching=False,
        chunked_prefill=False,
        curve=tuple(
            _point(demand, replica, size * running).model_copy(update={"batch_size": size}) for size in sizes
        ),
        limited_by=limited_by,
    )


def _sizes(demand: Demand, chosen: Solution) -> list[int]:
    """Powers of two up to the next after the chosen batch, and the batch itself."""
    places = chosen.fit.replica.places
    most = chosen.fit.layout.foot.most_sequences(demand.sequence_tokens, demand.max_model_len)
    sizes = {2**power for power in range(12) if 2**power < 2 * places and 2**power <= max(most, places)}
    return sorted(sizes | {places})


def _point(demand: Demand, replica: AnyReplica, size: int) -> CurvePoint:
    tpot, ttft = replica.tpot(size), replica.ttft_unqueued(size)
    whole = isinstance(replica, BatchReplica)
    values = {"ttft": ttft, "tpot": tpot, "latency": ttft + (replica.output_tokens - 1) * tpot}
    return CurvePoint(
        batch_size=size,
        ttft_ms=ttft * 1000,
        tpot_ms=0.0 if whole else tpot * 1000,
        output_tokens_per_s=size / tpot,
        requests_per_s=replica.rate(size),
        within_slo=all(values[limit.kind] <= limit.seconds for limit in demand.limits),
    )


def _volume_bytes(chosen: Solution) -> int:
    """A repository of 16-bit weights that are served in 8 holds twice what is served; kernels need the
    scratch."""
    return 2 * chosen.fit.layout.weights + chosen.fit.layout.host.disk


def _prometheus(cluster: KubernetesArgs) -> str:
    """The operator's governing Service has that name in whatever namespace it runs (prometheus-operator,
    pkg/prometheus/server, governingServiceName)."""
    operated = f"http://prometheus-operated.{cluster.monitoring_namespace}.svc:9090"
    return operated if cluster.prometheus is None else cluster.prometheus


def _group_label(offer: Offer, namespace: str) -> str | None:
    """What pods on a shared GPU are told apart by: a group's, of its namespace, or turns of equal size."""
    if offer.cut is None or offer.cut.isolated:
        return None
    if offer.cut.group is None:
        return f"turns-{offer.cut.turns}"
    return naming.physical_name(namespace, offer.cut.group)


def _placement(demand: Demand, chosen: Solution) -> Placement:
    cluster, source = demand.args.target.kubernetes, demand.args.model.source
    offer = chosen.fit.layout.offer
    claim = source.removeprefix("pvc://").partition("/")[0] if source.startswith("pvc://") else None
    return Placement(
        namespace=cluster.namespace,
        create_namespace=cluster.create_namespace,
        node_selector=dict(offer.selector),
        tolerations=tuple(
            Toleration(key=each.key, value=each.value, effect=each.effect) for each in offer.tolerations
        ),
        topology_key=cluster.topology_key,
        gpu_resource=slices.WHOLE if offer.cut is None else offer.cut.resource,
        gpu_group=_group_label(offer, cluster.namespace),
        adapter_claims=lora.claims(demand.args.model.adapters),
        prepull_images=cluster.prepull_images,
        weights_storage_class=cluster.weights_storage_class,
        weights_access_mode=cluster.weights_access_mode,
        weights_volume_bytes=0 if cluster.weights_storage_class is None else _volume_bytes(chosen),
        weights_claim=claim,
        ingress_namespace=cluster.ingress_namespace,
        monitoring_namespace=cluster.monitoring_namespace,
        monitor_labels=dict(cluster.monitor_labels or {}),
        prometheus=_prometheus(cluster),
        prometheus_auth=cluster.prometheus_auth,
        grafana=cluster.grafana,
        check_requirements=cluster.check_requirements,
    )
