"""HAProxy as the front door, whatever stands behind it: a fleet found by name, or the one engine beside it.

It bounds time and queue, keeps paths closed, checks the key. What holds each limit, tried on HAProxy 2.6 and
2.8 (`tests/targets/kubernetes/test_front_door_live.py`):

- `request_s`: `timeout server`. It starts when a replica takes the request, and is at once the whole time of
  an unstreamed request (504), the time to first byte (504) and the idle gap of a stream (cut).
- `stream_s`: no timeout of HAProxy bounds a response that keeps flowing, so a Lua filter looks at the clock
  with each piece and cuts. Counted from when the request leaves for the replicas, the queue included.
- `queue_s`: `timeout queue`, answered 503. A queue that is full is answered 429 at once.
- `hold_s`: a Lua action, answered 503. Without it HAProxy answers 503 at once when no replica is up. A client
  that leaves while it is held is noticed at once by 2.6 and only now and then by 2.8; the replica then sees a
  request that is broken off, or none.

Every 429 and 503 carries Retry-After; every refusal is JSON in the shape of OpenAI's errors.

Traps:
- A connection that idles is a session of the frontend, and refused requests and a load balancer's health
  checks are requests of it. So load, activity and availability are counted at the backends: `engine` has what
  may pass, from the hold to the answer, 503 and 504 included; `busy` has the 429s. What is held is also
  told on `HELD_PATH`.
- A stream that is cut was a 200 before. Too long in total: `haproxy_backend_response_errors_total`. Silent
  for too long: no counter of HAProxy shows it.
- Each door knows its own share only: limits per replica and of the queue are divided by the number of doors.
- A path is compared as it is written, so `/v1/../metrics` and `/v1/%63ompletions` are closed like any other.
- The listeners are IPv4.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from importlib import resources

from servingstack.overflow import Overflow
from servingstack.plan import FrontDoor, ServingPlan

IMAGE = "haproxy:2.8.29@sha256:76e67f835631cf03eec13f1ca6e9568c8b3d3530f5232aa7e69a81083fe26031"
"""Official image of 2.8 (supported until Q2 2028, says `haproxy -vv`), with Lua, OpenSSL and the Prometheus
exporter built in; docker-library/repo-info, repos/haproxy/remote/2.8.29.md at
0ed0a0ed36758e850c095b6380c2517baff81896."""
USER_ID = 99
"""The image's `haproxy` user (same file: `useradd --uid 99`)."""
CONFIG_DIR = "/usr/local/etc/haproxy"
API_KEY_ENV = "SERVING_API_KEY"
PROXY_TOKEN_ENV = {"Modal-Key": "MODAL_PROXY_TOKEN_ID", "Modal-Secret": "MODAL_PROXY_TOKEN_SECRET"}
"""Variables by the header that Modal wants (modal.com/docs/guide/webhook-proxy-auth)."""
METRICS_PATH = "/metrics"
HELD_PATH = "/held"
READY_PATH = "/ready"

CONNECT_S = 2
"""Within a cluster a connection takes milliseconds; three losses of a SYN do not fit."""
HEADERS_S = 10
"""For a client to send its headers, and its body up to one buffer."""
KEEP_ALIVE_S = 75
"""Longer than the 60 s that AWS' load balancer keeps an idle connection (`idle_timeout.timeout_seconds`), so
that it, and not we, closes it."""
CHECK_INTERVAL_S = 2
CHECK_TIMEOUT_S = 5
"""An engine that is busy answers late; the replica's own readiness is the stricter judge."""
QUEUE_RETRY_S = 2
NO_REPLICA_RETRY_S = 10

_ERRORS: dict[int, tuple[str, str, str]] = {
    400: ("invalid_request_error", "bad_request", "The request is not valid HTTP, or its body is too large."),
    401: (
        "invalid_request_error",
        "invalid_api_key",
        "Wrong or no API key. Send Authorization: Bearer <key>.",
    ),
    404: ("invalid_request_error", "not_found", "There is no such path here."),
    405: ("invalid_request_error", "method_not_allowed", "Use GET or POST."),
    408: ("invalid_request_error", "request_incomplete", "The request did not arrive in time."),
    413: ("invalid_request_error", "body_too_large", "The request body is too large."),
    429: ("rate_limit_error", "queue_full", "Too many requests are waiting. Try again later."),
    500: ("server_error", "internal_error", "The proxy failed."),
    502: ("server_error", "bad_gateway", "The model server broke off before it answered."),
    503: ("server_error", "no_replica", "No replica of the model could take the request. Try again later."),
    504: ("server_error", "timeout", "The model server did not answer within the request timeout."),
}
_RETRY_AFTER = {429: QUEUE_RETRY_S, 503: NO_REPLICA_RETRY_S}

Section = tuple[str, list[str]]
"""Head and lines."""


@dataclass(frozen=True)
class Upstream:
    """What stands behind the door, and how it is known."""

    default_server: str
    """More words of `default-server`, after the limits."""
    servers: tuple[str, ...]
    """The lines that name the replicas."""
    sections: tuple[Section, ...] = ()
    """Sections that those lines need."""
    hold: bool = False
    """Whether requests are held while no replica is up."""
    outside: str = ""
    """More words of the `server` line of an endpoint beside the replicas."""
    lua_files: tuple[str, ...] = ("front_door.lua",)
    filters: tuple[str, ...] = ("lua.limits",)
    log_format: str | None = None
    """Of one request; None for HAProxy's own."""


def config(plan: ServingPlan, door: FrontDoor, upstream: Upstream) -> str:
    """The whole configuration."""
    sections = (
        _global(door, upstream),
        _defaults(plan),
        *upstream.sections,
        _serving(plan, door, upstream),
        _engine(plan, door, upstream),
        *(() if door.overflow is None else (_overflow(door.overflow, upstream),)),
        _busy(),
        _stats(door),
    )
    texts = ("\n".join((head, *(f"    {line}" for line in lines))) for head, lines in sections)
    return "\n\n".join(texts) + "\n"


def lua(plan: ServingPlan, door: FrontDoor, *, hold_s: int | None) -> str:
    """The Lua beside the configuration, with the plan's limits at its head."""
    limits = {
        "HOLD_S": 0 if hold_s is None else hold_s,
        "REQUEST_S": plan.timeouts.request_s,
        "STREAM_S": plan.timeouts.stream_s,
        "MAX_BODY_BYTES": door.max_body_bytes,
    }
    head = "".join(f"local {name} = {value}\n" for name, value in limits.items())
    return f"{head}\n" + resources.files("servingstack.targets").joinpath("front_door.lua").read_text(
        encoding="utf-8"
    )


def _share(total: int, door: FrontDoor) -> int:
    return max(1, math.ceil(total / door.replicas))


def _global(door: FrontDoor, upstream: Upstream) -> Section:
    return "global", [
        "log stdout format raw local0 info",
        f"maxconn {door.max_connections}",
        "nbthread 2",
        "# After SIGUSR1 what is in flight may finish, until this.",
        f"hard-stop-after {door.drain_s}s",
        "default-path config",
        *(f"lua-load {name}" for name in upstream.lua_files),
    ]


def _defaults(plan: ServingPlan) -> Section:
    lines = [
        "mode http",
        "option dontlognull",
        "# Tokens are passed on as they come.",
        "option http-no-delay",
        "# A new connection per request: an engine that closes an idle one under us would cost a 502.",
        "option http-server-close",
        "# A client that left takes its place in the queue with it. Here, for the frontend must look too.",
        "option abortonclose",
        "# Only what was never sent is tried again, on another replica.",
        "retries 2",
        "retry-on conn-failure",
        "option redispatch 1",
        f"timeout connect {CONNECT_S}s",
        f"timeout http-request {HEADERS_S}s",
        f"timeout http-keep-alive {KEEP_ALIVE_S}s",
        "# Above the server's, so that a late replica is a 504 and not a client's fault.",
        f"timeout client {plan.timeouts.request_s + CONNECT_S}s",
        f"timeout server {plan.timeouts.request_s}s",
        f"timeout queue {plan.timeouts.queue_s}s",
        f"timeout check {CHECK_TIMEOUT_S}s",
    ]
    return "defaults", lines + [_error(status) for status in _ERRORS]


def _error(status: int) -> str:
    kind, code, message = _ERRORS[status]
    body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})
    retry = f" hdr retry-after {_RETRY_AFTER[status]}" if status in _RETRY_AFTER else ""
    return f"http-error status {status} content-type application/json string '{body}'{retry}"


def _serving(plan: ServingPlan, door: FrontDoor, upstream: Upstream) -> Section:
    container = plan.container
    paths = " ".join(path for path in container.public_paths if path != container.health_path)
    lines = [
        f"bind :{door.port}",
        "log global",
        "option httplog" if upstream.log_format is None else f"log-format {upstream.log_format}",
        "# For load balancers before us. Answered here: it must neither need the key nor wake a replica.",
        f"monitor-uri {container.health_path}",
    ]
    if not upstream.hold and door.overflow is None:
        lines.append("monitor fail if { nbsrv(engine) eq 0 }")
    lines += [
        "option http-buffer-request",
        "option forwardfor",
        "http-request del-header x-forwarded- -m beg",
        "http-request del-header forwarded",
    ]
    if door.api_key_secret_name is not None:
        lines += [
            "# Hashes are compared, so that neither the time nor the length tells anything of the key.",
            "http-request set-var(txn.key) http_auth_bearer,sha2(256)",
            f"acl key_known env({API_KEY_ENV}) -m len ge 1",
            f"acl key_right env({API_KEY_ENV}),sha2(256),secure_memcmp(txn.key) -m bool",
            "http-request deny deny_status 401 unless key_known key_right",
        ]
    lines += [
        f"http-request deny deny_status 404 unless {{ path {paths} }}",
        "http-request deny deny_status 405 unless { method GET POST }",
        f"http-request deny deny_status 413 if {{ req.body_size gt {door.max_body_bytes} }}",
    ]
    share = _share(door.max_queue, door)
    full = f"{{ queue(engine) ge {share} }}"
    if upstream.hold:
        full += f" or {{ lua.held ge {share} }}"
    if door.overflow is not None:
        most = _share(door.overflow.at, door)
        lines.append(f"use_backend overflow if {{ queue(engine) ge {most} }} or {{ nbsrv(engine) eq 0 }}")
    return "frontend serving", [*lines, f"use_backend busy if {full}", "default_backend engine"]


def _engine(plan: ServingPlan, door: FrontDoor, upstream: Upstream) -> Section:
    container = plan.container
    hold = [
        "# Here and not in the frontend, so that what is held counts in this backend's sessions.",
        "http-request lua.hold",
        "# Its client left. An answer would count as a failure.",
        "http-request reject if { var(txn.hold) -m str held }",
    ]
    return "backend engine", [
        "log global",
        "balance leastconn",
        *(hold if upstream.hold else []),
        *(f"filter {name}" for name in upstream.filters),
        "option httpchk",
        f"http-check send meth GET uri {container.health_path}",
        "http-check expect status 200",
        f"default-server check inter {CHECK_INTERVAL_S}s fastinter 1s downinter 1s rise 1 fall 3 "
        f"maxconn {_share(door.max_concurrent, door)}{upstream.default_server}",
        *upstream.servers,
    ]


def _overflow(overflow: Overflow, upstream: Upstream) -> Section:
    """The endpoint beside the replicas. Never checked: a check would start a container there. The image holds
    the system's certificates for `@system-ca` (docker-library/haproxy/pull/216)."""
    tokens = PROXY_TOKEN_ENV if overflow.proxy_token_secret is not None else {}
    return "backend overflow", [
        "log global",
        *(f"filter {name}" for name in upstream.filters),
        f"http-request set-header Host {overflow.host}",
        *(f"http-request set-header {header} %[env({name})]" for header, name in tokens.items()),
        f"server overflow {overflow.host}:{overflow.port} ssl verify required ca-file @system-ca "
        f"sni str({overflow.host}){upstream.outside}",
    ]


def _busy() -> Section:
    return "backend busy", [
        "# A backend of its own: the exporter counts answers by class, and its requests are the 429s.",
        "http-request deny deny_status 429",
    ]


def _stats(door: FrontDoor) -> Section:
    return "frontend stats", [
        f"bind :{door.stats_port}",
        f"http-request use-service prometheus-exporter if {{ path {METRICS_PATH} }}",
        f"http-request use-service lua.held if {{ path {HELD_PATH} }}",
        f"http-request return status 200 content-type text/plain string ready if {{ path {READY_PATH} }}",
        "http-request deny deny_status 404",
    ]
