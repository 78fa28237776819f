"""The plan for a person: the decision first, then what it rests on, in the order a reviewer asks.

Trap: rich reads `[...]` in a text as markup, and model ids, label selectors and PromQL are full of
brackets. Every text that comes from a plan goes through `Text`, never through a markup string.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from servingstack import catalog
from servingstack.cli.locking import lock_note
from servingstack.cli.source import Planned, Source, entries
from servingstack.plan import (
    Alternative,
    Architecture,
    Batching,
    Estimate,
    Expected,
    GpuPart,
    Scaling,
    ServingPlan,
    Timeouts,
)
from servingstack.planner import packing, suggest
from servingstack.planner.outlook import HOURS
from servingstack.units import format_size
from servingstack.watched import Unavailable

BAR = 48
_COUNTED = {
    "waiting": "waiting requests",
    "in_flight": "requests in flight",
    "per_second": "requests per second",
    "backlog": "requests of the backlog",
}


def console() -> Console:
    """Standard output, without guessed highlighting."""
    return Console(highlight=False, soft_wrap=False)


def print_plans(source: Source, planned: Mapping[str, Planned]) -> None:
    """Every plan, then the total if there is more than one."""
    out = console()
    for note in source.document.notes:
        out.print(Text(f"note: {note}", style="yellow"))
    for item in planned.values():
        out.print(plan_view(item.fresh), Text(lock_note(item, source)), Text())
    if len(planned) > 1:
        plans = [item.fresh for item in planned.values()]
        looked_at = entries(planned)
        groups = packing.groups(looked_at)
        for said in (*(group.sentence() for group in groups), *suggest.together(looked_at)):
            out.print(Text(said))
        idle = sum(group.idle_usd for group in groups)  # a shared GPU is paid once, and whole
        hourly, monthly = (
            sum(plan.cost.hourly_usd for plan in plans) + idle,
            sum(plan.cost.monthly_usd for plan in plans) + idle * HOURS,
        )
        out.print(
            Text(
                f"Total of {len(plans)} stacks: {usd(hourly)} an hour, {usd(monthly)} a month.", style="bold"
            )
        )


def plan_view(plan: ServingPlan) -> RenderableType:
    """One plan, whole."""
    architecture = plan.architecture
    parts: list[RenderableType] = [
        Rule(Text(f"{plan.name}: {architecture.model}", style="bold"), align="left"),
        Text(architecture.why),
        *_section("Architecture", _pairs(_architecture_rows(plan, whole=_whole(plan)))),
    ]
    if architecture.engine != "published":
        parts += _section("Memory of each GPU", memory_bar(architecture, cache=not _whole(plan)))
        parts += _section("Batching", Text(_batching_text(plan.batching)), curve_table(plan.batching))
    parts += [
        *_section("Scaling", _pairs(_scaling_rows(plan.scaling, pods=plan.placement is not None))),
        *_section("Timeouts", _pairs(_timeout_rows(plan.timeouts, plan.scaling))),
        *_overflow_section(plan),
        *(_section("Objectives", objectives_table(plan)) if plan.monitoring.objectives else ()),
        *_section("Expected at the peak", expected_table(plan)),
        *_section(
            "Cost",
            _pairs(_cost_rows(plan, "requests" if _whole(plan) else "output tokens", _hour(plan))),
        ),
    ]
    if plan.alternatives:
        parts += _section("Alternatives, and why they lost", alternatives_table(plan))
    missing = [item for item in plan.monitoring.unavailable if not (_whole(plan) and _of_tokens(item.signal))]
    if missing:
        parts += _section("Not available on this target", *_missing(missing))
    if plan.warnings:
        rows = [(f"{item.path}", f"{item.message} ({item.code})") for item in plan.warnings]
        parts += _section("Warnings", _pairs(rows))
    if plan.assumed:
        rows = [(item.path, f"{item.value} ({item.why})") for item in plan.assumed]
        parts += _section("Assumed, because nobody said", _pairs(rows))
    return Group(*parts)


def _missing(items: Iterable[Unavailable]) -> Iterable[RenderableType]:
    """Each reason once, under the signals that it is of."""
    signals: dict[str, list[str]] = {}
    for item in items:
        signals.setdefault(item.reason, []).append(item.signal)
    for reason, names in signals.items():
        yield Padding(Text(", ".join(names)), (0, 0, 0, 2))
        yield Padding(Text(reason), (0, 0, 0, 4))


def _section(title: str, *content: RenderableType) -> list[RenderableType]:
    return [Text(), Text(title, style="bold cyan"), *content]


def _pairs(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(f"  {name}"), Text(value))
    return table


def _table(*columns: str, right: Sequence[int] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(
            Text(column, style="dim"), justify="right" if index in right else "left", overflow="fold"
        )
    return table


def _whole(plan: ServingPlan) -> bool:
    """Whether requests are batched whole, so that there are no tokens to time."""
    return plan.batching.kind == "dynamic"


def _of_tokens(signal: str) -> bool:
    """Whether a signal has a meaning only where tokens are generated one by one."""
    return signal.startswith(("ttft_", "tpot_", "kv_cache", "prefix_cache")) or "tokens" in signal


def _batching_text(batching: Batching) -> str:
    wait = f"; waits at most {batching.queue_delay_ms:g} ms for company" if batching.kind == "dynamic" else ""
    return f"limited by {batching.limited_by}{wait}"


def _architecture_rows(whole_plan: ServingPlan, *, whole: bool) -> Iterable[tuple[str, str]]:
    plan = whole_plan.architecture
    # An option that is its own cloud is named once.
    yield "option", " ".join(dict.fromkeys(part for part in (plan.option, plan.cloud, plan.region) if part))
    version = "of an own image" if plan.engine_version is None else plan.engine_version
    yield "engine", f"{plan.engine} {version}"
    instance = f" on {plan.instance_type}" if plan.instance_type is not None else ""
    yield (
        "GPUs",
        f"{plan.gpus_per_replica} x {plan.accelerator} ({plan.accelerator_form}) a replica{instance}",
    )
    if plan.gpu_part is not None:
        yield "part", _part_text(plan.gpu_part)
    if whole:
        yield "precision", f"weights {plan.precision}, activations {plan.dtype}"
    else:
        yield from _token_rows(plan)
    yield from _host_rows(plan, pods=whole_plan.placement is not None)
    if plan.shared_memory_bytes:
        yield "shared memory", format_size(plan.shared_memory_bytes)
    if plan.disk_bytes:
        yield "disk", format_size(plan.disk_bytes)


def _host_rows(plan: Architecture, *, pods: bool) -> Iterable[tuple[str, str]]:
    """A pod asks for a part of a node; elsewhere a replica has the whole machine that is rented for it."""
    needs = f"{plan.cpu_request:g} cores, {format_size(plan.memory_request_bytes)} memory"
    if pods:
        yield "host", f"{needs} (limit {format_size(plan.memory_limit_bytes)})"
        return
    machine = catalog.instance_type(plan.cloud or "", plan.instance_type or "")
    if plan.engine != "published":
        yield "host needs", needs
    if machine is not None:
        yield "host has", f"{machine.vcpus} vCPUs, {machine.memory_gib:g} GiB memory, the whole machine"


def _part_text(part: GpuPart) -> str:
    """What a replica takes of such a GPU."""
    if part.kind == "mig":
        return f"a slice {part.name} of it (MIG), isolated; {part.price_share:.0%} of its price"
    beside = f"group {part.group}" if part.group is not None else "whoever else uses it"
    return (
        f"{part.memory_share:.0%} of its memory, one of {part.turns} turns, shared with {beside} without "
        f"isolation; {part.price_share:.0%} of its price"
    )


def _token_rows(plan: Architecture) -> Iterable[tuple[str, str]]:
    """How a model that is read and written token by token is split and kept."""
    yield "parallelism", f"tensor {plan.tensor_parallel_size}, pipeline {plan.pipeline_parallel_size}"
    quantization = f", quantization {plan.quantization}" if plan.quantization is not None else ""
    yield (
        "precision",
        f"weights {plan.precision}{quantization}, activations {plan.dtype}, KV cache {plan.kv_cache_dtype}",
    )
    if plan.adapters:
        named = ", ".join(adapter.name for adapter in plan.adapters)
        yield "adapters", f"{named}; {plan.max_loras} in a batch, room for rank {plan.max_lora_rank} (LoRA)"
    yield (
        "context",
        f"{plan.max_model_len} tokens a request, {plan.kv_cache_tokens} in the KV cache of a replica",
    )


def memory_bar(architecture: Architecture, *, cache: bool = True) -> RenderableType:
    """How a GPU's memory is filled, as a bar and a legend; `cache`: whether there is a KV cache."""
    memory = architecture.memory_per_gpu
    parts = (
        ("weights", memory.weights, "#"),
        ("adapters", memory.adapters, "a"),
        ("KV cache", memory.kv_cache, "="),
        ("overhead", memory.overhead, "+"),
        ("reserved", memory.reserved, "."),
    )
    bar = "".join(sign * round(BAR * size / memory.total) for _, size, sign in parts)[:BAR]
    legend = [
        (f"{sign} {name}", f"{format_size(size)}  {size / memory.total:.0%}")
        for name, size, sign in parts
        if (cache or name != "KV cache") and (size or name != "adapters")
    ]
    return Group(Text(f"  [{bar:<{BAR}}] {format_size(memory.total)}"), _pairs(legend))


def curve_table(batching: Batching) -> Table:
    """The latency-throughput curve; the chosen batch size is marked."""
    whole = batching.kind == "dynamic"
    columns = ("latency ms",) if whole else ("TTFT ms", "TPOT ms", "tokens/s")
    table = _table("  batch", *columns, "requests/s", "", right=range(len(columns) + 2))
    best = max((point.output_tokens_per_s for point in batching.curve), default=0.0)
    for point in batching.curve:
        chosen = point.batch_size == batching.max_num_seqs
        mark = "<- chosen" if chosen else "" if point.within_slo else "misses the SLO"
        bar = "*" * round(20 * point.output_tokens_per_s / best) if best > 0 else ""
        tokens = () if whole else (f"{point.tpot_ms:.1f}", f"{point.output_tokens_per_s:.0f}")
        table.add_row(
            *(
                Text(text, style="bold" if chosen else "")
                for text in (
                    f"  {point.batch_size}",
                    f"{point.ttft_ms:.0f}",
                    *tokens,
                    f"{point.requests_per_s:.3g}",
                    f"{bar:<20} {mark}".rstrip(),
                )
            )
        )
    return table


def _scaling_rows(scaling: Scaling, *, pods: bool) -> Iterable[tuple[str, str]]:
    least, most = scaling.min_replicas, scaling.max_replicas
    yield "replicas", f"{least} to {most}" if scaling.autoscaled else f"{most} replicas, fixed"
    yield "needed", f"{scaling.mean_replicas} at the mean, {scaling.peak_replicas} at the peak"
    held = f", {scaling.placeholder_pods} placeholder pods" if pods else ""
    yield "warm", f"{scaling.warm_replicas} beyond the mean{held}"
    yield "surge", f"{scaling.surge_replicas} during a rollout"
    if scaling.autoscaled:
        yield "scales on", f"{scaling.metric}, at {scaling.threshold:g} {_COUNTED[scaling.counts]} a replica"
        yield "because", scaling.threshold_arithmetic
        yield from _scale_in(scaling)
    if scaling.scale_to_zero_after_s is not None:
        hold = f", holding requests for up to {scaling.hold_s} s" if scaling.hold_s is not None else ""
        yield "scale to zero", f"after {scaling.scale_to_zero_after_s} s idle{hold}"
    cold = scaling.cold_start
    parts = f"node {cold.node_s:.0f} + image {cold.image_s:.0f} + weights {cold.weights_s:.0f}"
    yield "cold start", f"{cold.total_s:.0f} s = {parts} + engine {cold.engine_s:.0f}"


def _scale_in(scaling: Scaling) -> Iterable[tuple[str, str]]:
    """As the option does it; nothing where neither time is known."""
    delay, period = scaling.scale_in_delay_s, scaling.scale_in_period_s
    if delay:
        spare = f"one replica each {period} s" if period else "all that are spare at once"
        yield "scale in", f"after {delay} s of low load, {spare}"
    elif period:
        yield "scale in", f"while load is low, at most a step each {period} s"


def _timeout_rows(timeouts: Timeouts, scaling: Scaling) -> Iterable[tuple[str, str]]:
    hold_s = 0 if scaling.hold_s is None else scaling.hold_s
    yield "request", f"{timeouts.request_s} s, enforced by {timeouts.enforced_by}"
    if scaling.counts == "backlog":  # nobody waits for an answer that is written into a store
        yield "backlog", f"{timeouts.queue_s} s, then a request that has not begun is dropped"
        yield from _life_rows(timeouts)
        return
    yield "stream", f"{timeouts.stream_s} s in all; first byte and idle gap {timeouts.request_s} s"
    yield "queue", f"{timeouts.queue_s} s"
    yield (
        "client",
        f"set {timeouts.queue_s + hold_s + timeouts.request_s} s (unstreamed) or "
        f"{timeouts.queue_s + hold_s + timeouts.stream_s} s (streamed), waiting included, plus the network",
    )
    yield from _life_rows(timeouts)


def _life_rows(timeouts: Timeouts) -> Iterable[tuple[str, str]]:
    """Of a replica itself."""
    yield "startup", f"{timeouts.startup_s} s until a replica must be ready"
    yield "drain", f"{timeouts.drain_s} s, killed after {timeouts.grace_s} s"


def objectives_table(plan: ServingPlan) -> Table:
    """What is promised, and the histogram edge it is measured at."""
    table = _table("  objective", "share", "at most", "measured at", "window", right=(1, 2, 3))
    for item in plan.monitoring.objectives:
        table.add_row(
            Text(f"  {item.id}"),
            f"{item.percent:g} %",
            "" if item.threshold_ms is None else f"{item.threshold_ms:g} ms",
            "" if item.histogram_edge_s is None else f"{item.histogram_edge_s * 1000:g} ms",
            f"{item.window_days} d",
        )
    return table


def expected_table(plan: ServingPlan) -> RenderableType:
    """Estimates with their bands and sources; a source that all share stands once, below. What has no
    source is not shown as a number."""
    expected = plan.expected
    rows = _expected_whole(expected) if _whole(plan) else _expected_tokens(expected)
    sources = {estimate.source for _, estimate, _ in rows}
    shared = len(sources) == 1
    table = _table("  what", "value", "band", *(() if shared else ("source",)), right=(1, 2))
    for name, estimate, unit in rows:
        source = () if shared else (Text(estimate.source),)
        known = not estimate.source.startswith("none")
        value = f"{_number(estimate.value)} {unit}" if known else "not known"
        band = f"{_number(estimate.low)} to {_number(estimate.high)}" if known else ""
        table.add_row(Text(f"  {name}"), value, band, *source)
    if not all(source.startswith("none") for source in sources):
        for name, share in (("mean", expected.utilisation_at_mean), ("peak", expected.utilisation_at_peak)):
            table.add_row(Text(f"  utilisation, {name}"), f"{share:.0%}", "")
    return Group(table, Text(f"  source: {sources.pop()}")) if shared else table


_Estimates = tuple[tuple[str, Estimate, str], ...]


def _expected_tokens(expected: Expected) -> _Estimates:
    return (
        ("TTFT p50", expected.ttft_p50_ms, "ms"),
        ("TTFT p95", expected.ttft_p95_ms, "ms"),
        ("TPOT p50", expected.tpot_p50_ms, "ms"),
        ("TPOT p95", expected.tpot_p95_ms, "ms"),
        ("whole request p95", expected.latency_p95_ms, "ms"),
        ("output of a replica", expected.output_tokens_per_s, "tokens/s"),
        ("requests of a replica", expected.requests_per_s, "1/s"),
    )


def _expected_whole(expected: Expected) -> _Estimates:
    """The first token of an answer that comes at once is the whole of it."""
    return (
        ("whole request p50", expected.ttft_p50_ms, "ms"),
        ("whole request p95", expected.latency_p95_ms, "ms"),
        ("requests of a replica", expected.requests_per_s, "1/s"),
    )


def _overflow_section(plan: ServingPlan) -> list[RenderableType]:
    """From when the endpoint beside the replicas takes over, and at which price."""
    overflow = None if plan.front_door is None else plan.front_door.overflow
    if overflow is None:
        return []
    price = "no price in the catalog for the same GPUs"
    if overflow.hourly_usd is not None:
        price = f"{usd(overflow.hourly_usd)} an hour of a container with the same GPUs"
    rows = [
        ("here", f"up to {overflow.from_rps:.3g} requests/s, {usd(plan.cost.peak_hourly_usd)} an hour then"),
        (overflow.option, f"what comes while {overflow.at} wait, or no replica is up; {overflow.host}"),
        ("its price", price),
    ]
    return _section("Overflow", _pairs(rows))


def _hour(plan: ServingPlan) -> str:
    return "a GPU hour" if plan.architecture.gpu_part is None else "an hour of that part of a GPU"


def _cost_rows(plan: ServingPlan, unit: str, hour: str) -> Iterable[tuple[str, str]]:
    cost = plan.cost
    yield "hourly", f"{usd(cost.hourly_usd)} at the minimum, {usd(cost.peak_hourly_usd)} at the peak"
    yield (
        "monthly",
        f"{usd(cost.monthly_usd)} (730 h at the minimum), of it {usd(cost.warm_monthly_usd)} to stay warm",
    )
    if plan.scaling.min_replicas == 0 and cost.mean_hourly_usd is not None:
        yield (
            "at the mean",
            f"{usd(cost.mean_hourly_usd)} an hour, {usd(cost.expected)} a month if it never sleeps",
        )
    yield (
        "per unit",
        (
            f"{usd(cost.per_gpu_hour_usd)} {hour}"
            if cost.per_million_output_tokens_usd is None
            else f"{usd(cost.per_gpu_hour_usd)} {hour}, "
            f"{usd(cost.per_million_output_tokens_usd)} a million {unit}"
        ),
    )
    yield "price", f"{cost.basis}, of {cost.price_date}, {cost.price_source}"


def alternatives_table(plan: ServingPlan) -> RenderableType:
    """What else was considered: options that refuse in a sentence, then what lost, row by row."""
    options = any(item.option != plan.architecture.option for item in plan.alternatives)
    columns = ("GPUs", "instance", "TP", "precision", "replicas", "an hour", "lost because")
    first, *rest = ("option", *columns) if options else columns
    table = _table(f"  {first}", *rest, right=[index + options for index in (2, 4, 5)])
    indent = "" if options else "  "
    refused: list[Alternative] = []
    for item in plan.alternatives:
        if not item.gpus_per_replica:  # an option of which no hardware was chosen
            refused.append(item)
            continue
        gpus = f"{item.gpus_per_replica} x {item.accelerator} {item.gpu_part or ''}"
        table.add_row(
            *((Text(f"  {item.option}"),) if options else ()),
            Text(f"{indent}{gpus}".rstrip()),
            Text("" if item.instance_type is None else item.instance_type),
            str(item.tensor_parallel_size),
            item.precision,
            "" if item.replicas is None else str(item.replicas),
            "" if item.hourly_usd is None else usd(item.hourly_usd),
            Text(item.lost_because),
        )
    told = (Text(f"  {item.option} cannot serve this: {item.lost_because}") for item in refused)
    return Group(*told, *((table,) if table.row_count else ()))


def usd(value: float) -> str:
    """Money: cents below a thousand, whole dollars above."""
    return f"${value:,.2f}" if abs(value) < 1000 else f"${value:,.0f}"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
