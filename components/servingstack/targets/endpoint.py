"""The `endpoint` output, of one shape on every option, and a request to copy.

Trap: a client that waits less than the stack may make it wait gives up on a request that would have been
answered, and tries again: the queue and a start from zero count in its limit.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

from servingstack.plan import ServingPlan


def wait_s(plan: ServingPlan) -> int:
    """How long a request may wait before a replica has it: in the queue, or held while one starts from zero.

    A client waits this long and then as long as a request takes."""
    hold = plan.scaling.hold_s
    return plan.timeouts.queue_s + (0 if hold is None else hold)


def output(plan: ServingPlan, url: str, auth: str, invoke_example: str, wait_s: int) -> dict[str, Any]:
    """How to call a stack: what a caller sends to prove itself, a request that works, and the time limits in
    seconds."""
    return {
        "url": url,
        "protocol": plan.container.protocol,
        "auth": auth,
        "invoke_example": invoke_example,
        "timeout": {
            "request_s": plan.timeouts.request_s,
            "stream_s": plan.timeouts.stream_s,
            "wait_s": wait_s,
        },
    }


def curl(plan: ServingPlan, url: str, headers: Iterable[str], limit_s: int, option: str = "") -> str:
    """The warm-up's own request, which is known to work. Headers may hold variables of a shell."""
    warm_up = plan.container.warm_up
    sent = [f'-H "{header}"' for header in headers]
    words = ["curl", *([option] if option else []), f"--max-time {limit_s}", *sent]
    body = shlex.quote(json.dumps(warm_up.body))
    return f"{' '.join(words)} -H 'Content-Type: application/json' {url}{warm_up.path} -d {body}"
