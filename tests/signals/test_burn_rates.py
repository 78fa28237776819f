"""Burn rates against sloth: the committed file is what sloth itself made of the same objectives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.sample import DOCUMENT, sample_plan
from tests.signals.promql import normal

from servingstack.signals.burn_rates import BURN_RATES
from servingstack.watched import OBJECTIVE_DAYS, Monitoring

ORACLE = Path(__file__).parents[1] / "oracles" / "sloth" / "rules.yaml"
SLO = {"availability": 99.9, "ttft_p95": "500ms", "tpot_p50": "50ms", "latency_p99": "20s"}
GENERATOR = {"sloth_mode", "sloth_version", "sloth_spec"}
"""Labels in which sloth names itself."""


@pytest.fixture(scope="module")
def monitoring() -> Monitoring:
    return sample_plan(DOCUMENT | {"slo": SLO}).monitoring


@pytest.fixture(scope="module")
def sloth() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ORACLE.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _key(name: str, labels: dict[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted((key, value) for key, value in labels.items() if key not in GENERATOR))


def test_every_recording_rule_is_the_one_sloth_makes(
    monitoring: Monitoring, sloth: list[dict[str, Any]]
) -> None:
    ours = {_key(rule.record, rule.labels): normal(rule.expression) for rule in monitoring.recording_rules}
    theirs = {
        _key(rule["record"], rule["labels"]): normal(rule["expr"]) for rule in sloth if "record" in rule
    }
    assert ours.keys() == theirs.keys()
    assert ours == theirs
    assert len(ours) == 15 * len(SLO)


def test_every_burn_alert_is_the_one_sloth_makes(monitoring: Monitoring, sloth: list[dict[str, Any]]) -> None:
    ours = {
        (alert.name, alert.severity): normal(alert.expression)
        for alert in monitoring.alerts
        if alert.name.endswith("Burn")
    }
    theirs = {
        (rule["alert"], rule["labels"]["severity"]): normal(rule["expr"]) for rule in sloth if "alert" in rule
    }
    assert ours == theirs
    assert {severity for _, severity in ours} == {"page", "ticket"}


def test_sloth_is_of_the_version_that_our_rules_name(monitoring: Monitoring) -> None:
    (version,) = {
        rule.labels["sloth_version"] for rule in monitoring.recording_rules if rule.record == "sloth_slo_info"
    }
    assert f"sloth {version} " in ORACLE.read_text(encoding="utf-8").splitlines()[0]


@pytest.mark.parametrize(("severity", "share"), [("page", (2, 5)), ("ticket", (10, 10))])
def test_a_factor_is_the_share_of_the_budget_that_goes_in_the_long_window(
    severity: str, share: tuple[int, int]
) -> None:
    hours = {"1h": 1, "6h": 6, "1d": 24, "3d": 72}
    for (_, long, factor), percent in zip(BURN_RATES[severity], share, strict=True):
        assert float(factor) == pytest.approx(percent / 100 * OBJECTIVE_DAYS * 24 / hours[long])


def test_two_stacks_of_one_name_in_two_namespaces_share_no_series() -> None:
    one = sample_plan(placement={"namespace": "a"}).monitoring
    two = sample_plan(placement={"namespace": "b"}).monitoring
    ids = [{rule.labels["sloth_id"] for rule in each.recording_rules} for each in (one, two)]
    assert not ids[0] & ids[1]
