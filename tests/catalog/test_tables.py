"""The rules that every shipped row keeps. Public price and model tables break them; see each test's name."""

from __future__ import annotations

import datetime
import re
import statistics
import subprocess
import sys
from collections import Counter

import pytest

from servingstack import catalog
from servingstack.catalog.tables import sources, table

KEYS = {
    "gpus": ("id", "form"),
    "instances": ("cloud", "instance_type"),
    "prices": ("cloud", "instance_type", "region"),
    "models": ("id",),
    "model_aliases": ("alias",),
    "mig": ("gpu_id", "profile"),
    "sources": ("key",),
}
DATED = [name for name in KEYS if name != "sources"]


@pytest.mark.parametrize("name", KEYS)
def test_no_two_rows_have_the_same_key(name: str) -> None:
    keys = Counter(tuple(row[column].lower() for column in KEYS[name]) for row in table(name))
    assert [key for key, count in keys.items() if count > 1] == []


@pytest.mark.parametrize("name", DATED)
def test_every_row_names_a_source_and_a_real_date(name: str) -> None:
    for row in table(name):
        assert sources()[row["source"]]["text"], row
        assert datetime.date(2025, 1, 1) < datetime.date.fromisoformat(row["date"]), row


def test_every_source_is_used() -> None:
    used = {row["source"] for name in DATED for row in table(name)}
    used |= {row["spot_basis"] for row in table("prices")}
    assert set(sources()) - used == set()


def test_prices_are_above_zero_and_spot_is_below_on_demand() -> None:
    """A spot price equal to the on-demand price means that the table had none."""
    assert len(catalog.prices()) > 500
    for price in catalog.prices():
        assert price.usd_per_hour > 0, price
        if price.spot_usd_per_hour is not None:
            assert 0 < price.spot_usd_per_hour < price.usd_per_hour, price
            assert price.spot_basis


def test_no_price_is_40_percent_off_its_median_over_regions() -> None:
    """Committed-use prices taken for on-demand ones, and placeholders, are that far off."""
    for machine in catalog.instance_types(service=None):
        found = catalog.prices(machine.cloud, machine.name)
        assert found, f"{machine.name} has no price"
        median = statistics.median(price.usd_per_hour for price in found)
        off = [price for price in found if abs(price.usd_per_hour / median - 1) > 0.4]
        assert off == []


def test_a_price_belongs_to_an_instance_type_and_a_model_alias_to_a_model() -> None:
    machines = {(row["cloud"], row["instance_type"]) for row in table("instances")}
    assert {(row["cloud"], row["instance_type"]) for row in table("prices")} == machines
    models = {row["id"] for row in table("models")}
    assert {row["base"] for row in table("model_aliases")} <= models
    assert {row["alias"] for row in table("model_aliases")} & models == set()


def test_machines_are_whole_gpus_of_a_known_board() -> None:
    boards = {(gpu.id, gpu.form): gpu for gpu in catalog.gpus()}
    for machine in catalog.instance_types(service=None):
        board = boards[machine.gpu_id, machine.gpu_form]
        assert machine.gpu_count >= 1
        assert machine.vcpus >= 4
        assert machine.memory_gib >= 15
        assert machine.interconnect == board.interconnect, machine


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        (r"(?:ml\.)?p\d\w*(?:-\w+)?\.(?:24|48)xlarge", 8),
        (r"(?:ml\.)?g\d\w*\.48xlarge", 8),
        (r"(?:ml\.)?g[456]\w*\.12xlarge", 4),
        (r"Standard_ND96.*", 8),
        (r"a\d-\w+-(\d+)g", None),
        (r"n1-.*\+(\d)x\w+", None),
    ],
)
def test_gpu_counts_agree_with_what_the_names_say(pattern: str, count: int | None) -> None:
    named = [
        (machine, match)
        for machine in catalog.instance_types(service=None)
        if (match := re.fullmatch(pattern, machine.name))
    ]
    assert named, pattern
    for machine, match in named:
        assert machine.gpu_count == (int(match[1]) if count is None else count), machine.name


def test_vgpu_slices_of_azure_are_left_out() -> None:
    names = [machine.name for machine in catalog.instance_types("azure", "a10")]
    assert sorted(names) == ["Standard_NV36adms_A10_v5", "Standard_NV36ads_A10_v5", "Standard_NV72ads_A10_v5"]


def test_managed_hosting_prices_are_marked_as_estimates_and_never_offered_as_machines() -> None:
    hosting = catalog.instance_types("aws", service="sagemaker-hosting")
    assert {machine.name.split(".")[0] for machine in hosting} == {"ml"}
    assert all(price.estimate for machine in hosting for price in catalog.prices("aws", machine.name))
    assert not any(machine.name.startswith("ml.") for machine in catalog.instance_types("aws"))


def test_a_price_that_was_put_together_says_so() -> None:
    price = catalog.price("gcp", "a3-megagpu-8g", "us-central1")
    assert price is not None
    assert price.estimate
    assert "assumed" in price.note


def test_importing_the_catalog_reads_no_table_and_needs_neither_pulumi_nor_pydantic() -> None:
    program = (
        "import sys, servingstack.catalog as c; from servingstack.catalog.tables import table;"
        "assert table.cache_info().currsize == 0;"
        "heavy = {'pulumi', 'pydantic', 'importlib.resources'} & set(sys.modules);"
        "assert not heavy, heavy; c.model('qwen/qwen3-8b'); c.gpu('l4');"
        "assert table.cache_info().currsize == 3"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
