"""What callers need to know: protocol, authentication, time limits, and a request to copy.

Trap: Cloud Run reads `Authorization` for its own token. An engine's API key goes there as well, so with
both the token goes into `X-Serverless-Authorization`, which Cloud Run checks first and the engine never sees.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets.endpoint import curl, output

from .bodies import section
from .checks import ANYONE

TOKEN = "$(gcloud auth print-identity-token)"


def endpoint(plan: ServingPlan, url: str) -> dict[str, Any]:
    """The `endpoint` output, the same shape for every option."""
    return output(plan, url, auth(plan), invoke_example(plan, url), plan.timeouts.queue_s)


def auth(plan: ServingPlan) -> str:
    """What a caller sends: Google's identity token, the engine's key, or both."""
    own = section(plan)
    anyone = any(member in ANYONE for member in own.invokers)
    if own.api_key_secret is None:
        return "google-id-token"
    return "bearer" if anyone else "google-id-token and bearer"


def invoke_example(plan: ServingPlan, url: str) -> str:
    """A request that works, with what proves the caller."""
    headers = {
        "google-id-token": [f"Authorization: Bearer {TOKEN}"],
        "bearer": ["Authorization: Bearer $API_KEY"],
    }.get(auth(plan), [f"X-Serverless-Authorization: Bearer {TOKEN}", "Authorization: Bearer $API_KEY"])
    return curl(plan, url, headers, plan.timeouts.request_s + plan.timeouts.queue_s)
