"""Container Apps' own part of planning: names, what it refuses, what is watched, and its section of the plan.

Traps:
- A start that outlasts the startup probe is started again and again, at the price of a GPU, and never serves.
- A new revision runs beside the old one, so the quota must hold both.
"""

from __future__ import annotations

import math
import re

from servingstack import catalog
from servingstack.args import ServingStackArgs
from servingstack.errors import Infeasible, InvalidInput, Nearest, Violation
from servingstack.plan import Assumption, Container, FrontDoor, Scaling, ServingPlan, Timeouts
from servingstack.signals.stack import Stack
from servingstack.watched import Monitoring

from . import alerts, checks, promises, sidecar, watch
from . import limits as known
from .names import app_secret, names, secret_of
from .notes import notes
from .section import ContainerAppsSection, Probe, Probes, Share

violations = checks.violations
READY_PORT = 9091
"""Where the launcher says that a replica is warm; no engine's own port."""
PROBE_TIMEOUT_S = 5
STOP_S = 15
"""For the engine itself to end, after the door."""
PLANNED_SCRATCH_BYTES = 10 * catalog.GIB
"""What the planner counts beside stored weights on a cluster's node (planner/host.py)."""
PRIVATE_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""RFC 1918. Callers of an internal environment have such an address; were the environment a public one,
nobody from outside would be let in."""
QUOTAS = {
    "Consumption-GPU-NC8as-T4": "Managed Environment Consumption T4 Gpus",
    "Consumption-GPU-NC24-A100": "Managed Environment Consumption NCA100 Gpus",
}
"""As the subscription's quota page names them (azure-docs articles/container-apps,
gpu-serverless-overview.md)."""


def monitoring(stack: Stack) -> Monitoring:
    """Objectives, signals and alerts on the environment's logs and the service's metrics."""
    promised = promises.objectives(stack)
    watched, missing = watch.signals(stack)
    return Monitoring(
        objectives=promised,
        signals=watched,
        alerts=alerts.alerts(stack, promised),
        unavailable=missing,
        dashboards=stack.args.observability.dashboards,
        page_burn_rates=promises.PAGE_FACTORS,
    )


def complete(draft: ServingPlan, args: ServingStackArgs) -> ServingPlan:
    """The plan with Container Apps' own decisions. Raises `InvalidInput` and `Infeasible` where the service
    could not carry it out."""
    _refuse(draft, args)
    timeouts = _timeouts(draft)
    scaling = _scaling(draft)
    door = _door(draft, args)
    container = draft.container.model_copy(update={"image": _mirrored(draft.container.image, args)})
    section = _section(draft, args, timeouts, door)
    planned = draft.model_copy(
        update={
            "timeouts": timeouts,
            "scaling": scaling,
            "front_door": door,
            "container": container,
            "architecture": draft.architecture.model_copy(update={"disk_bytes": disk_bytes(draft)}),
            "container_apps": section,
        }
    )
    return planned.model_copy(
        update={
            "warnings": (*draft.warnings, *notes(planned, args)),
            "assumed": (*_kept(draft, timeouts, args), *_assumed(args)),
        }
    )


def _refuse(draft: ServingPlan, args: ServingStackArgs) -> None:
    """What only a plan shows. Raises `InvalidInput` or `Infeasible`."""
    found: list[Violation] = []
    disk = args.target.container_apps.ephemeral_storage
    if (needed := disk_bytes(draft)) > disk:
        gib = f"{needed / catalog.GIB:.1f}GiB"
        allowed = f"weights that fit into a replica's own disk of {disk / catalog.GIB:g}GiB; these need {gib}"
        fix = (
            "Put them on a share: model.source: azurefile://<share>/<path>. Or, where a replica is known "
            "to have more, say so in target.container_apps.ephemeral_storage."
        )
        found.append(Violation("model.source", args.model.source, allowed, fix))
    if found:
        raise InvalidInput(found)
    cold = draft.scaling.cold_start.total_s
    if cold > known.REVISION_DEADLINE_S and not args.target.container_apps.slow_start:
        raise Infeasible(
            f"a replica takes {cold:.0f} s to start, of them {draft.scaling.cold_start.weights_s:.0f} s to "
            f"read its "
            f"weights; after {known.REVISION_DEADLINE_S} s the service calls a revision degraded",
            [
                Nearest("model.precision: fp8, or a smaller model", "fewer bytes to read"),
                Nearest(
                    "target.container_apps.slow_start: true", "if your share is faster, or that may be so"
                ),
            ],
        )
    if draft.timeouts.startup_s > known.LONGEST_START_S:
        raise Infeasible(
            f"a replica may need {draft.timeouts.startup_s} s to start; its startup probe ends after "
            f"{known.LONGEST_START_S} s at the latest",
            [Nearest("model.precision: a lower one", "fewer bytes to read")],
        )


def disk_bytes(draft: ServingPlan) -> int:
    """What a replica needs of its own disk: weights from the hub, and scratch."""
    stored = max(0, draft.architecture.disk_bytes - PLANNED_SCRATCH_BYTES)
    shared = draft.architecture.shared_memory_bytes if _shared_memory_on_disk(draft) else 0
    return stored + known.SCRATCH_BYTES + shared


def _shared_memory_on_disk(draft: ServingPlan) -> bool:
    """Engines that batch whole requests pass tensors to their Python processes through it. With one GPU, one
    that batches tokens does not."""
    return draft.batching.kind == "dynamic"


def _timeouts(draft: ServingPlan) -> Timeouts:
    """No part of the path may outlast the ingress, and draining not the longest grace."""
    given = draft.timeouts
    spare = known.LONGEST_REQUEST_S - given.request_s
    drain = min(given.drain_s, known.LONGEST_REQUEST_S)
    return given.model_copy(
        update={
            "stream_s": min(given.stream_s, known.LONGEST_REQUEST_S),
            "queue_s": max(1, min(given.queue_s, spare)),
            "drain_s": drain,
            "grace_s": sidecar.LEAVE_S + max(drain, given.request_s) + STOP_S,
        }
    )


def _scaling(draft: ServingPlan) -> Scaling:
    """The service's own speeds, which cannot be set."""
    given = draft.scaling
    return given.model_copy(
        update={
            "fallback_replicas": given.min_replicas,
            "scale_in_delay_s": known.SCALE_IN_WINDOW_S,
            "scale_in_period_s": 0,  # all that are spare go at once
        }
    )


def _door(draft: ServingPlan, args: ServingStackArgs) -> FrontDoor:
    door = sidecar.front_door(draft)
    drain = max(_timeouts(draft).drain_s, draft.timeouts.request_s)
    return door.model_copy(update={"image": _mirrored(door.image, args), "drain_s": drain})


def _mirrored(image: str, args: ServingStackArgs) -> str:
    """The same image, by the same digest, in the registry of the input. An image without a registry is Docker
    Hub's, one without a folder its own `library`."""
    registry = args.target.container_apps.registry
    if registry is None:
        return image
    host, slash, rest = image.partition("/")
    hosted = bool(slash) and (re.search(r"[.:]", host) is not None or host == "localhost")
    path = rest if hosted else image
    return f"{registry}/{path if '/' in path else f'library/{path}'}"


def _section(
    draft: ServingPlan, args: ServingStackArgs, timeouts: Timeouts, door: FrontDoor
) -> ContainerAppsSection:
    settings, scaling = args.target.container_apps, draft.scaling
    profile = draft.architecture.instance_type or ""
    machine = catalog.instance_type("azure", profile)
    if machine is None:
        raise ValueError(f"no workload profile is called {profile}")
    door_gib = max(known.DOOR_GIB, math.ceil(2 * door.memory_bytes / catalog.GIB) / 2)
    alerted = bool(draft.monitoring.alerts)
    share = _share(draft.container, args)
    return ContainerAppsSection(
        create_resource_group=settings.resource_group is None,
        create_environment=not settings.own_environment,
        create_workspace=not settings.own_workspace,
        create_action_group=alerted and not settings.own_action_group,
        workload_profile=settings.workload_profile or _profile_name(machine.gpu_id),
        workload_profile_type=profile,
        workload_profiles=_profiles(machine.gpu_id, args),
        subnet=settings.subnet,
        internal=args.exposure == "internal",
        external=args.exposure != "private",
        allowed_ranges=PRIVATE_RANGES if args.exposure == "internal" else (),
        zone_redundant=settings.zone_redundant,
        log_retention_days=settings.log_retention_days,
        registry=settings.registry,
        key_vault=settings.key_vault,
        secrets=_secrets(draft.container, door),
        engine_cores=machine.vcpus - known.DOOR_CORES,
        engine_gib=machine.memory_gib - door_gib,
        door_cores=known.DOOR_CORES,
        door_gib=door_gib,
        concurrent_requests=int(scaling.threshold) if scaling.autoscaled else None,
        cool_down_s=scaling.scale_to_zero_after_s,
        ready_port=READY_PORT,
        engine_probes=_engine_probes(draft.container, timeouts),
        door_probes=_door_probes(draft.container, door),
        grace_s=timeouts.grace_s,
        share=share,
        shared_memory_on_disk=_shared_memory_on_disk(draft),
        notify_emails=settings.notify_emails,
        quota=_quota(draft, profile),
    )


def _profile_name(gpu: str) -> str:
    """Of its GPU: a profile of the same name and another type would be a change of what the app runs on."""
    return f"gpu-{gpu}"


def _profiles(gpu: str, args: ServingStackArgs) -> dict[str, str]:
    settings = args.target.container_apps
    if settings.own_environment:
        return {}
    gpus = dict.fromkeys((gpu, *settings.more_gpus))
    return {
        _profile_name(each): row.name
        for each in gpus
        for row in catalog.instance_types("azure", each, service="container-apps")
    }


def _secrets(container: Container, door: FrontDoor) -> dict[str, str]:
    """The vault's secrets by their names in the app."""
    named = [(each.secret_name, each.secret_key) for each in container.env]
    named += [(each.secret_name, each.secret_key) for each in container.secret_files]
    named.append((door.api_key_secret_name, door.api_key_secret_key))
    found = {secret_of(name, key) for name, key in named if name is not None}
    return {app_secret(name): name for name in sorted(found)}


def _engine_probes(container: Container, timeouts: Timeouts) -> Probes:
    """The launcher says when it is warm, then the engine speaks for itself. The startup probe outlasts the
    launcher, which ends by itself where an engine is not warm in time."""
    period = max(5, math.ceil(timeouts.startup_s / known.MOST_PROBE_FAILURES))
    health = {"port": container.port, "path": container.health_path, "timeout_s": PROBE_TIMEOUT_S}
    return Probes(
        startup=Probe(
            port=READY_PORT,
            path="/",
            period_s=min(period, known.LONGEST_PROBE_PERIOD_S),
            timeout_s=PROBE_TIMEOUT_S,
            failures=known.MOST_PROBE_FAILURES,
            initial_delay_s=min(known.LONGEST_INITIAL_DELAY_S, period),
        ),
        readiness=Probe(**health, period_s=5, failures=3),
        liveness=Probe(**health, period_s=10, failures=6),
    )


def _door_probes(container: Container, door: FrontDoor) -> Probes:
    """Alive is the proxy itself; ready is it with a healthy engine."""
    alive = {"port": door.stats_port, "path": sidecar.READY_PATH, "timeout_s": 2}
    return Probes(
        startup=Probe(**alive, period_s=1, failures=known.MOST_PROBE_FAILURES),
        readiness=Probe(
            port=door.port, path=container.health_path, timeout_s=PROBE_TIMEOUT_S, period_s=5, failures=3
        ),
        liveness=Probe(**alive, period_s=10, failures=3),
    )


def _share(container: Container, args: ServingStackArgs) -> Share | None:
    settings = args.target.container_apps
    scheme, _, rest = args.model.source.partition("://")
    if scheme != checks.SCHEME:
        return None
    name, mount = rest.partition("/")[0], container.model_path or "/models"
    if settings.own_environment:
        return Share(storage=name, mount_path=mount, protocol=settings.share_protocol, link=False)
    return Share(
        storage=name,
        mount_path=mount,
        protocol=settings.share_protocol,
        link=True,
        account=settings.storage_account,
        share=name,
        key_secret=settings.share_key_secret if settings.share_protocol == "smb" else None,
    )


def _quota(draft: ServingPlan, profile: str) -> str:
    most = draft.scaling.max_replicas + draft.rollout.max_surge
    return f"{most} of `{QUOTAS[profile]}` in {draft.architecture.region}"


def _kept(draft: ServingPlan, timeouts: Timeouts, args: ServingStackArgs) -> tuple[Assumption, ...]:
    """The planner's assumptions, with what the service makes of a stream's time."""
    why = f"the service's ingress ends every request after {known.LONGEST_REQUEST_S} s"
    return tuple(
        each.model_copy(update={"value": f"{timeouts.stream_s}s", "why": why})
        if each.path == "stream_timeout" and args.stream_timeout is None
        else each
        for each in draft.assumed
        if not each.path.startswith("target.kubernetes") and each.path != "scaling.scale_in_delay"
    )


def _assumed(args: ServingStackArgs) -> tuple[Assumption, ...]:
    settings = args.target.container_apps
    rows = (
        ("resource_group", settings.resource_group is None, "the stack's own", "none is named"),
        ("own_environment", not settings.own_environment, "no", "the stack makes an environment"),
        ("own_workspace", not settings.own_workspace, "no", "the stack makes a workspace for logs"),
        ("registry", settings.registry is None, "none", "images come from where they are published"),
        (
            "ephemeral_storage",
            "ephemeral_storage" not in settings.model_fields_set,
            f"{settings.ephemeral_storage / catalog.GIB:g}GiB",
            "all that is documented for a replica above one core",
        ),
    )
    found = [
        Assumption(path=f"target.container_apps.{name}", value=value, why=why)
        for name, left_out, value, why in rows
        if left_out
    ]
    why = f"the service's own window, {known.SCALE_IN_WINDOW_S} s"
    return (*found, Assumption(path="scaling.scale_in_delay", value=f"{known.SCALE_IN_WINDOW_S}s", why=why))


__all__ = ["complete", "disk_bytes", "monitoring", "names", "violations"]
