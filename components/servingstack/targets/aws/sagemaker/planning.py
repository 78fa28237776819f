"""SageMaker's own part of planning: names, what it refuses, what is watched, and its section of the plan.

Traps:
- Thirty seconds after it is asked to stop a container is killed: draining must end before that.
- A request whose deadline is shorter than an instance takes to start expires unseen: where there may be none,
  every first request would.
- Start and download have limits of an hour each. A plan that needs longer would never be in service.
"""

from __future__ import annotations

import math

from servingstack.args import ServingStackArgs
from servingstack.engines.vendor_images import VendorImage
from servingstack.errors import Infeasible, InvalidInput, Nearest, Violation
from servingstack.plan import Architecture, Rollout, ServingPlan, Timeouts
from servingstack.signals.burn_rates import PAGE_FACTORS
from servingstack.signals.stack import Stack
from servingstack.units import format_duration
from servingstack.watched import Monitoring

from . import alerts, checks, facts, notes, promises, watch
from .bodies import named
from .container import SERVER_FILE, container, environment, image_row, repository_arn
from .fleet import deployment, speeds, surge, tracking
from .names import VARIANT, names_of
from .scaling import WAKE_S
from .section import Asynchronous, Client, SageMakerSection

violations = checks.violations
_DRAIN_S = facts.STOP_S - 5
_CLIENT_MARGIN_S, _CONNECT_S, _ATTEMPTS = 10, 5, 2
"""The service's own advice is 70 s for its 60 (botocore, sagemaker-runtime InvokeEndpoint)."""
_AMI = {580: "al2023-ami-sagemaker-inference-gpu-4-1", 550: "al2-ami-sagemaker-inference-gpu-3-1"}
"""By the driver's branch (botocore, ProductionVariant.InferenceAmiVersion)."""
_DOWNLOAD_FACTOR = 2.0
"""A download that takes twice as long as planned is still one."""


def names(args: ServingStackArgs) -> dict[str, str]:
    """Physical names by role; those of what cannot be changed get their hash in `complete`."""
    return names_of(args.name, queued=_asynchronous(args))


def monitoring(stack: Stack) -> Monitoring:
    """Objectives, signals and alerts on CloudWatch's series."""
    version = image_row(stack.architecture.engine).version
    promised = promises.objectives(stack, version)
    watched, missing = watch.signals(stack, version)
    return Monitoring(
        objectives=promised,
        signals=watched,
        alerts=alerts.alerts(stack, promised, version),
        unavailable=missing,
        dashboards=stack.args.observability.dashboards,
        page_burn_rates=PAGE_FACTORS,
    )


def complete(draft: ServingPlan, args: ServingStackArgs) -> ServingPlan:
    """The plan with SageMaker's decisions. Raises `Infeasible` where an instance would never be in service,
    and `InvalidInput` for what the image cannot be told or no start can keep."""
    _outlives_a_start(draft, args)
    row = image_row(draft.architecture.engine)
    timeouts = _timeouts(draft, args)
    scaling = speeds(draft, queued=_asynchronous(args))
    parts = {"timeouts": timeouts, "scaling": scaling, "architecture": _architecture(draft, args, row)}
    plan = draft.model_copy(update=parts)
    plan = plan.model_copy(update={"container": container(plan, args)})
    plan = plan.model_copy(update={"sagemaker": _section(plan, args, row)})
    assert plan.sagemaker is not None
    moved = plan.sagemaker.deployment
    rollout = Rollout(
        strategy="blue-green" if moved.kind == "all-at-once" else moved.kind,
        max_surge=surge(plan, plan.scaling.min_replicas),
        max_unavailable=0,
        progress_deadline_s=moved.timeout_s,
    )
    plan = plan.model_copy(update={"rollout": rollout})
    return plan.model_copy(
        update={
            "names": named(plan),
            "warnings": (*plan.warnings, *notes.warnings(plan)),
            "assumed": notes.assumed(plan, args),
        }
    )


def _asynchronous(args: ServingStackArgs) -> bool:
    return args.target.sagemaker.mode == "asynchronous"


def _timeouts(draft: ServingPlan, args: ServingStackArgs) -> Timeouts:
    cold, given = draft.scaling.cold_start, draft.timeouts
    longest = facts.TIMEOUT_S[1]
    for part, seconds in (("its weights", cold.weights_s), ("its engine", cold.engine_s)):
        if seconds > longest:
            raise Infeasible(
                f"an instance takes {seconds:.0f} s for {part}; SageMaker waits {longest} s",
                [Nearest("model.precision: fp8", "or a smaller model: fewer bytes to read")],
            )
    found = given.model_copy(
        update={
            "startup_s": min(given.startup_s, longest),
            "drain_s": min(given.drain_s, _DRAIN_S),
            "grace_s": facts.STOP_S,
            "stream_s": min(given.stream_s, facts.STREAM_S),
        }
    )
    if not _asynchronous(args):
        # Nothing queues before the instances: what waits does so in the engine, within the request's limit.
        return found.model_copy(update={"queue_s": 0})
    return found.model_copy(
        update={
            "queue_s": _time_to_live(args),
            "stream_s": given.request_s,
            "enforced_by": "the service (InvocationTimeoutSeconds) and the model server itself",
        }
    )


def _outlives_a_start(draft: ServingPlan, args: ServingStackArgs) -> None:
    """A request that finds no instance waits for one to be asked for and to start."""
    deadline = args.traffic.deadline
    if not _asynchronous(args) or deadline is None or draft.scaling.min_replicas > 0:
        return
    needed = WAKE_S + math.ceil(draft.scaling.cold_start.total_s)
    if deadline.total_seconds() < needed:
        allowed = (
            f"at least {needed}s with scaling.min_replicas: 0, how long a first request waits for a start"
        )
        fix = f"Set traffic.deadline: {needed}s or longer, or scaling.min_replicas: 1."
        raise InvalidInput([Violation("traffic.deadline", format_duration(deadline), allowed, fix)])


def _time_to_live(args: ServingStackArgs) -> int:
    deadline = args.traffic.deadline
    return facts.LONGEST_TTL_S if deadline is None else math.ceil(deadline.total_seconds())


def _architecture(draft: ServingPlan, args: ServingStackArgs, row: VendorImage) -> Architecture:
    """The release that runs is that of the image."""
    own = getattr(args.engine, "image", None)
    version = row.version if own is None else draft.architecture.engine_version
    return draft.architecture.model_copy(update={"engine_version": version})


def _section(plan: ServingPlan, args: ServingStackArgs, row: VendorImage) -> SageMakerSection:
    own, scaling, limits = args.target.sagemaker, plan.scaling, plan.timeouts
    queued = _asynchronous(args)
    data = args.model.source if plan.architecture.weights_directory is not None else None
    isolated = data is not None if own.network_isolation is None else own.network_isolation
    files = [path for path in plan.container.files if path.endswith(f"/{SERVER_FILE}")]
    download = math.ceil(_DOWNLOAD_FACTOR * scaling.cold_start.weights_s) if data is not None else 0
    low, high = facts.TIMEOUT_S
    download = min(high, max(low, download))
    chosen = SageMakerSection(
        mode=own.mode,
        variant=VARIANT,
        initial_instances=max(1, scaling.min_replicas),
        image=plan.container.image,
        image_repository_arn=repository_arn(plan.container.image),
        inference_ami=_AMI[row.cuda_driver],
        environment=environment(plan, row),
        model_data=data,
        server_file=files[0],
        download_timeout_s=download,
        startup_timeout_s=max(low, limits.startup_s),
        network_isolation=isolated,
        vpc=own.vpc,
        kms_key=own.kms_key,
        weights_key=own.weights_key,
        own_role=own.own_role,
        own_topic=own.own_topic,
        notify_emails=own.notify_emails,
        data_capture_percent=own.data_capture_percent,
        bucket=True,
        expire_days=own.capture_days,
        tracking=tracking(plan, queued=queued),
        deployment=deployment(plan, args, download),
        asynchronous=_queue(plan, args) if queued else None,
        client=Client(
            connect_timeout_s=_CONNECT_S,
            read_timeout_s=limits.request_s + _CLIENT_MARGIN_S,
            max_attempts=_ATTEMPTS,
        ),
    )
    needed = scaling.max_replicas + surge(plan.model_copy(update={"sagemaker": chosen}), scaling.max_replicas)
    quota = f"{plan.architecture.instance_type} for endpoint usage: {needed}"
    return chosen.model_copy(update={"quota": quota})


def _queue(plan: ServingPlan, args: ServingStackArgs) -> Asynchronous:
    return Asynchronous(
        max_in_flight=min(facts.MOST_IN_FLIGHT, max(1, plan.batching.max_num_seqs)),
        invocation_timeout_s=plan.timeouts.request_s,
        time_to_live_s=_time_to_live(args),
        wakes_from_zero=plan.scaling.min_replicas == 0,
    )
