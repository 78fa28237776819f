"""What callers need to know: address, authentication, time limits, and a request to copy.

Trap: a client library's own time-out and retries come first. One that waits 60 s and tries five times turns
one slow answer into five requests, so both are said.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets.endpoint import output

from .parts import region, section


def url(plan: ServingPlan) -> str:
    """Of the runtime API, which no network but AWS's own reaches without a signature."""
    base = f"https://runtime.sagemaker.{region(plan)}.amazonaws.com/endpoints/{plan.names['endpoint']}"
    return f"{base}/{'invocations' if section(plan).asynchronous is None else 'async-invocations'}"


def endpoint(plan: ServingPlan) -> dict[str, Any]:
    """The `endpoint` output, the same shape for every option."""
    found = output(plan, url(plan), "aws-sigv4", invoke_example(plan), plan.timeouts.queue_s)
    return found | {"protocol": "sagemaker"}


def invoke_example(plan: ServingPlan) -> str:
    """The warm-up's own request, which is known to work, by AWS's command line."""
    chosen = section(plan)
    where = ["--region", region(plan), "--endpoint-name", plan.names["endpoint"]]
    if chosen.asynchronous is not None:
        words = [
            "aws", "sagemaker-runtime", "invoke-endpoint-async", *where,
            "--input-location", "s3://<bucket>/asynchronous/requests/<file>.json",
            "--content-type", "application/json",
            "--invocation-timeout-seconds", str(chosen.asynchronous.invocation_timeout_s),
            "--request-ttl-seconds", str(chosen.asynchronous.time_to_live_s),
        ]  # fmt: skip
        return " ".join(words)
    body = json.dumps(plan.container.warm_up.body)
    words = [
        "aws", "sagemaker-runtime", "invoke-endpoint", *where,
        "--cli-read-timeout", str(chosen.client.read_timeout_s),
        "--content-type", "application/json",
        "--cli-binary-format", "raw-in-base64-out",
        "--body", body, "/dev/stdout",
    ]  # fmt: skip
    return " ".join(shlex.quote(word) for word in words)
