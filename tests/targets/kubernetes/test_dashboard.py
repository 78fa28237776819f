"""The dashboard: complete, stable, within Grafana's limits, with the plan's limits as lines."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.sample import DOCUMENT, sample_plan
from tests.signals.promql import normal

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes.dashboard import UID_LIMIT, dashboard, rows, uid

ZERO = {"min_replicas": 0, "scale_to_zero_after_s": 600, "hold_s": 240}
PLANS = {
    "always on": sample_plan,
    "to zero": lambda: sample_plan(scaling=ZERO),
    "embedding": lambda: sample_plan(DOCUMENT | {"slo": {}}, architecture={"task": "embed"}),
    "no alerts": lambda: sample_plan(DOCUMENT | {"observability": {"alerts": None}}),
}


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> ServingPlan:
    return PLANS[request.param]()


def _panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def _panel(plan: ServingPlan, title: str) -> dict[str, Any]:
    (found,) = (panel for panel in _panels(dashboard(plan)) if panel["title"] == title)
    return found


def _lines(panel: dict[str, Any]) -> list[float]:
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert steps[0]["value"] is None  # Grafana's base, below every line
    return [step["value"] for step in steps[1:]]


def test_every_signal_of_the_plan_is_on_a_panel(plan: ServingPlan) -> None:
    shown = {target["expr"] for panel in _panels(dashboard(plan)) for target in panel["targets"]}
    for signal in plan.monitoring.signals:
        assert {signal.query, *signal.queries.values()} <= shown, signal.id


def test_every_query_is_promql_and_every_panel_reads_the_chosen_prometheus(plan: ServingPlan) -> None:
    board = dashboard(plan)
    (variable,) = board["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    for panel in _panels(board):
        assert panel["targets"], panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for target in panel["targets"]:
            assert normal(target["expr"])
            assert target["legendFormat"]
            assert (
                target["datasource"]
                == panel["datasource"]
                == {"type": "prometheus", "uid": f"${{{variable['name']}}}"}
            )


def test_panels_are_titled_have_units_and_do_not_overlap(plan: ServingPlan) -> None:
    board = dashboard(plan)
    assert [panel["title"] for panel in board["panels"] if panel["type"] == "row"] == [
        "Objectives",
        "Latency",
        "Batching and queue",
        "GPU",
        "Capacity and cost",
    ]
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        assert panel["title"]
        place = panel["gridPos"]
        taken = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in taken) < 24, panel["title"]
        assert not cells & taken, panel["title"]
        cells |= taken
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in _panels(board))
    assert all(panel["description"] for panel in _panels(board))


def test_ids_are_unique_and_do_not_move_when_a_panel_comes_or_goes() -> None:
    small, large = dashboard(sample_plan()), dashboard(sample_plan(scaling=ZERO))
    ids = [{panel["title"]: panel["id"] for panel in board["panels"]} for board in (small, large)]
    assert len(set(ids[0].values())) == len(small["panels"])
    assert ids[0].items() <= ids[1].items()
    assert "Activity" in ids[1].keys() - ids[0].keys()
    embedding = {panel["title"]: panel["id"] for panel in dashboard(PLANS["embedding"]())["panels"]}
    assert embedding.items() <= ids[0].items()
    assert "Tokens" in embedding
    assert "Time to first token" not in embedding


def test_the_same_plan_gives_the_same_bytes_in_another_process() -> None:
    code = (
        "import json; from tests.sample import sample_plan; "
        "from servingstack.targets.kubernetes.dashboard import dashboard; "
        "print(json.dumps(dashboard(sample_plan())))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert other.strip() == json.dumps(dashboard(sample_plan()))


@pytest.mark.parametrize("name", ["a", "chat", "x" * 40])
def test_a_uid_keeps_grafanas_limit_and_tells_namespaces_apart(name: str) -> None:
    found = {
        uid(sample_plan(DOCUMENT | {"name": name}, placement={"namespace": namespace}))
        for namespace in ("a", "b")
    }
    assert len(found) == 2
    assert all(0 < len(each) <= UID_LIMIT and each.replace("-", "").isalnum() for each in found)


def test_lines_stand_where_the_plan_has_its_limits() -> None:
    plan = sample_plan()
    assert _lines(_panel(plan, "Time to first token")) == [0.5]
    assert _lines(_panel(plan, "Time per output token")) == [0.05]
    assert _lines(_panel(plan, "Wait in the front door")) == [plan.timeouts.queue_s]
    assert _lines(_panel(plan, "Queue depth per replica")) == [plan.scaling.threshold]
    assert _lines(_panel(plan, "Ready replicas")) == [plan.scaling.min_replicas, plan.scaling.max_replicas]
    assert _lines(_panel(plan, "Cost per hour")) == [plan.cost.peak_hourly_usd]
    assert _lines(_panel(plan, "Burn rate")) == [6, 14.4]
    assert _lines(_panel(sample_plan(monitoring={"page_burn_rates": [5, 9]}), "Burn rate")) == [5, 9]
    assert _lines(_panel(plan, "Server errors and refused requests")) == [pytest.approx(0.001)]
    assert "thresholds" not in _panel(plan, "Whole request")["fieldConfig"]["defaults"]


def test_every_runbook_is_one_click_away_where_somebody_serves_it() -> None:
    served = {"alerts": {"runbook_base_url": "https://wiki.example/pages"}}
    plan = sample_plan(DOCUMENT | {"observability": served})
    assert _links(plan) == {alert.runbook_url for alert in plan.monitoring.alerts}


def test_no_panel_links_to_a_page_that_is_nowhere(plan: ServingPlan) -> None:
    assert _links(plan) == set()


def _links(plan: ServingPlan) -> set[str]:
    return {link["url"] for panel in _panels(dashboard(plan)) for link in panel.get("links", ())}


def test_every_panel_is_also_in_the_rows(plan: ServingPlan) -> None:
    titles = [panel.title for panels in rows(plan).values() for panel in panels if panel.series]
    assert titles == [panel["title"] for panel in _panels(dashboard(plan))]


def test_the_builders_are_loaded_only_when_a_dashboard_is_made() -> None:
    code = (
        "import sys; import servingstack.targets.kubernetes.dashboard; "
        "sys.exit(any(name.startswith('grafana_foundation_sdk') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
