"""What a pinned engine release accepts and exports: data that was read out of the release itself.

Trap: a flag or a metric name from memory is right until the next release, and then fails at start or, worse,
shows an empty panel. Ask here; `tools/vllm_facts.py` writes the files and `make oracles` compares them with
the release.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

FLAGLESS_KINDS = frozenset({"bool", "switch"})
"""Kinds of a flag that stands alone."""


@dataclass(frozen=True)
class FlagInfo:
    """One command-line flag."""

    name: str
    """Without its hyphens: `max-model-len`."""
    kind: str
    """bool (also as `--no-...`), switch, int, float, str, choice, list, json, bool_or_str."""
    choices: tuple[str, ...] = ()
    """The only values it takes; empty for any."""
    aliases: tuple[str, ...] = ()
    """Short spellings, with their hyphen: `-tp`."""


@dataclass(frozen=True)
class MetricInfo:
    """One Prometheus metric, named as it appears on the metrics page."""

    name: str
    kind: str
    """gauge, counter, histogram, summary."""
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    """Upper edges without +Inf; empty where they depend on the model's length."""
    default: bool = True
    """Whether it is exported without further flags."""


def _load(engine: str, version: str, what: str) -> dict[str, Any]:
    path = resources.files("servingstack.engines").joinpath("data", f"{engine}-{version}.{what}.json")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


@cache
def flags(engine: str, version: str) -> dict[str, FlagInfo]:
    """Flags by name, without hyphens. FileNotFoundError for a release whose facts are not here."""
    rows: dict[str, dict[str, Any]] = _load(engine, version, "flags")["flags"]
    return {
        name.removeprefix("--"): FlagInfo(
            name.removeprefix("--"),
            row["kind"],
            tuple(map(str, row.get("choices", ()))),
            tuple(row["aliases"]),
        )
        for name, row in rows.items()
    }


@cache
def environment(engine: str, version: str) -> frozenset[str]:
    """The engine's own environment variables."""
    return frozenset(_load(engine, version, "flags")["environment"])


@cache
def known_values(engine: str, version: str, flag: str) -> tuple[str, ...]:
    """Values that the release itself knows for a flag which also takes names of plugins."""
    return tuple(_load(engine, version, "flags")["flags"][f"--{flag}"].get("known", ()))


@cache
def metrics(engine: str, version: str) -> dict[str, MetricInfo]:
    """Metrics by name. FileNotFoundError for a release whose facts are not here."""
    rows: dict[str, dict[str, Any]] = _load(engine, version, "metrics")["metrics"]
    found: dict[str, MetricInfo] = {}
    for name, row in rows.items():
        buckets: Any = row.get("buckets", ())
        edges = () if isinstance(buckets, str) else tuple(float(edge) for edge in buckets)
        found[name] = MetricInfo(name, row["type"], tuple(row["labels"]), edges, row["default"])
    return found


@cache
def quantization(engine: str, version: str) -> dict[str, dict[str, Any]]:
    """Rows of the release's quantization methods: `min_capability` (75 is 7.5), `act_dtypes`, `source`."""
    rows: dict[str, dict[str, Any]] = _load(engine, version, "quantization")["methods"]
    return rows


def closest(name: str, names: list[str]) -> str:
    """ "Did you mean" as a sentence, or an empty string."""
    close = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean `{close[0]}`?" if close else ""
