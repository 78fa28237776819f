"""The startup probe's script, run as the kubelet runs it, against a server that answers like an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.sample import sample_plan
from tests.targets.kubernetes.bodies import by_role, max_plan


class Engine(BaseHTTPRequestHandler):
    """Answers by path; keeps what it was asked."""

    statuses: dict[str, int]
    asked: list[tuple[str, str, Any, str | None]]
    hangs: str | None

    def do_GET(self) -> None:
        self._answer("GET", None)

    def do_POST(self) -> None:
        self._answer("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, method: str, body: Any) -> None:
        self.asked.append((method, self.path, body, self.headers.get("Authorization")))
        if self.path == self.hangs:
            time.sleep(3)
        self.send_response(self.statuses.get(self.path, 404))
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing to say."""


@contextmanager
def _serving(
    statuses: dict[str, int], hangs: str | None = None
) -> Iterator[tuple[int, list[tuple[str, str, Any, str | None]]]]:
    asked: list[tuple[str, str, Any, str | None]] = []
    handler = type("Handler", (Engine,), {"statuses": statuses, "asked": asked, "hangs": hangs})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1], asked
        server.shutdown()
        thread.join()


@pytest.fixture
def probe(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`probe(port, plan, **environment)`: the files of the ConfigMap, the port of the test's server."""

    def run(
        port: int, plan: Any = None, startup_s: float = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        files = by_role(sample_plan() if plan is None else plan)["warm-up"]["data"]
        settings = json.loads(files["warm_up.json"]) | {"port": port, "poll_s": 0.1, "startup_s": startup_s}
        (tmp_path / "warm_up.py").write_text(files["warm_up.py"])
        (tmp_path / "warm_up.json").write_text(json.dumps(settings))
        command = [sys.executable, str(tmp_path / "warm_up.py"), str(tmp_path / "warm_up.json")]
        env = {"PATH": os.environ["PATH"]} | environment
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)

    return run


HEALTHY = {"/health": 200, "/v1/completions": 200}


def test_a_replica_is_ready_after_the_planned_requests(probe) -> None:
    plan = sample_plan()
    with _serving(HEALTHY) as (port, asked):
        assert probe(port).returncode == 0
    warm_up = plan.container.warm_up
    wanted = [("GET", "/health", None, None)] + warm_up.requests * [
        ("POST", warm_up.path, warm_up.body, None)
    ]
    assert asked == wanted


def test_a_replica_that_is_not_healthy_gets_no_requests_and_is_not_ready(probe) -> None:
    with _serving(HEALTHY | {"/health": 503}) as (port, asked):
        done = probe(port)
    assert done.returncode == 1
    assert done.stderr.startswith("not yet: ")
    assert [path for _, path, *_ in asked] == ["/health"]


def test_a_replica_that_is_healthy_but_cannot_answer_is_not_ready(probe) -> None:
    with _serving(HEALTHY | {"/v1/completions": 500}) as (port, _):
        assert probe(port).returncode == 1


def test_a_replica_that_does_not_listen_yet_is_not_ready_and_no_traceback_is_printed(probe) -> None:
    with _serving(HEALTHY) as (port, _):
        pass
    done = probe(port)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_guarded_engine_gets_its_key_from_the_environment(probe) -> None:
    plan = max_plan()
    with _serving(HEALTHY) as (port, asked):
        assert probe(port, plan, VLLM_API_KEY="key-of-the-stack").returncode == 0
    assert {authorization for method, _, _, authorization in asked if method == "POST"} == {
        "Bearer key-of-the-stack"
    }
    assert "key-of-the-stack" not in json.dumps(by_role(plan)["warm-up"]["data"])


def test_a_proxy_in_the_environment_is_not_asked(probe) -> None:
    with _serving(HEALTHY) as (port, _):
        assert probe(port, http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9").returncode == 0


def test_it_tries_again_until_the_engine_is_healthy(probe) -> None:
    statuses = HEALTHY | {"/health": 503}
    with _serving(statuses) as (port, asked):

        def recover() -> None:
            while not asked:  # not by the clock: a busy machine starts the probe late
                time.sleep(0.01)
            time.sleep(0.2)  # until that one is answered
            statuses.update({"/health": 200})

        threading.Thread(target=recover, daemon=True).start()
        assert probe(port, startup_s=30).returncode == 0
    assert [method for method, *_ in asked].count("GET") > 1


def test_a_request_that_hangs_ends_the_start_at_its_deadline(probe) -> None:
    """An engine that is healthy and answers nothing more is started anew in the planned time."""
    with _serving(HEALTHY, hangs="/v1/completions") as (port, _):
        begun = time.monotonic()
        assert probe(port, startup_s=2).returncode == 1
    assert time.monotonic() - begun < 10
