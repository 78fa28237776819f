"""What will work, but a reviewer should know. Each has a stable code.

Trap: a warning that is always there is read by nobody, so each has a condition that a sound plan does not
meet."""

from __future__ import annotations

import math
from collections.abc import Iterator

from servingstack.plan import Expected, PlanWarning, Scaling
from servingstack.watched import OBJECTIVE_DAYS

from . import measurement, suggest
from .candidate import WHAT, unqueued
from .demand import Demand, resolve
from .fleet import ramped_rps
from .search import Solution, search

IDLE = 0.10
"""Busy for less than this at the mean: a smaller GPU or a shared one would do."""
CHEAPER = 0.7
"""Share of the price below which another GPU is worth a word."""
WINDOW_S = OBJECTIVE_DAYS * 24 * 3600.0
TIGHT = 1.5
"""Fewer than so many sequences of the longest length in the cache."""


def warnings_of(
    demand: Demand, chosen: Solution, expected: Expected, scaling: Scaling
) -> tuple[PlanWarning, ...]:
    """All that apply, in a fixed order."""
    return (
        *demand.kind.warnings(demand.args),
        *_model(demand, chosen),
        *_defaults(demand, chosen),
        *_batch(demand, chosen),
        *_objectives(demand, expected),
        *_starts(demand, chosen, scaling),
        *_waste(demand, chosen, expected),
        *_parts(demand, chosen, expected),
        *_overridden(demand, scaling),
        *_measured(demand, chosen),
    )


def _warn(code: str, path: str, message: str) -> PlanWarning:
    return PlanWarning(code=code, path=path, message=message)


def is_gated(demand: Demand) -> bool:
    """Whether the repository asks for a licence to be accepted."""
    given = demand.args.model.gated
    return demand.model.gated if given is None else given


def _model(demand: Demand, chosen: Solution) -> Iterator[PlanWarning]:
    model, args = demand.model, demand.args.model
    if is_gated(demand) and args.token_secret is None and args.source == "hf":
        yield _warn(
            "gated-model-without-token",
            "model.token_secret",
            f"{model.id} is gated: its download needs a token. Name an existing secret in "
            f"model.token_secret.",
        )
    if args.config is None and args.parameters is not None and model.source == "model.parameters given":
        yield _warn(
            "size-from-parameters",
            "model.parameters",
            f"Only the number of parameters is known of {model.id}; heads and cache are guessed. Add "
            f"model.config.",
        )
    if chosen.fit.layout.served.quantization == "fp8":
        yield _warn(
            "quantized-while-loading",
            "model.precision",
            "Weights are converted to fp8 as they are loaded: check the answers' quality, or use a "
            "repository "
            "that holds fp8.",
        )


def _defaults(demand: Demand, chosen: Solution) -> Iterator[PlanWarning]:
    """What was decided for the reader and fails at run time where it is wrong."""
    own = demand.model.max_context
    if demand.batcher is None and demand.args.model.max_model_len is None and demand.max_model_len < own:
        yield _warn(
            "context-from-traffic",
            "model.max_model_len",
            f"Requests above {demand.max_model_len} tokens, prompt and answer, are refused: the length was "
            f"taken from the traffic's mean. The model can do {own}: say model.max_model_len where some are "
            f"longer.",
        )
    hardware, target = demand.args.hardware, demand.args.target
    known = (hardware.nodes, hardware.accelerators, hardware.instance_type, target.cloud)
    if chosen.fit.layout.offer.instance_type is None and all(given is None for given in known):
        yield _warn(
            "nodes-not-known",
            "hardware.nodes",
            f"The cluster is taken to have {chosen.fit.layout.offer.gpu.id} nodes: where it has none, the "
            "pods stay pending. Say hardware.nodes or hardware.accelerators.",
        )


def _batch(demand: Demand, chosen: Solution) -> Iterator[PlanWarning]:
    fit = chosen.fit
    if fit.replica.places == 1:
        yield _warn(
            "batch-of-one",
            _batch_path(demand, fit.batch_limited_by),
            f"One sequence at a time ({fit.batch_limited_by}): the GPU is used at a fraction of what it "
            f"can do.",
        )
    pinned = demand.engine.max_num_seqs
    if pinned is not None:
        for limit in demand.limits:
            full = unqueued(fit.replica, limit.kind, float(pinned))
            if full > limit.seconds:
                yield _warn(
                    "batch-beyond-slo",
                    "engine.max_num_seqs",
                    f"With all {pinned} sequences {WHAT[limit.kind]} takes {full * 1000:.0f} ms, above "
                    f"{limit.path} of {limit.seconds * 1000:.0f} ms. Lower max_num_seqs, or leave it out.",
                )
    if demand.task != "generate" or demand.batcher is not None:
        return
    longest = fit.layout.foot.kv_tokens(fit.replica.places, demand.max_model_len) / demand.max_model_len
    if longest < TIGHT:
        yield _warn(
            "kv-cache-tight",
            "model.max_model_len",
            f"The KV cache holds {longest:.1f} sequences of max_model_len {demand.max_model_len}: long "
            f"requests "
            "will wait for each other. Lower max_model_len, or use more or larger GPUs.",
        )


def _batch_path(demand: Demand, limited_by: str) -> str:
    if demand.batcher is not None:
        return demand.batcher.batch_path
    return "engine.max_num_seqs" if demand.engine.max_num_seqs == 1 else limited_by


def _objectives(demand: Demand, expected: Expected) -> Iterator[PlanWarning]:
    values = {
        ("ttft", 0.5): expected.ttft_p50_ms,
        ("ttft", 0.95): expected.ttft_p95_ms,
        ("tpot", 0.5): expected.tpot_p50_ms,
        ("tpot", 0.95): expected.tpot_p95_ms,
        ("latency", 0.95): expected.latency_p95_ms,
    }
    for limit in demand.limits:
        estimate = values.get((limit.kind, limit.q))
        if estimate is not None and estimate.high > limit.seconds * 1000:
            yield _warn(
                "slo-within-error-band",
                limit.path,
                f"Expected {estimate.value:.0f} ms, but up to {estimate.high:.0f} ms within the error "
                f"band, above "
                f"{limit.seconds * 1000:.0f} ms. Measure before you promise it.",
            )


def _starts(demand: Demand, chosen: Solution, scaling: Scaling) -> Iterator[PlanWarning]:
    cold, slo = scaling.cold_start.total_s, demand.args.slo
    budget = (1 - slo.availability / 100) * WINDOW_S
    online = demand.args.traffic.kind == "online"
    # A token after the first waits for no replica; the request timeout is a limit that is always there.
    waits = [limit for limit in demand.limits if limit.kind != "tpot" and limit.seconds < cold]
    broken = min(waits, key=lambda limit: (limit.path == "request_timeout", limit.seconds), default=None)
    if scaling.min_replicas == 0 and online and broken is not None:
        yield _warn(
            "cold-start-breaks-slo",
            "scaling.scale_to_zero_after",
            f"The first request after an idle time waits {cold:.0f} s for a cold start, beyond "
            f"{broken.path} of {broken.seconds:g} s. "
            "Keep a replica: remove scale_to_zero_after and min_replicas: 0.",
        )
    elif scaling.min_replicas == 1 and online and budget < cold:
        yield _warn(
            "cold-start-breaks-availability",
            "slo.availability",
            f"One lost replica takes {cold:.0f} s to replace; {slo.availability:g} % leaves {budget:.0f} "
            f"s in {OBJECTIVE_DAYS} days. Set scaling.min_replicas to 2.",
        )
    if online and 0 < scaling.min_replicas < scaling.mean_replicas:
        yield _warn(
            "min-below-mean",
            "scaling.min_replicas",
            f"The mean traffic needs {scaling.mean_replicas} replicas; with {scaling.min_replicas} it "
            f"queues for a "
            f"cold start of {cold:.0f} s first.",
        )
    ramped = demand.args.warm != "auto" or demand.args.scaling.min_replicas is not None
    if online and ramped and scaling.autoscaled and scaling.warm_replicas == 0 and broken is not None:
        needed = _ramped_replicas(demand, chosen, scaling) - scaling.min_replicas
        if needed > 0 and scaling.min_replicas > 0:
            yield _warn(
                "no-warm-replica",
                "warm",
                f"Within a cold start of {cold:.0f} s the traffic may need {needed} more replica"
                f"{'s' * (needed > 1)}, and none is kept warm: {broken.path} breaks on the way. "
                "Leave warm at auto.",
            )


def _ramped_replicas(demand: Demand, chosen: Solution, scaling: Scaling) -> int:
    """What the traffic needs by the time that a replica started at the foot of its ramp is ready."""
    fit = chosen.fit
    reached = ramped_rps(demand, fit.mean_rps, fit.peak_rps, scaling.cold_start)
    return math.ceil(reached / fit.bears.rate - 1e-9)


def _waste(demand: Demand, chosen: Solution, expected: Expected) -> Iterator[PlanWarning]:
    """A GPU that was asked for and has little to do, where a cheaper one would meet every demand."""
    args, cut = demand.args, chosen.fit.layout.offer.cut
    shared = cut is not None and not cut.isolated  # others use the rest of it
    if expected.utilisation_at_peak >= IDLE or shared:
        return
    engine = {"tensor_parallel_size": None} if demand.engine.tensor_parallel_size is not None else {}
    free = {"accelerators": None, "gpus_per_replica": None, "instance_type": None, "nodes": None}
    relaxed = args.model_copy(
        update={
            "hardware": args.hardware.model_copy(update=free),
            "engine": args.engine.model_copy(update=engine),
        }
    )
    better = search(resolve(relaxed, demand.can)).best
    if better is None or better.fleet.hourly_usd > CHEAPER * chosen.fleet.hourly_usd:
        return
    found, other = chosen.fit.layout, better.fit.layout
    path = "hardware.gpus_per_replica" if found.gpus > other.gpus else "hardware.accelerators"
    yield _warn(
        "gpu-mostly-idle",
        path if args.hardware.nodes is None else "hardware.nodes",
        f"{found.gpus} x {found.offer.gpu.device} would be {expected.utilisation_at_peak:.0%} busy at the "
        f"peak; {other.gpus} x {other.offer.gpu.device} meets every demand at "
        f"${better.fleet.hourly_usd:.2f}/h instead of ${chosen.fleet.hourly_usd:.2f}/h.",
    )


def _parts(demand: Demand, chosen: Solution, expected: Expected) -> Iterator[PlanWarning]:
    """A whole GPU for a small model, and a shared one for what it can be promised there."""
    found = chosen.fit.layout
    said = suggest.sentence(demand.args, chosen, demand.can, expected.utilisation_at_peak)
    if said is not None:
        yield _warn(
            "small-model-big-gpu",
            "hardware.nodes" if demand.args.hardware.nodes is not None else "hardware.accelerators",
            f"A whole {found.offer.gpu.id} would be {expected.utilisation_at_peak:.0%} busy at the peak. "
            f"{said}",
        )
    cut = found.offer.cut
    if cut is None or cut.isolated:
        return
    asked = [limit.path for limit in demand.limits if limit.path.startswith("slo.")]
    loose = demand.batcher is not None
    held = f" Nothing holds {demand.kind.kind} to its share: it takes what its models need." if loose else ""
    promised = f", {', '.join(asked)} among it," if asked else ""
    yield _warn(
        "shared-gpu-without-isolation",
        "hardware.nodes" if cut.group is None else "colocate",
        f"Up to {cut.turns} pods share the GPU: what is planned{promised} holds while each keeps to its "
        "share of memory and its turn, and an error that makes the GPU fail ends all of them. Slices (mig) "
        f"isolate.{held}",
    )


def _overridden(demand: Demand, scaling: Scaling) -> Iterator[PlanWarning]:
    delay, cold = demand.args.scaling.scale_in_delay, scaling.cold_start.total_s
    if delay is not None and delay.total_seconds() < cold:
        yield _warn(
            "scale-in-before-cold-start",
            "scaling.scale_in_delay",
            f"A replica is taken away after {delay.total_seconds():.0f} s but takes {cold:.0f} s to come "
            f"back. Use "
            f"at least {cold:.0f} s.",
        )
    hold = demand.args.scaling.hold
    if hold is not None and hold.total_seconds() < cold:
        yield _warn(
            "hold-before-cold-start",
            "scaling.hold",
            f"A request that wakes the stack is held for {hold.total_seconds():.0f} s, but a replica takes "
            f"{cold:.0f} s to start: it fails. Leave hold out, or raise it.",
        )
    given = demand.args.hardware
    if given.memory_limit is not None and given.memory_limit != given.memory_request:
        yield _warn(
            "memory-limit-above-request",
            "hardware.memory_limit",
            "The node may have given the difference to another pod, and then this one is killed. Set "
            "both alike.",
        )
    if demand.args.traffic.shared_prefix_tokens and not demand.engine.enable_prefix_caching:
        yield _warn(
            "prefix-cache-off",
            "engine.enable_prefix_caching",
            "The traffic shares a prefix, but it is computed anew for each request. Leave prefix caching on.",
        )


def _measured(demand: Demand, chosen: Solution) -> Iterator[PlanWarning]:
    found = chosen.fit.layout
    gpu = found.offer.gpu
    if demand.batcher is None:
        why_not = measurement.refusal(demand, gpu, found.gpus, found.served.precision)
    else:
        why_not = measurement.batches_refusal(demand, gpu)
    return measurement.warnings_of(chosen.fit.replica, why_not)
