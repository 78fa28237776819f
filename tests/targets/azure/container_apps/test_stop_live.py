"""A stopping replica: the engine is told only once the door beside it has answered what it had taken."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sample import sample_plan
from tests.targets.kubernetes.door import free_port, wait_until

from servingstack.targets import launch

ENGINE = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); time.sleep(60)"


@pytest.fixture
def engines() -> Iterator[list[subprocess.Popen[bytes]]]:
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for each in found:
        each.kill()
        each.wait()


def started(drained: Path, limit_s: int, engines: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    plan = sample_plan(
        container={"port": free_port(), "command": (sys.executable, "-c", ENGINE), "flags": ()},
        timeouts={"startup_s": 60},
    )
    port = free_port()
    _, dash, text, settings, *command = launch.command(plan, ready_port=port, drained=(str(drained), limit_s))
    quick = json.loads(settings) | {"poll_s": 0.2}
    engines.append(subprocess.Popen([sys.executable, dash, text, json.dumps(quick), *command]))
    time.sleep(1)
    return engines[-1]


def test_the_engine_outlives_the_signal_until_the_door_is_empty(
    tmp_path: Path, engines: list[subprocess.Popen[bytes]]
) -> None:
    drained = tmp_path / "drained"
    process = started(drained, 30, engines)
    process.send_signal(signal.SIGTERM)
    time.sleep(1.5)
    assert process.poll() is None
    drained.touch()
    wait_until(lambda: process.poll() is not None, "the engine ends")
    assert process.returncode == 0


def test_a_door_that_never_says_so_does_not_keep_the_engine_forever(
    tmp_path: Path, engines: list[subprocess.Popen[bytes]]
) -> None:
    process = started(tmp_path / "never", 1, engines)
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: process.poll() is not None, "the engine ends")
    assert 0.8 < time.monotonic() - begin < 5
