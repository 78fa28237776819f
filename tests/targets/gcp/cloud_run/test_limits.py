"""Every limit that Google's documents state, read from them."""

from __future__ import annotations

import re

from tests.targets.gcp.google_api import description, document, schema

from servingstack import catalog
from servingstack.targets.gcp.cloud_run import bodies, dashboard, limits
from servingstack.targets.gcp.cloud_run.section import CloudRunSection

RUN = "run.v2"


def _numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"\d+(?:\.\d+)?", text)]


def test_the_autoscalers_shares_are_within_what_the_api_takes() -> None:
    share = description(RUN, "GoogleCloudRunV2RevisionScaling", "concurrencyUtilization")
    cpu = description(RUN, "GoogleCloudRunV2RevisionScaling", "cpuUtilization")
    assert _numbers(share)[:2] == [limits.LEAST_UTILIZATION, limits.MOST_UTILIZATION]
    assert _numbers(cpu)[:2] == [limits.LEAST_UTILIZATION, limits.MOST_CPU_UTILIZATION]


def test_a_probes_period_is_within_the_apis_and_no_time_out_is_longer() -> None:
    text = description(RUN, "GoogleCloudRunV2Probe", "periodSeconds")
    most = re.search(r"startup probe is (\d+)", text)
    assert most is not None
    assert float(most[1]) == limits.LONGEST_PROBE_PERIOD_S
    assert bodies.PROBE_TIMEOUT_S < limits.PROBE_PERIOD_S <= limits.LONGEST_PROBE_PERIOD_S
    assert limits.LONGEST_START_S % limits.PROBE_PERIOD_S == 0


def test_names_are_within_the_services_own_lengths() -> None:
    methods = document(RUN)["resources"]["projects"]["resources"]["locations"]["resources"]["services"]
    text = methods["methods"]["create"]["parameters"]["serviceId"]["description"]
    assert "fewer than 50 characters" in text
    assert limits.SERVICE_NAME == 49
    assert "6-30 characters" in description("iam.v1", "CreateServiceAccountRequest", "accountId")
    assert limits.ACCOUNT_NAME == 30


def test_without_a_number_an_instance_would_get_80_requests() -> None:
    text = description(RUN, "GoogleCloudRunV2RevisionTemplate", "maxInstanceRequestConcurrency")
    assert "defaults to 80" in text


def test_an_instance_has_one_gpu() -> None:
    text = description(RUN, "GoogleCloudRunV2ResourceRequirements", "limits")
    assert "only supported 'nvidia.com/gpu' value is '1'" in text
    assert {row.gpu_count for row in catalog.instance_types("gcp", service="cloud-run")} == {1}


def test_the_registries_are_those_that_the_api_names() -> None:
    text = description(RUN, "GoogleCloudRunV2Container", "image")
    assert "Dockerhub, Google Artifact Registry, or Google Container Registry" in text
    assert set(limits.REGISTRIES) == {"docker.io", "pkg.dev", "gcr.io"}


def test_exposures_are_settings_that_there_are() -> None:
    ingress = schema(RUN, "GoogleCloudRunV2Service")["properties"]["ingress"]["enum"]
    egress = schema(RUN, "GoogleCloudRunV2VpcAccess")["properties"]["egress"]["enum"]
    fields = CloudRunSection.model_json_schema()["properties"]
    assert set(fields["ingress"]["enum"]) < set(ingress)
    assert set(fields["vpc_egress"]["anyOf"][0]["enum"]) < set(egress)


def test_objectives_and_dashboards_are_within_cloud_monitorings_limits() -> None:
    goal = description("monitoring.v3", "ServiceLevelObjective", "goal")
    assert _numbers(goal)[-1] == bodies.MOST_GOAL
    columns = description("monitoring.v1", "MosaicLayout", "columns")
    assert "between 1 and 48" in columns
    assert dashboard.COLUMNS == 48
    period = description("monitoring.v3", "UptimeCheckConfig", "period")
    assert f"{bodies.UPTIME_PERIOD_S}s" in period


def test_a_price_is_the_sum_of_its_gpu_its_cores_and_its_memory() -> None:
    """cloud.google.com/run/pricing: 0.000018 per vCPU second and 0.000002 per GiB second in tier 1."""
    for machine in catalog.instance_types("gcp", service="cloud-run"):
        plain, redundant = limits.GPU_SECOND_USD[machine.gpu_id]
        assert plain < redundant < 2 * plain
        second = plain + machine.vcpus * 0.000018 + machine.memory_gib * 0.000002
        for price in catalog.prices("gcp", machine.name):
            if not price.estimate:
                assert abs(price.usd_per_hour - 3600 * second) < 1e-5, price


def test_every_gpu_that_is_rented_has_its_minimum_a_driver_and_a_quota() -> None:
    """The GPU page: at least 4 CPU and 16 GiB for an L4, 20 and 80 for an RTX PRO 6000."""
    least = {"l4": (4, 16), "rtx-pro-6000": (20, 80)}
    machines = catalog.instance_types("gcp", service="cloud-run")
    assert {row.gpu_id for row in machines} == set(least) == set(limits.DRIVERS)
    for row in machines:
        assert row.vcpus >= least[row.gpu_id][0]
        assert row.memory_gib >= least[row.gpu_id][1]
        assert row.machine_type == f"nvidia-{row.gpu_id}"
        for redundant in (False, True):
            assert (row.gpu_id, redundant) in limits.GPU_QUOTAS
