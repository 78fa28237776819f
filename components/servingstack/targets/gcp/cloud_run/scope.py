"""Where a service's series are: one matcher and every metric name, each in one place.

Names are Cloud Monitoring's (cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-run). In PromQL the first
slash becomes a colon and every other odd character an underscore (docs.cloud.google.com/monitoring/promql,
"Mapping Cloud Monitoring metric names to PromQL").

Traps:
- A name that is misspelt is no error, it is an empty panel. So names are typed here alone.
- `request_latencies` begins when an instance has the request. What it waited before is
  `request_latency/pending`, which holds cold starts too.
- The pending queue's length is an alpha metric; `request_latency/pending` is beta. Both may change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DOMAIN = "run.googleapis.com"
RESOURCE = "cloud_run_revision"

REQUESTS = "request_count"
"""By `response_code` and `response_code_class`, once a request has ended. DELTA, INT64."""
LATENCIES = "request_latencies"
"""Milliseconds. DELTA, DISTRIBUTION."""
PENDING_LATENCIES = "request_latency/pending"
"""Milliseconds. DELTA, DISTRIBUTION, beta."""
PENDING = "pending_queue/pending_requests"
"""GAUGE, alpha."""
INSTANCES = "container/instance_count"
"""By `state`, active or idle. GAUGE."""
CONCURRENCIES = "container/max_request_concurrencies"
"""Most requests at once, by instance and minute. DELTA, DISTRIBUTION."""
STARTUPS = "container/startup_latencies"
"""Milliseconds. DELTA, DISTRIBUTION."""
GPU_UTILISATION = "container/gpu/utilizations"
GPU_MEMORY = "container/gpu/memory_utilizations"
"""Both 0 to 1. DISTRIBUTION."""

CHECK_PASSED = "monitoring_googleapis_com:uptime_check_check_passed"
"""Of an uptime check, by checker, 1 where it passed (cloud.google.com/monitoring/api/metrics_gcp_i_o,
monitoring.googleapis.com/uptime_check/check_passed: GAUGE, BOOL, with `check_id`)."""
CHECK_ID = "{uptime_check}"
"""Stands in a query for the check's id, which Google makes up when it makes the check."""


@dataclass(frozen=True)
class Scope:
    """One service in one region."""

    service: str
    location: str | None
    """None for whichever region it is in."""

    def selector(self, more: str = "") -> str:
        """Matchers of a query, braces included; `more` are further ones."""
        parts = [f'monitored_resource="{RESOURCE}"', f'service_name="{self.service}"']
        if self.location is not None:
            parts.append(f'location="{self.location}"')
        return "{" + ",".join([*parts, *([more] if more else [])]) + "}"

    def filter(self, metric: str) -> str:
        """The same for a structured query, the metric included."""
        parts = [
            f'metric.type="{DOMAIN}/{metric}"',
            f'resource.type="{RESOURCE}"',
            f'resource.label."service_name"="{self.service}"',
        ]
        if self.location is not None:
            parts.append(f'resource.label."location"="{self.location}"')
        return " AND ".join(parts)

    def series(self, metric: str, more: str = "", suffix: str = "") -> str:
        """One metric as a PromQL selector."""
        return f"{promql_name(metric)}{suffix}{self.selector(more)}"


def promql_name(metric: str) -> str:
    """A metric's name in PromQL."""
    return f"{DOMAIN.replace('.', '_')}:{re.sub(r'[^a-zA-Z0-9_]', '_', metric)}"
