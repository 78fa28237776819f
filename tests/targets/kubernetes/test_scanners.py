"""What checkov and kube-score find in the golden manifests is reviewed, and was found in today's."""

from __future__ import annotations

import fnmatch
import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "oracles" / "scanners"
REVIEWED: dict[str, list[dict[str, Any]]] = yaml.safe_load((FOLDER / "reviewed.yaml").read_text("utf-8"))
SCANS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}
every_scan = pytest.mark.parametrize("name", SCANS)


@pytest.fixture
def scanners(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool that scans; importing it runs nothing."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("scanners")


def _covers(row: dict[str, Any], check: str, where: str) -> bool:
    return row["check"] == check and any(fnmatch.fnmatchcase(where, each) for each in row["objects"])


def _found(name: str) -> list[tuple[str, str]]:
    return [(row["check"], where) for row in SCANS[name]["findings"] for where in row["objects"]]


@every_scan
def test_every_finding_is_fixed_or_stays_for_a_reason(name: str) -> None:
    open_ones = [
        each for each in _found(name) if not any(_covers(row, *each) for row in REVIEWED.get(name, []))
    ]
    assert open_ones == [], "fix it, or review it in tests/oracles/scanners/reviewed.yaml"


@every_scan
def test_no_review_outlives_its_finding(name: str) -> None:
    """A pattern that matches nothing would let the next finding of that kind through unread."""
    for row in REVIEWED.get(name, []):
        assert len(row["reason"].split()) >= 5, row
        for pattern in row["objects"]:
            only = {**row, "objects": [pattern]}
            assert any(_covers(only, *each) for each in _found(name)), (row["check"], pattern)


@every_scan
def test_what_was_scanned_is_what_is_rendered_today(name: str, scanners: ModuleType) -> None:
    today = scanners.digests(scanners.bodies())
    assert SCANS[name]["scanned"] == today, "run `make oracles` and review what it finds"
    assert SCANS[name]["version"] == scanners.SCANNERS[name][0]


def test_a_weaker_pod_is_another_digest_and_another_flag_is_not(scanners: ModuleType) -> None:
    name = "defaults.yaml Deployment/chat-engine"
    before = scanners.digests(scanners.bodies())[name]

    def after(change: Any) -> str:
        body = scanners.bodies()[name]
        change(body["spec"]["template"]["spec"]["containers"][0])
        return scanners.digests({name: body})[name]

    assert after(lambda container: container["args"].append("--max-num-seqs=1")) == before
    assert after(lambda container: container["securityContext"].update(privileged=True)) != before
    assert after(lambda container: container.pop("readinessProbe")) != before


def test_every_scanner_was_run_and_every_review_is_of_one(scanners: ModuleType) -> None:
    assert set(SCANS) == set(scanners.SCANNERS)
    assert set(REVIEWED) <= set(SCANS)
