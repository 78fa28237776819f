"""The front door of a cluster: HAProxy before the replicas, which it finds by name.

What it holds and how stands in `targets/haproxy.py`.

Trap: HAProxy's resolver knows no search list and keeps slots, not names: full name, a slot per possible
replica.
"""

from __future__ import annotations

from servingstack.plan import ServingPlan
from servingstack.targets import haproxy
from servingstack.targets.haproxy import (
    API_KEY_ENV,
    CONFIG_DIR,
    HELD_PATH,
    IMAGE,
    METRICS_PATH,
    NO_REPLICA_RETRY_S,
    QUEUE_RETRY_S,
    READY_PATH,
    USER_ID,
)
from servingstack.targets.kubernetes import parts

_RESOLVE_HOLD = "5m"


def config_files(plan: ServingPlan) -> dict[str, str]:
    """The files of `CONFIG_DIR`, by name."""
    return {"haproxy.cfg": haproxy_config(plan), "front_door.lua": hold_lua(plan)}


def haproxy_config(plan: ServingPlan, *, nameserver: str | None = None) -> str:
    """The whole configuration. `nameserver` is `address:port`; default: those of the pod's /etc/resolv.conf.

    Raises ValueError if the plan has no front door or no placement."""
    door = parts.front_door(plan)
    by_name = " resolvers cluster resolve-prefer ipv4 init-addr none"
    upstream = haproxy.Upstream(
        default_server=by_name,
        servers=(f"server-template engine 1-{door.slots} {engine_host(plan)}:{plan.container.port}",),
        sections=(_resolvers(nameserver),),
        hold=plan.scaling.hold_s is not None,
        outside=by_name,
    )
    return haproxy.config(plan, door, upstream)


def hold_lua(plan: ServingPlan) -> str:
    """The Lua beside the configuration, with the plan's limits at its head."""
    return haproxy.lua(plan, parts.front_door(plan), hold_s=plan.scaling.hold_s)


def engine_host(plan: ServingPlan) -> str:
    """Full name of the engine's headless Service. Raises ValueError if the plan has no placement."""
    namespace, domain = parts.placement(plan).namespace, parts.front_door(plan).cluster_domain
    return f"{plan.names['engine']}.{namespace}.svc.{domain}"


def _resolvers(nameserver: str | None) -> haproxy.Section:
    return "resolvers cluster", [
        "parse-resolv-conf" if nameserver is None else f"nameserver dns1 {nameserver}",
        "accepted_payload_size 8192",
        "resolve_retries 3",
        "timeout resolve 1s",
        "timeout retry 1s",
        "# No record means no replica. No answer means nothing: the checks go on judging those we know.",
        "hold nx 2s",
        *(f"hold {status} {_RESOLVE_HOLD}" for status in ("timeout", "refused", "other")),
    ]


__all__ = [
    "API_KEY_ENV",
    "CONFIG_DIR",
    "HELD_PATH",
    "IMAGE",
    "METRICS_PATH",
    "NO_REPLICA_RETRY_S",
    "QUEUE_RETRY_S",
    "READY_PATH",
    "USER_ID",
    "config_files",
    "engine_host",
    "haproxy_config",
    "hold_lua",
]
