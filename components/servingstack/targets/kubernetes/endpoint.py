"""What callers need to know: address, protocol, authentication, time limits, and a request to copy.

Trap: the short name `<service>.<namespace>.svc` resolves in every pod, whatever the cluster's domain is
called.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets.endpoint import output, wait_s
from servingstack.targets.kubernetes import parts
from servingstack.targets.kubernetes.dashboard import uid


def url(plan: ServingPlan) -> str:
    """Address of the front door inside the cluster; an OpenAI client's base URL is this and `/v1`."""
    return (
        f"http://{plan.names['service']}.{parts.placement(plan).namespace}.svc:{parts.front_door(plan).port}"
    )


def endpoint(plan: ServingPlan) -> dict[str, Any]:
    """The `endpoint` output, the same shape for every option."""
    auth = "none" if parts.front_door(plan).api_key_secret_name is None else "bearer"
    return output(plan, url(plan), auth, invoke_example(plan), wait_s(plan))


def invoke_example(plan: ServingPlan) -> str:
    """A request that works from a pod of the cluster."""
    limit = wait_s(plan) + plan.timeouts.request_s
    command = ["curl", "--max-time", str(limit), "-H", "content-type: application/json"]
    text = " ".join(shlex.quote(part) for part in command)
    if parts.front_door(plan).api_key_secret_name is not None:
        text += ' -H "authorization: Bearer $API_KEY"'
    body = json.dumps(plan.container.warm_up.body)
    return f"{text} -d {shlex.quote(body)} {url(plan)}{plan.container.warm_up.path}"


def dashboard_url(plan: ServingPlan) -> str | None:
    """Where the dashboard is in Grafana; its path alone, as long as the plan does not know Grafana's
    address."""
    if not plan.monitoring.dashboards:
        return None
    base = parts.placement(plan).grafana
    return f"{'' if base is None else base.rstrip('/')}/d/{uid(plan)}"
