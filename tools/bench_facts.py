"""Reads which flags the benchmarks inside vLLM's and SGLang's wheels take, and writes them as a data file.

    python tools/bench_facts.py [--check]

The trap: both build their parsers in several functions over several files, so every `add_argument` under the
benchmark's folders is read, which may be a few more flags than one command takes.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys

from releases import DATA, Node, Sources, calls, deliver, literal, wheel

FILE = "benchmarks.flags.json"
PLACES = {
    "vllm": ("vllm/benchmarks/serve.py", "vllm/benchmarks/datasets/datasets.py"),
    "sglang": ("sglang/benchmark/serving.py",),
}


def flags(sources: Sources, places: tuple[str, ...]) -> list[str]:
    """Names with their hyphens."""
    found = {
        name
        for place in places
        for call in calls(sources.tree(place), "add_argument")
        for name in (literal(argument) for argument in call.args if isinstance(argument, ast.Constant))
        if isinstance(name, str) and name.startswith("--")
    }
    return sorted(found)


def render(releases: dict[str, str]) -> str:
    """The file's text, for the release of each engine."""
    found: Node = {}
    for engine, places in PLACES.items():
        packed = wheel(f"{engine}=={releases[engine]}")
        names = flags(Sources(packed), places)
        found[engine] = {"source": f"PyPI wheel {packed.name}", "files": places, "flags": names}
    return json.dumps(found, indent=1) + "\n"


def main() -> int:
    """Writes the file, or with --check says how it differs (exit 1)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    sources = {engine: row["source"] for engine, row in json.loads((DATA / FILE).read_text()).items()}
    # "PyPI wheel vllm-0.30.0-cp38-abi3-...": the release that the committed file is of.
    parser.add_argument("--vllm", default=sources["vllm"].split("-")[1])
    parser.add_argument("--sglang", default=sources["sglang"].split("-")[1])
    given = parser.parse_args()
    return deliver({FILE: render({"vllm": given.vllm, "sglang": given.sglang})}, check=given.check)


if __name__ == "__main__":
    sys.exit(main())
