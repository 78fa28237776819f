"""What a plan on Cloud Run decides, and what is refused before anything is created."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from tests.targets.gcp.cloud_run.documents import COLLECTED, COLLECTOR, DEFAULTS, IN_IMAGE, MAX, document
from tests.targets.gcp.google_api import schema
from tests.targets.plans import codes, golden_text, refused

from servingstack import catalog
from servingstack.errors import Infeasible
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets.gcp.cloud_run import limits
from servingstack.targets.gcp.cloud_run.planning import concurrency
from servingstack.targets.gcp.cloud_run.section import CloudRunSection

GIB = 1024**3


def section(found: ServingPlan) -> CloudRunSection:
    assert found.cloud_run is not None
    return found.cloud_run


@pytest.mark.parametrize(("name", "given"), [("defaults", DEFAULTS), ("max", MAX)])
def test_the_plan_is_the_golden_one(
    name: str, given: dict[str, Any], golden: Callable[[str, str], None]
) -> None:
    golden(f"plans/gcp/cloud_run-{name}.json", golden_text(plan(given), "container"))


def test_the_least_input_gives_one_warm_l4_that_nobody_outside_reaches() -> None:
    found = plan(DEFAULTS)
    own = section(found)
    assert found.architecture.accelerator == "l4"
    assert own.accelerator == "nvidia-l4"
    assert found.scaling.min_replicas >= 1
    assert found.timeouts.request_s == 30
    assert found.timeouts.kind == "set"
    assert "Cloud Run" in found.timeouts.enforced_by
    assert own.ingress == "INGRESS_TRAFFIC_INTERNAL_ONLY"
    assert own.invokers == ()
    assert "nobody-may-call" in codes(found)
    assert found.rollout.strategy == "revision"


def test_a_stack_of_one_name_in_two_regions_of_a_project_takes_no_name_twice() -> None:
    """Accounts, monitored services and secrets are the project's and not a region's."""
    changes = {
        "target": {"cloud_run": {"collector_image": COLLECTOR}},
        "name": "chat-for-the-shop",
    }
    here, there = (
        plan(document(document(**changes), target={"region": region})).names
        for region in ("us-central1", "europe-west4")
    )
    assert here["service"] == there["service"], "a service is a region's own"
    assert {"account", "monitored", "collector"} <= set(here)
    for role in set(here) - {"service"}:
        assert here[role] != there[role], role
    unasked = plan(document(document(**changes), target={"region": None}))
    region = str(unasked.architecture.region)
    assert unasked.names == plan(document(document(**changes), target={"region": region})).names
    assert len(here["account"]) <= limits.ACCOUNT_NAME


def test_the_cost_is_the_instances_price_by_the_hour() -> None:
    found = plan(DEFAULTS)
    row = catalog.price("gcp", str(found.architecture.instance_type), "us-central1")
    assert row is not None
    assert found.cost.hourly_usd == pytest.approx(found.scaling.min_replicas * row.usd_per_hour, rel=1e-4)


def test_zonal_redundancy_costs_what_the_gpus_higher_rate_adds_and_has_its_own_quota() -> None:
    plain, redundant = plan(DEFAULTS), plan(document(target={"cloud_run": {"zonal_redundancy": True}}))
    more = 3600 * (limits.GPU_SECOND_USD["l4"][1] - limits.GPU_SECOND_USD["l4"][0])
    replicas = plain.scaling.min_replicas
    assert redundant.cost.hourly_usd - plain.cost.hourly_usd == pytest.approx(more * replicas, rel=1e-3)
    assert "NoZonalRedundancy" in section(plain).quotas[0].id
    assert "NoZonalRedundancy" not in section(redundant).quotas[0].id
    assert "no-zonal-redundancy" in codes(plain)
    assert "no-zonal-redundancy" not in codes(redundant)
    with pytest.raises(Infeasible, match="an instance for zonal redundancy"):
        plan(
            document(
                target={"cloud_run": {"zonal_redundancy": True}},
                hardware={"max_hourly_cost": plain.cost.peak_hourly_usd + 0.01},
            )
        )


def test_the_quotas_are_those_of_the_peak_with_a_whole_new_revision_beside_it_f092() -> None:
    found = plan(MAX)
    most = found.scaling.max_replicas + found.scaling.surge_replicas
    assert found.scaling.surge_replicas >= found.scaling.min_replicas
    needed = {quota.id: quota.needed for quota in section(found).quotas}
    assert needed == {
        "NvidiaRtxPro6000GpuAllocPerProjectRegion": most * 1000,
        "CpuAllocPerProjectRegion": most * 20 * 1000,
        "MemAllocPerProjectRegion": most * 80 * GIB,
    }
    (warning,) = [each for each in found.warnings if each.code == "quota"]
    for name, amount in needed.items():
        assert f"{name} {amount}" in warning.message


def test_what_is_downloaded_needs_the_memory_of_a_larger_instance() -> None:
    """The file system of an instance is memory: the same model fits a small one from a bucket alone."""
    bucket = plan(DEFAULTS)
    hub = plan(document(model={"source": "hf"}))
    assert section(bucket).memory_gib == 16
    assert section(hub).memory_gib == 32
    for found in (bucket, hub):
        assert section(found).memory_needed_bytes <= section(found).memory_gib * GIB
    more = section(hub).memory_needed_bytes - section(bucket).memory_needed_bytes
    # The weights of 7.6 billion parameters at 16 bits, less the one file that is read whole from a bucket.
    assert more >= 15e9 - 5 * GIB


def test_a_model_that_needs_two_gpus_is_refused_f094() -> None:
    for field in (
        {"hardware": {"gpus_per_replica": 2}},
        {"engine": {"kind": "vllm", "tensor_parallel_size": 2}},
    ):
        ((_, text),) = refused(document(**field)).items()
        assert "one GPU" in text
    with pytest.raises(Infeasible, match=r"memory|GPU"):
        plan(document(model={"id": "meta-llama/Llama-3.1-70B-Instruct", "precision": "bf16"}))


def test_a_region_without_the_gpu_is_refused_with_those_that_have_it_f124() -> None:
    given = document(target={"region": "us-east4"}, hardware={"accelerators": ["rtx-pro-6000"]})
    text = refused(given)["target.region"]
    assert "us-central1" in text
    assert "europe-west4" in text
    assert "us-east4" not in text
    assert "us-east4" in refused(document(target={"region": "europe-north1"}))["target.region"]


def test_a_gpu_that_cloud_run_has_not_is_refused_by_name() -> None:
    text = refused(document(hardware={"accelerators": ["h100"]}))["hardware.accelerators"]
    assert "l4" in text


def test_a_start_beyond_the_probes_limit_is_refused_with_what_would_help_f090() -> None:
    """A bucket is read at 166 MB/s: 70 GB take seven minutes, so only a larger model fails."""
    from servingstack.targets.gcp.cloud_run.planning import _timeouts

    draft = plan(DEFAULTS)
    slow = draft.scaling.cold_start.model_copy(update={"weights_s": 1700.0, "total_s": 1900.0})
    late = draft.model_copy(update={"scaling": draft.scaling.model_copy(update={"cold_start": slow})})
    with pytest.raises(Infeasible, match="1800 s") as caught:
        _timeouts(late)
    assert any("gs://" in each.change for each in caught.value.nearest)
    assert any("precision" in each.change for each in caught.value.nearest)


def test_no_plan_starts_later_than_cloud_run_waits() -> None:
    for given in (DEFAULTS, MAX, document(model={"source": "hf"})):
        assert plan(given).timeouts.startup_s <= limits.LONGEST_START_S


def test_a_timeout_beyond_an_hour_is_refused() -> None:
    assert "3600" in refused(document(request_timeout="2h"))["request_timeout"]
    assert plan(document(request_timeout="1h")).timeouts.request_s == 3600


def test_a_stream_has_no_limit_of_its_own() -> None:
    text = refused(document(stream_timeout="10m"))["stream_timeout"]
    assert "request_timeout" in text
    found = plan(DEFAULTS)
    assert found.timeouts.stream_s == found.timeouts.request_s
    assert "stream-ends-at-request-timeout" in codes(found)


def test_a_batch_beyond_what_an_instance_receives_is_refused() -> None:
    text = refused(document(engine={"kind": "vllm", "max_num_seqs": 1001}))["engine.max_num_seqs"]
    assert "1000" in text


@pytest.mark.parametrize("places", [1, 4, 57, 256, 910, 1000])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_concurrency_is_within_the_limits_and_scales_at_the_planned_number(places: int, share: float) -> None:
    in_flight = max(1, int(places * share))
    most, utilization = concurrency(places, in_flight)
    assert 1 <= most <= limits.LARGEST_CONCURRENCY
    assert limits.LEAST_UTILIZATION <= utilization <= limits.MOST_UTILIZATION
    assert utilization * most <= in_flight + 0.51
    assert most >= in_flight


def test_the_hub_token_is_a_reference_and_never_a_text() -> None:
    given = document(model={"token_secret": "hf_" + "x" * 34})
    assert any("token_secret" in path for path in refused(given))
    text = refused(document(api_key_secret={"name": "key", "key": "password"}))["api_key_secret.key"]
    assert "version" in text
    versions = section(plan(MAX)).secrets
    assert versions["HF_TOKEN"].version == "3"
    assert versions["VLLM_API_KEY"].version == "latest"


def test_public_is_said_twice_on_purpose() -> None:
    path = "target.cloud_run.invokers"
    assert "member" in refused(document(exposure="public"))[path]
    anyone = {"cloud_run": {"invokers": ["allUsers"]}}
    assert "api_key_secret" in refused(document(exposure="public", target=anyone))[path]
    assert path in refused(document(target=anyone, api_key_secret={"name": "key"}))
    found = plan(document(exposure="public", target=anyone, api_key_secret={"name": "key"}))
    assert "anyone-may-call" in codes(found)
    assert "nobody-may-call" not in codes(found)


def test_an_uptime_check_that_can_reach_nothing_or_keeps_a_sleeper_awake_is_refused() -> None:
    path, check = "target.cloud_run.uptime_check", {"cloud_run": {"uptime_check": True}}
    for exposure in ("private", "internal"):
        assert "exposure: public" in refused(document(exposure=exposure, target=check))[path]
    to_zero = {"min_replicas": 0, "scale_to_zero_after": "10m"}
    public = document(MAX, scaling={"max_replicas": 4, **to_zero})
    assert "keep an instance" in refused(public)[path]


def test_an_uptime_check_pages_where_it_is_on() -> None:
    named = {alert.name: alert for alert in plan(MAX).monitoring.alerts}
    assert named["ServingUnreachable"].severity == "page"
    off = plan(document(MAX, target={"cloud_run": {"uptime_check": False}}))
    for found in (plan(DEFAULTS), off):
        assert "ServingUnreachable" not in {alert.name for alert in found.monitoring.alerts}


def test_labels_that_the_stack_sets_itself_are_refused_and_not_dropped() -> None:
    own = dict.fromkeys(("stack", "component", "part-of", "managed-by"), "mine")
    alerts = {"alerts": {"labels": {"severity": "low"}}}
    found = refused(document(labels={**own, "team": "ml"}, observability=alerts))
    assert set(found) == {f"labels.{key}" for key in own} | {"observability.alerts.labels.severity"}
    assert set(own) <= set(section(plan(DEFAULTS)).labels)


def test_more_labels_than_a_resource_takes_are_refused() -> None:
    described = schema("monitoring.v3", "AlertPolicy")["properties"]["userLabels"]["description"]
    assert f"up to {limits.MOST_LABELS} entries" in described
    assert "labels" in refused(document(labels={f"k{index}": "v" for index in range(70)}))
    most = {f"k{index}": "v" for index in range(59)}
    assert len(section(plan(document(labels=most))).labels) == 63  # and the severity of a policy
    assert "labels" in refused(document(labels={**most, "one-more": "v"}))
    alerts = {"alerts": {"labels": {"one_more": "v"}}}
    assert "labels" in refused(document(labels=most, observability=alerts))


def test_a_bucket_that_cannot_exist_is_refused() -> None:
    for bucket in ("A:B_c", "My-Models", "ab", "models-", "goog-models", "a" * 64):
        assert "bucket" in refused(document(model={"source": f"gs://{bucket}/qwen"}))["model.source"]
    for bucket in ("models", "acme.example.com", "my_models-2", "a" * 63):
        assert section(plan(document(model={"source": f"gs://{bucket}/qwen"}))).bucket == bucket


def test_an_idle_time_that_cannot_be_set_is_refused() -> None:
    text = refused(document(scaling={"min_replicas": 0, "scale_to_zero_after": "5m"}))[
        "scaling.scale_to_zero_after"
    ]
    assert "10m" in text
    found = plan(document(scaling={"min_replicas": 0, "scale_to_zero_after": "10m"}))
    assert found.scaling.min_replicas == 0
    assert found.scaling.scale_to_zero_after_s == 600


def test_a_request_is_held_as_long_as_cloud_run_holds_it() -> None:
    to_zero = {"min_replicas": 0, "scale_to_zero_after": "10m"}
    found = plan(document(scaling=to_zero))
    held = math.ceil(limits.PENDING_STARTS * found.scaling.cold_start.total_s)
    assert found.timeouts.queue_s == held
    assert found.scaling.hold_s is None  # else it would be waited for twice
    assert {each.path: each.value for each in found.assumed}["scaling.hold"] == f"{held}s"
    assert "scaling.hold" in refused(document(scaling={**to_zero, "hold": "5m"}))


def test_what_cloud_run_sets_itself_is_refused() -> None:
    found = refused(
        document(
            scaling={"scale_in_delay": "5m"},
            rollout={"surge": True},
            engine={"kind": "vllm", "extra_env": {"PORT": "9000"}},
            labels={"example.com/team": "ml"},
        )
    )
    assert set(found) == {
        "scaling.scale_in_delay",
        "rollout.surge",
        "engine.extra_env.PORT",
        "labels.example.com/team",
    }


def test_a_collector_is_paid_for_and_counts_in_the_quotas() -> None:
    plain, found = plan(DEFAULTS), plan(document(target=COLLECTED["target"]))
    assert found.cost.per_gpu_hour_usd - plain.cost.per_gpu_hour_usd == pytest.approx(3600 * 0.00002)
    cores = [
        next(quota.needed for quota in section(each).quotas if quota.unit == "milli-vCPU")
        for each in (plain, found)
    ]
    assert cores[1] * 4 == cores[0] * 5
    assert "collector-writes-for-the-project" in codes(found)
    far = plan(document(target={**COLLECTED["target"], "region": "asia-southeast1"}))
    near = plan(document(target={"region": "asia-southeast1"}))
    assert far.cost.per_gpu_hour_usd - near.cost.per_gpu_hour_usd == pytest.approx(3600 * 0.000024)


def test_a_collector_that_an_instance_has_no_room_for_is_refused() -> None:
    with pytest.raises(Infeasible, match="an instance has at most 8 cores and 32 GiB"):
        plan(document(target=COLLECTED["target"], hardware={"instance_type": "nvidia-l4+8cpu-32gib"}))


def test_a_collector_is_named_by_digest() -> None:
    image = "us-docker.pkg.dev/cloud-ops-agents-artifacts/cloud-run-gmp-sidecar/sidecar:1.7.0"
    assert "target.cloud_run.collector_image" in refused(
        document(target={"cloud_run": {"collector_image": image}})
    )


def test_an_image_from_elsewhere_needs_a_mirror() -> None:
    image = "ghcr.io/acme/engine:v0.30.0@sha256:" + "a" * 64
    engine = {"kind": "vllm", "image": image}
    assert "image_repository" in refused(document(engine=engine))["engine.image"]
    mirror = {"cloud_run": {"image_repository": "us-central1-docker.pkg.dev/acme/hub"}}
    found = section(plan(document(engine=engine, target=mirror)))
    assert found.image.startswith("us-central1-docker.pkg.dev/acme/hub/acme/engine")
    assert found.image.endswith("a" * 64)


def test_an_l4s_driver_gets_the_images_own_cuda_libraries_and_the_plan_says_so() -> None:
    """The pinned image is CUDA 13, and Cloud Run's L4s have driver 535."""
    found = plan(DEFAULTS)
    assert "older-driver" in codes(found)
    env = {each.name: each.value for each in found.container.env}
    assert env["VLLM_ENABLE_CUDA_COMPATIBILITY"] == "1"
    newer = plan(document(hardware={"accelerators": ["rtx-pro-6000"]}))
    assert "older-driver" not in codes(newer)
    assert "VLLM_ENABLE_CUDA_COMPATIBILITY" not in {each.name for each in newer.container.env}


def test_weights_in_the_image_need_an_image_of_ones_own() -> None:
    assert (
        "has the weights of image://models/qwen"
        in refused(document(model={"source": "image://models/qwen"}))["engine.image"]
    )
    found = plan(document(**IN_IMAGE))
    assert found.architecture.weights_directory == "/models/qwen"
    assert section(found).bucket is section(found).mount_path is None
    assert found.architecture.disk_bytes == plan(DEFAULTS).architecture.disk_bytes  # nothing is downloaded
    assert "large-image" in codes(found)
    small = document(**{**IN_IMAGE, "model": {"id": "Qwen/Qwen2.5-1.5B-Instruct", **IN_IMAGE["model"]}})
    assert "large-image" not in codes(plan(small))


def test_a_volume_of_another_service_is_refused() -> None:
    assert "model.source" in refused(document(model={"source": "pvc://models/qwen"}))


def test_settings_of_cloud_run_are_refused_elsewhere() -> None:
    given = {**DEFAULTS, "model": {"id": "Qwen/Qwen2.5-7B-Instruct"}}
    given["target"] = {"option": "kubernetes", "cloud_run": {"session_affinity": True}}
    assert "target.cloud_run" in refused(given)


def test_a_single_instance_with_a_promise_is_said_to_have_gaps_f094() -> None:
    low = document(scaling={"min_replicas": 1, "max_replicas": 1}, traffic={"requests_per_second": 0.2})
    assert "one-instance" in codes(plan(low))
    assert "one-instance" not in codes(plan(document(scaling={"min_replicas": 2, "max_replicas": 3})))


def test_every_violation_is_named_at_once() -> None:
    found = refused(
        document(
            exposure="public",
            stream_timeout="10m",
            hardware={"gpus_per_replica": 4},
            scaling={"scale_in_delay": "10m"},
        )
    )
    assert len(found) == 4


def test_an_objective_that_nobody_measures_here_is_said() -> None:
    found = plan(document(slo={"ttft_p95": "2s", "latency_p95": "30s"}))
    assert [each.path for each in found.warnings if each.code == "slo-not-measured"] == ["slo.ttft_p95"]
    assert [each.id for each in found.monitoring.objectives] == ["availability", "latency_p95"]


def test_nothing_is_assumed_that_cloud_run_does_otherwise() -> None:
    assumed = {each.path: each for each in plan(DEFAULTS).assumed}
    assert not {"scaling.scale_in_delay", "rollout.surge", "hardware.nodes"} & assumed.keys()
    assert not any(path.startswith("target.kubernetes") for path in assumed)
    assert assumed["stream_timeout"].value == f"{plan(DEFAULTS).timeouts.request_s}s"
    assert "cluster" not in assumed["exposure"].why


def test_scaling_is_said_honestly() -> None:
    found = plan(DEFAULTS)
    assert found.scaling.metric == "in_flight"
    (warning,) = [each for each in found.warnings if each.code == "cpu-scales-too"]
    assert "90%" in warning.message


def test_nothing_of_the_plan_depends_on_the_region_that_was_not_asked_for() -> None:
    given = {**DEFAULTS, "target": {"option": "cloud-run"}}
    found = plan(given)
    assert found.architecture.region in catalog.regions("gcp", "cloud-run")
    assert found.architecture.cloud == "gcp"
