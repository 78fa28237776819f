"""What works, but a reviewer should know; and what was decided without being asked for.

Trap: a warning that is always there is read by nobody, so each has a condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from servingstack.args import ServingStackArgs
from servingstack.engines.vendor_images import is_release
from servingstack.plan import Assumption, PlanWarning, ServingPlan
from servingstack.units import format_duration

from .facts import STOP_S, STREAM_S
from .parts import section
from .promises import by_engine

GB = 1e9


def warnings(plan: ServingPlan) -> tuple[PlanWarning, ...]:
    """In the order of the input's fields."""
    return tuple(PlanWarning(code=code, path=path, message=message) for code, path, message in _found(plan))


def _found(plan: ServingPlan) -> Iterator[tuple[str, str, str]]:
    chosen = section(plan)
    if is_release(chosen.image):
        yield (
            "image-by-tag",
            "engine.image",
            "AWS's own image is named by its full release, which AWS does not move; its digest can only be "
            "read with an account. To fix it too, set engine.image to the same image with @sha256:...",
        )
    if chosen.model_data is None:
        size = plan.architecture.weight_bytes / GB
        yield (
            "weights-from-the-hub",
            "model.source",
            f"Each instance fetches {size:.0f} GB from the hub when it starts: where the hub is slow or "
            "down, nothing scales and no failed instance is replaced. Put the weights into a bucket of the "
            "region (model.source: s3://...), which also allows network isolation.",
        )
        if chosen.vpc:
            yield (
                "vpc-needs-a-way-out",
                "target.sagemaker.vpc",
                "The subnets need a NAT gateway to reach the hub; without one no instance becomes ready.",
            )
    if chosen.model_data is not None and chosen.vpc:
        yield (
            "vpc-needs-a-bucket-endpoint",
            "target.sagemaker.vpc",
            "The subnets need a gateway endpoint for S3 (or a NAT gateway) to read the weights.",
        )
    if chosen.kms_key:
        yield (
            "key-does-not-reach-the-disk",
            "target.sagemaker.kms_key",
            "An instance's own disk, where weights and caches are, is encrypted by its hardware with its own "
            "key: SageMaker does not use yours there. Yours encrypts the buckets and what is captured.",
        )
    if chosen.asynchronous is None and plan.timeouts.stream_s > STOP_S:
        yield (
            "streams-end-at-scale-in",
            "stream_timeout",
            f"An instance that is taken away is killed {STOP_S} s after it is asked to stop, and streams on "
            "it end there; clients must be ready to ask again.",
        )
    if plan.monitoring.alerts and not chosen.own_topic and not chosen.notify_emails:
        yield (
            "alarms-reach-nobody",
            "target.sagemaker.notify_emails",
            f"Alarms go to the topic {plan.names['topic']}, to which nobody subscribes yet. Name addresses, "
            "or a topic of your own (own_topic).",
        )
    if any(by_engine(objective) for objective in plan.monitoring.objectives):
        yield (
            "objectives-need-detailed-observability",
            "slo",
            "Times to and between tokens come from the engine through SageMaker's detailed observability, "
            "which new endpoints have on; an alarm says if its series are missing.",
        )
    yield "quota", "scaling.max_replicas", f"A deployment needs the quota {chosen.quota} in this region."


def assumed(plan: ServingPlan, args: ServingStackArgs) -> tuple[Assumption, ...]:
    """Values that nobody gave: the planner's, but for those that the option decides otherwise, and its
    own."""
    chosen = section(plan)
    own = tuple(Assumption(path=path, value=value, why=why) for path, value, why in _decided(plan, args))
    paths = {each.path for each in own} | {"scaling.hold"}
    if chosen.asynchronous is not None:
        paths.add("stream_timeout")  # answers go into a bucket
    return (*(each for each in plan.assumed if each.path not in paths), *own)


def _decided(plan: ServingPlan, args: ServingStackArgs) -> Iterator[tuple[str, str, str]]:
    chosen, given = section(plan), args.target.sagemaker.model_fields_set
    root = "target.sagemaker"
    if "mode" not in given:
        yield f"{root}.mode", chosen.mode, "callers wait for their answer"
    if "network_isolation" not in given:
        value = "yes" if chosen.network_isolation else "no"
        why = (
            "the weights come from a bucket" if chosen.network_isolation else "the weights come from the hub"
        )
        yield f"{root}.network_isolation", value, why
    if "deployment" not in given:
        steps = {"all-at-once": "all at once, since there is one instance", "canary": "a part first"}
        how = steps.get(chosen.deployment.kind, chosen.deployment.kind)
        yield f"{root}.deployment", "blue-green", f"a new fleet beside the old one; traffic moves {how}"
    if "bake_minutes" not in given:
        bake = f"{chosen.deployment.bake_s // 60}"
        yield f"{root}.bake_minutes", bake, "how long the rollback alarms watch each step"
    if args.stream_timeout is None and plan.timeouts.stream_s == STREAM_S and chosen.asynchronous is None:
        yield "stream_timeout", f"{STREAM_S}s", "the service ends longer streams"
    if args.scaling.scale_in_delay is None:
        between, why = plan.scaling.scale_in_period_s, "the cold start, at least 5m, between two steps"
        if plan.scaling.scale_to_zero_after_s is not None:
            why = "scaling.scale_to_zero_after, which is the one time between two steps"
        yield "scaling.scale_in_delay", f"{between}s", why
    warm = plan.container.warm_up
    yield (
        "warm-up",
        f"{warm.requests} requests",
        "sent inside the container; /ping answers 200 only after them, and no traffic comes before",
    )
    client = chosen.client
    yield (
        "client",
        f"read timeout {client.read_timeout_s}s, {client.max_attempts} attempts",
        f"a client waits longer than the server's {_seconds(plan)}, and does not repeat what is late",
    )


def _seconds(plan: ServingPlan) -> str:
    return format_duration(timedelta(seconds=plan.timeouts.request_s))
