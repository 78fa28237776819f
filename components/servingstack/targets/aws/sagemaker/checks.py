"""What SageMaker refuses of an input, before any search: all at once, each with what to do.

Trap: several of these the service itself would only say after an endpoint has tried to start for half an
hour, and some it never says: a scaling policy below one instance is accepted by the scaler and fails at the
endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from servingstack import catalog
from servingstack.args import ServingStackArgs, latency_objectives
from servingstack.engines.registry import kind_of
from servingstack.engines.vendor_images import engines_of, vendor_image
from servingstack.errors import Violation
from servingstack.naming import standard_labels
from servingstack.units import format_duration

from .capabilities import CAPABILITIES
from .facts import INVOCATION_S, LONGEST_TTL_S, LONGEST_URI, MOST_TAGS, SHORTEST_TTL_S, STREAM_S

FAMILY = CAPABILITIES.image_family
_REGISTRY = re.compile(
    r"\d{12}\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/[a-z0-9][a-z0-9._/-]*(:[\w.-]+)?@sha256:[0-9a-f]{64}"
)
IMAGE_LENGTH = 255
"""Longest image reference (botocore, ContainerDefinition.Image)."""
_MODE = "target.sagemaker.mode"
_EARLIER_S = 5
"""What the server ends a request before the service would: enough for its answer to get out."""


def violations(args: ServingStackArgs) -> list[Violation]:
    """Everything about the input that this option cannot take."""
    return [
        *_engine(args),
        *_secrets(args),
        *_weights(args),
        *(_asynchronous(args) if args.target.sagemaker.mode == "asynchronous" else _real_time(args)),
        *_settings(args),
        *_labels(args),
    ]


def _engine(args: ServingStackArgs) -> Iterator[Violation]:
    kind = kind_of(args, CAPABILITIES.directories)
    if vendor_image(kind, FAMILY) is None:
        allowed = f"one of {', '.join(engines_of(FAMILY))}, of which AWS builds an image for it"
        yield Violation("engine.kind", kind, allowed, "Use one of them, or option: kubernetes.")
    own = getattr(args.engine, "image", None)
    if own is None:
        return
    found = _REGISTRY.fullmatch(own)
    allowed = (
        "an image by digest in a private registry of the region: "
        "<account>.dkr.ecr.<region>.amazonaws.com/name:tag@sha256:..."
    )
    if found is None or len(own) > IMAGE_LENGTH:
        fix = "Copy it there; it must read the same variables as AWS's own image does."
        yield Violation("engine.image", own, allowed, fix)
    elif args.target.region not in (None, found["region"]):
        yield Violation("engine.image", own, f"one of {args.target.region}", "Copy it to that region.")


def _secrets(args: ServingStackArgs) -> Iterator[Violation]:
    """A variable of a container is a text that whoever may describe the model can read."""
    bucket = "Put the weights into a bucket, and set model.source: s3://<bucket>/<path>."
    none = "none: SageMaker passes no secret by reference, and as a text everybody could read it"
    if args.model.token_secret is not None:
        yield Violation("model.token_secret", "given", none, bucket)
    elif args.model.source == "hf" and _gated(args):
        allowed = f"s3://... for {args.model.id}, which is gated: no token can be passed"
        yield Violation("model.source", "hf", allowed, bucket)
    if args.api_key_secret is not None:
        fix = "Remove it: callers are authorised by IAM (sagemaker:InvokeEndpoint)."
        yield Violation("api_key_secret", "given", none, fix)


def _gated(args: ServingStackArgs) -> bool:
    if args.model.gated is not None:
        return args.model.gated
    known = catalog.model(args.model.id)
    return known is not None and known.gated  # outside the catalog somebody must say so


def _weights(args: ServingStackArgs) -> Iterator[Violation]:
    source, chosen = args.model.source, args.target.sagemaker
    if len(source) > LONGEST_URI - 1:
        yield Violation("model.source", source, f"at most {LONGEST_URI - 1} characters", "Shorten the path.")
    if chosen.network_isolation and source == "hf":
        yield Violation(
            "target.sagemaker.network_isolation",
            True,
            "no with model.source: hf, which is fetched over the network",
            "Put the weights into a bucket (model.source: s3://...), or leave network_isolation out.",
        )
    if chosen.weights_key and not source.startswith("s3://"):
        allowed = f"no with model.source: {source}, of which no key of yours is needed"
        yield Violation("target.sagemaker.weights_key", True, allowed, "Remove it.")
    elif chosen.weights_key and chosen.own_role:
        allowed = "no with own_role, whose rights are your own"
        fix = "Remove it, and let that role decrypt with the key."
        yield Violation("target.sagemaker.weights_key", True, allowed, fix)
    if source.startswith("s3://") and args.model.revision is not None:
        allowed = "left out with weights from a bucket, which has no revisions"
        yield Violation("model.revision", args.model.revision, allowed, "Put it into the path.")


def _real_time(args: ServingStackArgs) -> Iterator[Violation]:
    if args.scaling.min_replicas == 0:
        yield Violation(
            "scaling.min_replicas",
            0,
            "at least 1 in mode real-time, whose variants name a model and keep an instance",
            f"Set {_MODE}: asynchronous, or keep one replica and remove scale_to_zero_after.",
        )
    for path, value, most in (
        # Below the service's own limit: the server ends a request with 504 before the service breaks it off.
        ("request_timeout", args.request_timeout, INVOCATION_S - _EARLIER_S),
        ("stream_timeout", args.stream_timeout, STREAM_S),
    ):
        if value is not None and value.total_seconds() > most:
            fix = f"Shorten it, or set {_MODE}: asynchronous (up to 1h)."
            yield Violation(path, format_duration(value), f"at most {most}s in mode real-time", fix)


def _asynchronous(args: ServingStackArgs) -> Iterator[Violation]:
    for name in latency_objectives(args.slo):
        allowed = "no latency objective in mode asynchronous: a request waits for as long as the backlog is"
        fix = "Remove it and set traffic.deadline, or use mode: real-time."
        yield Violation(f"slo.{name}", format_duration(getattr(args.slo, name)), allowed, fix)
    if args.stream_timeout is not None:
        allowed = "left out in mode asynchronous, which puts whole answers into a bucket"
        yield Violation("stream_timeout", format_duration(args.stream_timeout), allowed, "Remove it.")
    if args.target.sagemaker.data_capture_percent:
        given = args.target.sagemaker.data_capture_percent
        allowed = "0 in mode asynchronous, whose requests and answers are in the bucket anyway"
        yield Violation("target.sagemaker.data_capture_percent", given, allowed, "Remove it.")
    deadline = args.traffic.deadline
    if deadline is not None and not SHORTEST_TTL_S <= deadline.total_seconds() <= LONGEST_TTL_S:
        allowed = (
            f"from {SHORTEST_TTL_S}s to {LONGEST_TTL_S // 3600}h, how long the service lets a request wait"
        )
        yield Violation("traffic.deadline", format_duration(deadline), allowed, "Correct it.")


def _settings(args: ServingStackArgs) -> Iterator[Violation]:
    chosen = args.target.sagemaker
    if chosen.own_topic and chosen.notify_emails:
        allowed = "none with own_topic: who reads a topic of your own is your business"
        fix = "Subscribe them there, or leave own_topic out."
        yield Violation("target.sagemaker.notify_emails", list(chosen.notify_emails), allowed, fix)
    if args.observability.alerts is None and chosen.notify_emails:
        allowed = "none with observability.alerts: false, since nothing would be sent"
        fix = "Remove them, or switch alerts on."
        yield Violation("target.sagemaker.notify_emails", list(chosen.notify_emails), allowed, fix)
    if len(set(chosen.notify_emails)) != len(chosen.notify_emails):
        yield Violation(
            "target.sagemaker.notify_emails", list(chosen.notify_emails), "each once", "Remove the other."
        )


def _labels(args: ServingStackArgs) -> Iterator[Violation]:
    """Each is a tag beside the stack's own."""
    given = {} if args.labels is None else dict(args.labels)
    room = MOST_TAGS - len(standard_labels(args.name, ""))
    if len(given) > room:
        allowed = f"at most {room}: a resource takes {MOST_TAGS} tags, and the stack has its own"
        yield Violation("labels", f"{len(given)} labels", allowed, "Remove some.")
