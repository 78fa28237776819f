"""What Prometheus and Grafana are told, and that it is what the plan's queries look for."""

from __future__ import annotations

import json
import re
from typing import Any

import promql_parser
import pytest
from tests.sample import DOCUMENT, sample_plan
from tests.targets.kubernetes.bodies import PLANS, by_role, max_plan, rules

from servingstack.plan import ServingPlan

every_plan = pytest.mark.parametrize("make", PLANS.values(), ids=PLANS.keys())


def _services(plan: ServingPlan, monitor: str) -> list[str]:
    """Services that a monitor selects."""
    found = by_role(plan)
    wanted = found[monitor]["spec"]["selector"]["matchLabels"].items()
    return [
        body["metadata"]["name"]
        for body in found.values()
        if body["kind"] == "Service" and wanted <= body["metadata"]["labels"].items()
    ]


@every_plan
def test_each_monitor_selects_one_service_whose_name_is_the_job_f085(make) -> None:
    """F085: `job` is the Service's name, and all queries say it."""
    plan = make()
    assert _services(plan, "engine-monitor") == ["chat-engine"]
    assert _services(plan, "door-monitor") == ["chat"]
    assert "jobLabel" not in by_role(plan)["engine-monitor"]["spec"]
    text = json.dumps([signal.query for signal in plan.monitoring.signals])
    jobs = set(re.findall(r'[{,]job=\\"([^"\\]+)', text))
    assert jobs <= {"chat-engine", "chat"}
    assert "chat-engine" in jobs


@every_plan
def test_monitors_scrape_ports_that_their_services_have(make) -> None:
    found = by_role(make())
    for monitor, service in (("engine-monitor", "engine-service"), ("door-monitor", "service")):
        names = [port["name"] for port in found[service]["spec"]["ports"]]
        assert all(endpoint["port"] in names for endpoint in found[monitor]["spec"]["endpoints"])


@pytest.mark.parametrize(
    ("ready", "kept"),
    [
        (("true", ""), True),
        (("", "true"), True),
        (("false", ""), False),
        (("", "false"), False),
        (("", ""), False),
    ],
)
def test_only_ready_replicas_are_scraped_whatever_the_discovery(ready: tuple[str, str], kept: bool) -> None:
    """A replica that warms up has counters, and they count nowhere. Prometheus joins by `;` and anchors."""
    (endpoint,) = by_role(sample_plan())["engine-monitor"]["spec"]["endpoints"]
    (keep,) = endpoint["relabelings"]
    assert keep["action"] == "keep"
    assert keep["sourceLabels"] == [
        "__meta_kubernetes_endpoint_ready",
        "__meta_kubernetes_endpointslice_endpoint_conditions_ready",
    ]
    assert (re.fullmatch(keep["regex"], ";".join(ready)) is not None) is kept


def test_a_metrics_own_labels_never_replace_the_targets_f105() -> None:
    """F105: `pod` and `exported_pod` change places with honorLabels."""
    for role in ("engine-monitor", "door-monitor"):
        for endpoint in by_role(sample_plan())[role]["spec"]["endpoints"]:
            assert endpoint["honorLabels"] is False


def test_the_two_pages_of_the_door_do_not_write_one_up_series() -> None:
    metrics, held = by_role(sample_plan())["door-monitor"]["spec"]["endpoints"]
    assert (metrics["path"], held["path"]) == ("/metrics", "/held")
    assert "relabelings" not in metrics
    assert held["relabelings"] == [{"action": "replace", "targetLabel": "job", "replacement": "chat-held"}]
    assert held["metricRelabelings"] == [{"action": "replace", "targetLabel": "job", "replacement": "chat"}]


def test_the_operator_finds_monitors_and_rules_by_the_labels_it_is_set_to() -> None:
    for role in ("engine-monitor", "door-monitor", "rules"):
        assert by_role(sample_plan())[role]["metadata"]["labels"]["release"] == "prometheus"


@every_plan
def test_each_rule_records_or_alerts_and_its_expression_parses(make) -> None:
    body = by_role(make())["rules"]
    assert len({group["name"] for group in body["spec"]["groups"]}) == len(body["spec"]["groups"])
    for rule in rules(body):
        assert ("record" in rule) != ("alert" in rule)
        promql_parser.parse(rule["expr"])


def test_every_alert_of_the_plan_says_how_bad_and_what_to_do() -> None:
    plan = sample_plan()
    alerts = {rule["alert"]: rule for rule in rules(by_role(plan)["rules"]) if "alert" in rule}
    assert alerts.keys() == {alert.name for alert in plan.monitoring.alerts}
    for rule in alerts.values():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "runbook"}
        assert re.fullmatch(r"\d+s", rule["for"])


def test_an_alert_links_to_its_page_where_somebody_serves_it() -> None:
    served = {"alerts": {"runbook_base_url": "https://wiki.example/pages"}}
    for rule in rules(by_role(sample_plan(DOCUMENT | {"observability": served}))["rules"]):
        if "alert" in rule:
            page = rule["annotations"]["runbook"].removeprefix("docs/runbooks/")
            assert rule["annotations"]["runbook_url"] == f"https://wiki.example/pages/{page}"


def test_no_alert_is_about_gpu_memory_that_the_engine_takes_by_design_f118() -> None:
    """F118: the engine takes its share of a card at start; that says nothing of load."""
    for rule in rules(by_role(sample_plan())["rules"]):
        if "alert" in rule:
            assert "DCGM_FI_DEV_FB" not in rule["expr"]


def test_without_alerts_there_are_none_and_without_a_dashboard_there_is_none() -> None:
    quiet = sample_plan(DOCUMENT | {"observability": {"dashboards": False, "alerts": None}})
    found = by_role(quiet)
    assert not {"rules", "dashboard"} & found.keys()
    assert {"engine-monitor", "door-monitor"} <= found.keys()  # the scaler reads them


def test_the_dashboard_is_json_where_grafanas_sidecar_looks() -> None:
    body: dict[str, Any] = by_role(max_plan())["dashboard"]
    assert body["metadata"]["labels"]["grafana_dashboard"] == "1"
    (name,) = body["data"]
    assert name.endswith(".json")
    assert json.loads(body["data"][name])["panels"]
