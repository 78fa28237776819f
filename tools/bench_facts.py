"""Reads which flags the benchmarks inside vLLM's and SGLang's wheels take, and writes them as a data file.

    python tools/bench_facts.py --vllm-wheel A.whl --sglang-wheel B.whl [--check]

The trap: both build their parsers in several functions over several files, so every `add_argument` under the
benchmark's folders is read, which may be a few more flags than one command takes.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from pathlib import Path

from vllm_facts import DATA, Sources, calls, literal

FILE = "benchmarks.flags.json"
PLACES = {
    "vllm": ("vllm/benchmarks/serve.py", "vllm/benchmarks/datasets/datasets.py"),
    "sglang": ("sglang/benchmark/serving.py",),
}


def flags(wheel: Path, places: tuple[str, ...]) -> list[str]:
    """Names with their hyphens."""
    sources = Sources(wheel)
    found = {
        name
        for place in places
        for call in calls(sources.tree(place), "add_argument")
        for name in (literal(argument) for argument in call.args if isinstance(argument, ast.Constant))
        if isinstance(name, str) and name.startswith("--")
    }
    return sorted(found)


def main() -> int:
    """Writes the file, or with --check says whether it differs (exit 1)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vllm-wheel", type=Path, required=True)
    parser.add_argument("--sglang-wheel", type=Path, required=True)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    wheels = {"vllm": given.vllm_wheel, "sglang": given.sglang_wheel}
    found = {
        engine: {
            "source": f"PyPI wheel {wheel.name}",
            "files": PLACES[engine],
            "flags": flags(wheel, PLACES[engine]),
        }
        for engine, wheel in wheels.items()
    }
    text = json.dumps(found, indent=1) + "\n"
    if not given.check:
        (DATA / FILE).write_text(text)
        return 0
    same = (DATA / FILE).read_text() == text
    print(f"{FILE} {'equals' if same else 'differs from'} the wheels' own flags")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
