"""The rules as deployed, in promtool: each alert fires on the series it is for, and on no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.sample import DOCUMENT, sample_plan
from tests.signals.prom import promtool, rule_file, rule_test
from tests.targets.aws.sagemaker.documents import MAX, QUEUED

from servingstack.plan import ServingPlan
from servingstack.planner import plan as plan_of
from servingstack.targets.kubernetes.manifests import manifests

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
DOOR = 'namespace="serving",job="chat",pod="chat-door-1"'
ENGINES = [f'namespace="serving",job="chat-engine",pod="chat-engine-{number}"' for number in (1, 2)]
BACK, BUSY = (f'{DOOR},proxy="{proxy}"' for proxy in ("engine", "busy"))
SCALER = 'exported_namespace="serving",scaledObject="chat-scaler"'
FOREVER = 60
"""Minutes of every series. Longer windows see no more than this, and a ratio over them is the same."""


def good_series() -> dict[str, str]:
    """Two replicas under 600 requests a minute, one in ten thousand of them a server error."""
    found = {
        f"up{{{DOOR}}}": f"1x{FOREVER}",
        f"haproxy_backend_http_requests_total{{{BACK}}}": f"0+600x{FOREVER}",
        f'haproxy_backend_http_responses_total{{{BACK},code="2xx"}}': f"0+600x{FOREVER}",
        f'haproxy_backend_http_responses_total{{{BACK},code="5xx"}}': f"0+0.06x{FOREVER}",
        f"haproxy_backend_http_requests_total{{{BUSY}}}": f"0+1x{FOREVER}",
        f"haproxy_backend_current_queue{{{BACK}}}": f"3x{FOREVER}",
        f"haproxy_backend_current_sessions{{{BACK}}}": f"40x{FOREVER}",
        f"servingstack_held_requests{{{DOOR}}}": f"0x{FOREVER}",
        f"keda_scaler_detail_errors_total{{{SCALER}}}": f"0x{FOREVER}",
    }
    for engine in ENGINES:
        model = f'{engine},model_name="m",engine="0"'
        found |= {
            f"up{{{engine}}}": f"1x{FOREVER}",
            f"vllm:num_requests_running{{{model}}}": f"20x{FOREVER}",
            f"vllm:num_requests_waiting{{{model}}}": f"1x{FOREVER}",
            f"vllm:generation_tokens_total{{{model}}}": f"0+60000x{FOREVER}",
            f"vllm:num_preemptions_total{{{model}}}": f"0+1x{FOREVER}",
            f'vllm:request_success_total{{{model},finished_reason="stop"}}': f"0+300x{FOREVER}",
            f"vllm:time_to_first_token_seconds_count{{{model}}}": f"0+300x{FOREVER}",
            f'vllm:time_to_first_token_seconds_bucket{{{model},le="0.5"}}': f"0+297x{FOREVER}",
            f"vllm:request_time_per_output_token_seconds_count{{{model}}}": f"0+300x{FOREVER}",
            f'vllm:request_time_per_output_token_seconds_bucket{{{model},le="0.05"}}': f"0+297x{FOREVER}",
        }
    return found


def series(**changes: str | None) -> dict[str, str]:
    """Good series with every series of a metric changed (`__` in a name for a colon), or left out."""
    found = good_series()
    for name, values in changes.items():
        selectors = [key for key in found if key.startswith(name.replace("__", ":") + "{")]
        assert selectors, name
        for selector in selectors:
            del found[selector]
            if values is not None:
                found[selector] = values
    return found


def errors(values: str) -> dict[str, str]:
    """Good series with other server errors."""
    selector = f'haproxy_backend_http_responses_total{{{BACK},code="5xx"}}'
    return good_series() | {selector: values}


def slow(metric: str, edge: str, good: int) -> dict[str, str]:
    """Good series in which fewer of 300 requests a minute keep an objective."""
    found = good_series()
    for engine in ENGINES:
        found[f'{metric}_bucket{{{engine},model_name="m",engine="0",le="{edge}"}}'] = f"0+{good}x{FOREVER}"
    return found


NO_ENGINE = {key: value for key, value in good_series().items() if 'job="chat-engine"' not in key}
PAGE, TICKET = "ServingAvailabilityBurn page", "ServingAvailabilityBurn ticket"
TTFT, TPOT = "vllm:time_to_first_token_seconds", "vllm:request_time_per_output_token_seconds"
LATE = FOREVER - 5
CASES: dict[str, tuple[dict[str, str], dict[int, set[str]]]] = {
    "all is well": (good_series(), {10: set(), LATE: set()}),
    # 0.1 % is the budget: factors of 14.4 and 6 page, of 3 and 1 make a ticket.
    "one in ten fails": (errors(f"0+60x{FOREVER}"), {LATE: {PAGE, TICKET}}),
    "seven times the budget": (errors(f"0+4.2x{FOREVER}"), {LATE: {PAGE, TICKET}}),
    "four times the budget": (errors(f"0+2.4x{FOREVER}"), {LATE: {TICKET}}),
    "as the budget allows": (errors(f"0+0.5x{FOREVER}"), {LATE: set()}),
    # 10 % of errors for 10 minutes: the long windows still hold them, the short ones end the page.
    "a spike that ended": (errors("0x10 0+60x10 600x50"), {22: {PAGE, TICKET}, LATE: {TICKET}}),
    "one in six is late to its first token": (
        slow(TTFT, "0.5", 250),
        {LATE: {"ServingTtftP95Burn ticket"}},
    ),
    "nine in ten are late to their first token": (
        slow(TTFT, "0.5", 30),
        {LATE: {"ServingTtftP95Burn page", "ServingTtftP95Burn ticket"}},
    ),
    "tokens are slow": (
        slow(TPOT, "0.05", 30),
        {LATE: {"ServingTpotP95Burn page", "ServingTpotP95Burn ticket"}},
    ),
    # F133: green health, running requests, no tokens.
    "a replica makes no tokens": (
        good_series()
        | {f'vllm:generation_tokens_total{{{ENGINES[0]},model_name="m",engine="0"}}': f"5x{FOREVER}"},
        {30: {"ServingZombieReplica page"}},
    ),
    "no requests, no tokens": (
        series(vllm__num_requests_running=f"0x{FOREVER}", vllm__generation_tokens_total=f"5x{FOREVER}"),
        {30: set()},
    ),
    "the queue is full": (
        good_series() | {f"haproxy_backend_http_requests_total{{{BUSY}}}": f"0+60x{FOREVER}"},
        {30: {"ServingQueueFull page"}},
    ),
    "requests are thrown out of the cache": (
        series(vllm__num_preemptions_total=f"0+60x{FOREVER}"),
        {30: {"ServingKvCacheThrash ticket"}},
    ),
    # F082: KEDA would read "nothing"; someone is told instead.
    "the engine's metrics are lost": (
        NO_ENGINE,
        {
            30: {
                "ServingNoReadyReplica page",
                "ServingScalingMetricAbsent page",
                "ServingReplicasBelowMinimum ticket",
            }
        },
    ),
    "the front door is gone": (
        {key: value for key, value in good_series().items() if 'job="chat"' not in key},
        {30: {"ServingFrontDoorDown page", "ServingScalingMetricAbsent page"}},
    ),
    "one replica of two is left": (
        good_series() | {f"up{{{ENGINES[0]}}}": f"1x5 0x{FOREVER}"},
        {10: set(), 30: {"ServingReplicasBelowMinimum ticket"}},
    ),
    "the scaler cannot read its metric": (
        series(keda_scaler_detail_errors_total=f"0+1x{FOREVER}"),
        {30: {"ServingScalerErrors ticket"}},
    ),
    "all replicas there may be, and a queue": (
        series(vllm__num_requests_waiting=f"30x{FOREVER}")
        | {
            f'up{{namespace="serving",job="chat-engine",pod="chat-engine-{n}"}}': f"1x{FOREVER}"
            for n in (3, 4)
        },
        {20: set(), LATE: {"ServingReplicasAtMaximum ticket"}},
    ),
}


@pytest.fixture(scope="module")
def plan() -> ServingPlan:
    return sample_plan()


def test_promtool_takes_the_rules(plan: ServingPlan, tmp_path: Path) -> None:
    rules = rule_file(plan, tmp_path)
    count = len(plan.monitoring.recording_rules) + len(plan.monitoring.alerts)
    assert f"{count} rules found" in promtool("check", "rules", rules, cwd=tmp_path)


def test_each_alert_fires_on_its_own_series_and_on_no_other(plan: ServingPlan, tmp_path: Path) -> None:
    _run(plan, tmp_path, CASES)
    tested = {
        alert.split()[0] for _, firing in CASES.values() for alerts in firing.values() for alert in alerts
    }
    assert tested == {alert.name for alert in plan.monitoring.alerts}


def test_a_stack_at_zero_wakes_no_one_until_a_start_takes_too_long(tmp_path: Path) -> None:
    plan = sample_plan(scaling={"min_replicas": 0, "scale_to_zero_after_s": 600, "hold_s": 240})
    idle = NO_ENGINE | {
        f"haproxy_backend_http_requests_total{{{BACK}}}": f"0x20 0+600x{FOREVER}",
        f'haproxy_backend_http_responses_total{{{BACK},code="5xx"}}': f"0x{FOREVER}",
        f"haproxy_backend_http_requests_total{{{BUSY}}}": f"0x{FOREVER}",
    }
    _run(plan, tmp_path, {"asleep": (idle, {15: set(), 25: set(), 45: {"ServingNoReadyReplica page"}})})


def _run(
    plan: ServingPlan, folder: Path, cases: dict[str, tuple[dict[str, str], dict[int, set[str]]]]
) -> None:
    rules = rule_file(plan, folder)
    tests: dict[str, Any] = {
        "rule_files": [rules.name],
        "evaluation_interval": "2m",
        "tests": [rule_test(name, given, firing) for name, (given, firing) in cases.items()],
    }
    (folder / "tests.yaml").write_text(yaml.safe_dump(tests, sort_keys=False), encoding="utf-8")
    promtool("test", "rules", "tests.yaml", cwd=folder)


def test_every_alert_says_what_to_do(plan: ServingPlan) -> None:
    """No address is made up: without a base, an alert names a page that is there."""
    for alert in plan.monitoring.alerts:
        assert alert.summary, alert.name
        assert alert.severity in ("page", "ticket")
        assert (RUNBOOKS.parents[1] / alert.runbook).is_file(), alert.runbook
        assert alert.runbook_url is None
        assert alert.labels == {"namespace": "serving", "stack": "chat"}


def test_every_runbook_is_written() -> None:
    asked = DOCUMENT | {"slo": {"ttft_p95": "500ms", "tpot_p95": "50ms", "latency_p99": "30s"}}
    plans = [sample_plan(asked), *(plan_of(given) for given in (QUEUED, MAX))]
    pages = {alert.runbook for each in plans for alert in each.monitoring.alerts}
    assert pages == {f"docs/runbooks/{page.name}" for page in RUNBOOKS.glob("*.md")}


@pytest.mark.parametrize(
    ("least", "zero", "said"),
    [(1, None, "at least 3 replicas are kept"), (0, 600, "keeps the replicas that it has")],
)
def test_a_blind_scaler_is_described_as_it_behaves(least: int, zero: int | None, said: str) -> None:
    """A stack that may rest at zero has no fallback, so none is promised."""
    plan = sample_plan(scaling={"min_replicas": least, "scale_to_zero_after_s": zero, "fallback_replicas": 3})
    (alert,) = (each for each in plan.monitoring.alerts if each.name == "ServingScalingMetricAbsent")
    assert said in alert.summary
    (scaler,) = (each.body for each in manifests(plan) if each.role == "scaler")
    assert ("fallback" in scaler["spec"]) == ("3 replicas" in alert.summary)


def test_no_alert_is_on_the_memory_that_the_engine_takes_by_design(plan: ServingPlan) -> None:
    """F118."""
    assert not [alert.name for alert in plan.monitoring.alerts if "DCGM_FI_DEV_FB" in alert.expression]
    assert "gpu_memory" in {signal.id for signal in plan.monitoring.signals}


def test_alerts_can_be_routed_moved_and_turned_off() -> None:
    own = {"labels": {"team": "ml"}, "runbook_base_url": "https://wiki.example/runbooks/"}
    alerts = sample_plan(DOCUMENT | {"observability": {"alerts": own}}).monitoring.alerts
    assert {alert.labels["team"] for alert in alerts} == {"ml"}
    assert alerts[0].runbook_url == "https://wiki.example/runbooks/availability-burn.md"
    none = sample_plan(DOCUMENT | {"observability": {"alerts": None}}).monitoring
    assert not none.alerts
    assert none.recording_rules  # the dashboard shows the budget all the same
    nothing = sample_plan(DOCUMENT | {"observability": {"alerts": None, "dashboards": False}}).monitoring
    assert not nothing.recording_rules
    assert nothing.objectives


def test_a_fixed_number_of_replicas_has_no_scaler_to_watch() -> None:
    scaling = {"autoscaled": False, "min_replicas": 2, "max_replicas": 2}
    names = {alert.name for alert in sample_plan(scaling=scaling).monitoring.alerts}
    assert not names & {"ServingScalingMetricAbsent", "ServingScalerErrors", "ServingReplicasAtMaximum"}
    assert "ServingReplicasBelowMinimum" in names
