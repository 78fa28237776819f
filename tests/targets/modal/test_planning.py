"""What a plan on Modal decides, and what is refused before anything is deployed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.signals import promql
from tests.targets.modal.documents import DEFAULTS, MAX, document
from tests.targets.plans import codes, golden_text, refused

from servingstack import catalog
from servingstack.errors import Infeasible
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets.cold_starts import cold_share
from servingstack.targets.modal import dashboard, endpoint, limits
from servingstack.targets.modal.planning import concurrency
from servingstack.targets.modal.section import ModalSection

TO_ZERO = {"min_replicas": 0, "scale_to_zero_after": "5m"}


def section(found: ServingPlan) -> ModalSection:
    assert found.modal is not None
    return found.modal


@pytest.mark.parametrize(("name", "given"), [("defaults", DEFAULTS), ("max", MAX)])
def test_the_plan_is_the_golden_one(
    name: str, given: dict[str, Any], golden: Callable[[str, str], None]
) -> None:
    golden(f"plans/modal-{name}.json", golden_text(plan(given), "container"))


def test_the_least_input_gives_a_warm_container_behind_modals_own_token() -> None:
    found = plan(DEFAULTS)
    own = section(found)
    assert own.min_containers >= 1
    assert own.requires_proxy_auth
    assert (own.timeout_s, found.timeouts.kind) == (30, "set")
    assert "Modal" in found.timeouts.enforced_by
    assert found.scaling.counts == "in_flight"
    assert own.max_inputs > own.target_inputs > 1, "never one at a time"
    assert "reached-by-token" in codes(found)
    assert found.rollout.strategy == "revision"
    assert not own.memory_snapshot


def test_everything_that_is_given_is_in_the_plan() -> None:
    found = plan(MAX)
    own = section(found)
    assert (own.environment, own.region, own.buffer_containers) == ("prod", "eu-west", 1)
    assert own.weights_volume == "weights"
    assert found.container.model_path == "/models"
    assert own.secrets == {"chat-key": ("API_KEY",)}, "weights from a volume need no token of the hub"
    assert own.scaledown_window_s == 600
    assert not own.requires_proxy_auth
    assert own.tags == {"team": "ml", "servingstack": "chat-eu"}
    assert {"anyone-may-call", "buffer-is-paid"} <= codes(found)


def test_a_region_costs_its_multiplier() -> None:
    plain, broad = plan(DEFAULTS), plan(document(target={"region": "eu"}))
    narrow = plan(document(target={"region": "eu-west"}))
    assert section(plain).region is None
    assert section(broad).region == "eu"
    assert broad.cost.hourly_usd == pytest.approx(limits.BROAD_FACTOR * plain.cost.hourly_usd, rel=1e-3)
    assert narrow.cost.hourly_usd == pytest.approx(limits.NARROW_FACTOR * plain.cost.hourly_usd, rel=1e-3)


def test_a_containers_price_is_its_gpus_and_what_it_asks_for_beside_them() -> None:
    """H100 by the second as others read Modal's page: 0.001097 USD (api-evangelist/modal, 2026-05-08)."""
    for count in (1, 2, 8):
        row = catalog.price("modal", f"H100!:{count}", "global")
        machine = catalog.instance_type("modal", f"H100!:{count}")
        assert row is not None
        assert machine is not None
        cores, gib = machine.vcpus / 2, machine.memory_gib
        expected = 3600 * (0.001097 * count + 0.0000131 * cores + 0.00000222 * gib)
        assert row.usd_per_hour == pytest.approx(expected, rel=1e-4)


def test_modals_own_client_takes_every_gpu_of_the_catalog() -> None:
    from modal._utils.function_utils import parse_gpu_config

    for machine in catalog.instance_types("modal", service="modal"):
        parsed = parse_gpu_config(machine.name)
        assert parsed.count == machine.gpu_count <= limits.MOST_GPUS.get(machine.gpu_id, 8)
        assert parsed.gpu_type == limits.GPUS[machine.gpu_id]


def test_warm_containers_are_in_the_price_of_a_month() -> None:
    found = plan(
        document(scaling={"min_replicas": 2, "max_replicas": 3}, hardware={"accelerators": ["h100"]})
    )
    row = catalog.price("modal", "H100!:1", "global")
    assert row is not None
    assert found.cost.monthly_usd == pytest.approx(2 * 730 * row.usd_per_hour, rel=1e-3)


def test_the_idle_time_covers_a_cold_start_or_is_refused() -> None:
    """70B on two H100 with 120 s was taken away during its own start, again and again."""
    large = document(
        model={"id": "Qwen/Qwen2.5-72B-Instruct"},
        hardware={"accelerators": ["h100"]},
        slo={"ttft_p95": "5s"},
    )
    found = plan(large)
    start = found.scaling.cold_start.total_s
    assert 300 < start < section(found).scaledown_window_s <= limits.LONGEST_IDLE_S
    assert section(found).startup_timeout_s > start
    told = refused(document(large, scaling={"scale_in_delay": "2m"}))
    assert "taken away while it loads" in told["scaling.scale_in_delay"]


def test_callers_are_told_to_wait_for_one_queue_and_not_twice() -> None:
    from servingstack.targets.endpoint import wait_s
    from servingstack.targets.modal.endpoint import endpoint

    found = plan(document(scaling=TO_ZERO, slo={"latency_p95": "60s"}, traffic={"requests_per_second": 1}))
    assert found.scaling.hold_s is None
    assert wait_s(found) == found.timeouts.queue_s
    assert endpoint(found, "https://acme--chat.modal.run")["timeout"]["wait_s"] == wait_s(found)


def test_scale_to_zero_is_refused_where_a_promise_cannot_bear_it_and_says_what_would_hold() -> None:
    rare = document(scaling=TO_ZERO, slo={"latency_p95": "20s"}, traffic={"requests_per_second": 0.002})
    with pytest.raises(Infeasible, match=r"a cold start takes \d+ s, and \d+\.\d% of the requests") as caught:
        plan(rare)
    change = caught.value.nearest[0]
    assert change.change == "scaling.min_replicas: 1"
    row = min(each.usd_per_hour for each in catalog.prices("modal", "L4:1"))
    assert "$" in change.consequence
    assert row > 0
    busy = plan(document(rare, traffic={"requests_per_second": 1}))
    assert "cold-starts" in codes(busy), "rare enough to be borne, and still said"
    assert "cold-starts" not in codes(plan(DEFAULTS))


def test_the_share_of_cold_requests_is_what_a_simulation_counts() -> None:
    import random

    random.seed(7)
    rate, idle, start = 0.01, 300.0, 120.0
    cold, total, last, ready = 0, 60_000, -1e9, -1e9
    now = 0.0
    for _ in range(total):
        now += random.expovariate(rate)
        if now < ready:
            cold += 1  # waits for the container that starts
        elif now - last > idle:
            cold, ready = cold + 1, now + start
        last = max(now, ready)
    assert cold_share(rate, idle, start) == pytest.approx(cold / total, rel=0.15)
    assert cold_share(0, idle, start) == 1
    assert cold_share(10, idle, start) < 1e-9


@pytest.mark.parametrize(
    ("change", "path", "told"),
    [
        ({"request_timeout": "3m"}, "request_timeout", "at most 150s"),
        ({"stream_timeout": "10m"}, "stream_timeout", "one limit covers both"),
        ({"scaling": {"scale_in_delay": "30m"}}, "scaling.scale_in_delay", "2s to 20m"),
        ({"exposure": "public"}, "exposure", "api_key_secret"),
        ({"exposure": "internal"}, "exposure", "private, public"),
        ({"api_key_secret": {"name": "a", "key": "9x"}}, "api_key_secret.key", "name of a variable"),
        ({"labels": {"a/b": "c"}}, "labels.a/b", "Modal's tags"),
        ({"labels": {"servingstack-x": "c"}}, "labels.servingstack-x", "does not begin with"),
        ({"overrides": {"app": {"x": 1}}}, "overrides.app", "a program"),
        ({"engine": {"kind": "vllm", "extra_env": {"MODAL_X": "1"}}}, "engine.extra_env.MODAL_X", "MODAL_"),
        ({"hardware": {"spot": "only"}}, "hardware.spot", "never"),
        ({"hardware": {"accelerators": ["gb200"]}}, "hardware.accelerators", "b200"),
        ({"target": {"region": "us-east-1"}}, "target.region", "us-east"),
        ({"target": {"cloud_run": {"session_affinity": True}}}, "target.cloud_run", "left out"),
        ({"target": {"cloud": "aws"}}, "target.cloud", "modal"),
        ({"model": {"source": "pvc://weights/x"}}, "model.source", "modal://"),
    ],
)
def test_what_modal_cannot_take_is_refused_by_its_field(change: dict[str, Any], path: str, told: str) -> None:
    assert told in refused(document(DEFAULTS, **change))[path]


def test_every_problem_is_said_at_once() -> None:
    told = refused(document(stream_timeout="10m", exposure="public", labels={"a/b": "c"}))
    assert {"stream_timeout", "exposure", "labels.a/b"} <= set(told)


def test_a_vendor_beside_the_clouds_is_never_chosen_unasked() -> None:
    found = plan(document(target={"option": "auto", "cloud": "auto"}))
    options = {found.architecture.option, *(each.option for each in found.alternatives)}
    assert not options & {"modal", "replicate"}


def test_a_container_takes_a_little_more_than_the_engines_places() -> None:
    assert concurrency(64, 40.0) == (71, 40)
    assert concurrency(64, 0.4) == (71, 1)
    assert concurrency(10_000, 5000.0) == (limits.MOST_INPUTS, limits.MOST_INPUTS)


def test_queries_and_rules_are_promql_over_the_apps_own_series() -> None:
    found = plan(MAX)
    signals = [signal.query for signal in found.monitoring.signals]
    rules = [each["expr"] for each in endpoint.rules(found)["groups"][0]["rules"]]
    assert len(rules) == len(found.monitoring.alerts) >= 5
    for query in (*signals, *rules):
        for selector in promql.selectors(query):
            assert selector["app_name"] == "chat-eu"
            assert selector["environment_name"] == "prod"
    board = json.dumps(dashboard.dashboard(found))
    for signal in found.monitoring.signals:
        assert json.dumps(signal.query)[1:-1] in board, signal.id


def test_each_metric_is_one_that_modal_says_it_exports() -> None:
    """modal.com/docs/guide/otel-integration, read 2026-11."""
    exported = {
        "modal.gpu.memory.usage", "modal.gpu.compute.utilization", "modal.container.running",
        "modal.input_events.elapsed_time_us", "modal.input_events.input_queue_time_us",
        "modal.input_events.coldstart_time_us", "modal.input_events.successes",
        "modal.input_events.total_inputs", "modal.function.pending_inputs", "modal.function.running_inputs",
    }  # fmt: skip
    known = {name.replace(".", "_") for name in exported}
    found = plan(DEFAULTS)
    asked = {
        matcher.split("(_ratio")[0]
        for query in [signal.query for signal in found.monitoring.signals]
        for selector in promql.selectors(query)
        for matcher in [str(selector["__name__"] or "")]
        if matcher
    }
    names = {
        name
        for query in [signal.query for signal in found.monitoring.signals]
        for name in known
        if name in query
    }
    assert names == known
    assert asked <= known | {""}


def test_a_check_calls_only_what_is_kept_and_reads_its_token_from_files() -> None:
    found = plan(DEFAULTS)
    check = endpoint.synthetic_check(found, "https://acme--chat.modal.run")
    assert check is not None
    assert check["scrape"]["static_configs"] == [{"targets": ["https://acme--chat.modal.run/health"]}]
    assert "files" in json.dumps(check["modules"])
    assert endpoint.synthetic_check(plan(document(scaling=TO_ZERO)), "https://x") is None
    example = endpoint.invoke_example(found, "https://acme--chat.modal.run")
    assert "Modal-Key: $MODAL_KEY" in example
    assert endpoint.endpoint(plan(MAX), "https://x")["auth"] == "bearer"
