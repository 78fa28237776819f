"""The parts that a GPU can be cut into (NVIDIA's multi-instance GPU), by GPU.

Traps:
- A part has less than its share: a seventh of an A100 has 14 of 108 multiprocessors, an eighth of an H200's
  memory is 16.0 GiB and not 17.5, and `1g.20gb` has twice the memory of `1g.10gb` but not its bandwidth.
- Not every set of parts that adds up can be made: a part begins at fixed places only, so a `4g.40gb` and four
  `1g.10gb` do not fit an A100 whose eight memory slices they would just fill.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from .records import GIB
from .tables import Row, cited, table


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One size of part of one GPU."""

    gpu_id: str
    name: str
    """As the driver and the device plugin write it: `1g.10gb`."""
    memory_bytes: int
    """Total memory of the part as CUDA and the driver report it."""
    compute_share: float
    """Its multiprocessors over the whole GPU's."""
    bandwidth_share: float
    """Its slices of the L2 cache, and with them of the memory's bandwidth, over the whole GPU's."""
    size: int
    """Memory slices that it takes."""
    slices: int
    """Memory slices of the GPU."""
    starts: tuple[int, ...]
    """Memory slices at which it can begin; their number is how many of it fit one GPU."""
    source: str
    date: str

    @property
    def resource(self) -> str:
        """The device plugin's name for it, with the `mixed` strategy."""
        return f"nvidia.com/mig-{self.name}"


def _profile(row: Row) -> MigProfile:
    return MigProfile(
        gpu_id=row["gpu_id"],
        name=row["profile"],
        memory_bytes=round(float(row["memory_gib"]) * GIB),
        compute_share=int(row["sms"]) / int(row["gpu_sms"]),
        bandwidth_share=float(Fraction(row["bandwidth_share"])),
        size=int(row["size"]),
        slices=int(row["slices"]),
        starts=tuple(int(start) for start in row["starts"].split()),
        source=cited(row["source"]),
        date=row["date"],
    )


@cache
def _by_gpu() -> Mapping[str, tuple[MigProfile, ...]]:
    found: dict[str, tuple[MigProfile, ...]] = {}
    for profile in map(_profile, table("mig")):
        found[profile.gpu_id] = (*found.get(profile.gpu_id, ()), profile)
    return found


def mig_profiles(gpu_id: str) -> tuple[MigProfile, ...]:
    """The parts that a GPU can be cut into, small to large; empty for one that cannot be cut."""
    return _by_gpu().get(gpu_id, ())


def mig_gpu_ids() -> tuple[str, ...]:
    """GPUs that can be cut."""
    return tuple(_by_gpu())


def mig_fits(parts: Mapping[MigProfile, int]) -> bool:
    """Whether one GPU can be cut into so many of each, at the places where they can begin."""
    wanted = sorted(
        (profile for profile, count in parts.items() for _ in range(count)),
        key=lambda profile: (-profile.size, len(profile.starts)),
    )
    if sum(profile.size for profile in wanted) > max((profile.slices for profile in wanted), default=0):
        return False
    return _place(wanted, frozenset())


def _place(wanted: list[MigProfile], taken: frozenset[int]) -> bool:
    if not wanted:
        return True
    first, rest = wanted[0], wanted[1:]
    for start in first.starts:
        room = frozenset(range(start, start + first.size))
        if not room & taken and _place(rest, taken | room):
            return True
    return False
