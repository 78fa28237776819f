"""A measured table wins over the model: what a benchmark saw, and how far the own estimate was off there.

A table is plain data and part of the input, so a new measurement makes a lock file stale like any other
change. Files are read by `measured_formats.read`; `servingstack bench` writes them.

The planner keeps its model and corrects it: at each concurrency, measured / estimated at the *measured*
traffic is a factor. With the same traffic the corrected value is the measured one; with another, only the
shape comes from the model. Medians are compared, since a benchmark holds its concurrency and real traffic
does not: the model adds the waiting and the spread of real arrivals on top.

Trap: a table says nothing beyond its largest concurrency, nor about another GPU, model, precision or split.
It is never extrapolated, and `mismatch` says in a sentence where it does not apply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from servingstack.errors import Violation
from servingstack.fields import Number, Whole
from servingstack.units import GpuId

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)

MEASURED_BAND = 0.10
"""Error band of a measured value. An assumption: runs of one benchmark differ by a few percent, and a new
driver or another node by as much again."""
SAME_SHAPE = 0.10
"""Traffic whose lengths differ by less than this from the measured ones counts as the same."""
OTHER_SHAPE_BAND = 0.20
"""Error band where the traffic's lengths differ, so that the model carries the value over."""
NOTEWORTHY = 0.15
"""A deviation above this is worth a line in the plan; below, it is the noise of a benchmark."""

Format = Literal["servingstack", "vllm-bench", "sglang-bench", "genai-perf", "aiperf", "perf-analyzer"]
Quantity = Literal["ttft", "tpot", "latency", "rate"]


class Spread(BaseModel):
    """A time over the requests of one row, milliseconds. What a file does not say is None."""

    model_config = _CONFIG
    mean: Number | None = Field(default=None, ge=0, le=1e12)
    """Mean. Default: not said."""
    p50: Number | None = Field(default=None, ge=0, le=1e12)
    """Median. Default: not said."""
    p95: Number | None = Field(default=None, ge=0, le=1e12)
    """95 % are below. Default: not said."""
    p99: Number | None = Field(default=None, ge=0, le=1e12)
    """99 % are below. Default: not said."""

    @property
    def typical(self) -> float | None:
        """The median, or the mean where there is none."""
        return self.p50 if self.p50 is not None else self.mean


class MeasuredRow(BaseModel):
    """One concurrency of one replica."""

    model_config = _CONFIG
    concurrency: Number = Field(gt=0, le=1e12)
    """Requests in flight, held constant."""
    requests_per_s: Number = Field(gt=0, le=1e12)
    """Finished requests."""
    output_tokens_per_s: Number | None = Field(default=None, ge=0, le=1e12)
    """Generated tokens. Default: not said."""
    ttft_ms: Spread | None = None
    """Time to first token. Default: none, the answers were not streamed."""
    tpot_ms: Spread | None = None
    """Time per output token after the first. Default: none."""
    latency_ms: Spread | None = None
    """Whole requests. Default: none."""
    batch_ms: Number | None = Field(default=None, gt=0, le=1e12)
    """Mean time of the batch that a request was in, without any wait: what Triton's model took. Default: not
    said."""
    requests: Whole | None = Field(default=None, ge=1, le=10**12)
    """Requests that were counted. Default: not said."""
    failed: Whole = Field(default=0, ge=0, le=10**12)
    """Requests without an answer, not counted. Default 0."""


class MeasuredTable(BaseModel):
    """Rows of one benchmark, and the conditions under which they hold."""

    model_config = _CONFIG
    servingstack_bench: Literal[1] = 1
    """Version of this shape."""
    format: Format = "servingstack"
    """The tool that measured. Default: the own one."""
    rows: tuple[MeasuredRow, ...] = Field(min_length=1)
    """By concurrency."""
    model: str | None = None
    """Model as the server names it. Default: not said, taken to be the stack's."""
    accelerator: GpuId | None = None
    """GPU that was measured. Default: not said; then `hardware.accelerators` must name one."""
    gpus_per_replica: Whole | None = Field(default=None, ge=1, le=10**12)
    """GPUs of the replica that was measured. Default: not said, taken to be the planned."""
    precision: str | None = None
    """Precision of the weights. Default: not said, taken to be the planned."""
    engine: str | None = None
    """Engine and release, `vllm 0.30.0`. Default: not said."""
    input_tokens: Number | None = Field(default=None, gt=0, le=1e12)
    """Mean length of the prompts. Default: not said, taken to be the traffic's."""
    output_tokens: Number | None = Field(default=None, gt=0, le=1e12)
    """Mean length of the answers. Default: not said, taken to be the traffic's."""
    replicas: Whole = Field(default=1, ge=1, le=10**12)
    """Replicas behind the address that was measured; rows are of one. Default 1."""
    date: str | None = None
    """Day of the measurement. Default: not said."""
    notes: tuple[str, ...] = ()
    """What the reader assumed. Default: nothing."""

    @model_validator(mode="after")
    def _rows_rise(self) -> Self:
        if any(a.concurrency >= b.concurrency for a, b in pairwise(self.rows)):
            raise ValueError("rows by rising concurrency, each once | Sort them, and keep one of each.")
        return self

    @property
    def longest(self) -> float:
        """Largest concurrency that was measured: the table ends there."""
        return self.rows[-1].concurrency

    @property
    def useful(self) -> float:
        """Concurrency of the highest throughput: beyond it, more requests at once only wait."""
        return max(self.rows, key=lambda row: row.requests_per_s).concurrency

    @property
    def source(self) -> str:
        """What a plan says where this table stands behind a number."""
        day = "" if self.date is None else f", {self.date}"
        low, high = self.rows[0].concurrency, self.rows[-1].concurrency
        return f"measured ({self.format}{day}), concurrency {low:g} to {high:g}"

    def at(self, value: Callable[[MeasuredRow], float | None], concurrency: float) -> float | None:
        """A row's value between rows, straight over the logarithm of the concurrency; the first or last row's
        outside. None where no row has it. `value` picks it: `lambda row: row.requests_per_s`."""
        points = [(row.concurrency, v) for row in self.rows if (v := value(row)) is not None]
        return interpolate(points, concurrency) if points else None


def interpolate(points: Sequence[tuple[float, float]], at: float) -> float:
    """Between points by rising x, straight over log x; the nearest end outside. ValueError without points."""
    if not points:
        raise ValueError("no points to interpolate")
    if at <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if at <= x1:
            share = (math.log(at) - math.log(x0)) / (math.log(x1) - math.log(x0))
            return y0 + share * (y1 - y0)
    return points[-1][1]


class MeasuredFiles(BaseModel):
    """A table by its files, as a document names it, with what they do not say of themselves."""

    model_config = _CONFIG
    files: str | tuple[str, ...]
    """Path of the file, or of each; relative to the document."""
    model: str | None = None
    """Model that was measured. Default: what the files say."""
    accelerator: GpuId | None = None
    """GPU that was measured, any case, aliases allowed. Default: what the files say."""
    gpus_per_replica: Whole | None = Field(default=None, ge=1, le=10**12)
    """GPUs of the replica that was measured. Default: what the files say."""
    precision: str | None = None
    """Precision of the weights. Default: what the files say."""
    engine: str | None = None
    """Engine and release. Default: what the files say."""


@dataclass(frozen=True, slots=True)
class Estimated:
    """What the own model says of one concurrency, at the measured traffic. Milliseconds and 1/s; None for
    what it does not estimate."""

    ttft_ms: float | None
    tpot_ms: float | None
    latency_ms: float | None
    requests_per_s: float | None


@dataclass(frozen=True, slots=True)
class Deviation:
    """One number that was measured and had been estimated."""

    concurrency: float
    quantity: Quantity
    measured: float
    estimated: float

    @property
    def factor(self) -> float:
        """Measured / estimated: 1.2 means 20 % more than estimated."""
        return self.measured / self.estimated

    def __str__(self) -> str:
        unit = "requests/s" if self.quantity == "rate" else "ms"
        off = f"{abs(self.factor - 1):.0%} {'more' if self.factor >= 1 else 'less'} than estimated"
        return (
            f"{self.quantity} at concurrency {self.concurrency:g}: measured {self.measured:.3g} {unit}, "
            f"estimated {self.estimated:.3g} ({off})"
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """A measured table laid over the own model."""

    table: MeasuredTable
    deviations: tuple[Deviation, ...]

    def factor(self, quantity: Quantity, concurrency: float) -> float:
        """What to multiply the estimate with. A part of the latency that was not measured alone follows the
        whole; 1 for what was not measured at all."""
        for known in (quantity, "latency") if quantity in ("ttft", "tpot") else (quantity,):
            points = [(d.concurrency, d.factor) for d in self.deviations if d.quantity == known]
            if points:
                return interpolate(points, concurrency)
        return 1.0

    def worst(self) -> dict[Quantity, Deviation]:
        """Where the estimate was off most, by quantity."""
        found: dict[Quantity, Deviation] = {}
        for item in self.deviations:
            known = found.get(item.quantity)
            if known is None or _off(item) > _off(known):
                found[item.quantity] = item
        return found

    def sentences(self) -> list[str]:
        """For the plan: where the estimate was off by more than the noise of a benchmark, worst first."""
        far = [item for item in self.worst().values() if _off(item) > math.log(1 + NOTEWORTHY)]
        return [str(item) for item in sorted(far, key=_off, reverse=True)]


def _off(item: Deviation) -> float:
    """How far off, the same for twice and half."""
    return abs(math.log(item.factor))


def calibrate(table: MeasuredTable, estimate: Callable[[float], Estimated]) -> Calibration:
    """Compare every row with the own estimate for that concurrency at the measured traffic."""
    found: list[Deviation] = []
    for row in table.rows:
        own = estimate(row.concurrency)
        pairs: list[tuple[Quantity, float | None, float | None]] = [
            ("ttft", _typical(row.ttft_ms), own.ttft_ms),
            ("tpot", _typical(row.tpot_ms), own.tpot_ms),
            ("latency", _typical(row.latency_ms), own.latency_ms),
            ("rate", row.requests_per_s, own.requests_per_s),
        ]
        found += [
            Deviation(row.concurrency, quantity, measured, estimated)
            for quantity, measured, estimated in pairs
            if measured is not None and estimated is not None and measured > 0 and estimated > 0
        ]
    return Calibration(table, tuple(found))


def _typical(spread: Spread | None) -> float | None:
    return None if spread is None else spread.typical


def band(table: MeasuredTable, input_tokens: float, output_tokens: float) -> float:
    """Error band of a number that rests on this table, for traffic of these lengths."""
    pairs = ((table.input_tokens, input_tokens), (table.output_tokens, output_tokens))
    same = all(was is None or abs(was - now) <= SAME_SHAPE * now for was, now in pairs)
    return MEASURED_BAND if same else OTHER_SHAPE_BAND


def mismatch(
    table: MeasuredTable, *, model: str, accelerator: str, gpus_per_replica: int, precision: str
) -> str | None:
    """Why the table says nothing about a candidate, or None where it does."""
    pairs: list[tuple[str, object, object]] = [
        ("model", table.model, model),
        ("accelerator", table.accelerator, accelerator),
        ("gpus_per_replica", table.gpus_per_replica, gpus_per_replica),
        ("precision", table.precision, precision),
    ]
    differ = [
        f"{name} {was} where {now} is planned" for name, was, now in pairs if was is not None and was != now
    ]
    return f"the table was measured with {', '.join(differ)}" if differ else None


def violations(table: MeasuredTable, model: str, accelerators: Collection[str] | None) -> list[Violation]:
    """What is wrong between a table and the rest of the input."""
    found: list[Violation] = []
    if table.accelerator is None and (accelerators is None or len(accelerators) != 1):
        fix = "Add measured.accelerator, or name one GPU in hardware.accelerators."
        allowed = "the GPU that was measured, which the file does not say"
        found.append(Violation("measured.accelerator", None, allowed, fix))
    if table.model is not None and table.model != model:
        fix = "Measure this model, or remove the table."
        found.append(Violation("measured.model", table.model, model, fix))
    return found


def bench_path(stack_file: Path, stack: str) -> Path:
    """Where a stack's measurement lies, beside its lock file: `stacks/bench.dev.chat.json` for stack `chat`
    of `stacks/Pulumi.dev.yaml`."""
    stem = stack_file.stem.removeprefix("Pulumi.")
    return stack_file.with_name(f"bench.{stem}.{stack}.json")
