"""A stand-in for Replicate's API, on the shapes of its published OpenAPI document (`replicate_api.json`):
what does not fit them is refused, as is a deletion before a deployment was offline for long enough."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema

API: dict[str, Any] = json.loads((Path(__file__).parent / "replicate_api.json").read_text())
HARDWARE = ("cpu", "gpu-t4", "gpu-l40s", "gpu-l40s-2x", "gpu-a100-large", "gpu-a100-large-2x", "gpu-h100")


@dataclass
class Account:
    """What is there, and what was asked."""

    owner: str = "acme"
    token: str = "r8_token-of-the-test"
    deployments: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    faults: dict[str, list[int]] = field(default_factory=dict)
    """Statuses by method, one call each. 599: done, and the connection breaks before the answer."""
    unused_after: int = 2
    """How many deletions are refused because a deployment was in use a short while ago."""
    predictions: dict[str, list[str]] = field(default_factory=dict)
    """States that a prediction passes, by id."""
    made: int = 0

    def release(self, name: str) -> dict[str, Any]:
        return self.deployments[name]["current_release"]


class _Refused(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


def _handler(account: Account) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            method, path = self.command, self.path
            account.calls.append((method, path))
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            fault = account.faults[method].pop(0) if account.faults.get(method) else None
            try:
                if self.headers.get("Authorization") != f"Bearer {account.token}":
                    raise _Refused(401, "Unauthenticated: Incorrect authentication token.")
                if fault not in (None, 599):
                    raise _Refused(fault, "out of order")
                status, found = answer(account, method, path.removeprefix("/v1"), body)
            except _Refused as refused:
                status, found = refused.status, {"detail": refused.detail, "status": refused.status}
            except jsonschema.ValidationError as error:
                status, found = 422, {"detail": error.message}
            if fault == 599:
                self.close_connection = True
                self.connection.close()
                return
            text = b"" if found is None else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self._reply
            raise AttributeError(name)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler


def answer(account: Account, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    """Status and JSON."""
    parts = path.strip("/").split("/")
    if (method, path) == ("GET", "/hardware"):
        return 200, [{"name": sku, "sku": sku} for sku in HARDWARE]
    if (method, path) == ("POST", "/deployments"):
        return 200, _created(account, body)
    if parts[0] == "predictions":
        states = account.predictions[parts[1]]
        return 200, {"id": parts[1], "status": states.pop(0) if len(states) > 1 else states[0], "error": None}
    if parts[0] != "deployments" or parts[1] != account.owner or parts[2] not in account.deployments:
        raise _Refused(404, "The requested resource could not be found.")
    name = parts[2]
    if parts[3:] == ["predictions"]:
        return 201, _predicted(account, body)
    if method == "DELETE":
        return _deleted(account, name)
    return 200, _updated(account, name, body) if method == "PATCH" else account.deployments[name]


def _predicted(account: Account, body: dict[str, Any]) -> dict[str, Any]:
    jsonschema.validate(body, API["predict"])
    account.made += 1
    identity = f"p{account.made}"
    account.predictions.setdefault(identity, ["starting", "processing", "succeeded"])
    return {"id": identity, "status": "starting"}


def _created(account: Account, body: dict[str, Any]) -> dict[str, Any]:
    jsonschema.validate(body, API["create"])
    account.bodies.append(body)
    if body["name"] in account.deployments:
        raise _Refused(400, "A deployment with that name exists.")
    _known(body["hardware"])
    configuration = {key: body[key] for key in API["configuration"]}
    release = {
        "number": 1,
        "model": body["model"],
        "version": body["version"],
        "created_at": "2026-11-30T00:00:00Z",
        "created_by": {"type": "organization", "username": account.owner},
        "configuration": configuration,
    }
    assert sorted(release) == sorted(API["release"])
    made = {"owner": account.owner, "name": body["name"], "current_release": release}
    account.deployments[body["name"]] = made
    return made


def _known(sku: str) -> None:
    if sku not in HARDWARE:
        raise _Refused(400, f"hardware: {sku} is not a valid hardware SKU.")


def _updated(account: Account, name: str, body: dict[str, Any]) -> dict[str, Any]:
    jsonschema.validate(body, API["update"])
    account.bodies.append(body)
    found = account.deployments[name]
    release = found["current_release"]
    if "hardware" in body:
        _known(body["hardware"])
    release["configuration"] |= {key: body[key] for key in API["configuration"] if key in body}
    release["version"] = body.get("version", release["version"])
    release["number"] += 1
    return found


def _deleted(account: Account, name: str) -> tuple[int, None]:
    running = account.release(name)["configuration"]["max_instances"] > 0
    if running or account.unused_after > 0:
        account.unused_after -= 1
        raise _Refused(400, "Deployments must be offline and unused for at least 15 minutes.")
    del account.deployments[name]
    return API["deleted"], None


@contextlib.contextmanager
def serving(account: Account) -> Iterator[str]:
    """The address, while it runs in a thread of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(account))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
