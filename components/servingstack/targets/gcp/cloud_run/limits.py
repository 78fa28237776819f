"""What Cloud Run allows and does by itself, as numbers with their sources.

Traps:
- Its documentation gave the startup probe 240 s for years, and many copies still say so; with a GPU it is
  1800 s now. A single `periodSeconds` stays at 240 s.
- The file system is memory: what an instance downloads counts in its memory limit.
- The L4 machines have an older driver than current CUDA releases ask for.
"""

from __future__ import annotations

LONGEST_REQUEST_S = 3600
"""docs.cloud.google.com/run/docs/configuring/request-timeout and run/quotas: 60 minutes at most."""
MOST_LABELS = 64
"""On a resource (cloud.google.com/resource-manager/docs/labels-overview; discovery document monitoring v3,
AlertPolicy.userLabels)."""
LARGEST_CONCURRENCY = 1000
"""docs.cloud.google.com/run/docs/about-concurrency and run/quotas: requests per instance."""
LONGEST_START_S = 1800
"""docs.cloud.google.com/run/docs/configuring/jobs/healthchecks.md.txt: failureThreshold x periodSeconds at
most 600 s, 1800 s with a GPU."""
LONGEST_PROBE_PERIOD_S = 240
"""Discovery document run v2, GoogleCloudRunV2Probe.periodSeconds."""
PROBE_PERIOD_S = 10
STOP_S = 10
"""docs.cloud.google.com/run/docs/container-contract: SIGTERM, and SIGKILL ten seconds later. Only instances
without requests are stopped to scale in."""
IDLE_S = 600
"""docs.cloud.google.com/run/docs/about-instance-autoscaling: an instance with a GPU idles up to 10 minutes
after its last request; this cannot be set."""
SHORTEST_PENDING_S, PENDING_STARTS = 10, 3.5
"""The same page: a request waits for an instance 3.5 times the service's average start, at least 10 s, then
it is answered 429."""
AUTOSCALER_WINDOW_S = 60
"""The same page: means over one minute."""
LEAST_UTILIZATION, MOST_UTILIZATION = 0.1, 0.95
"""Discovery document run v2, GoogleCloudRunV2RevisionScaling.concurrencyUtilization."""
MOST_CPU_UTILIZATION = 0.9
"""The same, cpuUtilization. The API takes 0 for "not on CPU", but the provider leaves a zero out of the
request: terraform-provider-google's generated expanders send a value only if
`!tpgresource.IsEmptyValue(val)`."""
SERVICE_NAME = 49
"""Longest name of a service (run v2, CreateService: less than 50 characters)."""
ACCOUNT_NAME = 30
"""Longest id of a service account; the shortest is 6 (iam v1, CreateServiceAccountRequest.accountId)."""

RESERVED_VARIABLES = ("PORT", "K_SERVICE", "K_REVISION", "K_CONFIGURATION")
"""docs.cloud.google.com/run/docs/configuring/services/environment-variables: set by Cloud Run alone."""
REGISTRIES = ("docker.io", "gcr.io", "pkg.dev")
"""Discovery document run v2, Container.image: Docker Hub, Artifact Registry and Container Registry."""

DRIVERS = {"l4": 535, "rtx-pro-6000": 580}
"""Branch of the machines' driver, by GPU (docs.cloud.google.com/run/docs/configuring/workerpools/gpu:
"current NVIDIA driver version" 535.x.x for the L4, 580.x.x for the RTX PRO 6000)."""

GPU_SECOND_USD = {"l4": (0.0001867, 0.0002909), "rtx-pro-6000": (0.00036522, 0.00056913)}
"""USD per GPU second without and with zonal redundancy (cloud.google.com/run/pricing, as quoted in public
repositories from 2026-04-21 to 2026-10-08)."""

CPU_SECOND_USD, GIB_SECOND_USD = 0.000018, 0.000002
"""The same page: a core and a GiB, by the second."""
TIER_2, TIER_2_REGIONS = 1.2, ("asia-southeast1",)
"""The same page's dearer regions, of those with GPUs."""
MOST_OF_INSTANCE = {"l4": (8, 32)}
"""Cores and GiB of all containers of an instance (run/docs/configuring/services/cpu and memory-limits). For
the RTX PRO 6000 no limit was found."""

# Ids as public quota requests and refusals spell them (`gcloud beta quotas info describe`); the RTX PRO
# 6000 is counted in thousandths of a GPU.
GPU_QUOTAS = {
    ("l4", False): ("NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion", "GPU", 1),
    ("l4", True): ("NvidiaL4GpuAllocPerProjectRegion", "GPU", 1),
    ("rtx-pro-6000", False): ("NvidiaRtxPro6000GpuAllocNoZonalRedundancyPerProjectRegion", "milli-GPU", 1000),
    ("rtx-pro-6000", True): ("NvidiaRtxPro6000GpuAllocPerProjectRegion", "milli-GPU", 1000),
}
CPU_QUOTA, MEMORY_QUOTA = "CpuAllocPerProjectRegion", "MemAllocPerProjectRegion"
"""Checked when a service is deployed, over its most instances ("Max instances must be set to ... or
fewer")."""
