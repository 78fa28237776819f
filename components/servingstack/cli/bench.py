"""`servingstack bench`: measure an endpoint and write the table where the next plan finds it.

Trap: the API key is read from an environment variable that is named, never given: a key on the command line
is in the shell's history and in every process list. It is in no file that is written.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servingstack.bench import CONCURRENCY, Bench, BenchError, Wanted
from servingstack.errors import InvalidInput, Violation
from servingstack.measured import bench_path

if TYPE_CHECKING:
    from servingstack.cli.source import Planned

Url = Annotated[
    str | None, typer.Option("--url", help="Base of the OpenAI-compatible API: http://localhost:8080")
]
KeyName = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="Variable that holds the API key.")
]
Levels = Annotated[
    str, typer.Option("--concurrency", metavar="1,2,4,...", help="Requests in flight, one level each.")
]
Model = Annotated[str | None, typer.Option("--model", help="Model to ask for; else the server's first.")]
Input = Annotated[
    int | None, typer.Option("--input-tokens", min=1, help="Length of prompts; else the stack's.")
]
Output = Annotated[
    int | None, typer.Option("--output-tokens", min=1, help="Length of answers; else the stack's.")
]
Requests = Annotated[int, typer.Option("--requests", min=2, help="Counted requests of each level.")]
WarmUp = Annotated[
    int, typer.Option("--warm-up", min=0, help="Requests before the first level, not counted.")
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds a request may take.")]
Replicas = Annotated[int, typer.Option("--replicas", min=1, help="Replicas behind the address.")]
IgnoreEos = Annotated[
    bool, typer.Option("--ignore-eos/--no-ignore-eos", help="Full-length answers (vLLM and SGLang can).")
]
Out = Annotated[
    Path | None, typer.Option("--out", help="File to write; else beside the lock of the environment.")
]
Environment = Annotated[
    str | None, typer.Argument(metavar="[ENV]", help="Environment whose stack is measured.")
]
File = Annotated[Path | None, typer.Option("--file", "-f", help="A file with the stack.")]
Stack = Annotated[str | None, typer.Option("--stack", help="Which stack; needed where there are several.")]
Job = Annotated[
    bool, typer.Option("--job", help="Print a Kubernetes Job with the engine's own benchmark instead.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the table as JSON, also errors.")]
_LEVELS = ",".join(map(str, CONCURRENCY))


def bench(
    *,
    url: Url = None,
    environment: Environment = None,
    file: File = None,
    stack: Stack = None,
    api_key_env: KeyName = None,
    concurrency: Levels = _LEVELS,
    model: Model = None,
    input_tokens: Input = None,
    output_tokens: Output = None,
    requests: Requests = 32,
    warm_up: WarmUp = 3,
    timeout: Timeout = 120.0,
    replicas: Replicas = 1,
    ignore_eos: IgnoreEos = True,
    out: Out = None,
    job: Job = False,
    as_json: Json = False,
) -> None:
    """Measure a live endpoint at rising concurrency, and write the table that the next plan uses."""
    if job:
        typer.echo(job_text(environment, file, stack))
        return
    if url is None:
        fix = "Give --url, or --job for a Job on the cluster."
        raise InvalidInput([Violation("--url", None, "the address of a running endpoint", fix)])
    wanted = Wanted(
        url=url, model=model, concurrency=levels(concurrency), requests=requests, warm_up=warm_up,
        timeout_s=timeout, replicas=replicas, ignore_eos=ignore_eos,
    )  # fmt: skip
    wanted, conditions, path = _of_stack(wanted, environment, file, stack, out)
    wanted = replace(
        wanted,
        input_tokens=wanted.input_tokens if input_tokens is None else input_tokens,
        output_tokens=wanted.output_tokens if output_tokens is None else output_tokens,
    )
    key = api_key(api_key_env)
    try:
        table = Bench(wanted, key).run(lambda line: typer.echo(line, err=True))
    except BenchError as error:
        fix = "Check the address, the model and the key; see what the server logs."
        raise InvalidInput([Violation("--url", url, f"an endpoint that answers ({error})", fix)]) from None
    table = table.model_copy(update=conditions)
    text = table.model_dump_json(indent=1, exclude_none=True) + "\n"
    path.write_text(text, encoding="utf-8")
    typer.echo(text if as_json else f"wrote {path}: {len(table.rows)} levels, {table.source}", nl=not as_json)


def job_text(environment: str | None, file: Path | None, stack: str | None) -> str:
    """The Job as JSON, which `kubectl apply -f -` takes. Raises `InvalidInput` for an engine without a
    benchmark in its image."""
    from servingstack.targets.kubernetes.bench_job import bench_job

    item = _planned(environment, file, stack)[1]
    traffic = item.entry.args.traffic
    made = bench_job(item.deployed, input_tokens=traffic.input_tokens, output_tokens=traffic.output_tokens)
    if made is None:
        engine, fix = item.deployed.architecture.engine, "Use --url with an OpenAI-compatible address."
        raise InvalidInput([Violation("--job", engine, "an engine with a benchmark in its image", fix)])
    return json.dumps(made.body, indent=2)


def levels(text: str) -> tuple[int, ...]:
    """`1,2,4` as numbers. Raises `InvalidInput`."""
    if not re.fullmatch(r"[1-9]\d{0,4}(,[1-9]\d{0,4})*", text):
        fix = "Write --concurrency 1,2,4,8."
        raise InvalidInput([Violation("--concurrency", text, "whole numbers from 1, by commas", fix)])
    return tuple(int(part) for part in text.split(","))


def api_key(name: str | None) -> str | None:
    """The value of the named variable; None where none is named. Raises `InvalidInput` for an absent one."""
    if name is None:
        return None
    value = os.environ.get(name)
    if not value:
        fix = f"Export {name} first."
        raise InvalidInput([Violation("--api-key-env", name, "the name of a variable that is set", fix)])
    return value


def _of_stack(
    wanted: Wanted, environment: str | None, file: Path | None, stack: str | None, out: Path | None
) -> tuple[Wanted, dict[str, object], Path]:
    """Traffic and conditions of the stack that is measured, and where the table goes."""
    if environment is None and file is None:
        if out is None:
            fix = "Name the environment, or a file with --out."
            raise InvalidInput([Violation("--out", None, "a file to write", fix)])
        return wanted, {}, out
    path, item = _planned(environment, file, stack)
    plan, traffic = item.deployed, item.entry.args.traffic
    architecture = plan.architecture
    conditions: dict[str, object] = {
        "model": architecture.model,
        "accelerator": architecture.accelerator,
        "gpus_per_replica": architecture.gpus_per_replica,
        "precision": architecture.precision,
        "engine": f"{architecture.engine} {architecture.engine_version}",
    }
    shaped = replace(wanted, input_tokens=traffic.input_tokens, output_tokens=traffic.output_tokens)
    return shaped, conditions, path if out is None else out


def _planned(environment: str | None, file: Path | None, stack: str | None) -> tuple[Path, Planned]:
    """The one stack that is meant, and where its table lies."""
    from servingstack.cli.source import open_source, plan_all

    source = open_source(environment, file)
    planned = plan_all(source, stack)
    if len(planned) != 1:
        raise InvalidInput([Violation("--stack", stack, ", ".join(planned), "Name one of these.")])
    [(name, item)] = planned.items()
    return bench_path(source.path, name), item


__all__ = ["api_key", "bench", "levels"]
