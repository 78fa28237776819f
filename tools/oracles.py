"""Runs sloth on `tests/oracles/sloth/slos.yaml` and keeps what it says: the tests compare our rules with it.

The output is committed, so that the tests need no Go. `--check` compares instead of writing.

The trap: an oracle that nobody can run again is a golden file of one's own. The first line says
which version ran.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
from pathlib import Path

from toolchain import TOOLS, ToolchainError, resolve, say

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "oracles" / "sloth"
SPEC, RULES = FOLDER / "slos.yaml", FOLDER / "rules.yaml"


def generated() -> str:
    """What sloth makes of the specification, below a line that names version and date."""
    version = next(tool.version for tool in TOOLS if tool.name == "sloth")
    sloth = resolve(["oracle"])["sloth"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rules.yaml"
        command = [str(sloth), "generate", "--no-color", "-i", str(SPEC), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ToolchainError(f"sloth: {done.stderr.strip()}")
        heading = f"# sloth {version} generate -i slos.yaml, {datetime.datetime.now(datetime.UTC):%Y-%m-%d}\n"
        return heading + out.read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Regenerate the committed output of sloth.")
    parser.add_argument("--check", action="store_true", help="compare with what is committed")
    check: bool = parser.parse_args().check
    try:
        text = generated()
    except ToolchainError as error:
        say(f"error: {error}")
        return 1
    if check:
        committed = RULES.read_text(encoding="utf-8") if RULES.exists() else ""
        same = committed.partition("\n")[2] == text.partition("\n")[2]
        say(f"{RULES.name}: {'as committed' if same else 'differs from what is committed'}")
        return 0 if same else 1
    RULES.write_text(text, encoding="utf-8")
    say(f"{RULES}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
