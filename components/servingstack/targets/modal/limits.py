"""What Modal allows, as numbers and names, each with where it was read.

Traps:
- The idle time counts from the last request. Below the time of a cold start, a container whose callers gave
  up is taken away while it still loads, and the next request begins anew.
- A web request that takes longer than 150 s is answered with a redirect, which most clients do not follow.
- A GPU's plain name may be answered with a larger one (`H100` with an H200): `H100!` is what was planned.
"""

from __future__ import annotations

GPUS = {
    "t4": "T4",
    "l4": "L4",
    "a10": "A10",
    "l40s": "L40S",
    "a100-40gb": "A100-40GB",
    "a100-80gb": "A100-80GB",
    "rtx-pro-6000": "RTX-PRO-6000",
    "h100-80gb": "H100!",
    "h200": "H200",
    "b200": "B200",
}
"""Modal's names by GPU id (modal.com/docs/guide/gpu: `H100!` is never upgraded)."""
MOST_GPUS = {"a10": 4}
"""GPUs of a container where it is not eight (modal.com/docs/guide/gpu)."""

LONGEST_REQUEST_S = 150
"""modal.com/docs/guide/webhook-timeouts: then the answer is a 303."""
SHORTEST_IDLE_S, LONGEST_IDLE_S = 2, 1200
"""Seconds of `scaledown_window` (modal.com/docs/guide/cold-start: two seconds to twenty minutes; the client
of release 1.6.4 lets up to 3600 pass)."""
LONGEST_START_S = 86_400
"""modal.com/docs/guide/timeouts: 1 second to 24 hours."""
MOST_INPUTS = 1000
"""Requests at once in a container. An assumption: no limit is published, and no engine batches more."""
REQUESTS_PER_S = 200
"""Of a new account, over all its functions, with bursts of five seconds; more is answered 429
(modal.com/docs/guide/webhooks)."""
OBJECT_NAME = 64
"""modal 1.6.4, _utils/name_utils.py: letters, digits, `-`, `_` and `.`, at most 64, and not `ap-...` ids."""
LABEL = 63
"""A DNS label: it becomes a part of the endpoint's host name."""

ANYWHERE = "global"
"""The catalog's name for no region: Modal chooses, at the plain price."""
BROAD_FACTOR, NARROW_FACTOR = 1.5, 1.75
"""Multipliers of the price where a region is set (modal.com/docs/guide/region-selection)."""
