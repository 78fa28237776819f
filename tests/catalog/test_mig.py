"""The parts that GPUs can be cut into, against NVIDIA's own configuration of its partition manager.

`mig_parted.json` holds the counts of each `all-<profile>` configuration and the `all-balanced` sets by GPU,
as they stand in NVIDIA/mig-parted; the rows of the catalog were read from elsewhere."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from servingstack import catalog
from servingstack.catalog import GIB, MigProfile
from servingstack.catalog.tables import table

MIG_PARTED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "mig_parted.json").read_text(encoding="utf-8")
)
EVERY = [profile for gpu_id in catalog.mig_gpu_ids() for profile in catalog.mig_profiles(gpu_id)]

# docs.nvidia.com/datacenter/tesla/mig-user-guide, "Supported MIG Profiles": fraction of memory and of SMs.
GUIDE = {
    "1g": ("1/8", "1/7"),
    "2g": ("2/8", "2/7"),
    "3g": ("4/8", "3/7"),
    "4g": ("4/8", "4/7"),
    "7g": ("8/8", "7/7"),
}
GUIDE_OF_FOUR = {"1g": ("1/4", "1/4"), "2g": ("2/4", "2/4"), "4g": ("4/4", "4/4")}


def _named(gpu_id: str) -> dict[str, MigProfile]:
    return {profile.name: profile for profile in catalog.mig_profiles(gpu_id)}


@pytest.mark.parametrize("profile", EVERY, ids=lambda profile: f"{profile.gpu_id}-{profile.name}")
def test_a_gpu_holds_as_many_of_a_part_as_the_partition_manager_makes(profile: MigProfile) -> None:
    counts = MIG_PARTED["alone"].get(profile.name)
    if counts is None:  # 1g.20gb and the like: twice the memory of one compute slice
        assert profile.name.startswith("1g."), profile
        assert len(profile.starts) == 4
        return
    assert len(profile.starts) == counts.get(profile.gpu_id, counts.get("any")), profile


@pytest.mark.parametrize("gpu_id", sorted(MIG_PARTED["balanced"]))
def test_the_partition_managers_mixed_set_can_be_placed(gpu_id: str) -> None:
    own = _named(gpu_id)
    assert catalog.mig_fits({own[name]: count for name, count in MIG_PARTED["balanced"][gpu_id].items()})


@pytest.mark.parametrize("profile", EVERY, ids=lambda profile: f"{profile.gpu_id}-{profile.name}")
def test_a_part_never_has_more_than_the_guides_share(profile: MigProfile) -> None:
    guide = GUIDE_OF_FOUR if profile.slices == 4 else GUIDE
    memory, compute = (Fraction(share) for share in guide[profile.name[:2]])
    whole = catalog.gpu(profile.gpu_id)
    assert profile.bandwidth_share <= float(memory)
    doubled = profile.size / profile.slices > float(memory)  # 1g with two memory slices
    assert profile.compute_share <= float(compute) * (1.4 if doubled else 1.07), "4 of 60 SMs of a 3g"
    assert profile.memory_bytes <= whole.cuda_bytes * profile.size / profile.slices * 1.02


@pytest.mark.parametrize("profile", EVERY, ids=lambda profile: f"{profile.gpu_id}-{profile.name}")
def test_a_parts_memory_is_near_what_its_name_says_and_below(profile: MigProfile) -> None:
    """The name is rounded up from gigabytes of the whole board."""
    named = int(profile.name.partition(".")[2].removesuffix("gb"))
    assert 0.85 * named * 1e9 < profile.memory_bytes <= named * GIB


def test_parts_that_add_up_are_refused_where_they_have_no_place() -> None:
    own = _named("a100-80gb")
    assert not catalog.mig_fits({own["4g.40gb"]: 1, own["1g.10gb"]: 4}), "slice 7 begins no part"
    assert catalog.mig_fits({own["4g.40gb"]: 1, own["1g.10gb"]: 3})
    assert catalog.mig_fits({own["1g.20gb"]: 3, own["1g.10gb"]: 2}), "1g.20gb can begin at slice 6"
    assert not catalog.mig_fits({own["4g.40gb"]: 2})
    assert not catalog.mig_fits({own["1g.10gb"]: 8})
    assert catalog.mig_fits({own["3g.40gb"]: 1, own["4g.40gb"]: 1})


def test_the_resource_is_named_as_the_device_plugin_names_it() -> None:
    """NVIDIA/k8s-device-plugin README: nvidia.com/mig-1g.10gb on an A100 80GB with the mixed strategy."""
    assert _named("a100-80gb")["1g.10gb"].resource == "nvidia.com/mig-1g.10gb"


def test_only_gpus_of_the_catalog_are_cut_and_the_smaller_boards_are_not() -> None:
    assert {row["gpu_id"] for row in table("mig")} <= set(catalog.gpu_ids())
    for gpu_id in ("t4", "l4", "a10", "a10g", "l40s", "v100"):
        assert catalog.mig_profiles(gpu_id) == ()
