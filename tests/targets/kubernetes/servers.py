"""A name server and model servers on loopback addresses, for the front door's tests."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class NameServer(threading.Thread):
    """Answers as a cluster's does for a headless Service: an A record per ready pod, NXDOMAIN for none."""

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


class Engine(ThreadingHTTPServer):
    """A model server: `{"wait": s}` answers after that time, `{"stream": [gaps]}` a piece after each gap."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: str, port: int) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []
        """Path and headers of every request but health checks."""
        self.running = 0
        self.most_running = 0
        self.answered = 0
        self.gone = 0
        """Requests whose client left before the end."""
        self.piece = b"data: x"
        """What a stream sends after each gap."""
        super().__init__((address, port), _Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, *_: Any) -> None:
        pass  # a check that HAProxy ends before it has read everything is no news

    def close(self) -> None:
        """No new connections; those that are open go on."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path != "/health":
            self._note()
        self._plain()

    def do_POST(self) -> None:
        engine = self.server
        self._note()
        body = json.loads(self._body())
        engine.running += 1
        engine.most_running = max(engine.most_running, engine.running)
        try:
            if "stream" in body:
                self._stream(body["stream"])
            else:
                time.sleep(body.get("wait", 0))
                self._plain()
            engine.answered += 1
        except OSError:
            engine.gone += 1
        finally:
            engine.running -= 1

    def _note(self) -> None:
        self.server.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))

    def _body(self) -> bytes:
        if "content-length" in self.headers:
            return self.rfile.read(int(self.headers["content-length"]))
        body = b""
        while size := int(self.rfile.readline() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _plain(self) -> None:
        data = json.dumps({"from": self.server.server_address[0]}).encode()
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
            self.wfile.write(b"%x\r\n%b\r\n" % (len(self.server.piece), self.server.piece))
        self.wfile.write(b"0\r\n\r\n")
