"""What Replicate cannot take of an input, all at once.

Trap: an objective without a measurement would be a promise about somebody else's server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from servingstack import catalog
from servingstack.args import ServingStackArgs, latency_objectives
from servingstack.errors import Violation
from servingstack.units import format_duration

from . import limits as known

_VERSION = re.compile(r"[0-9a-f]{64}")
_UNUSED = ("output_tokens_per_second", "concurrent_users")


def violations(args: ServingStackArgs) -> list[Violation]:
    """Every violation of a limit that follows from the input alone."""
    return [
        *_model(args),
        *_hardware(args),
        *_promises(args),
        *_instances(args),
        *_times(args),
        *_nothing_to_set(args),
    ]


def _model(args: ServingStackArgs) -> Iterator[Violation]:
    if args.target.replicate.owner is None:
        fix = "Name the user or organization of the token."
        yield Violation("target.replicate.owner", None, "the account that deploys", fix)
    if "/" not in args.model.id:
        yield Violation("model.id", args.model.id, "owner/name of a model on Replicate", "Name its owner.")
    revision = args.model.revision
    if revision is None or not _VERSION.fullmatch(revision):
        fix = "Copy the version's id from the model's page: deployed is what was reviewed, never the latest."
        yield Violation("model.revision", revision, "a version: 64 hexadecimal digits", fix)


def _hardware(args: ServingStackArgs) -> Iterator[Violation]:
    machines = catalog.instance_types("replicate", service="replicate")
    skus = [machine.name for machine in machines]
    given, gpus = args.hardware.instance_type, args.hardware.accelerators
    if given is not None and given not in skus:
        instead = known.RETIRED.get(given)
        fix = "Use one of them." if instead is None else f"It is gone; use {instead}."
        yield Violation("hardware.instance_type", given, f"one of {', '.join(skus)}", fix)
    elif given is None and gpus is None:
        allowed = f"one of {', '.join(skus)}, or hardware.accelerators"
        fix = "Name the hardware that the model was built for: nothing is known of its size."
        yield Violation("hardware.instance_type", None, allowed, fix)
    elif given is None and not any(machine.gpu_id in (gpus or ()) for machine in machines):
        have = ", ".join(sorted({machine.gpu_id for machine in machines}))
        yield Violation("hardware.accelerators", list(gpus or ()), f"one of {have}", "Add one of them.")


def _promises(args: ServingStackArgs) -> Iterator[Violation]:
    table = args.measured
    for name in latency_objectives(args.slo):
        if table is None:
            allowed = "left out without `measured`: there is no engine of this library here to estimate"
            fix = "Measure the model once on that hardware and give the table, or remove the objective."
            yield Violation(f"slo.{name}", format_duration(getattr(args.slo, name)), allowed, fix)
    for name in _UNUSED:
        value = getattr(args.traffic, name)
        if value is not None:
            fix = "Give requests_per_second."
            yield Violation(f"traffic.{name}", value, "left out: predictions are counted", fix)


def _instances(args: ServingStackArgs) -> Iterator[Violation]:
    low, high = args.scaling.min_replicas, args.scaling.max_replicas
    bounds = {
        "scaling.min_replicas": (low, known.MOST_MIN_INSTANCES),
        "scaling.max_replicas": (high, known.MOST_INSTANCES),
    }
    for path, (value, most) in bounds.items():
        if value is not None and value > most:
            yield Violation(path, value, f"at most {most} (Replicate's API)", "Lower it, or ask Replicate.")
        if value is None and args.measured is None:
            allowed = "given without `measured`: nothing else says how much one instance serves"
            yield Violation(path, None, allowed, "Give it, or a measured table.")


def _times(args: ServingStackArgs) -> Iterator[Violation]:
    timeout = args.request_timeout
    if timeout is not None and timeout.total_seconds() < known.SHORTEST_DEADLINE_S:
        allowed = f"at least {known.SHORTEST_DEADLINE_S}s, as Cancel-After takes it"
        yield Violation("request_timeout", format_duration(timeout), allowed, "Raise it.")
    given = {
        "stream_timeout": args.stream_timeout,
        "scaling.scale_in_delay": args.scaling.scale_in_delay,
        "scaling.queue_depth": args.scaling.queue_depth,
    }
    for path, value in given.items():
        if value is not None:
            yield Violation(path, str(value), "left out: Replicate decides it", "Remove it.")


def _nothing_to_set(args: ServingStackArgs) -> Iterator[Violation]:
    """Fields that would reach nobody."""
    given: dict[str, Any] = {
        "engine.kind": None if args.engine.kind == "auto" else args.engine.kind,
        "model.source": None if args.model.source == "hf" else args.model.source,
        "model.token_secret": args.model.token_secret and "given",
        "api_key_secret": args.api_key_secret and "given",
        "labels": args.labels and "given",
        "overrides": args.overrides and "given",
        "target.region": args.target.region,
    }
    for path, value in given.items():
        if value is not None:
            allowed = "left out: the version on Replicate brings its own server, weights and access"
            yield Violation(path, value, allowed, "Remove it.")
