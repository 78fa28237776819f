"""Cloud Run's own part of planning: names, what it refuses, what is watched, and its section of the plan.

Traps:
- The start of an instance has an upper limit. A plan whose weights take longer would never be ready, and
  Cloud Run would start it again and again, at the price of a GPU.
- Quotas are checked over the most instances there can be, at deployment, and a rollout's new revision
  counts too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from servingstack import catalog, naming
from servingstack.args import SecretKey, ServingStackArgs
from servingstack.errors import Infeasible, InvalidInput, Nearest, Violation
from servingstack.plan import Assumption, ServingPlan, Timeouts
from servingstack.signals.burn_rates import PAGE_FACTORS
from servingstack.signals.stack import Stack
from servingstack.watched import Monitoring

from . import alerts, checks, objectives, watch
from . import limits as known
from .collector import collector
from .notes import notes
from .pricing import completed, surcharge_usd
from .section import CloudRunSection, Collector, Egress, Ingress, Quota, SecretVersion

violations = checks.violations
_DECIDED_BY_CLOUD_RUN = ("stream_timeout", "scaling.scale_in_delay", "scaling.hold", "rollout.surge")
"""What the planner assumes for every option, and Cloud Run does in its own way."""
READY_PORT = 9091
"""Where the launcher says that an instance is warm; no engine's own port."""
_INGRESS: dict[str, Ingress] = {
    "private": "INGRESS_TRAFFIC_INTERNAL_ONLY",
    "internal": "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER",
    "public": "INGRESS_TRAFFIC_ALL",
}
_EGRESS: dict[str, Egress] = {"all-traffic": "ALL_TRAFFIC", "private-ranges": "PRIVATE_RANGES_ONLY"}


def names(args: ServingStackArgs) -> dict[str, str]:
    """Physical names by role. The service has the stack's own name, at most 40 characters; what a project has
    once gets the chosen region's in `complete`."""
    return {"service": args.name, **names_in(args, args.target.region)}


def names_in(args: ServingStackArgs, region: str | None) -> dict[str, str]:
    """Physical names of what a project has once, whatever its region: those of two regions must differ."""
    name = args.name if region is None else f"{args.name}-{region}"
    found = {
        "account": naming.physical_name(name, "serving", known.ACCOUNT_NAME),
        "monitored": naming.physical_name(name, "cloud-run"),
    }
    if args.target.cloud_run.collector_image is not None:
        found["collector"] = naming.physical_name(name, "collector")
    return found


def monitoring(stack: Stack) -> Monitoring:
    """Objectives, signals and alerts on Cloud Run's own metrics."""
    promised = objectives.objectives(stack)
    watched, missing = watch.signals(stack)
    return Monitoring(
        objectives=promised,
        signals=watched,
        alerts=alerts.alerts(stack, promised),
        unavailable=missing,
        dashboards=stack.args.observability.dashboards,
        page_burn_rates=PAGE_FACTORS,
    )


def complete(draft: ServingPlan, args: ServingStackArgs) -> ServingPlan:
    """The plan with Cloud Run's own decisions. Raises `Infeasible` where an instance would never be ready,
    and `InvalidInput` for an image that Cloud Run does not read."""
    if args.target.cloud_run.uptime_check and draft.scaling.min_replicas == 0:
        raise InvalidInput([checks.wakes()])
    timeouts = _timeouts(draft)
    machine = catalog.instance_type("gcp", draft.architecture.instance_type or "")
    if machine is None:
        raise ValueError(f"no instance of Cloud Run is called {draft.architecture.instance_type}")
    section = _section(draft, args, machine, timeouts)
    surcharge = surcharge_usd(args, draft.architecture.accelerator, draft.architecture.region)
    cost = completed(draft.cost, surcharge)
    budget = args.hardware.max_hourly_cost
    if budget is not None and cost.peak_hourly_usd > budget:
        changes = [
            Nearest("target.cloud_run.zonal_redundancy: false", "another zone is tried, not promised"),
            Nearest("target.cloud_run.collector_image: null", "without the engine's own metrics"),
        ]
        asked = (args.target.cloud_run.zonal_redundancy, args.target.cloud_run.collector_image)
        taken = [change for change, on in zip(changes, asked, strict=True) if on]
        raise Infeasible(
            f"${cost.peak_hourly_usd:.2f}/h at the peak, of it ${surcharge:.2f} an instance for zonal "
            "redundancy or a collector, above max_hourly_cost",
            taken,
        )
    return draft.model_copy(
        update={
            "cloud_run": section,
            "names": {**draft.names, **names_in(args, draft.architecture.region)},
            "timeouts": timeouts,
            "cost": cost,
            "scaling": draft.scaling.model_copy(
                update={
                    "scale_out_window_s": known.AUTOSCALER_WINDOW_S,
                    "scale_in_delay_s": known.IDLE_S,
                    "scale_in_period_s": 0,  # each goes for itself, once it is idle
                    "hold_s": None,  # a start from zero is waited for in the one queue that there is
                }
            ),
            "warnings": (*draft.warnings, *notes(draft, args, section)),
            "assumed": (
                *(each for each in draft.assumed if each.path not in _DECIDED_BY_CLOUD_RUN),
                *_assumed(args, section, timeouts),
            ),
        }
    )


def _timeouts(draft: ServingPlan) -> Timeouts:
    cold, given = draft.scaling.cold_start, draft.timeouts
    start = math.ceil(cold.weights_s + cold.engine_s)
    if start > known.LONGEST_START_S:
        raise Infeasible(
            f"an instance takes {start} s to read its weights and warm up; Cloud Run waits "
            f"{known.LONGEST_START_S} s for an instance with a GPU",
            [
                Nearest(
                    "model.source: gs://<bucket>/<path>",
                    "weights from a bucket in the region, or in the image (image://<path>), not the hub",
                ),
                Nearest("model.precision: fp8", "or a smaller model: fewer bytes to read"),
            ],
        )
    waits = max(known.SHORTEST_PENDING_S, math.ceil(known.PENDING_STARTS * cold.total_s))
    return given.model_copy(
        update={
            "stream_s": given.request_s,
            "queue_s": waits,
            "startup_s": min(given.startup_s, known.LONGEST_START_S),
            "drain_s": known.STOP_S,
            "grace_s": known.STOP_S,
        }
    )


def _section(
    draft: ServingPlan, args: ServingStackArgs, machine: catalog.InstanceType, timeouts: Timeouts
) -> CloudRunSection:
    own, batching, source = args.target.cloud_run, draft.batching, args.model.source
    most, share = concurrency(batching.max_num_seqs, draft.scaling.threshold)
    secrets = _secrets(draft, args)
    bucket = source.removeprefix("gs://").partition("/")[0] if source.startswith("gs://") else None
    return CloudRunSection(
        accelerator=machine.machine_type,
        cpu=machine.vcpus,
        memory_gib=round(machine.memory_gib),
        memory_needed_bytes=draft.architecture.memory_request_bytes,
        zonal_redundancy=own.zonal_redundancy,
        image=_image(draft.container.image, own.image_repository),
        max_concurrency=most,
        concurrency_utilization=share,
        cpu_utilization=known.MOST_CPU_UTILIZATION,
        ready_port=READY_PORT,
        startup_period_s=known.PROBE_PERIOD_S,
        startup_failures=math.ceil(timeouts.startup_s / known.PROBE_PERIOD_S),
        ingress=_INGRESS[args.exposure],
        invokers=own.invokers,
        vpc_egress=None if own.vpc_egress is None else _EGRESS[own.vpc_egress],
        session_affinity=own.session_affinity,
        binary_authorization=own.binary_authorization,
        deletion_protection=own.deletion_protection,
        bucket=bucket,
        mount_path=None if bucket is None else draft.container.model_path,
        secrets=secrets,
        api_key_secret=None if args.api_key_secret is None else args.api_key_secret.name,
        api_key_secret_key=None if args.api_key_secret is None else args.api_key_secret.key,
        labels=_labels(draft, args),
        uptime_check=checks.uptime_wanted(args, draft.scaling.min_replicas),
        collector=_collector(draft, args, machine),
        quotas=_quotas(draft, args, machine),
    )


def _collector(draft: ServingPlan, args: ServingStackArgs, machine: catalog.InstanceType) -> Collector | None:
    """Refused where an instance has no room for it."""
    image = args.target.cloud_run.collector_image
    if image is None:
        return None
    found = collector(image, draft.container)
    most = known.MOST_OF_INSTANCE.get(draft.architecture.accelerator)
    cpu, memory = machine.vcpus + found.cpu, round(machine.memory_gib) + found.memory_gib
    if most is not None and (cpu > most[0] or memory > most[1]):
        raise Infeasible(
            f"the collector needs {found.cpu} core and {found.memory_gib} GiB beside "
            f"{machine.machine_type}'s {machine.vcpus} and {machine.memory_gib:.0f}; an instance has at most "
            f"{most[0]} cores and {most[1]} GiB",
            [
                Nearest("target.cloud_run.collector_image: null", "without the engine's own metrics"),
                Nearest("model.source: gs://<bucket>/<path>", "a download no longer fills the memory"),
            ],
        )
    return found


def concurrency(places: int, in_flight: float) -> tuple[int, float]:
    """Most requests of an instance, and the share of them at which another starts.

    The engine's places and a tenth more, so that it never waits for work; Cloud Run holds the rest. The
    share is the planned number in flight, within what can be set: where it would be too small or too large
    a share, the most is moved instead."""
    most = places + math.ceil(0.1 * places)
    most = max(most, math.ceil(in_flight / known.MOST_UTILIZATION))
    most = min(most, math.floor(in_flight / known.LEAST_UTILIZATION), known.LARGEST_CONCURRENCY)
    share = min(known.MOST_UTILIZATION, max(known.LEAST_UTILIZATION, in_flight / most))
    return most, round(share, 3)


def _image(reference: str, mirror: str | None) -> str:
    """Where it is pulled from. A remote repository keeps the path and the digest."""
    host, _, path = reference.partition("/")
    if mirror is not None:
        return f"{mirror}/{path}"
    if not any(
        host == name or host.endswith(f".{name}") or host.endswith(f"-{name}") for name in known.REGISTRIES
    ):
        allowed = f"an image of {', '.join(known.REGISTRIES)}, which Cloud Run reads"
        fix = "Set target.cloud_run.image_repository to a remote repository of Artifact Registry for it."
        raise InvalidInput([Violation("engine.image", reference, allowed, fix)])
    return reference


def _secrets(draft: ServingPlan, args: ServingStackArgs) -> dict[str, SecretVersion]:
    """Versions by the variable or path that the container finds them at."""
    given: list[SecretKey] = [
        secret for secret in (args.model.token_secret, args.api_key_secret) if secret is not None
    ]
    versions = {(secret.name, secret.key): checks.version(secret) or "latest" for secret in given}
    places = {
        variable.name: (variable.secret_name, variable.secret_key or "")
        for variable in draft.container.env
        if variable.secret_name is not None
    } | {file.path: (file.secret_name, file.secret_key) for file in draft.container.secret_files}
    return {
        place: SecretVersion(
            secret=str(secret[0]), version=versions.get((str(secret[0]), secret[1]), "latest")
        )
        for place, secret in places.items()
    }


def _labels(draft: ServingPlan, args: ServingStackArgs) -> dict[str, str]:
    own = {"stack": draft.name, "component": draft.architecture.engine, "part-of": "servingstack"}
    return {**(args.labels or {}), **own, "managed-by": "pulumi"}


def _quotas(draft: ServingPlan, args: ServingStackArgs, machine: catalog.InstanceType) -> tuple[Quota, ...]:
    """At the peak: the most instances, and those of a new revision beside them."""
    scaling, gpu = draft.scaling, draft.architecture.accelerator
    redundant, beside = args.target.cloud_run.zonal_redundancy, _collector(draft, args, machine)
    cpu, memory = (0, 0) if beside is None else (beside.cpu, beside.memory_gib)
    most = scaling.max_replicas + scaling.surge_replicas
    identity, unit, each = known.GPU_QUOTAS[gpu, redundant]
    how = "with" if redundant else "without"
    return (
        Quota(id=identity, title=f"{gpu} GPUs {how} zonal redundancy", needed=most * each, unit=unit),
        Quota(id=known.CPU_QUOTA, title="CPU", needed=most * (machine.vcpus + cpu) * 1000, unit="milli-vCPU"),
        Quota(
            id=known.MEMORY_QUOTA,
            title="memory",
            needed=most * round((machine.memory_gib + memory) * catalog.GIB),
            unit="bytes",
        ),
    )


def _assumed(args: ServingStackArgs, section: CloudRunSection, timeouts: Timeouts) -> Iterator[Assumption]:
    given = args.target.cloud_run.model_fields_set
    if args.stream_timeout is None:
        why = "the request timeout: Cloud Run has one for both"
        yield Assumption(path="stream_timeout", value=f"{timeouts.stream_s}s", why=why)
    if args.scaling.min_replicas == 0:
        why = f"the queue: Cloud Run holds requests for {known.PENDING_STARTS:g} times its average start"
        yield Assumption(path="scaling.hold", value=f"{timeouts.queue_s}s", why=why)
    found = {
        "zonal_redundancy": ("no", "the cheaper GPU, whose first quota is granted without asking"),
        "deletion_protection": ("no", "the service holds no data"),
        "uptime_check": (
            "yes" if section.uptime_check else "no",
            "Google's checkers reach public services alone, and keep an idle instance awake",
        ),
    }
    for name, (value, why) in found.items():
        if name not in given:
            yield Assumption(path=f"target.cloud_run.{name}", value=value, why=why)
