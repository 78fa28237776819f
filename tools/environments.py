"""Virtual environments of their own, in the cache, for tools whose requirements must not meet the project's.

Trap: a tool that is installed beside the library decides the library's own versions; checkov alone pins a
dozen packages. The stamp is written last, so that a half-made environment is made again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from toolchain import ToolchainError, cache_dir, say


def environment(
    name: str, requirements: tuple[str, ...] = (), *, python: str = sys.executable, system: bool = False
) -> Path:
    """Its directory, made where it is not there yet or holds other requirements. `system`: it also sees the
    packages of that Python. ToolchainError with what failed."""
    folder = cache_dir() / name
    stamp, wanted = folder / "requirements.installed", "\n".join(requirements)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return folder
    say(f"{name}: installing into {folder}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    run([python, "-m", "venv", "--clear", *(["--system-site-packages"] if system else []), str(folder)])
    if requirements:
        run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", *requirements])
    stamp.write_text(wanted, encoding="utf-8")
    return folder


def run(command: list[str]) -> str:
    """A command's output. ToolchainError with the end of what it said where it failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return done.stdout
