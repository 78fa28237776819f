"""What Container Apps allows, each with its source. Read 2026-11-30.

`docs` is github.com/MicrosoftDocs/azure-docs, articles/container-apps; `sdk` is azure-mgmt-appcontainers
5.1.0; `azurerm` is terraform-provider-azurerm, internal/services/containerapps.

Trap: the pages, the SDK's comments and the service itself differ on probes. Where they do, the limit here is
the service's own error message, and the difference stands beside it.
"""

from __future__ import annotations

LONGEST_REQUEST_S = 240
"""The ingress ends a request after 240 s, which cannot be set (docs ingress-overview.md). The pages on
premium ingress call the same number an idle time; here it bounds a stream as a whole too."""
LONGEST_HOLD_S = 210
"""What is left of those for a request that waits for a first replica, beside a request timeout of 30 s
(azure-container-apps issue 1637: what is held longer ends in `stream timeout`)."""

APP_NAME_LENGTH = 32
"""2 to 32 lower case letters, digits and single hyphens, a letter first (PSRule for Azure,
Azure.ContainerApp.Name; azurerm validate)."""
ENVIRONMENT_NAME_LENGTH = 60
STORAGE_NAME_LENGTH = 32
SHORT_NAME_LENGTH = 12
"""Of an action group (azure-mgmt-monitor 7.0.0, ActionGroupResource, `_validation`)."""

MOST_REPLICAS = 1000
"""Of a revision (docs scale-app.md, 2025-06-26)."""
SCALE_IN_WINDOW_S = 300
"""How long the load must be low before replicas go; cannot be set, and they all may go at once (same
page)."""
SCALE_POLL_S = 30
"""How often rules other than HTTP's are asked (same page)."""

MOST_PROBE_FAILURES = 30
""" "FailureThreshold must be in the range of 1..30" (azure-container-apps issue 1100). sdk says 10; azurerm
allows 240 for a start since 2026-03 (pull request 31989)."""
LONGEST_PROBE_PERIOD_S = 240
LONGEST_INITIAL_DELAY_S = 60
"""sdk, ContainerAppProbe: period_seconds, initial_delay_seconds."""
LONGEST_START_S = MOST_PROBE_FAILURES * LONGEST_PROBE_PERIOD_S + LONGEST_INITIAL_DELAY_S

REVISION_DEADLINE_S = 600
"""A revision that is not ready after ten minutes is called degraded, "Deployment Progress Deadline Exceeded"
(docs troubleshooting.md). It goes on starting, but a deployment may be reported as failed."""

LONGEST_GRACE_S = 600
"""Between the signal and the end (azurerm, termination_grace_period_seconds)."""

DOOR_CORES, DOOR_GIB = 0.5, 1.0
"""What the front door takes of a profile at least; the engine has the rest."""
SCRATCH_BYTES = 1024**3
"""Of the replica's own disk beside weights: compiled kernels, logs, the layers that are written. An
assumption."""

ROLES = {
    "AcrPull": "7f951dda-4ed3-4680-a7ca-43fe172d538d",
    "Key Vault Secrets User": "4633458b-17de-408a-b874-0445c86b69e6",
}
"""learn.microsoft.com/azure/role-based-access-control/built-in-roles"""

# learn.microsoft.com/azure/azure-monitor/reference/supported-metrics/microsoft-app-containerapps-metrics
# (2025-04-16).
METRICS_NAMESPACE = "microsoft.app/containerapps"
