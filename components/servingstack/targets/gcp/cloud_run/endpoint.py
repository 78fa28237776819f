"""What callers need to know: protocol, authentication, time limits, and a request to copy.

Trap: Cloud Run reads `Authorization` for its own token. An engine's API key goes there as well, so with
both the token goes into `X-Serverless-Authorization`, which Cloud Run checks first and the engine never sees.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from servingstack.plan import ServingPlan

from .bodies import section
from .checks import ANYONE

TOKEN = "$(gcloud auth print-identity-token)"


def endpoint(plan: ServingPlan, url: str) -> dict[str, Any]:
    """The `endpoint` output, the same shape for every option."""
    return {
        "url": url,
        "protocol": plan.container.protocol,
        "auth": auth(plan),
        "invoke_example": invoke_example(plan, url),
        "timeout": {
            "request_s": plan.timeouts.request_s,
            "stream_s": plan.timeouts.stream_s,
            "wait_s": plan.timeouts.queue_s,
        },
    }


def auth(plan: ServingPlan) -> str:
    """What a caller sends: Google's identity token, the engine's key, or both."""
    own = section(plan)
    anyone = any(member in ANYONE for member in own.invokers)
    if own.api_key_secret is None:
        return "google-id-token"
    return "bearer" if anyone else "google-id-token and bearer"


def invoke_example(plan: ServingPlan, url: str) -> str:
    """The warm-up's own request, which is known to work."""
    warm_up = plan.container.warm_up
    headers = {
        "google-id-token": [f"Authorization: Bearer {TOKEN}"],
        "bearer": ["Authorization: Bearer $API_KEY"],
    }.get(auth(plan), [f"X-Serverless-Authorization: Bearer {TOKEN}", "Authorization: Bearer $API_KEY"])
    sent = " ".join(f'-H "{header}"' for header in headers)
    body = shlex.quote(json.dumps(warm_up.body))
    limit = plan.timeouts.request_s + plan.timeouts.queue_s
    return f"curl --max-time {limit} {sent} -H 'Content-Type: application/json' {url}{warm_up.path} -d {body}"
