"""The file inside the model server, in a real application: warm before traffic, no request without end."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from servingstack.targets.aws.sagemaker import serving_limits

WARM_UP = {"path": "/v1/completions", "body": {"prompt": "hello"}, "requests": 3, "timeout_s": 1.0}


class Server:
    """A model server that counts what reaches it."""

    def __init__(self) -> None:
        self.warmed: list[Any] = []
        self.failing = 0
        """Warm-up requests that are answered 503 at first: the engine still loads."""
        self.cancelled = 0
        self.answer: Callable[[Request], Coroutine[Any, Any, Response]] = self._at_once

    async def _at_once(self, request: Request) -> Response:
        return JSONResponse({"echo": await request.json()})

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        if self.failing > 0:
            self.failing -= 1
            return JSONResponse({}, status_code=503)
        self.warmed.append(body)
        return JSONResponse({"text": "hi"})

    async def invoke(self, request: Request) -> Response:
        try:
            return await self.answer(request)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def ok(self, request: Request) -> Response:
        return Response()

    def application(self) -> Starlette:
        routes = [
            Route("/ping", self.ok),
            Route("/metrics", self.ok),
            Route("/tokenize", self.ok, methods=["GET", "POST"]),
            Route("/invocations", self.invoke, methods=["POST"]),
            Route("/v1/completions", self.complete, methods=["POST"]),
        ]
        app = Starlette(routes=routes)
        app.add_middleware(serving_limits.ServingLimits)  # as the server adds a class by its import path
        return app


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_limits(**changes: Any) -> None:
        settings = {"request_s": 0.2, "stream_s": 0.6, "paths": ["/metrics"], "warm_up": WARM_UP} | changes
        monkeypatch.setenv("SERVING_LIMITS", json.dumps(settings))

    monkeypatch.setattr(serving_limits, "RETRY_S", 0.02)
    set_limits()
    return set_limits


def run(server: Server, program: Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]) -> None:
    """`program` with a client of the server's application, in one event loop."""

    async def main() -> None:
        transport = httpx.ASGITransport(server.application(), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            await program(client)

    asyncio.run(main())


async def warm(client: httpx.AsyncClient) -> list[int]:
    """Pings until one is answered 200; every status on the way."""
    seen: list[int] = []
    for _ in range(200):
        seen.append((await client.get("/ping")).status_code)
        if seen[-1] == 200:
            return seen
        await asyncio.sleep(0.01)
    raise AssertionError("never warm")


def test_no_ping_is_answered_before_every_warm_up_request_was(limits: Callable[..., None]) -> None:
    server = Server()

    async def program(client: httpx.AsyncClient) -> None:
        statuses = await warm(client)
        assert statuses[0] == 503
        assert set(statuses[:-1]) == {503}

    run(server, program)
    assert server.warmed == [WARM_UP["body"]] * 3


def test_the_warm_up_runs_once_however_often_the_service_asks(limits: Callable[..., None]) -> None:
    server = Server()

    async def program(client: httpx.AsyncClient) -> None:
        await asyncio.gather(*(client.get("/ping") for _ in range(20)))
        await warm(client)
        await warm(client)

    run(server, program)
    assert len(server.warmed) == 3


def test_a_ping_never_waits_for_a_slow_warm_up(
    limits: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service gives a ping two seconds."""
    server = Server()

    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.5)
        return JSONResponse({})

    monkeypatch.setattr(server, "complete", slow)

    async def program(client: httpx.AsyncClient) -> None:
        began = time.monotonic()
        assert (await client.get("/ping")).status_code == 503
        assert time.monotonic() - began < 0.2

    run(server, program)


def test_an_engine_that_still_loads_is_asked_again(limits: Callable[..., None]) -> None:
    server = Server()
    server.failing = 4

    async def program(client: httpx.AsyncClient) -> None:
        await warm(client)

    run(server, program)
    assert len(server.warmed) == 3


def test_a_warm_up_that_hangs_is_given_up_and_sent_again(limits: Callable[..., None]) -> None:
    limits(warm_up=WARM_UP | {"timeout_s": 0.05})
    server = Server()
    hung = [True]
    complete = server.complete

    async def once(request: Request) -> Response:
        if hung.pop() if hung else False:
            await asyncio.sleep(60)
        return await complete(request)

    server.complete = once  # type: ignore[method-assign]

    async def program(client: httpx.AsyncClient) -> None:
        await warm(client)

    run(server, program)
    assert len(server.warmed) == 3


def test_a_request_before_the_end_of_the_warm_up_is_turned_away(limits: Callable[..., None]) -> None:
    server = Server()

    async def program(client: httpx.AsyncClient) -> None:
        assert (await client.post("/invocations", json={})).status_code == 503
        await warm(client)
        answer = await client.post("/invocations", json={"a": 1})
        assert answer.status_code == 200
        assert answer.json() == {"echo": {"a": 1}}

    run(server, program)


def test_a_stuck_request_is_answered_504_in_time_and_leaves_the_engine(limits: Callable[..., None]) -> None:
    server = Server()

    async def stuck(request: Request) -> Response:
        await asyncio.sleep(60)
        return Response()

    server.answer = stuck

    async def program(client: httpx.AsyncClient) -> None:
        await warm(client)
        began = time.monotonic()
        answer = await client.post("/invocations", json={})
        assert answer.status_code == 504
        assert "0.2 s" in answer.json()["error"]["message"]
        assert 0.15 < time.monotonic() - began < 1.0
        assert server.cancelled == 1, "the engine must not go on with what nobody waits for"

    run(server, program)


def test_a_stuck_request_does_not_hold_up_others(limits: Callable[..., None]) -> None:
    server = Server()

    async def some(request: Request) -> Response:
        if (await request.json()).get("stuck"):
            await asyncio.sleep(60)
        return JSONResponse({})

    server.answer = some

    async def program(client: httpx.AsyncClient) -> None:
        await warm(client)
        slow, quick = await asyncio.gather(
            client.post("/invocations", json={"stuck": True}), client.post("/invocations", json={})
        )
        assert (slow.status_code, quick.status_code) == (504, 200)

    run(server, program)


def _stream(parts: list[float]) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """An answer in parts, each after so many seconds."""

    async def answer(request: Request) -> Response:
        async def content() -> AsyncIterator[bytes]:
            for wait in parts:
                await asyncio.sleep(wait)
                yield b"data: x\n\n"

        return StreamingResponse(content(), media_type="text/event-stream")

    return answer


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        pytest.param([0.1, 0.1, 0.1, 0.1], True, id="longer than a request, within a stream"),
        pytest.param([0.01, 0.5], False, id="a gap longer than a request"),
        pytest.param([0.1] * 12, False, id="longer than a stream"),
    ],
)
def test_a_stream_may_outlast_a_request_but_no_gap_and_no_end(
    limits: Callable[..., None], parts: list[float], whole: bool
) -> None:
    server = Server()
    server.answer = _stream(parts)

    async def program(client: httpx.AsyncClient) -> None:
        await warm(client)
        began = time.monotonic()
        answer = await client.post("/invocations", json={})
        assert (answer.content.count(b"data:") == len(parts)) == whole
        assert time.monotonic() - began < 1.1

    run(server, program)


def test_an_error_of_the_server_stays_its_own(limits: Callable[..., None]) -> None:
    server = Server()

    async def broken(request: Request) -> Response:
        raise ValueError("mine")

    server.answer = broken

    async def program(client: httpx.AsyncClient) -> None:
        await warm(client)
        assert (await client.post("/invocations", json={})).status_code == 500

    run(server, program)


@pytest.mark.parametrize("path", ["/tokenize", "/v1/completions", "/docs", "/"])
def test_other_paths_of_the_engine_stay_closed(limits: Callable[..., None], path: str) -> None:
    async def program(client: httpx.AsyncClient) -> None:
        assert (await client.post(path, json={})).status_code == 404
        assert (await client.get("/metrics")).status_code == 200

    run(Server(), program)


def test_without_a_warm_up_the_engine_s_own_answer_counts(limits: Callable[..., None]) -> None:
    limits(warm_up=None)

    async def program(client: httpx.AsyncClient) -> None:
        assert (await client.get("/ping")).status_code == 200

    run(Server(), program)


def test_the_file_needs_nothing_that_the_image_might_lack() -> None:
    tree = ast.parse(Path(str(serving_limits.__file__)).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= set(sys.stdlib_module_names)
