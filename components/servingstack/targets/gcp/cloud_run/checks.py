"""What Cloud Run cannot take of an input, before any search, all at once.

Trap: much of what is refused here would be accepted by the service and then not hold: a longer stream would
be cut at the request timeout, an idle time would be ignored, a reserved variable would be replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from servingstack import catalog
from servingstack.args import SecretKey, ServingStackArgs
from servingstack.errors import Violation
from servingstack.units import format_duration

from .limits import IDLE_S, LARGEST_CONCURRENCY, MOST_LABELS, PENDING_STARTS, RESERVED_VARIABLES
from .section import OWN_LABELS, SEVERITY

IN_IMAGE, BUCKET = "image://", "gs://"
_BUCKET_NAME = re.compile(r"(?=.{3,222}$)(?!goog)[a-z0-9][a-z0-9_-]{0,62}(\.[a-z0-9_-]{1,63})*(?<=[a-z0-9])")
# docs.cloud.google.com/storage/docs/buckets, "Bucket names": 3 to 63 characters, 222 with dots and then 63 in
# each part; a letter or digit at both ends; not `goog` first.
ANYONE = ("allUsers", "allAuthenticatedUsers")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
# cloud.google.com/run/docs/configuring/labels: lower case, digits, `_` and `-`, at most 63; keys begin with a
# letter.
LABEL_RULE = "lower case letters, digits, `_` and `-`, at most 63, a letter first in a key (Google's labels)"


def violations(args: ServingStackArgs) -> list[Violation]:
    """Every violation of a limit that follows from the input alone."""
    return [
        *_one_gpu(args),
        *_region(args),
        *_weights(args),
        *_requests(args),
        *_scaling(args),
        *_callers(args),
        *_uptime(args),
        *_secrets(args),
        *_variables(args),
        *_labels(args),
    ]


def _engine(args: ServingStackArgs, name: str) -> Any:
    return getattr(args.engine, name, None)


def _one_gpu(args: ServingStackArgs) -> Iterator[Violation]:
    given = {
        "hardware.gpus_per_replica": args.hardware.gpus_per_replica,
        "engine.tensor_parallel_size": _engine(args, "tensor_parallel_size"),
        "engine.pipeline_parallel_size": _engine(args, "pipeline_parallel_size"),
    }
    for path, value in given.items():
        if value is not None and value > 1:
            allowed = "1: an instance of Cloud Run has one GPU"
            yield Violation(path, value, allowed, "Use a smaller model or precision, or another option.")


def _region(args: ServingStackArgs) -> Iterator[Violation]:
    """A region that has the service, and not the GPU that is asked for."""
    region, wanted = args.target.region, args.hardware.accelerators
    if region is None or wanted is None or region not in catalog.regions("gcp", "cloud-run"):
        return
    sold = {
        row.name: {price.region for price in catalog.prices("gcp", row.name)}
        for gpu in wanted
        for row in catalog.instance_types("gcp", gpu, service="cloud-run")
    }
    places = sorted({place for found in sold.values() for place in found})
    if places and region not in places:
        allowed = f"one of {', '.join(places)} for {', '.join(wanted)} on Cloud Run"
        yield Violation("target.region", region, allowed, "Use one of them, or another GPU.")


def _weights(args: ServingStackArgs) -> Iterator[Violation]:
    """Weights in an image are in an image of the user's own, and a bucket has a name that one can have."""
    if args.model.source.startswith(BUCKET):
        bucket = args.model.source.removeprefix(BUCKET).partition("/")[0]
        if not _BUCKET_NAME.fullmatch(bucket):
            allowed = (
                "gs://<bucket>/<path>, the bucket of 3 to 63 lower case letters, digits, `-`, `_` and `.`"
            )
            yield Violation("model.source", args.model.source, allowed, "Correct the bucket's name.")
    if args.model.source.startswith(IN_IMAGE) and _engine(args, "image") is None:
        allowed = f"an image of your own that has the weights of {args.model.source}"
        fix = "Build one from the engine's image, push it to Artifact Registry, and name it by digest."
        yield Violation("engine.image", None, allowed, fix)


def _requests(args: ServingStackArgs) -> Iterator[Violation]:
    batch = _engine(args, "max_num_seqs")
    if batch is not None and batch > LARGEST_CONCURRENCY:
        allowed = f"at most {LARGEST_CONCURRENCY}, the most requests that an instance receives at once"
        yield Violation("engine.max_num_seqs", batch, allowed, "Lower it; more instances take the rest.")
    stream, seconds = args.stream_timeout, args.request_s
    if stream is not None and stream.total_seconds() != seconds:
        allowed = f"left out, or the request timeout ({seconds:g}s): one limit covers both here"
        fix = "Raise request_timeout to what a stream may take, and remove stream_timeout."
        yield Violation("stream_timeout", format_duration(stream), allowed, fix)


def _scaling(args: ServingStackArgs) -> Iterator[Violation]:
    idle, delay = args.scaling.scale_to_zero_after, args.scaling.scale_in_delay
    if idle is not None and idle.total_seconds() != IDLE_S:
        allowed = f"{IDLE_S // 60}m, the longest that Cloud Run keeps an idle instance with a GPU"
        fix = f"Write {IDLE_S // 60}m: it cannot be set."
        yield Violation("scaling.scale_to_zero_after", format_duration(idle), allowed, fix)
    if args.scaling.hold is not None:
        allowed = f"left out: Cloud Run holds a request for {PENDING_STARTS:g} times its average start"
        yield Violation("scaling.hold", format_duration(args.scaling.hold), allowed, "Remove it.")
    if delay is not None:
        allowed = f"left out: Cloud Run takes idle instances away itself, within {IDLE_S // 60}m"
        yield Violation("scaling.scale_in_delay", format_duration(delay), allowed, "Remove it.")


def _callers(args: ServingStackArgs) -> Iterator[Violation]:
    own, path = args.target.cloud_run, "target.cloud_run.invokers"
    anyone = [member for member in own.invokers if member in ANYONE]
    if args.exposure == "public" and not own.invokers:
        fix = "Name who may call, or allUsers, on purpose."
        yield Violation(path, None, "at least one member with exposure: public", fix)
    if anyone and args.exposure != "public":
        yield Violation(
            path,
            anyone[0],
            f"members of your own with exposure: {args.exposure}",
            "Remove it, or use public.",
        )
    if anyone and args.api_key_secret is None:
        fix = "Set api_key_secret, or name your callers."
        yield Violation(path, anyone[0], "allUsers only with api_key_secret: a GPU is paid per second", fix)


def _uptime(args: ServingStackArgs) -> Iterator[Violation]:
    if not args.target.cloud_run.uptime_check:
        return
    path = "target.cloud_run.uptime_check"
    if args.exposure != "public":
        allowed = (
            f"false with exposure: {args.exposure}: Google's checkers come from outside and reach nothing"
        )
        yield Violation(path, True, allowed, "Remove it, or use exposure: public.")
    if args.scaling.min_replicas == 0:
        yield wakes()


def wakes() -> Violation:
    """Of a check of a service that is to sleep."""
    allowed = "false with scaling.min_replicas: 0: a call a minute keeps an instance awake, and paid for"
    return Violation("target.cloud_run.uptime_check", True, allowed, "Remove it, or keep an instance.")


def uptime_wanted(args: ServingStackArgs, min_replicas: int) -> bool:
    """Whether Google's checkers call: where they reach the service and it does not sleep, unless said."""
    asked = args.target.cloud_run.uptime_check
    return args.exposure == "public" and min_replicas > 0 if asked is None else asked


def _secrets(args: ServingStackArgs) -> Iterator[Violation]:
    """Secret Manager's secrets have versions, not keys."""
    given = {"model.token_secret": args.model.token_secret, "api_key_secret": args.api_key_secret}
    for path, secret in given.items():
        if secret is not None and version(secret) is None:
            allowed = "left out for the latest version, or a version's number: Secret Manager has no keys"
            yield Violation(f"{path}.key", secret.key, allowed, "Write key: '3', or remove it.")


def version(secret: SecretKey) -> str | None:
    """Version of a secret that the input means; None for a key that is none."""
    if "key" not in secret.model_fields_set or secret.key == "latest":
        return "latest"
    return secret.key if re.fullmatch(r"[1-9][0-9]*", secret.key) else None


def _variables(args: ServingStackArgs) -> Iterator[Violation]:
    for name in _engine(args, "extra_env") or {}:
        if name in RESERVED_VARIABLES:
            allowed = "a variable that Cloud Run does not set itself"
            yield Violation(f"engine.extra_env.{name}", None, allowed, "Remove it; the port is planned.")


def _labels(args: ServingStackArgs) -> Iterator[Violation]:
    own, alerts = dict(args.labels or {}), args.observability.alerts
    of_alerts = {} if alerts is None else dict(alerts.labels or {})
    yield from _each_label("labels", own, OWN_LABELS)
    yield from _each_label("observability.alerts.labels", of_alerts, (*OWN_LABELS, SEVERITY))
    taken = (*OWN_LABELS, SEVERITY) if alerts is not None else OWN_LABELS
    both, path = (
        {**own, **of_alerts},
        "labels" if len(own) >= len(of_alerts) else "observability.alerts.labels",
    )
    if len(both) > (most := MOST_LABELS - len(taken)):
        allowed = (
            f"at most {most}, those of alerts included: a resource has {MOST_LABELS}, some the stack's own"
        )
        yield Violation(path, f"{len(both)} labels", allowed, "Remove some.")


def _each_label(path: str, labels: dict[str, str], taken: tuple[str, ...]) -> Iterator[Violation]:
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            yield Violation(f"{path}.{key}", value, LABEL_RULE, "Use such a label.")
        elif key in taken:
            allowed = f"another key: {', '.join(taken)} are the stack's own"
            yield Violation(f"{path}.{key}", value, allowed, "Rename it.")
