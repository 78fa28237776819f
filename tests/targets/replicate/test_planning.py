"""What a plan on Replicate decides without an engine of this library, and what it refuses rather than
invents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.dynamic.replicate_server import API, HARDWARE
from tests.targets.plans import codes, golden_text, refused
from tests.targets.replicate.documents import DEFAULTS, MAX, TABLE, VERSION, document

from servingstack import catalog
from servingstack.cli.graph import record
from servingstack.cli.plan_text import console, plan_view
from servingstack.component import ServingStack
from servingstack.errors import Infeasible
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets.replicate import endpoint, limits
from servingstack.targets.replicate.bodies import deployment
from servingstack.targets.replicate.section import ReplicateSection


def section(found: ServingPlan) -> ReplicateSection:
    assert found.replicate is not None
    return found.replicate


@pytest.mark.parametrize(("name", "given"), [("defaults", DEFAULTS), ("max", MAX)])
def test_the_plan_is_the_golden_one(
    name: str, given: dict[str, Any], golden: Callable[[str, str], None]
) -> None:
    golden(f"plans/replicate-{name}.json", golden_text(plan(given)))


def test_without_a_table_nothing_is_estimated_and_the_plan_says_so() -> None:
    found = plan(DEFAULTS)
    for estimate in (
        found.expected.ttft_p95_ms,
        found.expected.latency_p95_ms,
        found.expected.requests_per_s,
    ):
        assert estimate.source.startswith("none: ")
    assert "no-estimate" in codes(found)
    assert found.batching.curve == ()
    assert (section(found).min_instances, section(found).max_instances) == (1, 3)
    told = refused(document(slo={"latency_p95": "5s"}))
    assert "no engine of this library here to estimate" in told["slo.latency_p95"]
    told = refused(document(scaling={"min_replicas": None, "max_replicas": None}))
    assert {"scaling.min_replicas", "scaling.max_replicas"} == set(told)


def test_the_printed_plan_shows_no_number_that_nobody_knows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    console().print(plan_view(plan(DEFAULTS)))
    text = capsys.readouterr().out
    assert text.count("not known") == 3
    assert "utilisation, " not in text
    assert not {"Memory of each GPU", "Batching"} & set(text.splitlines())
    console().print(plan_view(plan(MAX)))
    text = capsys.readouterr().out
    assert "not known" not in text
    assert "utilisation, peak" in text


def test_a_table_counts_the_instances_and_keeps_or_refuses_a_promise() -> None:
    found = plan(MAX)
    own = section(found)
    assert found.expected.latency_p95_ms.value == 5000
    assert found.expected.requests_per_s.value == 1.5
    # 2/s and 4/s at 70 % of 1.5/s.
    assert (own.min_instances, own.max_instances) == (2, 4)
    assert own.hardware == "gpu-a100-large", "the cheapest of the GPUs that are allowed"
    with pytest.raises(Infeasible, match="latency_p95 was measured as 5000 ms") as caught:
        plan(document(MAX, slo={"latency_p95": "4s"}))
    assert caught.value.nearest[0].change == "slo.latency_p95: 5000ms"
    with pytest.raises(Infeasible, match="no tpot_p95"):
        plan(document(MAX, slo={"tpot_p95": "50ms"}))
    with pytest.raises(Infeasible, match="says nothing of 2 predictions at once; it has 4, 8"):
        plan(document(MAX, target={"replicate": {"concurrency": 2}}))


def test_no_instance_kept_is_refused_where_a_promise_is_shorter_than_a_boot() -> None:
    zero = {"min_replicas": 0, "max_replicas": 4, "scale_to_zero_after": "5m"}
    with pytest.raises(Infeasible, match="with no instance kept") as caught:
        plan(document(MAX, scaling=zero))
    month = 730 * min(row.usd_per_hour for row in catalog.prices("replicate", "gpu-a100-large"))
    assert caught.value.nearest[0].change == "scaling.min_replicas: 1"
    assert f"${month:,.0f} a month" in caught.value.nearest[0].consequence
    assert "cold-starts" in codes(plan(document(scaling=zero)))


def test_the_price_is_the_hardwares_by_the_hour() -> None:
    found = plan(DEFAULTS)
    assert found.cost.hourly_usd == 3.51
    assert found.cost.monthly_usd == pytest.approx(3.51 * 730)
    with pytest.raises(Infeasible, match="above max_hourly_cost"):
        plan(document(hardware={"max_hourly_cost": 5}))


@pytest.mark.parametrize(
    ("change", "path", "told"),
    [
        ({"target": {"replicate": {"owner": None}}}, "target.replicate.owner", "the account"),
        ({"model": {"id": "sdxl"}}, "model.id", "owner/name"),
        ({"model": {"revision": "latest"}}, "model.revision", "64 hexadecimal digits"),
        ({"model": {"revision": None}}, "model.revision", "never the latest"),
        ({"hardware": {"instance_type": "gpu-a40-large"}}, "hardware.instance_type", "use gpu-l40s"),
        ({"hardware": {"instance_type": None}}, "hardware.instance_type", "built for"),
        (
            {"hardware": {"instance_type": None, "accelerators": ["b200"]}},
            "hardware.accelerators",
            "a100-80gb",
        ),
        ({"scaling": {"min_replicas": 6, "max_replicas": 8}}, "scaling.min_replicas", "at most 5"),
        ({"scaling": {"max_replicas": 30}}, "scaling.max_replicas", "at most 20"),
        ({"request_timeout": "2s"}, "request_timeout", "Cancel-After"),
        ({"request_timeout": "1h"}, "request_timeout", "at most 1800s"),
        ({"engine": {"kind": "vllm"}}, "engine.kind", "brings its own server"),
        ({"model": {"token_secret": {"name": "hf"}}}, "model.token_secret", "brings its own server"),
        ({"labels": {"team": "ml"}}, "labels", "left out"),
        ({"exposure": "public"}, "exposure", "private"),
        ({"target": {"region": "us"}}, "target.region", ""),
        ({"scaling": {"scale_in_delay": "5m"}}, "scaling.scale_in_delay", "Replicate decides"),
    ],
)
def test_what_replicate_cannot_take_is_refused_by_its_field(
    change: dict[str, Any], path: str, told: str
) -> None:
    assert told in refused(document(DEFAULTS, **change))[path]


def test_the_bounds_and_fields_are_those_of_replicates_own_document() -> None:
    create = API["create"]["properties"]
    assert create["min_instances"]["maximum"] == limits.MOST_MIN_INSTANCES
    assert create["max_instances"]["maximum"] == limits.MOST_INSTANCES
    body = deployment(plan(DEFAULTS))
    assert set(API["create"]["required"]) <= set(body)
    for machine in catalog.instance_types("replicate", service="replicate"):
        assert machine.name in HARDWARE


def test_a_deployments_name_belongs_to_one_model() -> None:
    one, other = plan(DEFAULTS), plan(document(model={"id": "acme/other"}))
    assert section(one).name != section(other).name
    assert section(one).name.startswith("draw-")
    assert one.container.image == f"r8.im/stability-ai/sdxl@sha256:{VERSION}"


def test_callers_are_told_both_headers_in_the_forms_the_api_takes() -> None:
    import re

    found = plan(document(request_timeout="90s"))
    sent = endpoint.headers(found)
    assert re.fullmatch(API["prefer"], sent["Prefer"])
    assert sent == {"Prefer": "wait=60", "Cancel-After": "90s"}
    assert "Cancel-After: 90s" in endpoint.invoke_example(found)
    assert found.timeouts.client_s == 90
    assert "deadline-is-the-callers" in codes(found)


def test_a_check_makes_a_prediction_only_where_one_is_known_and_kept() -> None:
    assert endpoint.synthetic_check(plan(DEFAULTS)) is None
    check = endpoint.synthetic_check(plan(MAX))
    assert check is not None
    text = json.dumps(check)
    assert "credentials_file" in text
    assert "Say hello." in text


def test_nothing_is_promised_where_nothing_is_exported() -> None:
    watched = plan(MAX).monitoring
    assert watched.objectives == ()
    assert watched.alerts == ()
    assert {"alerts", "ttft_p95", "gpu_utilisation"} <= {each.signal for each in watched.unavailable}
    assert all("replicate.com/deployments/acme/" in signal.query for signal in watched.signals)


def test_the_component_registers_one_deployment_that_has_time_to_go() -> None:
    found = record(lambda: ServingStack("chat", MAX))
    (made,) = [each for each in found if each.type == "pulumi-python:dynamic/replicate:Deployment"]
    assert made.inputs["model"] == "acme/llama-8b"
    assert made.inputs["delete_wait_s"] >= 15 * 60
    assert TABLE["rows"][0]["requests_per_s"] == 1.5
