"""What a cluster that one already has can do for a stack.

Trap: holding a request longer than its client waits only fills the queue, so the longest hold is a limit of
the path, not of the proxy.
"""

from __future__ import annotations

from servingstack.targets.capabilities import Capabilities, Directory, Door

from .front_door import IMAGE

CAPABILITIES = Capabilities(
    option="kubernetes",
    exposures=("private",),
    spot=False,
    scale_to_zero=True,
    longest_hold_s=600,  # OpenAI's own client gives up after 10 minutes (openai-python, DEFAULT_TIMEOUT)
    queue_metric="queue_depth",
    timeout_enforced_by="front door (HAProxy)",
    # The proxies keep each request while they drain, and HAProxy's timers end at 24.8 days (2^31 ms).
    longest_request_s=3600,
    door=Door(image=IMAGE, replicas=2, port=8080, stats_port=8404),
    on_kubernetes=True,
    directories={"pvc": Directory("/models", keeps_path=True)},
)
