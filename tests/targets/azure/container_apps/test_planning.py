"""What a plan on Container Apps decides, and what is refused before anything is created."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.targets.azure.container_apps.documents import DEFAULTS, MAX, document
from tests.targets.plans import codes, golden_text, refused

from servingstack import catalog
from servingstack.engines.registry import ENGINES
from servingstack.errors import Infeasible, InvalidInput
from servingstack.plan import ServingPlan
from servingstack.planner import host, plan
from servingstack.targets.azure.container_apps import limits
from servingstack.targets.azure.container_apps.app import tags
from servingstack.targets.azure.container_apps.checks import OWN_TAGS
from servingstack.targets.azure.container_apps.planning import PLANNED_SCRATCH_BYTES
from servingstack.targets.azure.container_apps.section import ContainerAppsSection

GIB = 1024**3
BIG = {"id": "meta-llama/Llama-3.1-8B-Instruct", "token_secret": {"name": "hub"}}


def section(found: ServingPlan) -> ContainerAppsSection:
    assert found.container_apps is not None
    return found.container_apps


@pytest.mark.parametrize(("name", "given"), [("defaults", DEFAULTS), ("max", MAX)])
def test_the_plan_is_the_golden_one(
    name: str, given: dict[str, Any], golden: Callable[[str, str], None]
) -> None:
    golden(f"plans/azure/container_apps-{name}.json", golden_text(plan(given), "container"))


def test_the_least_input_gives_one_warm_t4_that_only_its_environment_reaches() -> None:
    found = plan(DEFAULTS)
    own = section(found)
    assert (found.architecture.accelerator, own.workload_profile_type) == ("t4", "Consumption-GPU-NC8as-T4")
    assert found.architecture.region == "eastus"  # the only one whose price was read
    assert found.scaling.min_replicas >= 1
    assert found.timeouts.request_s == 30
    assert found.timeouts.kind == "sidecar"
    assert "front door" in found.timeouts.enforced_by
    assert (own.external, own.internal) == (False, False)
    assert found.rollout.strategy == "revision"
    assert found.rollout.max_unavailable == 0


def test_an_endpoint_that_nothing_can_reach_is_said() -> None:
    """An app that is private is called by apps of its environment, and the stack's own has none but it."""
    assert "nobody-may-call" in codes(plan(DEFAULTS))
    shared = {"own_environment": True, "workload_profile": "gpu", "own_workspace": True}
    reached: tuple[dict[str, Any], ...] = (
        document(container_apps=shared),
        document(exposure="internal", container_apps={"subnet": True}),
        document(
            exposure="public", api_key_secret={"name": "key"}, container_apps={"key_vault": "chat-vault"}
        ),
    )
    for given in reached:
        assert "nobody-may-call" not in codes(plan(given))


def test_alerts_that_reach_nobody_are_said() -> None:
    assert "alerts-reach-nobody" in codes(plan(DEFAULTS))
    heard: tuple[dict[str, Any], ...] = (
        document(container_apps={"notify_emails": ["oncall@example.com"]}),
        document(container_apps={"own_action_group": True}),
        document(observability={"alerts": False}),
    )
    for given in heard:
        assert "alerts-reach-nobody" not in codes(plan(given))


def test_every_field_that_is_given_is_in_the_plan() -> None:
    found, own = plan(MAX), section(plan(MAX))
    assert (found.architecture.accelerator, found.architecture.region) == ("a100-80gb", "swedencentral")
    assert found.architecture.weights_directory == "/models/llama-8b"
    assert (found.scaling.min_replicas, found.scaling.max_replicas) == (2, 4)
    assert (found.timeouts.request_s, found.timeouts.stream_s) == (60, 200)
    assert (own.create_resource_group, own.create_environment, own.create_workspace) == (False, True, False)
    assert (own.subnet, own.internal, own.external, own.zone_redundant) == (True, True, True, True)
    assert own.registry == "models.azurecr.io"
    assert own.share is not None
    assert (own.share.protocol, own.share.account, own.share.link) == ("nfs", "chatmodels", True)
    assert own.notify_emails == ("oncall@example.com",)
    assert found.names["resource-group"] == "serving"
    assert found.labels["team"] == "search"


def test_a_whole_profile_is_paid_for_each_replica_and_each_of_a_rollouts() -> None:
    found = plan(MAX)
    price = catalog.price("azure", "Consumption-GPU-NC24-A100", "swedencentral")
    assert price is not None
    assert found.cost.hourly_usd == pytest.approx(2 * price.usd_per_hour)
    assert found.rollout.max_surge == found.scaling.surge_replicas == 2
    assert found.cost.peak_hourly_usd == pytest.approx(6 * price.usd_per_hour)
    assert section(found).quota.startswith("6 of `Managed Environment Consumption NCA100 Gpus`")


def test_catalog_prices_are_the_sum_of_their_meters() -> None:
    for name, gpu in (("Consumption-GPU-NC8as-T4", 0.26), ("Consumption-GPU-NC24-A100", 1.90)):
        machine, price = catalog.instance_type("azure", name), catalog.price("azure", name, "eastus")
        assert machine is not None
        assert price is not None
        whole = gpu + 3600 * (machine.vcpus * 0.000024 + machine.memory_gib * 0.000003)
        assert price.usd_per_hour == pytest.approx(whole, abs=1e-4)
        assert not price.estimate


@pytest.mark.parametrize("seconds", [241, 600])
def test_a_timeout_beyond_the_ingress_own_is_refused_with_the_options_that_can(seconds: int) -> None:
    found = refused(document(request_timeout=f"{seconds}s", stream_timeout=f"{seconds}s"))
    assert "at most 240s" in found["request_timeout"]
    assert "kubernetes" in found["request_timeout"]
    assert "at most 240s" in found["stream_timeout"]


@pytest.mark.parametrize("request_s", [1, 30, 120, 239, 240])
def test_no_part_of_the_path_outlasts_the_ingress(request_s: int) -> None:
    limits_ = plan(document(request_timeout=f"{request_s}s")).timeouts
    assert limits_.stream_s <= 240
    assert limits_.queue_s + limits_.request_s <= 241
    assert limits_.drain_s < limits_.grace_s <= limits.LONGEST_GRACE_S


def test_the_shorter_stream_is_an_assumption_with_its_reason() -> None:
    (found,) = [each for each in plan(DEFAULTS).assumed if each.path == "stream_timeout"]
    assert (found.value, "240 s" in found.why) == ("240s", True)


def test_a_gpu_that_the_service_has_not_is_refused_with_those_that_it_has() -> None:
    assert (
        "a100-80gb, t4"
        in refused(document(hardware={"accelerators": ["h100-80gb"]}))["hardware.accelerators"]
    )


def test_a_region_without_the_gpu_is_refused() -> None:
    a100 = {"accelerators": ["a100-80gb"]}
    base = document(hardware=a100)
    base["target"]["region"] = "westeurope"
    assert "t4" in refused(base)["hardware.accelerators"]
    base["target"]["region"] = "norwayeast"
    found = refused(base)["target.region"]
    assert "swedencentral" in found
    assert "norwayeast" not in found


def test_two_gpus_in_one_replica_are_no_plan() -> None:
    with pytest.raises((Infeasible, InvalidInput)):
        plan(document(hardware={"gpus_per_replica": 2}))


def test_a_price_of_your_own_is_in_a_region_that_has_the_gpu() -> None:
    found = plan(document(hardware={"prices": {"t4": 1.0}, "accelerators": ["t4"]}))
    assert found.architecture.region in catalog.regions("azure", "container-apps")


def test_weights_from_the_hub_must_fit_into_a_replicas_disk_and_a_share_is_the_way_out() -> None:
    given = document(
        model=BIG, hardware={"accelerators": ["a100-80gb"]}, container_apps={"key_vault": "chat-vault"}
    )
    found = refused(given)["model.source"]
    assert "disk of 8GiB" in found
    assert "azurefile://" in found
    assert (
        plan(document(given, container_apps={"ephemeral_storage": "40GiB"})).architecture.weights_directory
        is None
    )


def test_scratch_is_the_planners_own_number_of_it() -> None:
    assert host.SCRATCH_BYTES == PLANNED_SCRATCH_BYTES
    stored = plan(DEFAULTS).architecture.disk_bytes - limits.SCRATCH_BYTES
    assert 2.8e9 < stored < 4.5e9  # 1.5 B parameters of two bytes, in whole GiB


def test_a_start_beyond_the_probes_budget_is_refused() -> None:
    """No model that fits one GPU takes two hours: the limit is lowered instead."""
    budget = limits.MOST_PROBE_FAILURES * limits.LONGEST_PROBE_PERIOD_S
    assert limits.LONGEST_START_S == budget + limits.LONGEST_INITIAL_DELAY_S == 7260
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "LONGEST_START_S", 60)
        with pytest.raises(Infeasible, match="its startup probe ends after 60 s at the latest"):
            plan(DEFAULTS)


def test_a_start_beyond_ten_minutes_is_refused_unless_it_may_be_slow() -> None:
    """The service calls a revision degraded that is not ready by then."""
    big = document(
        MAX,
        model={"id": "Qwen/Qwen2.5-32B-Instruct", "source": "azurefile://models/qwen-32b"},
        slo={"ttft_p95": "2s", "tpot_p95": "100ms"},
        traffic={"requests_per_second": 0.5, "peak_requests_per_second": 1},
    )
    with pytest.raises(Infeasible, match="calls a revision degraded") as caught:
        plan(big)
    assert any("slow_start" in each.change for each in caught.value.nearest)
    found = plan(document(big, container_apps={"slow_start": True}))
    assert found.scaling.cold_start.total_s > limits.REVISION_DEADLINE_S
    assert "revision-degraded-at-first" in codes(found)
    startup = section(found).engine_probes.startup
    assert startup.period_s * startup.failures >= found.timeouts.startup_s


@pytest.mark.parametrize("length", [1, 24, 25, 26, 31, 32, 33, 40])
def test_a_name_of_any_length_becomes_one_that_azure_takes(length: int) -> None:
    name = ("ab-" * 14)[:length].rstrip("-") or "a"
    found = plan(document(name=name)).names
    assert re.fullmatch(r"[a-z](-?[a-z0-9])+", found["app"])
    assert 2 <= len(found["app"]) <= 32
    assert 2 <= len(found["environment"]) <= 60
    assert len(found["action-group-short"]) <= 12
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", found["dashboard"])


def test_names_that_differ_at_their_end_alone_stay_apart() -> None:
    first, second = (plan(document(name=f"{'a' * 38}{end}")).names["app"] for end in ("x", "y"))
    assert first != second
    assert plan(document(name="a--b")).names["app"].startswith("a-b-")


def test_a_secret_in_plain_text_is_refused_and_not_repeated() -> None:
    key = "hf_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7"
    with pytest.raises(InvalidInput) as caught:
        plan(document(engine={"kind": "vllm", "extra_env": {"HF_TOKEN": key}}))
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "path", "said"),
    [
        ({"exposure": "public"}, "exposure", "without api_key_secret"),
        ({"exposure": "internal"}, "exposure", "subnet"),
        ({"api_key_secret": {"name": "chat"}}, "target.container_apps.key_vault", "api_key_secret"),
        (
            {"api_key_secret": {"name": "chat.key"}, "container_apps": {"key_vault": "chat-vault"}},
            "api_key_secret",
            "a name that a key vault can have",
        ),
        ({"container_apps": {"zone_redundant": True}}, "target.container_apps.zone_redundant", "subnet"),
        (
            {"container_apps": {"workload_profile": "t4"}},
            "target.container_apps.workload_profile",
            "own_environ",
        ),
        ({"container_apps": {"more_gpus": ["h100"]}}, "target.container_apps.more_gpus", "a100-80gb, t4"),
        (
            {"container_apps": {"storage_account": "chat1"}},
            "target.container_apps.storage_account",
            "azurefile",
        ),
        ({"model": {"source": "azurefile://Models/x"}}, "model.source", "lower case"),
        ({"model": {"source": "azurefile://models/x"}}, "target.container_apps.storage_account", "account"),
        ({"model": {"source": "azurefile://models/x"}}, "target.container_apps.share_protocol", "subnet"),
        ({"model": {"source": "pvc://models/x"}}, "model.source", "azurefile"),
        ({"scaling": {"queue_depth": 4}}, "scaling.queue_depth", "sees no queue"),
        ({"scaling": {"scale_in_delay": "10m"}}, "scaling.scale_in_delay", "300s"),
        ({"scaling": {"max_replicas": 1001}}, "scaling.max_replicas", "1000"),
        ({"rollout": {"surge": True}}, "rollout.surge", "beside the old one"),
        ({"hardware": {"spot": "prefer"}}, "hardware.spot", "never"),
        ({"labels": {"acme.com/team": "x"}}, "labels.acme.com/team", "tags"),
        (
            {"scaling": {"min_replicas": 0, "scale_to_zero_after": "10m", "hold": "215s"}},
            "scaling.hold",
            "holds no longer",
        ),
    ],
)
def test_what_the_service_cannot_take_is_refused_by_its_field(
    changes: dict[str, Any], path: str, said: str
) -> None:
    found = refused(document(**changes))
    assert said in found[path], found


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = refused(
        document(
            exposure="public",
            container_apps={"own_environment": True, "subnet": True},
            scaling={"queue_depth": 4},
            stream_timeout="10m",
        )
    )
    assert {
        "exposure",
        "stream_timeout",
        "scaling.queue_depth",
        "target.container_apps.subnet",
        "target.container_apps.workload_profile",
        "target.container_apps.own_workspace",
    } <= set(found)


def test_labels_that_the_stack_sets_itself_are_refused_and_not_dropped() -> None:
    given = {"Name": "mine", "component": "mine", "part-of": "mine", "managed-by": "mine", "team": "ml"}
    assert set(refused(document(labels=given))) == {f"labels.{key}" for key in given if key != "team"}
    assert set(tags(plan(DEFAULTS))) == set(OWN_TAGS)


def test_weights_on_a_share_are_read_file_by_file() -> None:
    """Engines map a checkpoint and read it piece by piece, each of which is a call to the share."""
    whole = {flag.name for flag in ENGINES["vllm"].whole_files}
    on_share, from_hub = ({flag.name for flag in plan(given).container.flags} for given in (MAX, DEFAULTS))
    assert whole
    assert whole <= on_share
    assert not whole & from_hub


def test_a_stack_sleeps_only_where_a_request_can_outwait_its_cold_start() -> None:
    resting: dict[str, Any] = {"min_replicas": 0, "scale_to_zero_after": "10m"}
    with pytest.raises(Infeasible, match="the path allows 210 s"):
        plan(document(scaling=resting))
    found = plan(document(scaling={**resting, "hold": "60s"}))
    assert (section(found).cool_down_s, found.scaling.min_replicas) == (600, 0)
    assert {"held-by-the-ingress", "hold-before-cold-start"} <= codes(found)


def test_the_threshold_is_the_rate_that_a_replica_bears() -> None:
    """The service's pages count requests of the last 15 s, divided by 15."""
    found = plan(MAX)
    told = re.search(r"at ([0-9.]+) requests a second", found.scaling.threshold_arithmetic)
    assert told is not None
    rate = float(told.group(1))
    assert section(found).concurrent_requests == int(rate) == int(found.scaling.threshold)
    assert found.scaling.counts == "per_second"


def test_a_replica_that_serves_less_than_one_request_a_second_scales_late_and_says_so() -> None:
    slow = document(traffic={"requests_per_second": 0.2, "input_tokens": 3000, "output_tokens": 1000})
    slow["request_timeout"] = "200s"
    found = plan(slow)
    assert found.expected.requests_per_s.value < 1
    assert section(found).concurrent_requests == 1
    assert "scale-rule-too-coarse" in codes(found)
    assert "scale-rule-too-coarse" not in codes(plan(MAX))


def test_a_change_of_gpu_finds_its_profile_ready_where_it_was_named_before() -> None:
    before = section(
        plan(document(hardware={"accelerators": ["t4"]}, container_apps={"more_gpus": ["a100"]}))
    )
    after = section(
        plan(document(hardware={"accelerators": ["a100-80gb"]}, container_apps={"more_gpus": ["t4"]}))
    )
    assert before.workload_profiles == after.workload_profiles
    assert (before.workload_profile, after.workload_profile) == ("gpu-t4", "gpu-a100-80gb")
    assert set(section(plan(DEFAULTS)).workload_profiles) == {"gpu-t4"}


def test_auto_on_azure_takes_container_apps_before_a_cluster_and_a_cluster_where_it_must() -> None:
    small = document()
    small["target"] = {"option": "auto", "cloud": "azure"}
    assert plan(small).architecture.option == "container-apps"
    h100 = document(
        hardware={"accelerators": ["h100-80gb"]}, model={"id": "meta-llama/Llama-3.3-70B-Instruct"}
    )
    h100["target"] = {"option": "auto", "cloud": "azure"}
    found = plan(h100)
    assert found.architecture.option == "kubernetes"
    assert any(each.option == "container-apps" and each.lost_because for each in found.alternatives)


def test_warnings_say_what_azure_must_be_told_before() -> None:
    assert {"quota", "images-from-afar"} <= codes(plan(DEFAULTS))
    assert ("estimated-price" in codes(plan(DEFAULTS)), "estimated-price" in codes(plan(MAX))) == (
        False,
        True,
    )
    assert "images-must-be-mirrored" in codes(plan(MAX))
    assert "images-from-afar" not in codes(plan(MAX))
