"""How long a replica takes from nothing to ready, part by part.

Trap: compiling and capturing graphs takes longer than reading the weights of a small model, and it is paid at
every start unless the cache is on a volume. A volume that only holds the weights does not help there: it is
read-only, and the cache stays in the pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from servingstack.plan import ColdStart
from servingstack.targets.capabilities import StartFacts

# One measured run each; github.com/kaito-project/kaito/issues/2325 and
# tensorfuse.io/docs/blogs/reducing_gpu_cold_start (Llama-3.1-8B on an L40S).
NODE_S = 284.0 + 126.0
"""KAITO: machine 284 s, its drivers 126 s."""
IMAGE_S = 101.0
"""KAITO; paid on a new node only, since images are pulled ahead on nodes that exist."""
HUB_BYTES_PER_S = 263e6
"""16.06 GB in 61 s (tensorfuse)."""
DISK_BYTES_PER_S = 487e6
"""16.06 GB in 33 s from the node's own disk (tensorfuse)."""
VOLUME_BYTES_PER_S = 335e6
"""15 GB of safetensors in 48 s from a general-purpose volume (run.ai's benchmarks of its model streamer)."""
START_S = 94.0
COMPILE_S = 10.0 + 42.0 + 54.0
"""Bytecode, compilation and graph capture of 32 layers with an empty cache."""
CACHED_START_S = 34.0
CACHED_COMPILE_S = 10.0 + 13.0 + 7.0
"""The same with the cache on a volume."""
LAYERS = 32
WARM_UP_S = 5.0


@dataclass(frozen=True, slots=True)
class Start:
    """What decides a cold start."""

    stored_bytes: int
    layers: int
    new_node: bool
    prepulled: bool
    weights_on_volume: bool
    """Whether weights outlive a pod."""
    cache_on_volume: bool
    """Whether compiled kernels do."""
    facts: StartFacts | None = None
    """Of a service that rents its own machines; None for a cluster's nodes."""


@cache
def cold_start(start: Start) -> ColdStart:
    """Seconds, part by part."""
    new_image = start.new_node or not start.prepulled
    download = 0.0 if start.weights_on_volume else start.stored_bytes / HUB_BYTES_PER_S
    boot, build = (CACHED_START_S, CACHED_COMPILE_S) if start.cache_on_volume else (START_S, COMPILE_S)
    node = NODE_S if start.new_node else 0.0
    image = IMAGE_S if new_image else 0.0
    read = VOLUME_BYTES_PER_S if start.weights_on_volume else DISK_BYTES_PER_S
    if start.facts is not None:
        node, image = start.facts.machine_s, start.facts.image_s
        if start.weights_on_volume and start.facts.weights_bytes_per_s is not None:
            read = start.facts.weights_bytes_per_s
    weights = download + start.stored_bytes / read
    engine = boot + build * start.layers / LAYERS + WARM_UP_S
    return ColdStart(
        node_s=round(node, 1),
        image_s=round(image, 1),
        weights_s=round(weights, 1),
        engine_s=round(engine, 1),
        total_s=round(node + image + weights + engine, 1),
    )
