"""What callers need to know, and what watches it from outside: a request to copy, a synthetic check, and the
alerts as a file of Prometheus rules.

Trap: a check that calls a service at zero wakes it, every minute of the day. Without a container that is
kept, there is none.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets.endpoint import curl, output

from .program import section

TOKEN_HEADERS = ("Modal-Key: $MODAL_KEY", "Modal-Secret: $MODAL_SECRET")
CHECK_INTERVAL_S = 60


def endpoint(plan: ServingPlan, url: str) -> dict[str, Any]:
    """The `endpoint` output, the same shape for every option."""
    return output(plan, url, auth(plan), invoke_example(plan, url), plan.timeouts.queue_s)


def auth(plan: ServingPlan) -> str:
    """What a caller sends: Modal's proxy token, the engine's key, or both."""
    own = section(plan)
    kinds = ["modal-proxy-token"] * own.requires_proxy_auth + ["bearer"] * (own.api_key is not None)
    return " and ".join(kinds)


def invoke_example(plan: ServingPlan, url: str) -> str:
    """A request that works. `-L`: after 150 s the answer is a redirect."""
    own = section(plan)
    headers = [
        *(TOKEN_HEADERS if own.requires_proxy_auth else ()),
        *(["Authorization: Bearer $API_KEY"] if own.api_key is not None else []),
    ]
    return curl(plan, url, headers, plan.timeouts.request_s + plan.timeouts.queue_s, "-L")


def synthetic_check(plan: ServingPlan, url: str) -> dict[str, Any] | None:
    """A module and a scrape job for Prometheus' blackbox exporter, which reads the token from files of its
    own; None where nothing is kept to answer it."""
    own = section(plan)
    if own.min_containers == 0:
        return None
    http: dict[str, Any] = {"method": "GET", "valid_status_codes": [200], "fail_if_not_ssl": True}
    if own.requires_proxy_auth:
        http["http_headers"] = {
            "Modal-Key": {"files": ["/etc/blackbox/modal-key"]},
            "Modal-Secret": {"files": ["/etc/blackbox/modal-secret"]},
        }
    module = f"serving_{plan.name.replace('-', '_')}"
    return {
        "modules": {module: {"prober": "http", "timeout": f"{plan.timeouts.request_s}s", "http": http}},
        "scrape": {
            "job_name": f"serving-{plan.name}",
            "metrics_path": "/probe",
            "scrape_interval": f"{CHECK_INTERVAL_S}s",
            "scrape_timeout": f"{plan.timeouts.request_s}s",
            "params": {"module": [module]},
            "static_configs": [{"targets": [f"{url}{plan.container.health_path}"]}],
        },
    }


def rules(plan: ServingPlan) -> dict[str, Any]:
    """The alerts, as the content of a file of Prometheus rules."""
    return {
        "groups": [
            {
                "name": f"serving-{plan.name}",
                "rules": [
                    {
                        "alert": alert.name,
                        "expr": alert.expression,
                        "for": f"{alert.for_s}s",
                        "labels": {**alert.labels, "severity": alert.severity},
                        "annotations": {
                            "summary": alert.summary,
                            "runbook": alert.runbook_url or alert.runbook,
                        },
                    }
                    for alert in plan.monitoring.alerts
                ],
            }
        ]
    }
