"""Replicate's planning: the whole plan, since there is no engine of this library to search with.

Instances are counted from a measured table, else taken as given. Nothing is estimated: where no table says a
number, the plan says that there is none.

Trap: a table holds at its own concurrency. Below it an instance is faster and does less, above it nothing is
known; so the row at the planned concurrency is read, and no other.
"""

from __future__ import annotations

import hashlib
import math

from servingstack import catalog, naming
from servingstack._version import __version__
from servingstack.args import DEFAULT_RPS, PEAK_TO_MEAN, ServingStackArgs, latency_objectives
from servingstack.errors import Infeasible, Nearest
from servingstack.measured import MeasuredRow
from servingstack.plan import (
    ColdStart,
    Cost,
    Rollout,
    Scaling,
    ServingPlan,
    Timeouts,
)
from servingstack.signals.stack import Stack

from . import checks, parts, watch
from . import limits as known
from .capabilities import CAPABILITIES
from .section import ReplicateSection

violations = checks.violations
monitoring = watch.monitoring
HOURS = 730.0


def names(args: ServingStackArgs) -> dict[str, str]:
    """Physical names by role. A deployment's model cannot be changed, so its name holds a hash of it."""
    digest = hashlib.sha256(args.model.id.encode()).hexdigest()[:6]
    return {"deployment": naming.physical_name(args.name, digest, known.NAME)}


def complete(draft: ServingPlan, args: ServingStackArgs) -> ServingPlan:
    """Nothing is left open by `whole`."""
    del args
    return draft


def whole(args: ServingStackArgs) -> ServingPlan:
    """The plan. Raises `Infeasible` where the table or the budget says no."""
    machine, row = _machine(args), _row(args)
    _keeps_promises(args, row)
    scaling, timeouts = _scaling(args, row), _timeouts(args)
    _bears_cold_boots(args, scaling, _usd(machine))
    cost = _cost(args, machine, scaling)
    architecture, named = parts.architecture(args, machine, scaling), names(args)
    section = _section(args, machine, scaling, named["deployment"])
    return ServingPlan(
        library_version=__version__,
        args_key=args.key(),
        name=args.name,
        names=named,
        labels=naming.standard_labels(args.name, architecture.engine),
        exposure=args.exposure,
        architecture=architecture,
        batching=parts.batching(args),
        scaling=scaling,
        timeouts=timeouts,
        rollout=Rollout(
            strategy="revision",
            max_surge=scaling.surge_replicas,
            max_unavailable=0,
            progress_deadline_s=math.ceil(2 * known.COLD_BOOT_S) + timeouts.grace_s,
        ),
        container=parts.container(section),
        front_door=None,
        placement=None,
        monitoring=monitoring(Stack(args, named, architecture, scaling, timeouts, cost)),
        expected=parts.expected(row, scaling, _rates(args)),
        cost=cost,
        alternatives=(),
        warnings=tuple(parts.warnings(args, section, scaling)),
        assumed=parts.assumed(args, scaling),
        replicate=section,
    )


def _machine(args: ServingStackArgs) -> catalog.InstanceType:
    """The hardware that is named, else the cheapest with one of the GPUs."""
    hardware = args.hardware
    fitting = [
        machine
        for machine in catalog.instance_types("replicate", service="replicate")
        if (hardware.instance_type in (None, machine.name))
        and (hardware.accelerators is None or machine.gpu_id in hardware.accelerators)
        and hardware.gpus_per_replica in (None, machine.gpu_count)
    ]
    if not fitting:
        raise Infeasible(
            "no hardware of Replicate has those GPUs in that number",
            [Nearest("hardware.gpus_per_replica", "left out, or as the name of the hardware says")],
        )
    return min(fitting, key=lambda machine: (_usd(machine), machine.name))


def _usd(machine: catalog.InstanceType) -> float:
    return min(price.usd_per_hour for price in catalog.prices("replicate", machine.name))


def _row(args: ServingStackArgs) -> MeasuredRow | None:
    """The measurement at the planned concurrency. Raises `Infeasible` where the table does not reach it."""
    table, busy = args.measured, args.target.replicate.concurrency
    if table is None:
        return None
    found = next((row for row in table.rows if row.concurrency == busy), None)
    if found is None:
        rows = ", ".join(f"{row.concurrency:g}" for row in table.rows)
        raise Infeasible(
            f"the measured table says nothing of {busy} predictions at once; it has {rows}",
            [Nearest(f"target.replicate.concurrency: {table.rows[0].concurrency:g}", "as it was measured")],
        )
    return found


def _keeps_promises(args: ServingStackArgs, row: MeasuredRow | None) -> None:
    """Every objective against what was measured at that quantile, or above it."""
    for name in latency_objectives(args.slo):
        kind, _, quantile = name.partition("_")
        spread = None if row is None else getattr(row, f"{kind}_ms")
        value = None if spread is None else getattr(spread, quantile)
        asked = getattr(args.slo, name).total_seconds() * 1000
        if value is None:
            raise Infeasible(
                f"the measured table has no {name}", [Nearest(f"slo.{name}", "left out, or measured")]
            )
        if value > asked:
            raise Infeasible(
                f"{name} was measured as {value:g} ms, above slo.{name} of {asked:g} ms",
                [Nearest(f"slo.{name}: {math.ceil(value)}ms", "what the measured hardware does")],
            )


def _rates(args: ServingStackArgs) -> tuple[float, float]:
    """Mean and peak, per second."""
    given = args.traffic.requests_per_second
    mean = DEFAULT_RPS if given is None else given
    peak = args.traffic.peak_requests_per_second
    return mean, mean * PEAK_TO_MEAN if peak is None else peak


def _scaling(args: ServingStackArgs, row: MeasuredRow | None) -> Scaling:
    asked, (mean, peak) = args.scaling, _rates(args)
    low, high = asked.min_replicas, asked.max_replicas
    if row is None:
        needed, most = low or 0, high or 1
        arithmetic = "given: nothing says what an instance serves"
    else:
        each = row.requests_per_s * known.UTILISATION
        needed, most = math.ceil(mean / each - 1e-9), math.ceil(peak / each - 1e-9)
        arithmetic = f"an instance serves {row.requests_per_s:g}/s when full, {known.UTILISATION:.0%} is used"
    low = needed if low is None else low
    high = max(low, most) if high is None else high
    if most > high or high > known.MOST_INSTANCES or low > known.MOST_MIN_INSTANCES:
        raise Infeasible(
            f"the peak of {peak:g}/s takes {most} instances, and {low} are kept; allowed are {high}, and "
            f"{known.MOST_INSTANCES} and {known.MOST_MIN_INSTANCES} by Replicate's API",
            [Nearest("hardware.instance_type", "hardware on which an instance serves more")],
        )
    idle = asked.scale_to_zero_after
    boot = known.COLD_BOOT_S
    return Scaling(
        autoscaled=low != high,
        min_replicas=low,
        max_replicas=high,
        mean_replicas=needed,
        peak_replicas=most,
        warm_replicas=max(0, low - needed),
        surge_replicas=max(1, low),
        placeholder_pods=0,
        metric=CAPABILITIES.queue_metric,
        threshold=float(args.target.replicate.concurrency),
        threshold_arithmetic=f"Replicate scales by its own queue; {arithmetic}",
        fallback_replicas=low,
        scale_out_window_s=0,
        scale_in_delay_s=0,
        scale_in_period_s=0,
        scale_to_zero_after_s=None if idle is None else round(idle.total_seconds()),
        hold_s=math.ceil(boot) if low == 0 else None,
        cold_start=ColdStart(node_s=0.0, image_s=boot, weights_s=0.0, engine_s=0.0, total_s=boot),
    )


def _bears_cold_boots(args: ServingStackArgs, scaling: Scaling, usd: float) -> None:
    """A promise shorter than a boot needs an instance that is kept."""
    if scaling.min_replicas > 0 or args.traffic.kind != "online":
        return
    for name in latency_objectives(args.slo):
        seconds = getattr(args.slo, name).total_seconds()
        if not name.startswith("tpot") and seconds < known.COLD_BOOT_S:
            raise Infeasible(
                f"slo.{name} of {seconds * 1000:g} ms with no instance kept: a boot takes seconds to several "
                f"minutes, {known.COLD_BOOT_S:g} s are planned",
                [Nearest("scaling.min_replicas: 1", f"one instance stays, for ${usd * HOURS:,.0f} a month")],
            )


def _timeouts(args: ServingStackArgs) -> Timeouts:
    seconds = math.ceil(args.request_s)
    return Timeouts(
        request_s=seconds,
        stream_s=seconds,
        queue_s=0,  # the deadline counts from when it was made
        enforced_by=CAPABILITIES.timeout_enforced_by,
        kind=CAPABILITIES.timeout_kind,
        client_s=seconds,
        startup_s=math.ceil(2 * known.COLD_BOOT_S),
        drain_s=seconds,
        grace_s=seconds,
    )


def _section(
    args: ServingStackArgs, machine: catalog.InstanceType, scaling: Scaling, name: str
) -> ReplicateSection:
    own = args.target.replicate
    timeout = _timeouts(args).request_s
    return ReplicateSection(
        owner=own.owner or "",
        name=name,
        model=args.model.id,
        version=args.model.revision or "",
        hardware=machine.name,
        min_instances=scaling.min_replicas,
        max_instances=scaling.max_replicas,
        concurrency=own.concurrency,
        deadline_s=timeout,
        wait_s=min(known.LONGEST_WAIT_S, timeout),
        warm_up_input=None if own.warm_up_input is None else dict(own.warm_up_input),
        adopt=own.adopt,
    )


def _cost(args: ServingStackArgs, machine: catalog.InstanceType, scaling: Scaling) -> Cost:
    price = catalog.prices("replicate", machine.name)[0]
    usd = price.usd_per_hour
    peak, mean = usd * scaling.max_replicas, max(scaling.mean_replicas, scaling.min_replicas)
    budget = args.hardware.max_hourly_cost
    if budget is not None and peak > budget:
        raise Infeasible(
            f"{scaling.max_replicas} instances of {machine.name} cost ${peak:.2f}/h, above max_hourly_cost",
            [Nearest(f"scaling.max_replicas: {int(budget // usd)}", "fewer at the peak")],
        )
    return Cost(
        hourly_usd=round(usd * scaling.min_replicas, 4),
        peak_hourly_usd=round(peak, 4),
        monthly_usd=round(usd * scaling.min_replicas * HOURS, 2),
        warm_monthly_usd=round(usd * scaling.warm_replicas * HOURS, 2),
        per_gpu_hour_usd=round(usd / machine.gpu_count, 4),
        machine_hourly_usd=usd,
        per_million_output_tokens_usd=None,
        basis="on-demand",
        price_date=price.date,
        price_source=price.source,
        mean_hourly_usd=round(usd * mean, 4),
        expected_monthly_usd=round(usd * mean * HOURS, 2),
    )
