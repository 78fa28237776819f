"""What callers need to know: address, protocol, authentication, time limits, and a request to copy.

Trap: while there is no replica the ingress holds a request longer than the door ever would, so a client must
wait that long, too.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets.endpoint import curl, output, wait_s

from . import sidecar

PORTAL = "https://portal.azure.com/#resource"


def endpoint(plan: ServingPlan, host: str) -> dict[str, Any]:
    """The `endpoint` output, the same shape for every option."""
    url = f"https://{host}"
    keyed = sidecar.front_door(plan).api_key_secret_name is not None
    auth = "bearer" if keyed else "none"
    return output(plan, url, auth, invoke_example(plan, url, keyed=keyed), wait_s(plan))


def invoke_example(plan: ServingPlan, url: str, *, keyed: bool) -> str:
    """A request that works, with the key where one is asked for."""
    headers = ["Authorization: Bearer $API_KEY"] if keyed else []
    return curl(plan, url, headers, wait_s(plan) + plan.timeouts.request_s)


def dashboard_url(workbook_id: str) -> str:
    """The workbook in the portal."""
    return f"{PORTAL}{workbook_id}/workbook"
