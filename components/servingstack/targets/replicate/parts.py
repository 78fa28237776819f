"""The parts of a plan that follow from the decisions: what runs, what is known of its speed, what a reviewer
should know.

Trap: a number that nobody measured is not zero. Where there is none the source says so, and a reader must
look at it first.
"""

from __future__ import annotations

from servingstack import catalog
from servingstack.args import DEFAULT_RPS, ServingStackArgs
from servingstack.measured import MEASURED_BAND, MeasuredRow
from servingstack.plan import (
    Architecture,
    Assumption,
    Batching,
    Container,
    CurvePoint,
    Estimate,
    Expected,
    MemoryBar,
    PlanWarning,
    Scaling,
    WarmUp,
)

from . import limits as known
from . import watch
from .capabilities import CAPABILITIES
from .section import ReplicateSection

PORT = 5000
"""Cog's (github.com/replicate/cog docs/http.md)."""
NO_ESTIMATE = "none: not measured, and there is no engine of this library to estimate"


def architecture(args: ServingStackArgs, machine: catalog.InstanceType, scaling: Scaling) -> Architecture:
    gpu = catalog.gpu(machine.gpu_id, machine.gpu_form)
    memory = round(machine.memory_gib * catalog.GIB)
    task = args.model.task
    return Architecture(
        option=CAPABILITIES.option,
        cloud="replicate",
        region=None,
        model=args.model.id,
        task="other" if task is None else task,
        engine="published",
        engine_version=(args.model.revision or "")[:12],
        accelerator=machine.gpu_id,
        accelerator_form=machine.gpu_form,
        instance_type=machine.name,
        gpus_per_replica=machine.gpu_count,
        gpus_per_node=machine.gpu_count,
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        precision="as published",
        dtype="as published",
        kv_cache_dtype="as published",
        max_model_len=0,
        gpu_memory_utilization=0.0,
        kv_cache_tokens=0,
        weight_bytes=0,
        memory_per_gpu=MemoryBar(
            total=gpu.memory_bytes, weights=0, kv_cache=0, overhead=0, reserved=gpu.memory_bytes
        ),
        cpu_request=float(machine.vcpus),
        memory_request_bytes=memory,
        memory_limit_bytes=memory,
        shared_memory_bytes=0,
        disk_bytes=0,
        why=(
            f"{scaling.min_replicas} to {scaling.max_replicas} instances of the version as it was published, "
            f"on {machine.name}; its own server decides the rest."
        ),
    )


def batching(args: ServingStackArgs) -> Batching:
    table, busy = args.measured, args.target.replicate.concurrency
    curve = tuple(
        CurvePoint(
            batch_size=round(row.concurrency),
            ttft_ms=0.0 if row.ttft_ms is None else row.ttft_ms.typical or 0.0,
            tpot_ms=0.0 if row.tpot_ms is None else row.tpot_ms.typical or 0.0,
            output_tokens_per_s=0.0 if row.output_tokens_per_s is None else row.output_tokens_per_s,
            requests_per_s=row.requests_per_s,
            within_slo=row.concurrency <= busy,
        )
        for row in (() if table is None else table.rows)
    )
    return Batching(
        kind="dynamic",
        max_num_seqs=busy,
        max_num_batched_tokens=0,
        prefix_caching=False,
        chunked_prefill=False,
        curve=curve,
        limited_by="target.replicate.concurrency",
    )


def container(section: ReplicateSection) -> Container:
    """What is known of it from outside: the image of the version, and the path that callers use."""
    path = f"/v1/deployments/{section.owner}/{section.name}/predictions"
    given = section.warm_up_input
    return Container(
        image=f"r8.im/{section.model}@sha256:{section.version}",
        command=(),
        flags=(),
        env=(),
        port=PORT,
        metrics_path="",
        health_path="/health-check",
        cache_path="/src",
        warm_up=WarmUp(
            path=path,
            body={"input": {} if given is None else given},
            requests=0 if given is None else 1,
            timeout_s=2 * known.COLD_BOOT_S,
        ),
        public_paths=(path,),
        protocol="replicate",
    )


def _estimate(value: float | None) -> Estimate:
    if value is None:
        return Estimate(value=0.0, low=0.0, high=0.0, source=NO_ESTIMATE)
    low, high = value * (1 - MEASURED_BAND), value * (1 + MEASURED_BAND)
    return Estimate(value=round(value, 3), low=round(low, 3), high=round(high, 3), source="measured")


def expected(row: MeasuredRow | None, scaling: Scaling, rates: tuple[float, float]) -> Expected:
    """The row as it was measured; without one, that there is no estimate."""

    def of(kind: str, quantile: str) -> Estimate:
        spread = None if row is None else getattr(row, f"{kind}_ms")
        return _estimate(None if spread is None else getattr(spread, quantile))

    full = None if row is None else row.requests_per_s
    shares = [0.0 if not full else rate / (full * max(1, count)) for rate, count in _loads(scaling, rates)]
    return Expected(
        ttft_p50_ms=of("ttft", "p50"),
        ttft_p95_ms=of("ttft", "p95"),
        tpot_p50_ms=of("tpot", "p50"),
        tpot_p95_ms=of("tpot", "p95"),
        latency_p95_ms=of("latency", "p95"),
        output_tokens_per_s=_estimate(None if row is None else row.output_tokens_per_s),
        requests_per_s=_estimate(full),
        utilisation_at_mean=round(shares[0], 4),
        utilisation_at_peak=round(shares[1], 4),
    )


def _loads(scaling: Scaling, rates: tuple[float, float]) -> tuple[tuple[float, int], tuple[float, int]]:
    return (rates[0], max(scaling.min_replicas, scaling.mean_replicas)), (rates[1], scaling.peak_replicas)


def warnings(args: ServingStackArgs, section: ReplicateSection, scaling: Scaling) -> list[PlanWarning]:
    deadline, wait = section.deadline_s, section.wait_s
    found = [
        PlanWarning(
            code="deadline-is-the-callers",
            path="request_timeout",
            message=(
                f"Nobody but the caller ends a prediction: each must send `Cancel-After: {deadline}s`, and "
                f"`Prefer: wait={wait}` to get the answer at once. Else it may run for 30 minutes."
            ),
        ),
        PlanWarning(code="nothing-exported", path="observability", message=watch.NO_ALERTS),
        PlanWarning(
            code="slow-to-delete",
            path="target.option",
            message=(
                "A deployment goes only after 15 minutes without an instance and without use: `destroy` "
                "takes its instances away at once and then waits."
            ),
        ),
    ]
    if args.measured is None:
        found.append(PlanWarning(code="no-estimate", path="measured", message=f"Estimates: {NO_ESTIMATE}."))
    if scaling.min_replicas == 0:
        found.append(
            PlanWarning(
                code="cold-starts",
                path="scaling.min_replicas",
                message=(
                    "Without an instance the next prediction waits for a boot, seconds to several minutes; "
                    "when Replicate takes the last one away cannot be set."
                ),
            )
        )
    return found


def assumed(args: ServingStackArgs, scaling: Scaling) -> tuple[Assumption, ...]:
    given = args.target.replicate.model_fields_set
    rows = {
        "target.replicate.concurrency": ("1", "Cog's own default", "concurrency" in given),
        "request_timeout": (
            f"{args.request_s:g}s",
            "default; callers send it",
            args.request_timeout is not None,
        ),
        "traffic.requests_per_second": (
            f"{DEFAULT_RPS:g}",
            "no rate was given",
            args.traffic.requests_per_second is not None,
        ),
        "scaling.cold_start": (
            f"{scaling.cold_start.total_s:g}s",
            "within what Replicate says of boots: seconds to several minutes",
            False,
        ),
    }
    return tuple(
        Assumption(path=path, value=value, why=why) for path, (value, why, told) in rows.items() if not told
    )
