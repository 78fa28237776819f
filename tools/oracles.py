"""Asks those again whom the tests believe: sloth about our rules, scanners about our manifests, and each
engine's own release about its flags and metrics.

    python tools/oracles.py [--check] [name ...]     # all of them where none is named

What sloth and the scanners say is written down; `--check` compares instead. The facts of releases are only
ever compared: a reader with a `--version` writes them (`tools/vllm_facts.py`).

The trap: an oracle that nobody can run again is a golden file of one's own. So the output is committed with
the tool's version and the day, and one oracle that cannot be had stops no other.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import scanners
from toolchain import TOOLS, ToolchainError, resolve, say

TODAY = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
FOLDER = Path(__file__).resolve().parent.parent / "tests" / "oracles" / "sloth"
SPEC, RULES = FOLDER / "slos.yaml", FOLDER / "rules.yaml"


def sloth(check: bool) -> bool:
    """What sloth makes of the specification, below a line that names version and date."""
    version = next(tool.version for tool in TOOLS if tool.name == "sloth")
    executable = resolve(["oracle"])["sloth"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rules.yaml"
        command = [str(executable), "generate", "--no-color", "-i", str(SPEC), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ToolchainError(f"sloth: {done.stderr.strip()}")
        rules = out.read_text(encoding="utf-8")
    if not check:
        RULES.write_text(f"# sloth {version} generate -i slos.yaml, {TODAY}\n{rules}", encoding="utf-8")
        return _written(RULES)
    committed = RULES.read_text(encoding="utf-8") if RULES.exists() else ""
    return _compared(RULES, committed.partition("\n")[2] == rules)


def scanner(name: str) -> Callable[[bool], bool]:
    """The oracle of one scanner; the day does not count in a comparison."""
    path = scanners.FOLDER / f"{name}.json"

    def ask(check: bool) -> bool:
        found = scanners.scanned(name)
        if not check:
            text = json.dumps({"date": TODAY, **found}, indent=1) + "\n"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return _written(path)
        committed: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        committed.pop("date", None)
        return _compared(path, committed == found)

    return ask


def facts(*command: str) -> Callable[[bool], bool]:
    """A reader of releases, which only compares here."""

    def ask(check: bool) -> bool:
        del check
        script = [sys.executable, str(Path(__file__).with_name(command[0])), *command[1:]]
        return subprocess.run([*script, "--check"], check=False).returncode == 0

    return ask


def _written(path: Path) -> bool:
    say(f"{path.name}: written")
    return True


def _compared(path: Path, same: bool) -> bool:
    say(f"{path.name}: {'as committed' if same else 'differs from what is committed'}")
    return same


ORACLES: dict[str, Callable[[bool], bool]] = {
    "sloth": sloth,
    "checkov": scanner("checkov"),
    "kube-score": scanner("kube-score"),
    "vllm": facts("vllm_facts.py"),
    "sglang": facts("sglang_facts.py"),
    "sglang-page": facts("expositions.py"),
    "benchmarks": facts("bench_facts.py"),
    "triton": facts("triton_facts.py"),
    "torchserve": facts("torchserve.py", "facts"),
}


def main() -> int:
    """Exit code 1 where one differs or cannot be had."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(ORACLES))
    parser.add_argument("--check", action="store_true", help="compare with what is committed")
    asked = parser.parse_args()
    names: list[str] = asked.names or list(ORACLES)
    if unknown := set(names) - set(ORACLES):
        parser.error(f"no oracle called {', '.join(sorted(unknown))}; there are {', '.join(ORACLES)}")
    failed: list[str] = []
    for name in names:
        try:
            fine = ORACLES[name](asked.check)
        except ToolchainError as error:
            say(f"error: {error}")
            fine = False
        failed += [] if fine else [name]
    if failed:
        say(f"not as committed, or not to be had: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
