"""What Modal cannot take of an input, before any search, all at once.

Trap: much of what is refused here would be accepted by the service and then not hold: a longer stream would
be cut at the request timeout, a variable that begins with `MODAL_` belongs to Modal's own client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from servingstack.args import ServingStackArgs
from servingstack.errors import Violation
from servingstack.units import format_duration

from .limits import LONGEST_IDLE_S, MOST_INPUTS, SHORTEST_IDLE_S

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAG = re.compile(r"[a-zA-Z0-9._-]{1,63}")
_RESERVED = "MODAL_"
TAG_RULE = "letters, digits, `-`, `_` and `.`, 1 to 63 (Modal's tags)"
OWN_TAG = "servingstack"


def violations(args: ServingStackArgs) -> list[Violation]:
    """Every violation of a limit that follows from the input alone."""
    return [
        *_requests(args),
        *_idle(args),
        *_callers(args),
        *_secrets(args),
        *_variables(args),
        *_labels(args),
        *_overrides(args),
    ]


def _engine(args: ServingStackArgs, name: str) -> Any:
    return getattr(args.engine, name, None)


def _requests(args: ServingStackArgs) -> Iterator[Violation]:
    batch = _engine(args, "max_num_seqs")
    if batch is not None and batch > MOST_INPUTS:
        fix = "Lower it; more containers take the rest."
        yield Violation("engine.max_num_seqs", batch, f"at most {MOST_INPUTS} at once", fix)
    stream, seconds = args.stream_timeout, args.request_s
    if stream is not None and stream.total_seconds() != seconds:
        allowed = f"left out, or the request timeout ({seconds:g}s): one limit covers both here"
        fix = "Raise request_timeout to what a stream may take, and remove stream_timeout."
        yield Violation("stream_timeout", format_duration(stream), allowed, fix)


def _idle(args: ServingStackArgs) -> Iterator[Violation]:
    """One idle time takes away every container, the last one too."""
    given = {
        "scaling.scale_in_delay": args.scaling.scale_in_delay,
        "scaling.scale_to_zero_after": args.scaling.scale_to_zero_after,
    }
    for path, value in given.items():
        if value is not None and not SHORTEST_IDLE_S <= value.total_seconds() <= LONGEST_IDLE_S:
            allowed = f"{SHORTEST_IDLE_S}s to {LONGEST_IDLE_S // 60}m, as Modal keeps an idle container"
            yield Violation(path, format_duration(value), allowed, "Use a time within it.")
    delay, zero = given.values()
    if delay is not None and zero is not None and delay != zero:
        allowed = "left out, or the same as scale_to_zero_after: Modal has one idle time for both"
        yield Violation("scaling.scale_in_delay", format_duration(delay), allowed, "Remove it.")


def _callers(args: ServingStackArgs) -> Iterator[Violation]:
    if args.exposure == "public" and args.api_key_secret is None:
        allowed = (
            "public only with api_key_secret: Modal then asks for no token, and GPUs are paid per second"
        )
        fix = "Set api_key_secret, or use private: callers then send a token of the workspace."
        yield Violation("exposure", args.exposure, allowed, fix)


def _secrets(args: ServingStackArgs) -> Iterator[Violation]:
    """A Modal secret is a set of environment variables."""
    given = {"model.token_secret": args.model.token_secret, "api_key_secret": args.api_key_secret}
    for path, secret in given.items():
        if secret is not None and not _VARIABLE.fullmatch(secret.key):
            allowed = "the name of a variable of that secret: letters, digits and `_`, no digit first"
            yield Violation(f"{path}.key", secret.key, allowed, "Write the key as the secret has it.")


def _variables(args: ServingStackArgs) -> Iterator[Violation]:
    for name in _engine(args, "extra_env") or {}:
        if name.startswith(_RESERVED):
            allowed = f"a variable that does not begin with {_RESERVED}, which Modal's own client reads"
            yield Violation(f"engine.extra_env.{name}", None, allowed, "Remove it.")


def _labels(args: ServingStackArgs) -> Iterator[Violation]:
    for key, value in (args.labels or {}).items():
        if not _TAG.fullmatch(key) or not _TAG.fullmatch(value):
            yield Violation(f"labels.{key}", value, TAG_RULE, "Use such a label.")
        elif key.startswith(OWN_TAG):
            yield Violation(
                f"labels.{key}", value, f"a key that does not begin with {OWN_TAG}", "Use another."
            )


def _overrides(args: ServingStackArgs) -> Iterator[Violation]:
    for role in args.overrides or {}:
        allowed = "none: an app of Modal is a program, made from the plan alone"
        yield Violation(f"overrides.{role}", None, allowed, "Remove it; use the input's own fields.")
