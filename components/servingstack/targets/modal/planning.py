"""Modal's own part of planning: names, what it refuses, what is watched, and its section of the plan.

Trap: idle time is cold start's twin. Below it, a container that nobody waits for any more is taken away while
it still loads (70B on two H100 with 120 s: it never served), so the planned idle time is never shorter.
"""

from __future__ import annotations

import math

from servingstack import catalog, naming
from servingstack.args import ServingStackArgs
from servingstack.errors import Infeasible, InvalidInput, Nearest, Violation
from servingstack.plan import Assumption, ServingPlan, Timeouts
from servingstack.signals.burn_rates import PAGE_FACTORS
from servingstack.signals.stack import Stack
from servingstack.units import format_duration
from servingstack.watched import Monitoring

from . import alerts, checks, watch
from . import limits as known
from .notes import notes
from .section import ModalSection

violations = checks.violations
READY_PORT = 9091
"""Where the launcher says that a container is warm; no engine's own port."""
HUB_BYTES_PER_S = 100e6
"""At least, when the first container fills the cache. An assumption, well below what hubs give."""
STOP_S = 30
"""What Modal gives a container to end (modal.com/docs/guide/lifecycle-functions)."""
SHORTEST_IDLE_S = 300
"""Of a container that is not needed now, where nothing was asked: as long as elsewhere in this library."""


def names(args: ServingStackArgs) -> dict[str, str]:
    """Physical names by role. The app has the stack's own name, at most 40 characters."""
    return {
        "app": args.name,
        "label": args.name,
        "cache": naming.physical_name(args.name, "cache", known.OBJECT_NAME),
    }


def monitoring(stack: Stack) -> Monitoring:
    """Objective, signals and alerts on what Modal exports."""
    promised = alerts.objectives(stack)
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
    """The plan with Modal's own decisions. Raises `Infeasible` where a container would be taken away while it
    starts, or a promise cannot bear its cold starts, and `InvalidInput` for an idle time that is shorter."""
    machine = catalog.instance_type("modal", draft.architecture.instance_type or "")
    if machine is None:
        raise ValueError(f"Modal has no container {draft.architecture.instance_type}")
    timeouts = _timeouts(draft)
    section = _section(draft, args, machine, timeouts)
    idle = section.scaledown_window_s
    zero = draft.scaling.scale_to_zero_after_s
    scaling = draft.scaling.model_copy(
        update={
            "scale_in_delay_s": idle,
            "scale_in_period_s": 0,  # each goes for itself, once it is idle
            "scale_to_zero_after_s": None if zero is None else idle,
            "hold_s": None,  # a start from zero is waited for in the one queue that there is
        }
    )
    return draft.model_copy(
        update={
            "modal": section,
            "timeouts": timeouts,
            "scaling": scaling,
            "warnings": (*draft.warnings, *notes(draft, args, section)),
            "assumed": _assumed(draft, args, section),
        }
    )


def _timeouts(draft: ServingPlan) -> Timeouts:
    """A start may take as long as planned, and the first one fills the cache before: at most the repository
    in 16 bits, twice what is served in 8."""
    given = draft.timeouts
    fill = 2 * draft.architecture.weight_bytes / HUB_BYTES_PER_S
    return given.model_copy(
        update={
            "stream_s": given.request_s,
            "queue_s": known.LONGEST_REQUEST_S,
            "startup_s": min(known.LONGEST_START_S, given.startup_s + math.ceil(fill)),
            "drain_s": STOP_S,
            "grace_s": STOP_S,
        }
    )


def idle_s(draft: ServingPlan, args: ServingStackArgs) -> int:
    """Idle time of a container. Raises `Infeasible` where none that Modal takes covers a cold start, and
    `InvalidInput` for one that was asked and does not."""
    start = math.ceil(draft.scaling.cold_start.total_s)
    if start > known.LONGEST_IDLE_S:
        raise Infeasible(
            f"a cold start takes {start} s, and Modal takes an idle container away after "
            f"{known.LONGEST_IDLE_S} s at the latest: it would go while it loads",
            [Nearest("model.precision: fp8", "or a smaller model: fewer bytes to read")],
        )
    scaling = args.scaling
    asked = {
        "scaling.scale_to_zero_after": scaling.scale_to_zero_after,
        "scaling.scale_in_delay": scaling.scale_in_delay,
    }
    for path, value in asked.items():
        if value is None:
            continue
        if value.total_seconds() < start:
            allowed = f"at least the cold start, {start}s: a container would be taken away while it loads"
            raise InvalidInput([Violation(path, format_duration(value), allowed, f"Use {start}s or more.")])
        return math.ceil(value.total_seconds())
    return min(known.LONGEST_IDLE_S, max(SHORTEST_IDLE_S, start))


def concurrency(places: int, in_flight: float) -> tuple[int, int]:
    """Most requests of a container, and those at which another is started: the engine's places and a tenth
    more, so that it never waits for work; Modal holds the rest."""
    target = max(1, math.floor(in_flight))
    most = min(known.MOST_INPUTS, max(target, places + math.ceil(0.1 * places)))
    return most, min(target, most)


def _section(
    draft: ServingPlan, args: ServingStackArgs, machine: catalog.InstanceType, timeouts: Timeouts
) -> ModalSection:
    own, source, key = args.target.modal, args.model.source, args.api_key_secret
    most, target = concurrency(draft.batching.max_num_seqs, draft.scaling.threshold)
    region = draft.architecture.region
    volume = source.removeprefix("modal://").partition("/")[0] if source.startswith("modal://") else None
    return ModalSection(
        app=draft.names["app"],
        environment=own.environment,
        label=draft.names["label"],
        gpu=machine.name,
        cpu=machine.vcpus / 2,
        memory_mib=round(machine.memory_gib * 1024),
        region=None if region in (None, known.ANYWHERE) else region,
        min_containers=draft.scaling.min_replicas,
        max_containers=draft.scaling.max_replicas,
        buffer_containers=own.buffer_containers,
        scaledown_window_s=idle_s(draft, args),
        max_inputs=most,
        target_inputs=target,
        timeout_s=timeouts.request_s,
        startup_timeout_s=timeouts.startup_s,
        ready_port=READY_PORT,
        requires_proxy_auth=args.exposure == "private",
        cache_volume=draft.names["cache"],
        keep_cache=own.keep_cache,
        weights_volume=volume,
        secrets=_secrets(draft),
        api_key=None if key is None else (key.name, key.key),
        registry_secret=own.registry_secret,
        tags={**(args.labels or {}), checks.OWN_TAG: draft.name},
        adopt=own.adopt,
    )


def _secrets(draft: ServingPlan) -> dict[str, tuple[str, ...]]:
    """Keys by secret, of variables and files alike."""
    wanted = [
        (variable.secret_name, variable.secret_key or "")
        for variable in draft.container.env
        if variable.secret_name is not None
    ] + [(file.secret_name, file.secret_key) for file in draft.container.secret_files]
    found: dict[str, set[str]] = {}
    for name, key in wanted:
        found.setdefault(str(name), set()).add(key)
    return {name: tuple(sorted(keys)) for name, keys in sorted(found.items())}


def _assumed(draft: ServingPlan, args: ServingStackArgs, section: ModalSection) -> tuple[Assumption, ...]:
    """The planner's, but for what Modal decides otherwise, and its own."""
    own = _decided(args, section)
    paths = {each.path for each in own} | {"scaling.scale_in_delay"}
    return (*(each for each in draft.assumed if each.path not in paths), *own)


def _decided(args: ServingStackArgs, section: ModalSection) -> tuple[Assumption, ...]:
    given, found = args.target.modal.model_fields_set, list[Assumption]()
    if args.stream_timeout is None:
        why = "the request timeout: Modal has one for both"
        found.append(Assumption(path="stream_timeout", value=f"{section.timeout_s}s", why=why))
    if "environment" not in given:
        found.append(
            Assumption(
                path="target.modal.environment", value="the workspace's default", why="nobody named one"
            )
        )
    if section.region is None:
        why = f"the plain price; a region costs {known.BROAD_FACTOR} to {known.NARROW_FACTOR} times it"
        found.append(Assumption(path="target.region", value="wherever there is room", why=why))
    if args.scaling.scale_in_delay is None and args.scaling.scale_to_zero_after is None:
        why = "a cold start, at least 5m"
        value = f"{section.scaledown_window_s}s"
        found.append(Assumption(path="scaling.scale_in_delay", value=value, why=why))
    why = "in alpha and for one GPU alone, and an engine must be put to sleep for one"
    found.append(Assumption(path="target.modal", value="no memory snapshots", why=why))
    return tuple(found)
