"""What an instance costs beyond the catalog's price for its GPU, cores and memory.

Trap: own prices (`hardware.prices`) are taken as they are, whatever they hold.
"""

from __future__ import annotations

from servingstack.args import ServingStackArgs
from servingstack.plan import Cost

from . import limits as known
from .collector import MEMORY_GIB, VCPUS


def surcharge_usd(args: ServingStackArgs, accelerator: str, region: str | None) -> float:
    """USD an hour of an instance: another zone's reserve, and the collector's core and memory."""
    own, found = args.target.cloud_run, 0.0
    if own.zonal_redundancy:
        plain, redundant = known.GPU_SECOND_USD[accelerator]
        found += 3600 * (redundant - plain)
    if own.collector_image is not None:
        tier = known.TIER_2 if region in known.TIER_2_REGIONS else 1.0
        found += 3600 * tier * (VCPUS * known.CPU_SECOND_USD + MEMORY_GIB * known.GIB_SECOND_USD)
    return found


def completed(cost: Cost, surcharge: float) -> Cost:
    """The cost with so much more an hour and instance, which has one GPU."""
    if cost.basis != "on-demand" or surcharge == 0:
        return cost
    ratio = 1 + surcharge / cost.per_gpu_hour_usd
    money = {name: value for name in Cost.model_fields if (value := _usd(cost, name)) is not None}
    return cost.model_copy(update={name: value * ratio for name, value in money.items()})


def _usd(cost: Cost, name: str) -> float | None:
    value = getattr(cost, name)
    return value if name.endswith("_usd") and isinstance(value, int | float) else None
