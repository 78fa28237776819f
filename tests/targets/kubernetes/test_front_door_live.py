"""The front door's configuration, word for word, in a real HAProxy: the pinned branch's, and the system's."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sample import sample_plan
from tests.targets.kubernetes.door import COMPLETIONS, Door, free_port, proxies, wait_until

from servingstack.targets.kubernetes import front_door

PROXIES = proxies()
PINNED = next(iter(PROXIES))
StartDoor = Callable[..., Door]

every_branch = pytest.mark.parametrize("start_door", sorted(PROXIES), indirect=True)
"""For what HAProxy's branches could do differently; the rest is tried with one of them."""


@pytest.fixture
def start_door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartDoor]:
    """Starts one door with limits of a second, and a model server unless `engines` says otherwise."""
    doors: list[Door] = []

    def start(
        *,
        door: dict[str, Any] | None = None,
        timeouts: dict[str, Any] | None = None,
        scaling: dict[str, Any] | None = None,
        key: str | None = None,
        engines: tuple[str, ...] = ("127.0.0.2",),
    ) -> Door:
        secret = {} if key is None else {"api_key_secret_name": "chat-key", "api_key_secret_key": "key"}
        ports = {"port": free_port(), "stats_port": free_port()}
        plan = sample_plan(
            front_door={"replicas": 1, **ports, **secret, **(door or {})},
            timeouts={"request_s": 1, "stream_s": 2, "queue_s": 1, "drain_s": 3, **(timeouts or {})},
            scaling=scaling,
            container={"port": free_port("127.0.0.2")},
        )
        started = Door(PROXIES[getattr(request, "param", PINNED)], tmp_path, plan, key=key, engines=engines)
        doors.append(started)
        return started

    yield start
    for started in doors:
        started.close()


@pytest.mark.parametrize("branch", sorted(PROXIES))
def test_every_branch_takes_the_configuration_without_a_warning(branch: str, tmp_path: Path) -> None:
    """As it is mounted, with the pod's own name servers, with and without key and hold."""
    for document in ({}, {"hold_s": 60, "min_replicas": 0}):
        plan = sample_plan(
            scaling=document,
            front_door={"api_key_secret_name": "k", "api_key_secret_key": "k"} if document else None,
        )
        for name, text in front_door.config_files(plan).items():
            (tmp_path / name).write_text(text)
        command = [PROXIES[branch], "-c", "-f", str(tmp_path / "haproxy.cfg")]
        check = subprocess.run(command, capture_output=True, text=True, check=False)
        assert check.returncode == 0, check.stderr
        assert "WARNING" not in check.stderr


@every_branch
def test_a_request_that_a_replica_does_not_answer_in_time_gets_504(start_door: StartDoor) -> None:
    door = start_door()
    answer = door.call({"wait": 3})
    assert answer.status == 504
    assert answer.error["type"] == "server_error"
    assert 0.9 <= answer.total_s < 1.6
    assert door.call({"wait": 0.6}).status == 200


def test_a_stream_passes_piece_by_piece_and_may_outlast_the_request_timeout(start_door: StartDoor) -> None:
    door = start_door()
    answer = door.call({"stream": [0.1] + [0.4] * 3})
    assert (answer.status, answer.cut, answer.body) == (200, False, b"data: x" * 4)
    assert answer.first_s < 0.35
    assert answer.total_s > 1.2


@every_branch
def test_a_stream_is_cut_when_it_falls_silent_and_when_it_takes_too_long(start_door: StartDoor) -> None:
    door = start_door()
    silent, long = door.calls({"stream": [0.1, 3]}, {"stream": [0.2] * 40}).answers()
    assert silent.cut
    assert silent.total_s < 1.8
    assert long.cut
    assert 1.9 <= long.total_s < 2.8


def test_a_full_queue_is_429_at_once_and_a_long_wait_503_with_retry_after(start_door: StartDoor) -> None:
    door = start_door(door={"max_concurrent": 1, "max_queue": 2}, timeouts={"request_s": 3})
    (engine,) = door.engines
    running = door.calls({"wait": 2})
    wait_until(lambda: engine.running == 1, "the replica is busy")
    waiting = door.calls({}, {})
    wait_until(lambda: door.backend("current_queue") == 2, "two requests wait")
    refused = door.call()
    assert (refused.status, refused.headers["retry-after"]) == (429, str(front_door.QUEUE_RETRY_S))
    assert refused.error["type"] == "rate_limit_error"
    assert refused.total_s < 0.3
    late = waiting.answers()
    assert [answer.status for answer in late] == [503, 503]
    assert {answer.headers["retry-after"] for answer in late} == {str(front_door.NO_REPLICA_RETRY_S)}
    assert running.answers()[0].status == 200
    assert door.backend("http_requests_total", "busy") == 1
    assert door.backend("http_responses_total", code="5xx") == 2
    assert engine.most_running == 1


def test_only_listed_paths_and_methods_reach_a_replica(start_door: StartDoor) -> None:
    door = start_door()
    (engine,) = door.engines
    closed = (
        "/metrics",
        "/invocations",
        "/tokenize",
        "/v1/../metrics",
        "/v1/%63hat/completions",
        COMPLETIONS + "/",
    )
    assert {path: door.call(path=path).status for path in closed} == dict.fromkeys(closed, 404)
    assert door.send("DELETE", COMPLETIONS).status == 405
    assert engine.seen == []
    assert door.call(path=COMPLETIONS + "?a=1").status == 200
    assert door.get("/v1/models").status == 200


@every_branch
def test_a_request_without_the_right_key_is_answered_401(start_door: StartDoor) -> None:
    key = "sk-\"quoted\" 'and' $HOME %[src] #1"
    door = start_door(key=key)
    (engine,) = door.engines
    wrong = (
        "",
        "Bearer",
        "Bearer ",
        key,
        f"Basic {key}",
        f"Bearer {key}x",
        f"Bearer {key[:-1]}",
        f"Bearer {key.upper()}",
    )
    assert [door.call(authorization=given).status for given in wrong] == [401] * len(wrong)
    assert door.call().error["code"] == "invalid_api_key"
    assert engine.seen == []
    assert door.call(key=key).status == 200
    assert door.get("/health").status == 200


def test_an_empty_key_opens_nothing(start_door: StartDoor) -> None:
    door = start_door(key="")
    assert [door.call(authorization=given).status for given in ("Bearer ", "Bearer")] == [
        401,
        401,
    ]


@every_branch
def test_a_body_above_the_limit_is_refused_whether_its_length_is_told_or_not(start_door: StartDoor) -> None:
    door = start_door(door={"max_body_bytes": 40_000})
    (engine,) = door.engines
    assert door.call({"text": "x" * 39_000}).status == 200
    assert door.call({"text": "x" * 41_000}).status == 413
    assert door.call(iter([b'{"text": "', b"x" * 30_000, b'"}'])).status == 200
    wait_until(lambda: engine.answered == 2, "two were answered")
    try:
        status = door.call(iter([b'{"text": "', *[b"x" * 10_000] * 10, b'"}'])).status
    except ConnectionError:
        status = 400  # the door closed while the client still sent, and it never read the answer
    assert (status, engine.answered) == (400, 2)


def test_a_replica_learns_the_clients_address_from_the_door_alone(start_door: StartDoor) -> None:
    door = start_door()
    (engine,) = door.engines
    door.call(x_forwarded_for="6.6.6.6", x_forwarded_proto="https", forwarded="for=6.6.6.6")
    headers = engine.seen[0][1]
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert not {"x-forwarded-proto", "forwarded"} & set(headers)


def test_without_a_replica_the_answer_is_503_and_says_when_to_come_back(start_door: StartDoor) -> None:
    door = start_door(engines=())
    answer = door.call()
    assert (answer.status, answer.headers["retry-after"]) == (503, str(front_door.NO_REPLICA_RETRY_S))
    assert answer.error["code"] == "no_replica"
    assert answer.total_s < 0.5
    assert door.get("/health").status == 503
    assert door.get_stats(front_door.READY_PATH) == "ready"
    assert door.backend("http_responses_total", code="5xx") == 1


ZERO = {"min_replicas": 0, "scale_to_zero_after_s": 600}


@every_branch
def test_a_request_is_held_until_a_replica_is_up_and_its_timeout_starts_then(start_door: StartDoor) -> None:
    door = start_door(engines=(), scaling={**ZERO, "hold_s": 20})
    assert door.get("/health").status == 200
    assert door.held() == 0
    calls = door.calls({"wait": 0.5})
    wait_until(lambda: door.held() == 1, "the wake-up signal shows")
    assert door.backend("current_sessions") == 1
    time.sleep(1.6)  # longer than the request timeout and the client's inactivity together leave
    door.start_engine()
    (answer,) = calls.answers()
    assert answer.status == 200
    assert answer.total_s > 2.1
    assert door.held() == 0


def test_a_hold_ends_in_503_and_more_than_the_queue_is_not_held(start_door: StartDoor) -> None:
    door = start_door(engines=(), scaling={**ZERO, "hold_s": 1}, door={"max_queue": 2})
    calls = door.calls({}, {})
    wait_until(lambda: door.held() == 2, "two are held")
    refused = door.call()
    assert (refused.status, refused.headers["retry-after"]) == (429, str(front_door.QUEUE_RETRY_S))
    answers = calls.answers()
    assert [answer.status for answer in answers] == [503, 503]
    assert all(answer.headers["retry-after"] and 0.9 < answer.total_s < 1.8 for answer in answers)


def test_what_may_not_pass_wakes_nothing(start_door: StartDoor) -> None:
    door = start_door(engines=(), key="secret", scaling={**ZERO, "hold_s": 30})
    idle = socket.create_connection(("127.0.0.1", door.port))
    assert door.call().status == 401
    assert door.call(path="/metrics", key="secret").status == 404
    assert door.get("/health").status == 200
    assert door.held() == 0
    assert door.backend("current_sessions") == 0
    assert door.backend("http_requests_total") == 0
    idle.close()


@every_branch
def test_a_client_that_leaves_while_it_is_held_is_no_failure(start_door: StartDoor) -> None:
    door = start_door(engines=(), scaling={**ZERO, "hold_s": 30})
    leaving = door.leaving_client({"wait": 0.3})
    wait_until(lambda: door.held() == 1, "it is held")
    leaving.close()
    door.start_engine()
    wait_until(lambda: door.held() == 0, "it is forgotten")
    wait_until(lambda: door.backend("current_sessions") == 0, "it is over")
    assert door.backend("http_responses_total", code="5xx") == 0
    assert door.call().status == 200


def test_a_replica_that_leaves_finishes_what_it_has_and_gets_nothing_new(start_door: StartDoor) -> None:
    door = start_door(timeouts={"request_s": 5, "stream_s": 10})
    (first,) = door.engines
    calls = door.calls({"stream": [0.3] * 10})
    wait_until(lambda: first.running == 1, "it serves")
    door.start_engine("127.0.0.3")
    door.names.addresses = ["127.0.0.3"]
    wait_until(lambda: door.up() == 1, "HAProxy lets it go")
    assert {json.loads(door.call().body)["from"] for _ in range(4)} == {"127.0.0.3"}
    (answer,) = calls.answers()
    assert (answer.status, answer.cut, answer.body) == (200, False, b"data: x" * 10)


def test_a_replica_that_died_unseen_costs_no_request(start_door: StartDoor) -> None:
    door = start_door(engines=("127.0.0.2", "127.0.0.3"))
    door.engines[1].close()
    assert [door.call().status for _ in range(4)] == [200] * 4


def test_requests_go_to_the_replica_with_the_fewest(start_door: StartDoor) -> None:
    door = start_door(engines=("127.0.0.2", "127.0.0.3"))
    door.calls(*[{"wait": 0.5}] * 6).answers()
    assert [engine.most_running for engine in door.engines] == [3, 3]


def test_a_lost_name_server_takes_no_replica_away(start_door: StartDoor) -> None:
    door = start_door()
    door.names.close()
    time.sleep(2)
    assert door.call().status == 200


def test_a_client_that_leaves_frees_the_replica(start_door: StartDoor) -> None:
    door = start_door(timeouts={"request_s": 5, "stream_s": 20})
    (engine,) = door.engines
    leaving = door.leaving_client({"stream": [0.1] * 100})
    leaving.getresponse().read1()
    leaving.close()
    wait_until(lambda: engine.gone == 1, "the replica sees that nobody listens")


@every_branch
def test_a_stopping_door_finishes_streams_and_takes_nothing_new(start_door: StartDoor) -> None:
    door = start_door(timeouts={"stream_s": 10})
    (engine,) = door.engines
    calls = door.calls({"stream": [0.3] * 6})
    wait_until(lambda: engine.running == 1, "it streams")
    door.drain()
    time.sleep(0.2)
    with pytest.raises(ConnectionRefusedError):
        door.call()
    (answer,) = calls.answers()
    assert (answer.status, answer.cut, answer.body) == (200, False, b"data: x" * 6)
    assert door.process.wait(5) == 0


def test_a_stopping_door_keeps_what_it_holds(start_door: StartDoor) -> None:
    door = start_door(engines=(), timeouts={"drain_s": 1}, scaling={**ZERO, "hold_s": 3})
    calls = door.calls({})
    wait_until(lambda: door.held() == 1, "it is held")
    door.drain()
    door.start_engine(wait=False)
    assert calls.answers()[0].status == 200
    assert door.process.wait(5) == 0


def test_a_stopping_door_ends_when_its_time_is_up(start_door: StartDoor) -> None:
    door = start_door(timeouts={"drain_s": 1, "stream_s": 60})
    (engine,) = door.engines
    calls = door.calls({"stream": [0.2] * 50})
    wait_until(lambda: engine.running == 1, "it streams")
    door.drain()
    start = time.monotonic()
    door.process.wait(8)
    assert 0.8 < time.monotonic() - start < 4
    assert calls.answers()[0].cut


def test_it_asks_for_the_headless_services_full_name(start_door: StartDoor) -> None:
    door = start_door()
    assert (
        door.names.asked == {front_door.engine_host(door.plan)} == {"chat-engine.serving.svc.cluster.local"}
    )
