"""What Replicate allows, as numbers and names, each with where it was read.

Trap: hardware comes and goes. The list below is what had a price when it was read; whether it is still there
is asked when a deployment is made.
"""

from __future__ import annotations

MOST_MIN_INSTANCES, MOST_INSTANCES = 5, 20
"""Replicate's OpenAPI document 1.0.0-a1, deployments.create: min_instances 0 to 5, max_instances 0 to 20."""
LONGEST_PREDICTION_S = 1800
"""replicate.com/docs/topics/predictions/lifecycle: 30 minutes."""
SHORTEST_DEADLINE_S = 5
"""Of `Cancel-After`. An assumption: the least that its examples show."""
LONGEST_WAIT_S = 60
"""Of `Prefer: wait=n` (OpenAPI document, parameters_prefer_header)."""
COLD_BOOT_S = 180.0
"""An assumption: Replicate says that boots take from seconds to several minutes, by the model's size."""
DELETE_WAIT_S = 25 * 60
"""Offline and unused for 15 minutes (deployments.delete), and some more."""
POLL_S = 15.0
RETIRED = {
    "gpu-a40-small": "gpu-l40s",
    "gpu-a40-large": "gpu-l40s",
    "gpu-a40-large-2x": "gpu-l40s-2x",
    "gpu-a100": "gpu-a100-large",
    "gpu-v100": "gpu-t4",
}
"""SKUs of older lists, and what took their place."""
UTILISATION = 0.7
"""Of an instance at the planned rate: predictions that come at random wait ever longer above it."""
NAME = 63
"""Of a deployment. An assumption: a DNS label's length."""
