"""A server that speaks enough of OpenAI's API to be measured, with delays that are known."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Behaviour:
    """What the server does, and what it has seen."""

    ttft_s: float = 0.05
    tpot_s: float = 0.005
    tokens_per_word: float = 1.0
    tokens_per_chunk: int = 1
    slow_first: int = 0
    """So many requests take a second longer, as an engine that compiles does."""
    busy_above: int | None = None
    """More requests than this at once are answered with 429."""
    key: str | None = None
    usage: bool = True
    prompts: list[str] = field(default_factory=list[str])
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    running: int = 0
    most_running: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behaviour: Behaviour

    def log_message(self, format: str, *args: Any) -> None:
        return None

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        self._answer(200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    def do_POST(self) -> None:
        known = self.behaviour
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if known.key is not None and self.headers.get("Authorization") != f"Bearer {known.key}":
            self._answer(401, {"error": "no"})
            return
        with known.lock:
            known.running += 1
            known.most_running = max(known.most_running, known.running)
            busy = known.busy_above is not None and known.running > known.busy_above
            if not busy:
                known.prompts.append(body["prompt"])
                known.bodies.append(body)
            slow = not busy and len(known.prompts) <= known.slow_first
        try:
            if busy:
                self._answer(429, {"error": "busy"})
            else:
                self._stream(body, 1.0 if slow else 0.0)
        finally:
            with known.lock:
                known.running -= 1

    def _stream(self, body: dict[str, Any], extra_s: float) -> None:
        known = self.behaviour
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        time.sleep(known.ttft_s + extra_s)
        left = body["max_tokens"]
        while left > 0:
            now = min(left, known.tokens_per_chunk)
            self._event({"choices": [{"text": "x " * now, "index": 0}]})
            left -= now
            if left:
                time.sleep(known.tpot_s * known.tokens_per_chunk)
        if known.usage:
            words = len(body["prompt"].split())
            usage = {
                "prompt_tokens": round(words * known.tokens_per_word),
                "completion_tokens": body["max_tokens"],
            }
            self._event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.flush()


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """The address of a running server."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    handler = type("Bound", (Handler,), {"behaviour": behaviour})
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
