"""The pages say what the code holds, and link to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from servingstack.planner.performance import CORRECTIONS, FITTED_BAND, OTHER_BAND
from servingstack.targets.kubernetes.manifests import manifests
from servingstack.targets.kubernetes.requirements import requirements
from tests.sample import sample_plan

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_page_on_estimates_has_every_gpu_with_its_factor_and_both_bands() -> None:
    text = (ROOT / "docs" / "estimates.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([-a-z0-9]+)` \| ([0-9.]+) \|", text, flags=re.MULTILINE))
    assert listed == {
        gpu: f"{row.slower:g}" if row.slower != 1 else "1.0" for gpu, row in CORRECTIONS.items()
    }
    for band in (FITTED_BAND, OTHER_BAND):
        assert f"| ± {band:.0%}".replace("%", " %") in text


def test_the_page_on_requirements_names_all_that_a_stack_needs() -> None:
    text = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8").lower()
    for each in requirements(manifests(sample_plan())):
        assert each.name.split(",")[0].split(" ")[0].lower() in text, each.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target
