"""What callers need to know: address, protocol, authentication, time limits, and a request to copy.

Trap: while there is no replica the ingress holds a request longer than the door ever would, so a client must
wait that long, too.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from servingstack.plan import ServingPlan

from . import sidecar

PORTAL = "https://portal.azure.com/#resource"


def endpoint(plan: ServingPlan, host: str) -> dict[str, Any]:
    """The `endpoint` output, the same shape for every option."""
    url = f"https://{host}"
    keyed = sidecar.front_door(plan).api_key_secret_name is not None
    return {
        "url": url,
        "protocol": plan.container.protocol,
        "auth": "bearer" if keyed else "none",
        "invoke_example": invoke_example(plan, url, keyed=keyed),
        "timeout": {
            "request_s": plan.timeouts.request_s,
            "stream_s": plan.timeouts.stream_s,
            "wait_s": wait_s(plan),
        },
    }


def wait_s(plan: ServingPlan) -> int:
    """How long a request may wait before a replica has it."""
    hold = plan.scaling.hold_s
    return plan.timeouts.queue_s + (0 if hold is None else hold)


def invoke_example(plan: ServingPlan, url: str, *, keyed: bool) -> str:
    """The warm-up's own request, which is known to work."""
    warm_up = plan.container.warm_up
    limit = wait_s(plan) + plan.timeouts.request_s
    key = ' -H "Authorization: Bearer $API_KEY"' if keyed else ""
    body = shlex.quote(json.dumps(warm_up.body))
    return f"curl --max-time {limit}{key} -H 'Content-Type: application/json' {url}{warm_up.path} -d {body}"


def dashboard_url(workbook_id: str) -> str:
    """The workbook in the portal."""
    return f"{PORTAL}{workbook_id}/workbook"
