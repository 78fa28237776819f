"""From the plan to the properties of the one resource: plain values, and nothing that is secret.

Trap: properties are in the state as they stand. The program is among them, so that a preview shows what
changes; what it needs of secrets it names.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan

from .checks import OWN_TAG
from .program import fingerprint, program, section


def app(plan: ServingPlan) -> dict[str, Any]:
    """Properties of the app."""
    own = section(plan)
    return {
        "name": own.app,
        "environment": own.environment,
        "owner": own.tags[OWN_TAG],
        "adopt": own.adopt,
        "program": program(plan),
        "fingerprint": fingerprint(plan),
        "autoscaler": {
            "min_containers": own.min_containers,
            "max_containers": own.max_containers,
            "buffer_containers": own.buffer_containers,
            "scaledown_window": own.scaledown_window_s,
        },
        "cache_volume": own.cache_volume,
        "keep_cache": own.keep_cache,
        "warm_up": _warm_up(plan),
    }


def _warm_up(plan: ServingPlan) -> dict[str, Any] | None:
    """The call after a deployment; None where no container is kept that would answer it."""
    own = section(plan)
    if own.min_containers == 0:
        return None
    return {
        "path": plan.container.health_path,
        "proxy_auth": own.requires_proxy_auth,
        "request_s": plan.timeouts.request_s + plan.timeouts.queue_s,
        "timeout_s": own.startup_timeout_s,
    }
