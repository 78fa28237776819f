"""How large one proxy of the front door must be: what it keeps, what it knows, what that takes.

Trap: each proxy knows its own share only, so limits per replica and of the queue are divided by the number of
proxies, and rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

CONNECTION_KIB = 64
"""Two buffers of 16 KiB (HAProxy's tune.bufsize) and their bookkeeping, on both sides."""
BASE_MIB = 64
"""Of the process itself, with Lua and the exporter."""
LEAVING = 2
"""Replicas that are stopping, and still have a record in the cluster's DNS."""
SPARE_CONNECTIONS = 256
"""For health checks, Prometheus and callers that are refused."""


@dataclass(frozen=True, slots=True)
class DoorSize:
    """Of one proxy."""

    slots: int
    max_connections: int
    memory_bytes: int
    drain_s: int


@dataclass(frozen=True, slots=True)
class Kept:
    """How long what a stopping proxy has taken may still last, seconds."""

    drain_s: int
    request_s: int
    hold_s: int | None


def door_size(*, proxies: int, replicas: int, max_concurrent: int, max_queue: int, kept: Kept) -> DoorSize:
    """One of `proxies`, before at most `replicas` (a rollout's among them), `max_concurrent` requests in
    each."""
    slots = replicas + LEAVING
    flying = share(max_concurrent, proxies) * slots
    # In flight, queued, held, and as many that idle: beyond it the kernel's backlog would hide a queue.
    connections = 2 * (flying + 2 * share(max_queue, proxies)) + SPARE_CONNECTIONS
    hold = 0 if kept.hold_s is None else kept.hold_s
    return DoorSize(
        slots=slots,
        max_connections=connections,
        memory_bytes=(BASE_MIB + math.ceil(connections * CONNECTION_KIB / 1024)) * 1024**2,
        # The planned drain, or one held request.
        drain_s=max(kept.drain_s, kept.request_s + hold),
    )


def share(total: int, proxies: int) -> int:
    """One proxy's part of a limit."""
    return max(1, math.ceil(total / proxies))
