"""An ASGI middleware inside the model server: warm before the first request, never longer than promised.

It is no part of this library's process: the stack puts this file into the container, and the server imports
it. So it uses the standard library alone and reads its settings from one variable, `SERVING_LIMITS`:

    {"request_s": 30, "stream_s": 300, "paths": ["/metrics"],
     "warm_up": {"path": "/v1/completions", "body": {...}, "requests": 3, "timeout_s": 120}}

- `/ping` answers 503 until every warm-up request has been answered with 200. The service sends no traffic
  before that, and the warm-up passes neither the service's proxy nor its counters.
- A request without an answer after `request_s` seconds is cancelled and answered 504, before the service's
  own 60 s, which would leave it running. A stream's first byte and each gap keep within `request_s`, its
  whole within `stream_s`; what breaks after the first byte can only be cut off.
- Paths other than `/ping`, `/invocations` and `paths` are 404.

Trap: the health check gives up after two seconds, so `/ping` never waits for the warm-up, it only starts it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time

PING, INVOCATIONS = "/ping", "/invocations"
RETRY_S = 1.0
"""Between two attempts of a warm-up that failed: the engine may still be loading."""


class ServingLimits:
    """Around the model server's whole application."""

    def __init__(self, app) -> None:
        settings = json.loads(os.environ["SERVING_LIMITS"])
        self.app = app
        self.request_s = float(settings["request_s"])
        self.stream_s = float(settings["stream_s"])
        self.warm_up = settings.get("warm_up")
        self.paths = {PING, INVOCATIONS, *settings.get("paths", [])}
        self.warm = self.warm_up is None
        self.warming = None

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif scope["path"] not in self.paths:
            await _answer(send, 404, "no such path on this endpoint")
        elif scope["path"] == PING and not self.warm:
            if self.warming is None or self.warming.done():
                self.warming = asyncio.ensure_future(self._warm(scope))
            await _answer(send, 503, "warming up")
        elif scope["path"] == INVOCATIONS:
            if self.warm:
                await self._limited(scope, receive, send)
            else:
                await _answer(send, 503, "warming up")
        else:
            await self.app(scope, receive, send)

    async def _warm(self, scope) -> None:
        """Send the warm-up until each request of it was answered. Never through a socket, so it is counted
        nowhere but in the engine."""
        for _ in range(self.warm_up["requests"]):
            while True:
                call = _call(self.app, scope, self.warm_up["path"], self.warm_up["body"])
                try:
                    status = await asyncio.wait_for(call, self.warm_up["timeout_s"])
                except Exception as error:  # whatever it was, the replica is not warm
                    status = repr(error)
                if status == 200:
                    break
                print(f"serving_limits: warm-up answered {status}, trying again", flush=True)
                await asyncio.sleep(RETRY_S)
        self.warm = True
        print("serving_limits: warm", flush=True)

    async def _limited(self, scope, receive, send) -> None:
        seen = _Answer(send)
        running = asyncio.ensure_future(self.app(scope, receive, seen))
        began = time.monotonic()
        try:
            while not running.done():
                left = self._left(seen, began, time.monotonic())
                if left <= 0:
                    break
                # Woken by the end, or to look at the clock again: a stream moves its own deadline.
                await asyncio.wait({running}, timeout=left)
        finally:
            late = not running.done()
            if late:
                running.cancel()
        if not late:
            running.result()  # the application's own error stays its own
            return
        await asyncio.wait({running}, timeout=RETRY_S)
        if seen.started:
            raise TimeoutError("the answer took longer than its limit and was cut off")
        await _answer(send, 504, f"no answer within {self.request_s:g} s")

    def _left(self, seen, began, now) -> float:
        if not seen.streams:
            return began + self.request_s - now
        return min(seen.last + self.request_s, began + self.stream_s) - now


class _Answer:
    """Passes an answer on, and remembers when it began and whether it is a stream."""

    def __init__(self, send) -> None:
        self.send = send
        self.started = False
        self.streams = False
        self.last = time.monotonic()

    async def __call__(self, message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            kinds = [value for name, value in message.get("headers", []) if name.lower() == b"content-type"]
            self.streams = any(kind.startswith(b"text/event-stream") for kind in kinds)
        self.last = time.monotonic()
        await self.send(message)


async def _call(app, scope, path, body) -> int:
    """One POST to the application, in this process. The status of its answer, once it is complete."""
    content = json.dumps(body).encode()
    inner = dict(scope)
    inner.update(
        method="POST",
        path=path,
        raw_path=path.encode(),
        query_string=b"",
        headers=[
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
        ],
    )
    messages = [{"type": "http.request", "body": content, "more_body": False}]
    status, finished = 0, asyncio.Event()

    async def receive():
        if messages:
            return messages.pop()
        await finished.wait()  # nobody disconnects from a warm-up
        return {"type": "http.disconnect"}

    async def send(message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]

    try:
        await app(inner, receive, send)
    finally:
        finished.set()
    return status


async def _answer(send, status, text) -> None:
    body = json.dumps({"error": {"message": text, "code": status}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
