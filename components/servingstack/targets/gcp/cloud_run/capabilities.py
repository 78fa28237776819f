"""What Cloud Run with GPUs can do for a stack.

Traps:
- An instance has one GPU, so a model that needs two cannot be served here, whatever it costs.
- It follows requests in flight per instance, as a mean over a minute, and CPU beside that: there is no
  queue to follow, and the CPU part can be set high but not switched off through the provider (`limits`).
- One time limit covers a whole answer, streamed or not.
"""

from __future__ import annotations

from servingstack.targets.capabilities import Capabilities, Directory, StartFacts

from .limits import DRIVERS, LONGEST_REQUEST_S

CAPABILITIES = Capabilities(
    option="cloud-run",
    cloud="gcp",
    service="cloud-run",
    exposures=("private", "internal", "public"),
    spot=False,
    scale_to_zero=True,
    longest_hold_s=600,  # OpenAI's own client gives up after 10 minutes (openai-python, DEFAULT_TIMEOUT)
    queue_metric="in_flight",
    scales_on="in_flight",
    timeout_enforced_by="Cloud Run (template.timeout)",
    timeout_kind="set",
    longest_request_s=LONGEST_REQUEST_S,
    door=None,
    on_kubernetes=False,
    replica_is_machine=True,
    container_share=(1.0, 1.0),
    surge="fleet",
    start=StartFacts(
        machine_s=5.0,
        image_s=2.0,
        # 16.06 GB of Llama-3.1-8B in 97 s through Cloud Storage FUSE with a cache, in order; an hour without.
        weights_bytes_per_s=166e6,
        source=(
            "cloud.google.com/run/docs/configuring/services/gpu (5 s with drivers); Google's guide to AI "
            "cold starts on Cloud Run, 2026-06 (image streaming, 1 to 2 s); "
            "github.com/marin-community/marin/pull/1208 (weights)"
        ),
    ),
    # An image's files are streamed too, so they are read in order like a bucket's.
    directories={
        "gs": Directory("/models", keeps_path=True, whole_files=True),
        "image": Directory("", in_image=True, whole_files=True),
    },
    files_in_memory=True,
    drivers=DRIVERS,
)
