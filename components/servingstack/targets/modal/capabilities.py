"""What Modal can do for a stack.

Traps:
- An endpoint has an address that anyone can reach. What closes it is Modal's own proxy, which asks for a
  token of the workspace, so `private` here is a matter of identity and not of networks.
- The time limit is of a whole answer, streamed or not, from when a container has the request; what it waited
  before does not count.
"""

from __future__ import annotations

from servingstack.targets.capabilities import Capabilities, Directory, StartFacts

from .limits import LONGEST_REQUEST_S

CAPABILITIES = Capabilities(
    option="modal",
    cloud="modal",
    service="modal",
    exposures=("private", "public"),
    spot=False,
    scale_to_zero=True,
    longest_hold_s=LONGEST_REQUEST_S,  # later the answer is a redirect, also while a container starts
    queue_metric="in_flight",
    scales_on="in_flight",
    timeout_enforced_by="Modal (timeout of the function)",
    timeout_kind="set",
    longest_request_s=LONGEST_REQUEST_S,
    door=None,
    on_kubernetes=False,
    replica_is_machine=True,
    container_share=(1.0, 1.0),
    surge="fleet",
    start=StartFacts(
        machine_s=5.0,
        image_s=1.0,
        weights_bytes_per_s=300e6,
        source=(
            "a container boots in about 1 s with its image read as it is needed (modal.com/docs/guide/"
            "cold-start, read 2026-11), and waits for a GPU first, for which 4 s are assumed; weights from a "
            "volume at 0.16 to 0.92 GB/s as measured by others (194.7 GB and an engine's start in 1190 to "
            "1530 s on two H200, 2026-09-11; a file of 3 GB at 0.92 GB/s, 2026-06), Modal says 1 to 2; "
            "published cold starts of a 1 GiB model with an engine: 84 to 95 s without memory snapshots, 14 "
            "to 18 s with (modal.com/blog/truly-serverless-gpus)"
        ),
    ),
    directories={"modal": Directory("/models", keeps_path=True)},
    keeps_cache=True,
)
