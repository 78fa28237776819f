"""What Azure Container Apps with a GPU can do for a stack.

Trap: the service scales by requests at its ingress and knows no queue of the engine. What its pages call
concurrency is a rate: requests of the last 15 s, divided by 15 (docs scale-app.md). A threshold meant as
requests in flight would, for answers that take seconds, never be reached.
"""

from __future__ import annotations

from servingstack.targets.capabilities import Capabilities, Directory, Door, StartFacts
from servingstack.targets.haproxy import IMAGE

from .limits import LONGEST_HOLD_S, LONGEST_REQUEST_S

CAPABILITIES = Capabilities(
    option="container-apps",
    exposures=("private", "internal", "public"),
    spot=False,
    scale_to_zero=True,
    longest_hold_s=LONGEST_HOLD_S,
    queue_metric="requests_per_second",
    timeout_enforced_by="front door (HAProxy) beside each replica",
    longest_request_s=LONGEST_REQUEST_S,
    door=Door(image=IMAGE, replicas=1, port=8080, stats_port=8404),
    on_kubernetes=False,
    cloud="azure",
    service="container-apps",
    replica_is_machine=True,
    # Half a core and up to 2 GiB are the front door's: of 8 and 24 cores, 56 and 220 GiB.
    container_share=(0.9375, 0.96),
    scales_on="per_second",
    timeout_kind="sidecar",
    surge="fleet",
    start=StartFacts(
        machine_s=22,
        image_s=101,
        weights_bytes_per_s=100e6,
        source="a first replica without a GPU took 22 s (azure-container-apps issue 997; no figure with one "
        "was found); a GPU engine's image 101 s on Azure (kaito issue 2325); a small share on SSD 125 MiB/s "
        "(azure-storage-file-share, ShareCreateOptions), less what a protocol takes",
    ),
    # What an engine maps and reads piece by piece is slow on a share (vllm pull request 24469, NFS; ollama
    # issue 5826, Azure Files by NFS).
    directories={"azurefile": Directory("/models", keeps_path=True, whole_files=True)},
)
