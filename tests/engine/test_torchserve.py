"""A real TorchServe with the rendered configuration: it batches, times out, counts, drains, is closed off.

What differs from a container: the ports are free ones of this machine, and the paths lie below a temporary
directory. Everything else of the configuration, the command and the probes is used as it was rendered.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from tests.engines.conftest import architecture, args, batching, timeouts

import torchserve as tool
from servingstack.engines import facts, torchserve, torchserve_signals
from servingstack.engines.torchserve import TorchServeSettings
from servingstack.plan import Container, Timeouts

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "torchserve-classifier"
DRAIN_S = 4
BATCH = 4
DELAY_MS = 400
SLACK_S = 10
"""For a machine that is busy with other tests; what is measured is in the hundreds of milliseconds."""
PORTS = {
    "inference": torchserve.INFERENCE_PORT,
    "metrics": torchserve.METRICS_PORT,
    "management": 8081,
    "grpc_inference": 7070,
    "grpc_management": 7071,
}


@dataclass
class Server:
    """A running TorchServe."""

    container: Container
    ports: dict[str, int]
    process: subprocess.Popen[bytes]
    log: Path

    def call(
        self,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        port: str = "inference",
        host: str = "127.0.0.1",
        timeout_s: float = 30,
    ) -> tuple[int, str]:
        """Status and text of an answer; OSError where there is none."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{host}:{self.ports[port]}{path}", data=data, headers={"Content-Type": "application/json"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=timeout_s) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def predict(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, text = self.call(self.container.warm_up.path, body)
        return status, json.loads(text)

    def metric(self, name: str) -> float:
        """Sum over the series of a metric on the page; 0 where there is none yet."""
        page = self.call(self.container.metrics_path, port="metrics")[1]
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in page.splitlines()
            if re.match(rf"{re.escape(name)}[{{ ]", line)
        )

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_ports() -> dict[str, int]:
    """A free port for each of the five, all held until the last is found."""
    with contextlib.ExitStack() as held:
        found = {}
        for name in PORTS:
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            found[name] = taken.getsockname()[1]
        return found


def describe(**engine: Any) -> Container:
    settings = TorchServeSettings.model_validate(
        {
            "kind": "torchserve",
            "image": "pytorch/torchserve:0.12.0-gpu@sha256:" + "0" * 64,
            "warm_up": {"id": 0},
            "batch_size": BATCH,
            "max_batch_delay": f"{DELAY_MS}ms",
            "response_timeout": "3s",
            **engine,
        }
    )
    model = {"id": "probe", "source": "pvc://models/store", "task": "classify"}
    times = Timeouts(**{**timeouts().model_dump(), "drain_s": DRAIN_S, "startup_s": 60})
    return torchserve.container(
        args(model=model).model_copy(update={"engine": settings}),
        architecture(gpus_per_replica=1, task="classify"),
        batching(kind="dynamic"),
        times,
    )


def start(container: Container, root: Path, venv: Path, drop: tuple[str, ...] = ()) -> Server:
    """Run the container's command with its files, on free ports and below `root`. `drop` names properties
    that are left out of the configuration."""
    ports = free_ports()
    places = {torchserve.CONFIG_PATH: root / "etc", "/models/": root / "models", "/cache": root / "cache"}
    for folder in (root / "etc", root / "cache", root / "tmp"):
        folder.mkdir(exist_ok=True)

    def local(text: str) -> str:
        for path, place in places.items():
            text = text.replace(path, f"{place}/" if path.endswith("/") else str(place))
        return "".join(line for line in text.splitlines(True) if line.partition("=")[0] not in drop)

    for path, text in container.files.items():
        rendered = local(text)
        for name, port in PORTS.items():
            rendered = re.sub(rf"([:=]){port}$", rf"\g<1>{ports[name]}", rendered, flags=re.MULTILINE)
        Path(local(path)).write_text(rendered, encoding="utf-8")
    planned = {item.name: str(item.value).replace("/tmp", f"{root}/tmp") for item in container.env}
    environment = {name: local(value) for name, value in planned.items()}
    environment["PATH"] = f"{venv}/bin:{os.environ['PATH']}"
    flags = [
        f"--{flag.name}" if flag.value is None else f"--{flag.name}={flag.value}" for flag in container.flags
    ]
    log = root / "console.log"
    with log.open("wb") as console:
        process = subprocess.Popen(
            [*container.command, *map(local, flags)],
            env=environment, cwd=root, stdout=console, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    return Server(container, ports, process, log)


def warm(server: Server, seconds: float = 120) -> None:
    """Run the startup probe's own script, which tries until its deadline, as the kubelet does."""
    script = Path(str(resources.files("servingstack.targets.kubernetes").joinpath("warm_up.py")))
    warm_up = server.container.warm_up
    probe = {
        "port": server.ports["inference"],
        "health_path": server.container.health_path,
        "health_timeout_s": 5,
        "path": warm_up.path,
        "body": warm_up.body,
        "requests": warm_up.requests,
        "timeout_s": warm_up.timeout_s,
        "api_key_variable": None,
        "startup_s": seconds,
        "poll_s": 0.3,
    }
    settings = server.log.with_name("warm_up.json")
    settings.write_text(json.dumps(probe), encoding="utf-8")
    done = subprocess.run(["python3", script, settings], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:] + server.log.read_text()[-3000:]


@pytest.fixture(scope="module")
def venv() -> Path:
    """TorchServe itself; where it cannot be installed the test fails with what is missing."""
    return tool.install()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, venv: Path) -> Path:
    """A directory with the store of archives: the probe, and the example's classifier."""
    found = tmp_path_factory.mktemp("torchserve")
    store = found / "models" / "store"
    store.mkdir(parents=True)
    archiver = [f"{venv}/bin/torch-model-archiver", "--model-name=probe", "--version=1.0", "--force"]
    archiver += [f"--handler={HERE / 'torchserve_probe' / 'handler.py'}", f"--export-path={store}"]
    for command in (archiver, [f"{venv}/bin/python", str(EXAMPLE / "build.py"), str(store)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return found


@pytest.fixture(scope="module")
def server(root: Path, venv: Path) -> Iterator[Server]:
    found = start(describe(archive="probe.mar"), root, venv)
    try:
        warm(found)
        yield found
    finally:
        found.stop()


def together(server: Server, count: int) -> list[tuple[int, dict[str, Any]]]:
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda index: server.predict({"id": index}), range(count)))


def test_requests_that_come_together_reach_the_handler_in_one_call(server: Server) -> None:
    answers = together(server, 2 * BATCH)
    assert [status for status, _ in answers] == [200] * (2 * BATCH)
    assert [answer["id"] for _, answer in answers] == list(range(2 * BATCH))
    sizes = [answer["batch"] for _, answer in answers]
    assert sizes.count(BATCH) >= BATCH
    assert max(sizes) == BATCH


def test_a_request_alone_waits_for_company_no_longer_than_the_delay(server: Server) -> None:
    begin = time.monotonic()
    status, answer = server.predict({"id": 1})
    assert (status, answer["batch"]) == (200, 1)
    assert DELAY_MS / 1000 * 0.9 < time.monotonic() - begin < DELAY_MS / 1000 + SLACK_S


def test_the_server_holds_the_plans_numbers_and_not_its_own_defaults(server: Server) -> None:
    (model,) = json.loads(server.call("/models/probe", port="management")[1])
    assert model["batchSize"] == BATCH
    assert model["maxBatchDelay"] == DELAY_MS
    assert model["minWorkers"] == model["maxWorkers"] == len(model["workers"]) == 1
    assert (model["responseTimeout"], model["startupTimeout"]) == (3, 60)
    assert model["jobQueueStatus"]["remainingCapacity"] == 100


def test_management_is_refused_from_outside_while_inference_and_metrics_answer(server: Server) -> None:
    outside = outside_address()
    assert server.call("/ping", host=outside)[0] == 200
    assert server.call("/metrics", host=outside, port="metrics")[0] == 200
    for port in ("management", "grpc_management", "grpc_inference"):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((outside, server.ports[port]), timeout=5)


def outside_address() -> str:
    """An address of this machine beside 127.0.0.1: its network's, or another of the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(
                ("192.0.2.1", 9)
            )  # nothing is sent; the kernel picks the address it would send from
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.2"


def test_a_model_cannot_be_registered_or_removed_even_from_inside(server: Server) -> None:
    status, _ = server.call("/models?url=classifier.mar", {}, port="management")
    assert status == 405
    assert "probe" in server.call("/models", port="management")[1]


def test_every_metric_that_the_signals_ask_for_is_on_the_page(server: Server) -> None:
    status, page = server.call(server.container.metrics_path, port="metrics")
    assert status == 200
    declared = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    for signal_ in torchserve_signals.signals().values():
        for name in signal_.metrics:
            assert declared[name] == "counter", signal_.id
    assert set(facts.metrics("torchserve", torchserve.VERSION)) == set(declared)


def test_the_page_that_dashboards_are_tested_on_is_this_ones(
    server: Server, request: pytest.FixtureRequest
) -> None:
    """Names, kinds and labels; the numbers are another run's."""
    path = HERE.parents[0] / "oracles" / "metrics" / f"torchserve-{torchserve.VERSION}.prom"
    page = server.call(server.container.metrics_path, port="metrics")[1]
    told = "\n".join(line for line in page.splitlines() if not line.startswith("# HELP"))
    if request.config.getoption("--update-golden"):
        path.write_text(
            f"# torchserve {torchserve.VERSION}, a real server's page\n{told}\n", encoding="utf-8"
        )
    kept = _shape(path.read_text(encoding="utf-8"))
    # What counts failures has no series until one happens.
    assert kept <= _shape(told)
    assert {name for name, _ in kept} >= {torchserve_signals.REQUESTS, torchserve_signals.QUEUE}


def _shape(page: str) -> set[tuple[str, tuple[str, ...]]]:
    """Names of series with the names of their labels."""
    found = re.findall(r"^(\w+)(?:\{(.*)\})? ", page, re.MULTILINE)
    return {(name, tuple(sorted(re.findall(r'(\w+)="', labels)))) for name, labels in found}


def test_the_counters_are_microseconds_of_waiting_and_of_the_whole_request(server: Server) -> None:
    names = (torchserve_signals.QUEUE, torchserve_signals.LATENCY, torchserve_signals.REQUESTS)
    before = [server.metric(name) for name in names]
    assert server.predict({"work_s": 0.5})[0] == 200
    queue, latency, requests = (server.metric(name) - old for name, old in zip(names, before, strict=True))
    assert requests == 1
    assert DELAY_MS * 0.9e3 < queue < (DELAY_MS / 1000 + SLACK_S) * 1e6
    assert 0.5e6 <= latency - queue < (0.5 + SLACK_S) * 1e6


def test_a_batch_beyond_the_response_timeout_fails_and_the_replica_recovers(server: Server) -> None:
    errors, begin = server.metric(torchserve_signals.ERRORS), time.monotonic()
    status, answer = server.predict({"work_s": 30})
    assert status == 500
    assert answer["message"] == "Worker died."
    assert 3 <= time.monotonic() - begin < 3 + SLACK_S
    assert server.metric(torchserve_signals.ERRORS) == errors + 1
    assert server.predict({"id": 2})[0] == 200


def test_nothing_is_logged_to_files_and_no_request_to_the_console(server: Server) -> None:
    root = server.log.parent
    assert not list(root.rglob("*_log.log"))
    assert not list(root.rglob("key_file.json"))
    text = server.log.read_text()
    assert "ACCESS_LOG" not in text
    assert "can access any URL" not in text


def test_a_stopping_replica_finishes_what_is_in_flight(server: Server) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.predict, {"work_s": 1.5})
        time.sleep(0.7)
        os.kill(server.process.pid, signal.SIGTERM)
        assert answer.result()[0] == 200
    begin = time.monotonic()
    assert server.process.wait(DRAIN_S + SLACK_S) == 0
    assert time.monotonic() - begin < DRAIN_S + SLACK_S


def test_the_examples_classifier_answers_a_batch(root: Path, venv: Path) -> None:
    container = describe(archive="classifier.mar", warm_up={"text": "How is the weather in Oslo today?"})
    own = root / "example"
    shutil.copytree(root / "models", own / "models")
    found = start(container, own, venv)
    try:
        warm(found)
        texts = ["rain", "", "a longer text, in which more is said", "rain"]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda text: found.predict({"text": text}), texts))
        assert [status for status, _ in answers] == [200] * 4
        scores = [answer["scores"] for _, answer in answers]
        assert all(len(row) == 10 and sum(row) == pytest.approx(1) for row in scores)
        assert scores[0] == pytest.approx(scores[3], abs=1e-5)
        # Its archive has numbers of its own, and those win: the reason why they are the plan's.
        (model,) = json.loads(found.call("/models/classifier", port="management")[1])
        assert (model["batchSize"], model["minWorkers"]) == (32, 2)
    finally:
        found.stop()


def test_with_token_authorisation_not_even_the_health_check_would_pass(root: Path, venv: Path) -> None:
    own = root / "tokens"
    shutil.copytree(root / "models", own / "models")
    dropped = ("disable_token_authorization", "load_models")  # without a model it starts at once
    found = start(describe(archive="probe.mar"), own, venv, drop=dropped)
    try:
        deadline = time.monotonic() + 60
        while "Model server started" not in found.log.read_text():
            assert time.monotonic() < deadline, found.log.read_text()[-3000:]
            time.sleep(0.3)
        status, text = found.call("/ping")
        assert status == 400
        assert "Token Authorization failed" in text
    finally:
        found.stop()
