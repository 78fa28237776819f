"""Background processes that outlive the command that started them.

The trap: a process id is reused after a crash or a reboot, so a stale pid file may name a stranger. A process
counts as ours only while its command line holds the state directory it was started for; every command here
names that directory in an argument.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path


class ProcessError(Exception):
    """A background process that ended by itself, with the end of its log."""


def _command_line(pid: int) -> str:
    """The command line of a process; empty when it is gone, or a zombie."""
    proc = Path("/proc")
    if (proc / "self").exists():
        try:
            return (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    done = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout


class Process:
    """One named process of a state directory: its pid file, its log and whether it lives."""

    def __init__(self, state: Path, name: str) -> None:
        self.name = name
        self.log = state / "logs" / f"{name}.log"
        self._state = state
        self._pid_file = state / "pids" / f"{name}.pid"

    @property
    def pid(self) -> int | None:
        """The id of the living process, None when there is none."""
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return None
        return pid if str(self._state) in _command_line(pid) else None

    def start(self, command: list[str], env: Mapping[str, str] | None = None) -> None:
        """Starts it in a session of its own, so that Ctrl-C in the terminal does not reach it."""
        if not any(str(self._state) in argument for argument in command):
            raise ValueError(
                f"{self.name}: no argument names {self._state}, it could not be told from others"
            )
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._pid_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(env) if env is not None else None,
            )
        self._pid_file.write_text(str(child.pid))
        # The command line of a process reads as empty for an instant while the kernel loads its program.
        deadline = time.monotonic() + 1
        while self.pid is None and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        # Not waited for on purpose; without this Python warns about a child that is still running.
        child.returncode = 0

    def check(self) -> None:
        """Raises ProcessError when it is not running."""
        if self.pid is None:
            tail = self.log.read_text(errors="replace").splitlines()[-15:] if self.log.exists() else []
            raise ProcessError("\n".join([f"{self.name} is not running; the end of {self.log}:", *tail]))

    def kill(self) -> None:
        """Ends it at once and waits until it is gone; what it would save on a gentler stop is thrown away."""
        while (pid := self.pid) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        self._pid_file.unlink(missing_ok=True)
