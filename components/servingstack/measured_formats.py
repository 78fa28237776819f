"""Reading benchmark files: each tool's own names and units become rows of one shape.

| tool | file | where its names come from |
|---|---|---|
| servingstack bench | JSON | `MeasuredTable` |
| vllm bench serve | JSON, one object or one a line, a log around it | vllm 0.30.0, benchmarks/serve.py |
| sglang.benchmark.serving | JSON lines | sglang 0.5.20, benchmark/serving.py |
| AIPerf | profile_export_aiperf.json, .csv | aiperf 0.13.0, common/models/export_models.py, exporters/ |
| GenAI-Perf | *_genai_perf.json, .csv | genai-perf 0.0.16, export_data/ |
| perf_analyzer -f | CSV, microseconds | its documentation, measurements_metrics.md |

Trap: the CSV of GenAI-Perf and AIPerf does not say the concurrency. By Little's law it is requests per second
times mean latency, which holds for any closed loop; the table notes that it was computed.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from servingstack.errors import InvalidInput, Violation, from_pydantic
from servingstack.measured import Format, MeasuredFiles, MeasuredRow, MeasuredTable, Spread

Record = Mapping[str, Any]

KNOWN = (
    "servingstack bench, vllm bench serve, sglang.benchmark.serving, AIPerf and GenAI-Perf JSON or CSV, "
    "perf_analyzer CSV"
)
_COMPUTED = "concurrency computed as requests/s x mean latency"
_LATENCY_NAMES = ("e2el", "e2e_latency")
"""vLLM's and SGLang's word for whole requests."""


def read(paths: Iterable[Path]) -> MeasuredTable:
    """One table of one or more files (AIPerf and GenAI-Perf write one per concurrency). Raises
    `InvalidInput`."""
    listed = list(paths)
    tables: list[MeasuredTable] = []
    wrong: list[Violation] = []
    for path in listed:
        try:
            tables.append(parse(path.read_text(encoding="utf-8", errors="replace"), str(path)))
        except OSError as error:
            wrong.append(Violation("measured", str(path), "a file that can be read", str(error)))
        except InvalidInput as error:
            wrong += error.violations
    if wrong or not tables:
        raise InvalidInput(wrong or [Violation("measured", [], "at least one file", "Name one.")])
    return merged(tables)


def by_reference(value: object) -> bool:
    """Whether a document names files instead of holding the table."""
    return isinstance(value, (str, list)) or (isinstance(value, Mapping) and "files" in value)


def resolve(value: object, folder: Path) -> MeasuredTable:
    """The table that a document names: a path, a list of paths, or `MeasuredFiles`. Raises `InvalidInput`."""
    asked = cast("Record", value) if isinstance(value, Mapping) else {"files": value}
    try:
        named = MeasuredFiles.model_validate(asked)
    except ValidationError as error:
        wrong = from_pydantic(error, asked, {"": list(MeasuredFiles.model_fields)}).violations
        raise InvalidInput([replace(item, path=f"measured.{item.path}") for item in wrong]) from None
    paths = (named.files,) if isinstance(named.files, str) else named.files
    table = read([folder / path for path in paths])
    return table.model_copy(update=named.model_dump(exclude={"files"}, exclude_none=True))


def parse(text: str, name: str) -> MeasuredTable:
    """One file's text. Raises `InvalidInput` naming the formats that are known."""
    try:
        found = _from_json(text)
        found = _from_csv(text) if found is None else found
    except (KeyError, TypeError, ValueError, IndexError, csv.Error) as error:
        allowed, fix = f"a complete file of {KNOWN}", f"{type(error).__name__}: {error}"
        raise InvalidInput([Violation("measured", name, allowed, fix)]) from None
    if found is None:
        raise InvalidInput([Violation("measured", name, f"a file of {KNOWN}", "Export one of these.")])
    return found


def merged(tables: list[MeasuredTable]) -> MeasuredTable:
    """Rows of all; of two with the same concurrency the slower is kept, to be on the safe side. Conditions
    must agree. Raises `InvalidInput`."""
    first = tables[0]
    names = ("format", "model", "accelerator", "gpus_per_replica", "precision", "engine", "replicas")
    differ = [name for name in names if len({getattr(table, name) for table in tables}) > 1]
    if differ:
        found: list[Violation] = []
        for name in differ:
            values = sorted({str(getattr(table, name)) for table in tables})
            fix = "Give the files of one benchmark."
            found.append(Violation(f"measured.{name}", values, "the same in every file", fix))
        raise InvalidInput(found)
    rows: dict[float, MeasuredRow] = {}
    for row in (row for table in tables for row in table.rows):
        known = rows.get(row.concurrency)
        if known is None or row.requests_per_s < known.requests_per_s:
            rows[row.concurrency] = row
    notes = tuple(dict.fromkeys(note for table in tables for note in table.notes))
    ordered = tuple(rows[key] for key in sorted(rows))
    return first.model_copy(update={"rows": ordered, "notes": notes})


# ---- JSON ------------------------------------------------------------------------------------------


def _from_json(text: str) -> MeasuredTable | None:
    records = [record for record in _records(text) if _kind(record) is not None]
    if not records:
        return None
    if _kind(records[0]) == "servingstack":
        try:
            return MeasuredTable.model_validate(records[0])
        except ValidationError as error:
            raise ValueError("; ".join(item["msg"] for item in error.errors())) from None
    return merged([_table(record) for record in records])


def _records(text: str) -> list[Record]:
    """The whole text as one object, or each line that is one: logs of a Job have other lines around it."""
    try:
        whole = json.loads(text)
    except ValueError:
        found: list[Record] = []
        for line in text.splitlines():
            if line.lstrip().startswith("{"):
                try:
                    one = json.loads(line)
                except ValueError:
                    continue
                found.append(cast("Record", one))
        return found
    listed: list[Any] = cast("list[Any]", whole) if isinstance(whole, list) else [whole]
    return [cast("Record", item) for item in listed if isinstance(item, dict)]


def _kind(record: Record) -> Format | None:
    throughput = record.get("request_throughput")
    if "servingstack_bench" in record:
        return "servingstack"
    if isinstance(throughput, dict):
        return "aiperf" if "aiperf_version" in record else "genai-perf"
    if isinstance(throughput, (int, float)) and "completed" in record:
        return "sglang-bench" if "mean_e2e_latency_ms" in record else "vllm-bench"
    return None


def _table(record: Record) -> MeasuredTable:
    kind = _kind(record)
    assert kind is not None
    return _bench_table(record, kind) if kind in ("vllm-bench", "sglang-bench") else _perf_table(record, kind)


def _bench_table(record: Record, kind: Format) -> MeasuredTable:
    """One result of an engine's own benchmark: flat names, `p95_ttft_ms`."""
    completed = int(record["completed"])
    latency = next((found for name in _LATENCY_NAMES if (found := _flat(record, name)) is not None), None)
    rate = float(record["request_throughput"])
    concurrency, notes = _concurrency(record.get("max_concurrency"), rate, latency)
    conditions = _conditions(record)
    replicas = int(conditions.get("replicas", 1))
    tokens = record.get("output_throughput")
    row = MeasuredRow(
        concurrency=concurrency / replicas,
        requests_per_s=rate / replicas,
        output_tokens_per_s=None if tokens is None else float(tokens) / replicas,
        ttft_ms=_flat(record, "ttft"),
        tpot_ms=_flat(record, "tpot"),
        latency_ms=latency,
        requests=completed,
        failed=int(record.get("failed", 0)),
    )
    return MeasuredTable(
        format=kind,
        rows=(row,),
        model=record.get("model_id"),
        input_tokens=_per(record, "total_input_tokens", completed),
        output_tokens=_per(record, "total_output_tokens", completed),
        date=_day(record.get("date")),
        notes=notes,
        **conditions,
    )


_CONDITIONS = ("accelerator", "gpus_per_replica", "precision", "engine", "replicas")


def _conditions(record: Record) -> dict[str, Any]:
    """What the Job wrote beside the result: vLLM's `--metadata` become fields, SGLang has one `tag`."""
    tag = str(record.get("tag") or "")
    told = dict(part.split("=", 1) for part in tag.split(",") if "=" in part)
    found = {name: record.get(name, told.get(name)) for name in _CONDITIONS}
    whole = ("gpus_per_replica", "replicas")  # texts, as both tools write them
    return {
        name: int(value) if name in whole else value for name, value in found.items() if value is not None
    }


def _flat(record: Record, name: str) -> Spread | None:
    values = {
        "mean": record.get(f"mean_{name}_ms"),
        "p50": record.get(f"median_{name}_ms", record.get(f"p50_{name}_ms")),
        "p95": record.get(f"p95_{name}_ms"),
        "p99": record.get(f"p99_{name}_ms"),
    }
    return _spread(values)


def _spread(values: Mapping[str, Any]) -> Spread | None:
    """None where nothing is said, or where the tool wrote zeros for what it could not see."""
    given = {name: float(value) for name, value in values.items() if value is not None}
    return Spread(**given) if any(given.values()) else None


def _per(record: Record, name: str, count: int) -> float | None:
    total = record.get(name)
    return float(total) / count if total and count else None


def _day(date: Any) -> str | None:
    """vLLM writes 20261130-104500, others ISO 8601."""
    text = str(date) if date is not None else ""
    plain = re.match(r"(\d{4})-?(\d{2})-?(\d{2})", text)
    return "-".join(plain.groups()) if plain else None


def _concurrency(given: Any, rate: float, latency: Spread | None) -> tuple[float, tuple[str, ...]]:
    """As the file says it, or by Little's law. Raises ValueError where neither can be had."""
    if given is not None:
        return float(given), ()
    mean = None if latency is None else latency.mean if latency.mean is not None else latency.p50
    if mean is None:
        raise ValueError("neither a concurrency nor a latency to compute it from")
    return rate * mean / 1000, (_COMPUTED,)


def _perf_table(record: Record, kind: Format) -> MeasuredTable:
    """AIPerf's and GenAI-Perf's JSON: `{"request_latency": {"unit": "ms", "avg": ..., "p95": ...}}`."""
    values = {name: cast("Record", item) for name, item in record.items() if _is_metric(item)}
    return _perf_row(values, kind, _load(record), _model(record), _day(record.get("start_time")))


def _is_metric(item: Any) -> bool:
    return isinstance(item, dict) and "unit" in item and "avg" in item


def _perf_row(
    values: Mapping[str, Record], kind: Format, concurrency: Any, model: str | None, date: str | None
) -> MeasuredTable:
    latency = _stats(values.get("request_latency"))
    rate = float(values["request_throughput"]["avg"])
    found, notes = _concurrency(concurrency, rate, latency)
    tokens, count = values.get("output_token_throughput"), values.get("request_count")
    row = MeasuredRow(
        concurrency=found,
        requests_per_s=rate,
        output_tokens_per_s=None if tokens is None else float(tokens["avg"]),
        ttft_ms=_stats(values.get("time_to_first_token")),
        tpot_ms=_stats(values.get("inter_token_latency")),
        latency_ms=latency,
        requests=None if count is None else int(count["avg"]),
        failed=int(values["error_request_count"]["avg"]) if "error_request_count" in values else 0,
    )
    return MeasuredTable(
        format=kind,
        rows=(row,),
        model=model,
        input_tokens=_average(values.get("input_sequence_length")),
        output_tokens=_average(values.get("output_sequence_length")),
        date=date,
        notes=notes,
    )


_TO_MS = {"ms": 1.0, "us": 1e-3, "ns": 1e-6, "sec": 1e3, "s": 1e3, "": 1.0}


def _stats(metric: Record | None) -> Spread | None:
    if metric is None:
        return None
    scale = _TO_MS[str(metric.get("unit", ""))]
    names = {"mean": "avg", "p50": "p50", "p95": "p95", "p99": "p99"}
    given = {to: metric.get(name) for to, name in names.items()}
    return _spread({name: None if value is None else value * scale for name, value in given.items()})


def _average(metric: Record | None) -> float | None:
    return float(metric["avg"]) if metric is not None and metric.get("avg") else None


def _load(record: Record) -> Any:
    """The concurrency in a run's configuration: AIPerf's phases and its older load generator, GenAI-Perf's
    stimulus, or the point of a sweep."""
    config = _sub(record, "input_config")
    phases: list[Any] = config.get("phases", []) if isinstance(config.get("phases"), list) else []
    profiling = [p for p in phases if isinstance(p, dict) and cast("Record", p).get("name") == "profiling"]
    places: list[Any] = [
        *(cast("Record", phase).get("concurrency") for phase in profiling),
        _sub(config, "loadgen").get("concurrency"),
        _sub(_sub(config, "perf_analyzer"), "stimulus").get("concurrency"),
        *(
            v
            for k, v in _sub(_sub(record, "run_info"), "variation_values").items()
            if k.endswith("concurrency")
        ),
    ]
    return next((place for place in places if isinstance(place, (int, float))), None)


def _sub(record: Record, name: str) -> Record:
    found = record.get(name)
    return cast("Record", found) if isinstance(found, dict) else {}


def _model(record: Record) -> str | None:
    """The model's name, where it is said as one."""
    config = _sub(record, "input_config")
    for place in (config.get("model_names"), _sub(config, "endpoint").get("model_names")):
        if isinstance(place, list) and len(cast("list[Any]", place)) == 1:
            return str(cast("list[Any]", place)[0])
    return None


# ---- CSV -------------------------------------------------------------------------------------------


def _from_csv(text: str) -> MeasuredTable | None:
    lines = [row for row in csv.reader(text.splitlines()) if row]
    if not lines:
        return None
    if {"Concurrency", "Inferences/Second"} <= set(lines[0]):
        return _perf_analyzer(lines)
    if lines[0][0] == "Metric" and "avg" in lines[0]:
        return _metric_csv(lines)
    return None


def _perf_analyzer(lines: list[list[str]]) -> MeasuredTable:
    """Rows by throughput, times in microseconds."""
    head, rows = lines[0], list[MeasuredRow]()
    columns = {name: index for index, name in enumerate(head)}
    for line in lines[1:]:
        values = {name: float(line[index]) for name, index in columns.items() if line[index].strip()}
        latency = {f"p{p}": values.get(f"p{p} latency") for p in (50, 95, 99)}
        scaled = {name: None if value is None else value / 1000 for name, value in latency.items()}
        rows.append(
            MeasuredRow(
                concurrency=values["Concurrency"],
                requests_per_s=values["Inferences/Second"],
                latency_ms=_spread(scaled),
                batch_ms=_compute_ms(values),
            )
        )
    ordered = tuple(sorted(rows, key=lambda row: row.concurrency))
    notes = ("inferences counted as requests: true for batch size 1 (-b)",)
    return MeasuredTable(format="perf-analyzer", rows=ordered, notes=notes)


def _compute_ms(values: Mapping[str, float]) -> float | None:
    """What the server says of the model's own work on a request's batch; None where it says nothing, as
    through an endpoint that is not Triton's."""
    parts = [values.get(f"Server Compute {part}") for part in ("Input", "Infer", "Output")]
    total = sum(part for part in parts if part is not None) / 1000
    return total if total > 0 else None


_NAMED = {
    "request latency": "request_latency",
    "time to first token": "time_to_first_token",
    "inter token latency": "inter_token_latency",
    "request throughput": "request_throughput",
    "output token throughput": "output_token_throughput",
    "request count": "request_count",
    "error request count": "error_request_count",
    "input sequence length": "input_sequence_length",
    "output sequence length": "output_sequence_length",
}
_UNIT = re.compile(r"^(?P<name>.*?)(?: \((?P<unit>[^()]*)\))?$")


def _metric_csv(lines: list[list[str]]) -> MeasuredTable:
    """Two sections: percentiles by metric, then single values; the unit is in the metric's name."""
    head: list[str] = []
    values: dict[str, dict[str, Any]] = {}
    for line in lines:
        if line[0] == "Metric":
            head = ["avg" if name == "Value" else name for name in line[1:]]
            continue
        parts = _UNIT.match(line[0])
        name = _NAMED.get(parts["name"].lower()) if parts is not None else None
        if parts is None or name is None:
            continue
        cells = {key: _number(cell) for key, cell in zip(head, line[1:], strict=False)}
        unit = parts["unit"] if parts["unit"] in _TO_MS else ""
        values[name] = {"unit": unit} | {key: cell for key, cell in cells.items() if cell is not None}
    kind: Format = "aiperf" if any("std" in line and "sum" in line for line in lines[:1]) else "genai-perf"
    return _perf_row(values, kind, None, None, None)


def _number(text: str) -> float | None:
    """GenAI-Perf writes thousands with commas, and N/A."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
