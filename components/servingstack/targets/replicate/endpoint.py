"""What callers need to know, and a check from outside: the deadline is theirs to send."""

from __future__ import annotations

import json
import shlex
from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets.endpoint import output

from .bodies import section

ADDRESS = "https://api.replicate.com"
CHECK_INTERVAL_S = 300


def endpoint(plan: ServingPlan) -> dict[str, Any]:
    """The `endpoint` output, the same shape for every option."""
    url = f"{ADDRESS}{plan.container.warm_up.path}"
    return output(plan, url, "bearer", invoke_example(plan), section(plan).wait_s)


def headers(plan: ServingPlan) -> dict[str, str]:
    """What each caller sends beside its token."""
    own = section(plan)
    return {"Prefer": f"wait={own.wait_s}", "Cancel-After": f"{own.deadline_s}s"}


def invoke_example(plan: ServingPlan) -> str:
    """With both headers, and the warm-up's input where one is known."""
    sent = " ".join(f"-H '{name}: {value}'" for name, value in headers(plan).items())
    body = shlex.quote(json.dumps(plan.container.warm_up.body))
    return (
        f'curl --max-time {plan.timeouts.request_s} -H "Authorization: Bearer $REPLICATE_API_TOKEN" {sent} '
        f"-H 'Content-Type: application/json' {ADDRESS}{plan.container.warm_up.path} -d {body}"
    )


def synthetic_check(plan: ServingPlan) -> dict[str, Any] | None:
    """A module and a scrape job for Prometheus' blackbox exporter, which reads the token from a file of its
    own: one prediction every five minutes, which is paid. None where no instance is kept or no input is
    known."""
    own = section(plan)
    if own.min_instances == 0 or own.warm_up_input is None:
        return None
    module = f"serving_{plan.name.replace('-', '_')}"
    timeout = f"{plan.timeouts.request_s}s"
    return {
        "modules": {
            module: {
                "prober": "http",
                "timeout": timeout,
                "http": {
                    "method": "POST",
                    "valid_status_codes": [201],
                    "headers": headers(plan) | {"Content-Type": "application/json"},
                    "authorization": {"credentials_file": "/etc/blackbox/replicate-token"},
                    "body": json.dumps(plan.container.warm_up.body, sort_keys=True),
                    "fail_if_body_not_matches_regexp": ['"status": ?"succeeded"'],
                },
            }
        },
        "scrape": {
            "job_name": f"serving-{plan.name}",
            "metrics_path": "/probe",
            "scrape_interval": f"{CHECK_INTERVAL_S}s",
            "scrape_timeout": timeout,
            "params": {"module": [module]},
            "static_configs": [{"targets": [f"{ADDRESS}{plan.container.warm_up.path}"]}],
        },
    }
