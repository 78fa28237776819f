"""The door beside a replica, word for word as the service starts it, in a real HAProxy."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sample import sample_plan
from tests.targets.azure.container_apps.beside import Beside
from tests.targets.kubernetes.door import COMPLETIONS, free_port, proxies, wait_until

from servingstack.targets import haproxy
from servingstack.targets.azure.container_apps import sidecar

PROXIES = proxies()
PINNED = next(iter(PROXIES))
Start = Callable[..., Beside]

every_branch = pytest.mark.parametrize("start", sorted(PROXIES), indirect=True)


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts one door with limits of a second, and an engine beside it unless told otherwise."""
    doors: list[Beside] = []

    def started(
        *,
        door: dict[str, Any] | None = None,
        timeouts: dict[str, Any] | None = None,
        key: str | None = None,
        engine: bool = True,
    ) -> Beside:
        secret = {} if key is None else {"api_key_secret_name": "chat-key", "api_key_secret_key": "key"}
        ports = {"port": free_port(), "stats_port": free_port()}
        plan = sample_plan(
            front_door={"replicas": 1, **ports, **secret, **(door or {})},
            timeouts={"request_s": 1, "stream_s": 2, "queue_s": 1, "drain_s": 3, **(timeouts or {})},
            container={"port": free_port()},
        )
        found = Beside(PROXIES[getattr(request, "param", PINNED)], tmp_path, plan, key=key, engine=engine)
        doors.append(found)
        return found

    yield started
    for each in doors:
        each.close()


@pytest.mark.parametrize("branch", sorted(PROXIES))
def test_every_branch_takes_the_configuration_without_a_warning(branch: str, tmp_path: Path) -> None:
    for secret in ({}, {"api_key_secret_name": "k", "api_key_secret_key": "k"}):
        for name, text in sidecar.files(sample_plan(front_door={"replicas": 1, **secret})).items():
            (tmp_path / name).write_text(text)
        command = [PROXIES[branch], "-c", "-f", str(tmp_path / "haproxy.cfg")]
        check = subprocess.run(command, capture_output=True, text=True, check=False)
        assert check.returncode == 0, check.stderr
        assert "WARNING" not in check.stderr


@every_branch
def test_a_request_that_the_engine_does_not_answer_in_time_gets_504_long_before_the_ingress_would_end_it(
    start: Start,
) -> None:
    door = start()
    answer = door.call({"wait": 3})
    assert answer.status == 504
    assert 0.9 <= answer.total_s < 1.6
    assert door.call({"wait": 0.6}).status == 200


@every_branch
def test_a_stream_passes_piece_by_piece_and_is_cut_when_it_is_silent_or_too_long(start: Start) -> None:
    door = start()
    passing, silent, long = door.calls(
        {"stream": [0.1] + [0.4] * 3}, {"stream": [0.1, 3]}, {"stream": [0.2] * 40}
    ).answers()
    assert (passing.status, passing.cut, passing.body) == (200, False, b"data: x" * 4)
    assert passing.first_s < 0.35
    assert silent.cut
    assert long.cut
    assert 1.9 <= long.total_s < 2.8


def test_a_full_queue_is_429_at_once_and_a_long_wait_503(start: Start) -> None:
    door = start(door={"max_concurrent": 1, "max_queue": 2}, timeouts={"request_s": 3})
    (engine,) = door.engines
    running = door.calls({"wait": 2})
    wait_until(lambda: engine.running == 1, "the replica is busy")
    waiting = door.calls({}, {})
    wait_until(lambda: door.backend("current_queue") == 2, "two requests wait")
    refused = door.call()
    assert (refused.status, refused.headers["retry-after"]) == (429, str(haproxy.QUEUE_RETRY_S))
    assert [answer.status for answer in waiting.answers()] == [503, 503]
    assert running.answers()[0].status == 200
    assert engine.most_running == 1
    wait_until(lambda: len(door.lines()) == 4, "four lines in the log")
    assert sorted((line["status"], line["backend"]) for line in door.lines()) == [
        (200, "engine"),
        (429, "busy"),
        (503, "engine"),
        (503, "engine"),
    ]


def test_only_listed_paths_with_the_right_key_reach_the_engine(start: Start) -> None:
    door = start(key="right")
    (engine,) = door.engines
    assert door.call(key="right").status == 200
    assert [door.call(key="wrong").status, door.call().status] == [401, 401]
    assert door.call(path="/metrics", key="right").status == 404
    assert [path for path, _ in engine.seen] == [COMPLETIONS]


@every_branch
def test_a_stream_is_logged_with_its_first_piece_its_events_and_none_of_its_content(start: Start) -> None:
    door = start()
    (engine,) = door.engines
    engine.piece = b"data: secret\n\n"
    door.call({"stream": [0.3] + [0.1] * 4, "prompt": "hidden"}, path=COMPLETIONS + "?user=someone")
    door.call({"wait": 0.2})
    wait_until(lambda: len(door.lines()) == 2, "two lines in the log")
    stream, plain = door.lines()
    assert stream["events"] == "5"
    assert 290 <= int(stream["ttft_ms"]) < 450
    assert int(stream["ttft_ms"]) + 390 <= int(stream["last_ms"]) < 1000
    assert (stream["status"], plain["status"]) == (200, 200)
    assert plain["ttft_ms"] == plain["events"] == "-"  # no number, so a query reads null
    assert 190 <= plain["total_ms"] < 500
    assert not [word for word in ("secret", "hidden", "someone", COMPLETIONS) if word in str(door.lines())]


def test_events_are_counted_by_their_empty_line_and_not_by_pieces_of_the_network(start: Start) -> None:
    door = start()
    (engine,) = door.engines
    for piece, events in ((b"data: a\n\ndata: b\n\n", "6"), (b"\ndata: a\n", "2"), (b"data: \\n\\n", "0")):
        engine.piece = piece
        before = len(door.lines())
        door.call({"stream": [0.05] * 3})
        wait_until(lambda seen=before: len(door.lines()) > seen, "a line in the log")
        assert door.lines()[-1]["events"] == events, piece


def test_a_replica_is_ready_while_its_engine_is_healthy(start: Start) -> None:
    door = start(engine=False)
    path = door.plan.container.health_path
    assert door.get(path).status == 503
    assert door.get_stats(haproxy.READY_PATH) == "ready"
    door.start_engine("127.0.0.1")
    assert door.get(path).status == 200


def test_a_stopping_door_waits_answers_what_it_has_and_then_says_so(start: Start) -> None:
    door = start(timeouts={"request_s": 9, "drain_s": 9})
    early = door.calls({"wait": sidecar.LEAVE_S + 2})
    wait_until(lambda: door.engines[0].running == 1, "the request is with the engine")
    door.stop()
    time.sleep(1)
    assert door.call().status == 200  # the ingress has not seen it leave yet
    assert not door.drained.exists()
    assert [answer.status for answer in early.answers()] == [200]
    door.process.wait(5)
    assert door.drained.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", door.port))


def test_no_text_in_its_environment_is_expanded_by_the_service() -> None:
    texts = [*sidecar.environment(sample_plan(front_door={"replicas": 1})).values(), *sidecar.command()]
    assert not [text for text in texts if "$(" in text]
    assert max(len(text.encode()) for text in texts) < 128 * 1024  # Linux' MAX_ARG_STRLEN
