"""Durations, sizes, rates and GPU names: parsed once, at the edge, into plain typed values.

Trap: a bare number is refused for a duration and a size. `30` may mean seconds or milliseconds, and a
latency that is wrong by a thousand times makes a plan that looks right.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# At most 15 digits: what a float holds exactly, and nothing that overflows.
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(us|ms|s|m|h|d)")
_BARE = re.compile(r"\d+(\.\d+)?")
_LONGEST_S = 365 * 86400.0
# Kubernetes' quantity suffixes (binary with an i) and the spelt-out forms.
_BYTES = {
    **{f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTP", start=1)},
    **{prefix: 1000**power for power, prefix in enumerate("KMGTP", start=1)},
}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(?:([KMGTP]i?)B?|B)", re.IGNORECASE)
_COUNT = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMBT])", re.IGNORECASE)
_COUNTS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def parse_duration(value: Any) -> timedelta:
    """`500ms`, `30s`, `5m`, `1h30m`, or a timedelta. Raises ValueError on anything else, bare numbers
    included."""
    if isinstance(value, timedelta):
        if value <= timedelta(0):
            raise ValueError("a duration above zero | Give a positive duration.")
        return value
    text = str(value).strip().lower()
    if text.startswith("-") and _DURATION.match(text[1:]):
        raise ValueError("a duration above zero | Give a positive duration.")
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text or isinstance(value, bool):
        raise ValueError(f"a duration with a unit, such as 500ms, 30s, 5m, 1h30m | {_unit_fix(text)}")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > _LONGEST_S:
        raise ValueError("a duration of at most 365d | Shorten it.")
    duration = timedelta(seconds=seconds)
    if duration <= timedelta(0):
        raise ValueError("a duration above zero | Give a positive duration.")
    return duration


def _unit_fix(text: str) -> str:
    """What to do about a text that is no number with a unit."""
    if text.startswith("-"):
        return "Give a positive number with its unit."
    return "Write the unit." if _BARE.fullmatch(text) else "Write a number and its unit."


def _whole_seconds(value: timedelta) -> timedelta:
    if value % timedelta(seconds=1):
        raise ValueError("whole seconds, at least 1s | Round it: nothing on the path counts finer.")
    return value


def format_duration(value: timedelta) -> str:
    """The shortest exact spelling that `parse_duration` reads back."""
    microseconds = value // timedelta(microseconds=1)
    for unit, size in (
        ("d", 86400_000_000),
        ("h", 3600_000_000),
        ("m", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1000),
    ):
        if microseconds % size == 0:
            return f"{microseconds // size}{unit}"
    return f"{microseconds}us"


def parse_size(value: Any) -> int:
    """`60Gi`, `80GB`, `64MiB`, `1048576B`: bytes. ValueError on anything else, bare numbers included."""
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        fix = _unit_fix(str(value).strip())
        raise ValueError(f"a size with a unit, such as 60Gi, 80GB, 64MiB | {fix}")
    if match[2] is None:
        return int(float(match[1]))
    unit = match[2][0].upper() + match[2][1:].lower()
    return int(float(match[1]) * _BYTES[unit])


def format_size(value: int) -> str:
    """Bytes as a person reads them: `59.6 GiB`."""
    for unit, size in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value} B"


def exact_size(value: int) -> str:
    """Bytes in the largest unit that holds them exactly, so that `parse_size` reads the same number back."""
    for unit, size in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if value % size == 0:
            return f"{value // size}{unit}"
    return f"{value}B"


def parse_count(value: Any) -> float:
    """Parameters: `8B`, `0.5B`, `671B`, or a plain number."""
    if isinstance(value, bool):
        raise ValueError("a number, such as 8B or 8000000000 | Give the number of parameters.")
    if isinstance(value, int | float) and abs(value) < 1e15:
        return float(value)
    match = _COUNT.fullmatch(str(value).strip())
    if match is None:
        raise ValueError("a number, such as 8B or 8000000000 | Give the number of parameters.")
    return float(match[1]) * _COUNTS[match[2].upper()]


def _parse_gpu(value: Any) -> str:
    from servingstack.catalog import canonical_gpu_id

    return canonical_gpu_id(str(value))


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": r"^(\d+(\.\d+)?(us|ms|s|m|h|d))+$", "examples": ["500ms", "30s"]}
    ),
]
"""A length of time, written with its unit."""

Seconds = Annotated[Duration, AfterValidator(_whole_seconds)]
"""A length of time that what enforces it counts in seconds."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(exact_size, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": r"^\d+(\.\d+)?\s*([KMGTPkmgtp]i?[Bb]?|[Bb])$", "examples": ["60Gi"]}
    ),
]
"""A number of bytes, written with its unit."""

Count = Annotated[
    float,
    BeforeValidator(parse_count),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}], "examples": ["8B", 8e9]}),
]
"""A number of parameters, `8B` or plain."""

GpuId = Annotated[
    str, BeforeValidator(_parse_gpu), WithJsonSchema({"type": "string", "examples": ["l4", "h100-80gb"]})
]
"""A GPU of the catalog, any case, aliases resolved."""
