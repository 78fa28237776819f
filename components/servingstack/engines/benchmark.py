"""An engine's own benchmark, as the command of a container in the engine's image: one concurrency per call.

Every call appends one line of JSON to the same file, which `servingstack.measured_formats` reads. The
conditions travel with it, so that a plan knows on which GPUs the table holds.

Trap: without a seed of its own, each level sends the prompts of the one before, which are then in the prefix
cache. And the tools mean opposite things by a range ratio of 0: exact lengths (vLLM), any length (SGLang).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WARM_UP = 3
"""Uncounted requests before each level."""
PERCENTILES = "50,95,99"


@dataclass(frozen=True)
class Load:
    """One level of a sweep."""

    url: str
    """Base, without `/v1`."""
    model: str
    """As the server names it."""
    tokenizer: str
    """Path or id that the tokenizer is loaded from."""
    concurrency: int
    requests: int
    input_tokens: int
    output_tokens: int
    conditions: Mapping[str, str]
    """What the table must say of itself: accelerator, gpus_per_replica, precision, engine, replicas."""
    folder: str
    file: str


def command(engine: str, load: Load) -> tuple[str, ...] | None:
    """Exec form, or None for an engine without a benchmark of its own in its image."""
    made = _COMMANDS.get(engine)
    return None if made is None else made(load)


def _vllm(load: Load) -> tuple[str, ...]:
    """vllm 0.30.0, benchmarks/serve.py and benchmarks/datasets/datasets.py."""
    return (
        "vllm", "bench", "serve",
        "--backend=openai",
        f"--base-url={load.url}",
        "--endpoint=/v1/completions",
        f"--model={load.model}",
        f"--tokenizer={load.tokenizer}",
        "--dataset-name=random",
        f"--random-input-len={load.input_tokens}",
        f"--random-output-len={load.output_tokens}",
        f"--num-prompts={load.requests}",
        f"--max-concurrency={load.concurrency}",
        f"--num-warmups={WARM_UP}",
        f"--seed={load.concurrency}",
        "--ignore-eos",
        "--disable-tqdm",
        "--percentile-metrics=ttft,tpot,itl,e2el",
        f"--metric-percentiles={PERCENTILES}",
        "--save-result",
        "--append-result",
        f"--result-dir={load.folder}",
        f"--result-filename={load.file}",
        "--metadata",
        *(f"{name}={value}" for name, value in load.conditions.items()),
    )  # fmt: skip


def _sglang(load: Load) -> tuple[str, ...]:
    """sglang 0.5.20, benchmark/serving.py; the dataset `random` would be fetched, `random-ids` is made."""
    return (
        "python3", "-m", "sglang.benchmark.serving",
        "--backend=sglang-oai",
        f"--base-url={load.url}",
        f"--model={load.model}",
        f"--tokenizer={load.tokenizer}",
        "--dataset-name=random-ids",
        f"--random-input-len={load.input_tokens}",
        f"--random-output-len={load.output_tokens}",
        "--random-range-ratio=1.0",
        f"--num-prompts={load.requests}",
        f"--max-concurrency={load.concurrency}",
        f"--warmup-requests={WARM_UP}",
        f"--seed={load.concurrency}",
        "--disable-tqdm",
        f"--output-file={load.folder}/{load.file}",
        f"--tag={','.join(f'{name}={value}' for name, value in load.conditions.items())}",
    )  # fmt: skip


_COMMANDS = {"vllm": _vllm, "sglang": _sglang}
