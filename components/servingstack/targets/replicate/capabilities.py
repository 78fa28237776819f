"""What Replicate can do for a stack: it serves a version that exists there, with that model's own server.

Traps:
- There is no engine of this library, so nothing is estimated: without a measured table a latency objective is
  refused, and the numbers of instances must be given.
- A prediction's deadline is a header that each caller sends. Nobody else ends it before 30 minutes.
"""

from __future__ import annotations

from servingstack.targets.capabilities import Capabilities, StartFacts

from .limits import COLD_BOOT_S, LONGEST_PREDICTION_S

CAPABILITIES = Capabilities(
    option="replicate",
    cloud="replicate",
    service="replicate",
    exposures=("private",),
    spot=False,
    scale_to_zero=True,
    longest_hold_s=LONGEST_PREDICTION_S,
    queue_metric="queue_depth",
    timeout_enforced_by="Replicate, where the caller sends Cancel-After",
    timeout_kind="client",
    longest_request_s=LONGEST_PREDICTION_S,
    door=None,
    on_kubernetes=False,
    replica_is_machine=True,
    container_share=(1.0, 1.0),
    surge="fleet",
    start=StartFacts(
        machine_s=0.0,
        image_s=COLD_BOOT_S,
        weights_bytes_per_s=None,
        source=(
            "an assumption within what Replicate says of cold boots: seconds to several minutes "
            "(replicate.com/docs/topics/predictions/lifecycle)"
        ),
    ),
    published=True,
)
