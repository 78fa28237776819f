"""The alerts on Modal in promtool: each fires on the series it is for, and on no other.

Names of series carry the suffixes that public dashboards of Modal's export show.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.signals.prom import promtool, rule_test
from tests.targets.modal.documents import DEFAULTS, document

from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets.modal import endpoint

TRAFFIC = {"requests_per_second": 2, "peak_requests_per_second": 6}
KEPT = {"min_replicas": 2, "max_replicas": 4}
TO_ZERO = {"min_replicas": 0, "max_replicas": 4, "scale_to_zero_after": "5m"}
PAGED, TOLD = "ServingAvailabilityBurn page", "ServingAvailabilityBurn ticket"
NONE_READY, BELOW = "ServingNoReadyReplica page", "ServingReplicasBelowMinimum ticket"
FULL = "ServingReplicasAtMaximum ticket"


@pytest.fixture(scope="module")
def kept() -> ServingPlan:
    return plan(document(DEFAULTS, traffic=TRAFFIC, scaling=KEPT, observability={"alerts": {}}))


def series(
    requests: str = "120x400",
    answered: str | None = None,
    containers: int = 2,
    pending: str = "0x400",
    app: str = "chat",
) -> dict[str, str]:
    """Counts of each minute's export, containers that run, and what waits."""
    scope = f'app_name="{app}",environment_name="main"'
    found = {
        f"modal_input_events_total_inputs{{{scope}}}": requests,
        f"modal_input_events_successes{{{scope}}}": requests if answered is None else answered,
        f"modal_function_pending_inputs{{{scope}}}": pending,
    }
    for each in range(containers):
        found[f'modal_container_running_ratio{{{scope},container_id="ta-{each}"}}'] = "1x400"
    return found


def run(found: ServingPlan, folder: Path, *cases: dict[str, Any]) -> None:
    """The rules as the component hands them out, through promtool."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(endpoint.rules(found)), encoding="utf-8")
    promtool("check", "rules", "rules.yaml", cwd=folder)
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": list(cases)}
    (folder / "tests.yaml").write_text(yaml.safe_dump(tests), encoding="utf-8")
    promtool("test", "rules", "tests.yaml", cwd=folder)


def test_a_good_day_and_a_quiet_one_wake_nobody(kept: ServingPlan, tmp_path: Path) -> None:
    silent: dict[int, set[str]] = {90: set(), 390: set()}
    run(
        kept,
        tmp_path,
        rule_test("good", series(), silent),
        rule_test("quiet", series(requests="0x400"), silent),
        rule_test("a few fail", series(requests="1000x400", answered="999.9x400"), silent),
    )


def test_a_fast_burn_pages_and_a_slow_one_writes_a_ticket(kept: ServingPlan, tmp_path: Path) -> None:
    percent = kept.monitoring.objectives[0].percent
    budget = 1 - percent / 100
    fast, slow = 1000 * (1 - 20 * budget), 1000 * (1 - 2 * budget)
    run(
        kept,
        tmp_path,
        rule_test("fast", series(requests="1000x400", answered=f"{fast}x400"), {390: {PAGED, TOLD}}),
        rule_test("slow", series(requests="1000x5000", answered=f"{slow}x5000"), {4400: {TOLD, BELOW}}),
    )


def test_containers_that_are_missing_or_not_enough_are_told_apart(kept: ServingPlan, tmp_path: Path) -> None:
    run(
        kept,
        tmp_path,
        rule_test("one too few", series(containers=1), {390: {BELOW}}),
        rule_test("none, and some wait", series(containers=0, pending="3x400"), {390: {BELOW, NONE_READY}}),
        rule_test("none, and nobody asks", series(containers=0), {390: {BELOW}}),
        rule_test("the export is off", {}, {390: {BELOW}}),
        rule_test("another app of the workspace", series(app="other"), {390: {BELOW}}),
        rule_test("all of them, and requests wait", series(containers=4, pending="3x400"), {390: {FULL}}),
        rule_test("all of them, and nothing waits", series(containers=4), {390: set()}),
    )


def test_at_zero_an_empty_service_is_as_it_should_be(tmp_path: Path) -> None:
    found = plan(document(DEFAULTS, traffic=TRAFFIC, scaling=TO_ZERO, observability={"alerts": {}}))
    run(
        found,
        tmp_path,
        rule_test("at zero", series(requests="0x400", containers=0), {390: set()}),
        rule_test("cannot start", series(containers=0, pending="3x400"), {390: {NONE_READY}}),
    )
