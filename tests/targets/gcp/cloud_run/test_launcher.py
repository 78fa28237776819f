"""The launcher as an instance runs it: a real process, with a small server in the engine's place."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sample import sample_plan

from servingstack.targets import launch

# Healthy at once; answers the warm-up's path after `lazy` tries, and notes every request.
ENGINE = textwrap.dedent(
    """
    import http.server, json, pathlib, sys
    port, log, lazy = int(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    class Handler(http.server.BaseHTTPRequestHandler):
        tries = 0
        def answer(self, status):
            self.send_response(status); self.send_header("Content-Length", "0"); self.end_headers()
        def do_GET(self):
            self.answer(200)
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            Handler.tries += 1
            with log.open("a") as lines:
                lines.write(json.dumps({"path": self.path, "body": json.loads(body)}) + "\\n")
            self.answer(503 if Handler.tries <= lazy else 200)
        def log_message(self, *_):
            pass
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
    """
)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Instance:
    """The container's process, and its two ports."""

    def __init__(self, folder: Path, *, lazy: int = 0, engine: list[str] | None = None, startup_s: int = 20):
        self.port, self.ready_port, self.log = _free_port(), _free_port(), folder / "requests.jsonl"
        script = folder / "engine.py"
        script.write_text(ENGINE)
        served = [sys.executable, str(script), str(self.port), str(self.log), str(lazy)]
        plan = sample_plan(
            container={
                "port": self.port,
                "command": tuple(served if engine is None else engine),
                "flags": (),
            },
            timeouts={"startup_s": startup_s},
        )
        _, dash, text, settings, *command = launch.command(plan, ready_port=self.ready_port)
        quick = json.loads(settings) | {"poll_s": 0.05}
        self.process = subprocess.Popen([sys.executable, dash, text, json.dumps(quick), *command])

    def ready(self) -> int | None:
        """Status of the startup probe; None while nobody listens."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.ready_port, timeout=2)
            connection.request("GET", "/")
            return connection.getresponse().status
        except OSError:
            return None

    def until(self, status: int, limit_s: float = 15) -> None:
        """Wait for an answer of the probe."""
        end = time.monotonic() + limit_s
        while self.ready() != status:
            assert time.monotonic() < end, f"never {status}"
            time.sleep(0.05)

    def requests(self) -> list[dict[str, object]]:
        """What the engine was sent."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def instances() -> Iterator[list[Instance]]:
    """Whatever a test starts ends with it."""
    started: list[Instance] = []
    yield started
    for each in started:
        if each.process.poll() is None:
            each.process.send_signal(signal.SIGTERM)
            each.process.wait(10)


def test_an_instance_is_ready_only_after_every_warm_up_request_was_answered(
    tmp_path: Path, instances: list[Instance]
) -> None:
    instance = Instance(tmp_path, lazy=3)
    instances.append(instance)
    instance.until(503)  # the engine may be healthy already
    instance.until(200)
    warm_up = sample_plan().container.warm_up
    answered = instance.requests()[3:]
    assert len(answered) >= warm_up.requests
    assert {each["path"] for each in answered} == {warm_up.path}
    assert answered[-1]["body"] == warm_up.body


def test_the_launcher_ends_with_the_engines_own_code(tmp_path: Path, instances: list[Instance]) -> None:
    instance = Instance(tmp_path, engine=[sys.executable, "-c", "raise SystemExit(7)"])
    instances.append(instance)
    assert instance.process.wait(15) == 7


def test_an_engine_that_is_killed_ends_the_instance_as_a_shell_says_it(
    tmp_path: Path, instances: list[Instance]
) -> None:
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    instance = Instance(tmp_path, engine=[sys.executable, "-c", killed])
    instances.append(instance)
    assert instance.process.wait(15) == 128 + signal.SIGKILL


def test_an_engine_that_is_never_warm_is_stopped_at_the_planned_time(
    tmp_path: Path, instances: list[Instance]
) -> None:
    instance = Instance(tmp_path, lazy=10_000, startup_s=1)
    instances.append(instance)
    assert instance.process.wait(15) == 1


def test_a_signal_to_stop_reaches_the_engine(tmp_path: Path, instances: list[Instance]) -> None:
    noted, handling = tmp_path / "stopped", tmp_path / "handling"
    waits = (
        "import pathlib, signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path({str(noted)!r}).touch(), sys.exit(0)))\n"
        f"pathlib.Path({str(handling)!r}).touch()\n"
        "time.sleep(60)"
    )
    instance = Instance(tmp_path, engine=[sys.executable, "-c", waits])
    instances.append(instance)
    instance.until(503)
    deadline = time.monotonic() + 20
    while not handling.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    instance.process.send_signal(signal.SIGTERM)
    assert instance.process.wait(10) == 0
    assert noted.exists()


def test_files_of_the_plan_are_there_before_the_engine_starts(
    tmp_path: Path, instances: list[Instance]
) -> None:
    place = tmp_path / "deep" / "engine.conf"
    reads = f"import pathlib, sys; sys.exit(pathlib.Path({str(place)!r}).read_text() != 'batch=8')"
    plan = sample_plan(container={"command": (sys.executable, "-c", reads), "files": {str(place): "batch=8"}})
    command = launch.command(plan, ready_port=_free_port())
    done = subprocess.run([sys.executable, *command[1:]], timeout=20, check=False)
    assert done.returncode == 0
