"""What is registered, held against Google's discovery documents; and what each value must be for what
reason."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
from tests.engines import triton_documents
from tests.recorder import Run, record
from tests.targets.gcp.cloud_run.documents import COLLECTED, DEFAULTS, EXISTING, IN_IMAGE, MAX, document
from tests.targets.gcp.google_api import MESSAGES, problems, schema, translated, unsealed

from servingstack.component import ServingStack
from servingstack.plan import ServingPlan
from servingstack.planner import plan

SERVICE = "gcp:cloudrunv2/service:Service"
UPTIME = "gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig"
POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
PUBLIC: dict[str, Any] = {
    "exposure": "public",
    "target": {"cloud_run": {"invokers": ["serviceAccount:a@b.iam.gserviceaccount.com"]}},
}
DIGITS = {"name": "X", "data_type": "TYPE_FP32", "dims": [4]}
TRITON = {
    **triton_documents.document(
        triton_documents.model(input=[{"name": "X", "data_type": "TYPE_FP32", "dims": [4]}])
    ),
    "name": "ranker",
    "target": {
        "option": "cloud-run",
        "cloud_run": {"image_repository": "us-central1-docker.pkg.dev/acme/hub"},
    },
    "hardware": {"accelerators": ["rtx-pro-6000"]},
}
TRITON["model"] = {**TRITON["model"], "source": "gs://models/repository"}
CASES = {
    "defaults": (DEFAULTS, None),
    "max": (MAX, EXISTING),
    "to-zero": (document(scaling={"min_replicas": 0, "scale_to_zero_after": "10m"}), None),
    "hub": (document(model={"id": "Qwen/Qwen2.5-1.5B-Instruct", "source": "hf"}), {"project": "acme"}),
    "reads-itself": (TRITON, None),
    "in-image": (document(**IN_IMAGE), None),
    "collected": (document(**COLLECTED), {"project": "acme"}),
    "quiet": (document(observability={"alerts": False, "dashboards": False}), None),
}


OUTPUTS: dict[str, dict[str, Any]] = {
    "gcp:serviceaccount/account:Account": {
        "email": "x@acme.iam.gserviceaccount.com",
        "member": "serviceAccount:x@acme.iam.gserviceaccount.com",
    },
    SERVICE: {"uri": "https://chat-abc-uc.a.run.app"},
}
"""What only Google knows of a resource."""


def run_of(given: dict[str, Any], existing: dict[str, Any] | None = None, *, preview: bool = False) -> Run:
    """What a program with this stack registers."""
    return record(lambda: ServingStack("stack", given, existing=existing), preview=preview, outputs=OUTPUTS)


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: run_of(*case) for name, case in CASES.items()}


def service_of(run: Run) -> dict[str, Any]:
    (found,) = run.of_type(SERVICE)
    return translated(SERVICE, found.inputs)


@pytest.mark.parametrize("name", CASES)
def test_every_body_is_what_googles_api_takes(runs: dict[str, Run], name: str) -> None:
    seen = [each for each in runs[name].resources if each.type.startswith("gcp:")]
    assert {each.type for each in seen} <= set(MESSAGES)
    for each in seen:
        api, message = MESSAGES[each.type]
        assert problems(api, message, translated(each.type, each.inputs)) == [], each.name


def test_the_checker_sees_what_is_wrong(runs: dict[str, Run]) -> None:
    """Each kind of mistake once: else an empty list above proves nothing."""
    body = service_of(runs["max"])
    body["template"]["containers"][0]["imge"] = "x"
    body["template"]["timeout"] = "two minutes"
    body["ingress"] = "INGRESS_TRAFFIC_EVERYONE"
    body["uri"] = "https://x"
    body["template"]["scaling"]["maxInstanceCount"] = "4"
    body["template"]["nodeSelector"] = {}
    found = "\n".join(problems("run.v2", "GoogleCloudRunV2Service", body))
    for part in (
        "imge",
        "google-duration",
        "EVERYONE",
        "uri: only the service",
        "'4'",
        "accelerator: required",
    ):
        assert part in found, part


def test_a_gpu_takes_cores_that_are_never_idle_and_the_second_generation_f094(runs: dict[str, Run]) -> None:
    template = service_of(runs["defaults"])["template"]
    resources = template["containers"][0]["resources"]
    assert resources["cpuIdle"] is False
    assert resources["limits"]["nvidia.com/gpu"] == "1"
    assert template["nodeSelector"] == {"accelerator": "nvidia-l4"}
    assert template["executionEnvironment"] == "EXECUTION_ENVIRONMENT_GEN2"


def test_concurrency_follows_the_batch_and_never_the_default(runs: dict[str, Run]) -> None:
    for name in ("defaults", "max"):
        planned, template = plan(CASES[name][0]), service_of(runs[name])["template"]
        most = template["maxInstanceRequestConcurrency"]
        assert planned.batching.max_num_seqs < most <= 1.1 * planned.batching.max_num_seqs + 1
        share = template["scaling"]["concurrencyUtilization"]
        assert abs(share * most - planned.scaling.threshold) <= 0.06 * planned.scaling.threshold


def test_an_instance_starts_within_the_probe_and_is_asked_on_the_launchers_port_f090(
    runs: dict[str, Run],
) -> None:
    for name in ("defaults", "max"):
        planned, container = plan(CASES[name][0]), service_of(runs[name])["template"]["containers"][0]
        probe = container["startupProbe"]
        budget = probe["periodSeconds"] * probe["failureThreshold"]
        cold = planned.scaling.cold_start
        assert cold.weights_s + cold.engine_s < planned.timeouts.startup_s <= budget <= 1800
        assert probe["timeoutSeconds"] < probe["periodSeconds"] <= 240
        assert probe["httpGet"]["port"] != container["ports"][0]["containerPort"]
        assert container["livenessProbe"]["httpGet"]["port"] == container["ports"][0]["containerPort"]


def test_the_port_is_the_engines_own_and_no_reserved_variable_is_set_f090(runs: dict[str, Run]) -> None:
    container = service_of(runs["defaults"])["template"]["containers"][0]
    assert f"--port={int(container['ports'][0]['containerPort'])}" in container["args"]
    assert not {"PORT", "K_SERVICE", "K_REVISION"} & {each["name"] for each in container["env"]}


def test_weights_come_from_a_bucket_that_cannot_be_written(runs: dict[str, Run]) -> None:
    template = service_of(runs["defaults"])["template"]
    (volume,) = template["volumes"]
    assert volume["gcs"]["bucket"] == "models"
    assert volume["gcs"]["readOnly"] is True
    (mount,) = template["containers"][0]["volumeMounts"]
    assert mount["name"] == volume["name"]
    assert f"{mount['mountPath']}/qwen" in template["containers"][0]["command"]


def test_an_engine_that_reads_the_bucket_itself_may_and_nothing_is_mounted(runs: dict[str, Run]) -> None:
    template = service_of(runs["reads-itself"])["template"]
    assert "volumes" not in template
    assert "volumeMounts" not in template["containers"][0]
    (grant,) = runs["reads-itself"].of_type("gcp:storage/bucketIAMMember:BucketIAMMember")
    assert grant.inputs["bucket"] == "models"


def test_weights_in_the_image_are_read_where_they_are_and_no_grant_is_made(runs: dict[str, Run]) -> None:
    template = service_of(runs["in-image"])["template"]
    assert "volumes" not in template
    assert "/models/qwen" in template["containers"][0]["command"]
    assert "--safetensors-load-strategy=eager" in template["containers"][0]["args"]
    assert not runs["in-image"].of_type("gcp:storage/bucketIAMMember:BucketIAMMember")


def test_a_collector_has_its_file_its_right_and_room_of_its_own(runs: dict[str, Run]) -> None:
    run = runs["collected"]
    engine, beside = service_of(run)["template"]["containers"]
    assert beside["dependsOn"] == [engine["name"]]
    assert beside["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    assert "ports" not in beside  # one container alone takes requests
    (volume,) = [each for each in service_of(run)["template"]["volumes"] if "secret" in each]
    (file,) = run.of_type("gcp:secretmanager/secret:Secret")
    assert volume["secret"]["secret"] == file.inputs["secretId"]
    (version,) = run.of_type("gcp:secretmanager/secretVersion:SecretVersion")
    (endpoint,) = json.loads(unsealed(version.inputs["secretData"]))["spec"]["endpoints"]
    assert endpoint == {"port": engine["ports"][0]["containerPort"], "path": "/metrics", "interval": "30s"}
    (right,) = run.of_type("gcp:projects/iAMMember:IAMMember")
    assert right.inputs["role"] == "roles/monitoring.metricWriter"
    (grant,) = run.of_type("gcp:secretmanager/secretIamMember:SecretIamMember")
    assert grant.inputs["secretId"] == file.inputs["secretId"]
    slos = {each.inputs["sloId"] for each in run.of_type("gcp:monitoring/slo:Slo")}
    assert slos == {"availability", "latency-p95"}


def test_a_secret_is_a_version_of_secret_manager_and_never_a_text(runs: dict[str, Run]) -> None:
    env = {each["name"]: each for each in service_of(runs["max"])["template"]["containers"][0]["env"]}
    assert env["HF_TOKEN"]["valueSource"]["secretKeyRef"] == {"secret": "hf-token", "version": "3"}
    assert env["VLLM_API_KEY"]["valueSource"]["secretKeyRef"] == {"secret": "chat-key", "version": "latest"}
    assert "value" not in env["HF_TOKEN"]


def test_the_identity_reads_its_bucket_and_its_secrets_and_nothing_else(runs: dict[str, Run]) -> None:
    def grants(name: str) -> set[tuple[str, str]]:
        found = [each for each in runs[name].resources if "-access-" in each.name]
        return {
            (each.inputs["role"], str(each.inputs.get("bucket", each.inputs.get("secretId"))))
            for each in found
        }

    assert grants("defaults") == {("roles/storage.objectViewer", "models")}
    accessor = "roles/secretmanager.secretAccessor"
    assert grants("max") == {(accessor, "chat-key"), (accessor, "hf-token")}


def test_the_service_waits_for_its_grants(runs: dict[str, Run]) -> None:
    run = runs["max"]
    (service,) = run.of_type(SERVICE)
    grants = {each.urn for each in run.resources if "-access-" in each.name}
    assert len(grants) == 2
    assert grants <= set(service.depends_on)


@pytest.mark.parametrize(
    ("exposure", "ingress"),
    [
        ("private", "INGRESS_TRAFFIC_INTERNAL_ONLY"),
        ("internal", "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"),
        ("public", "INGRESS_TRAFFIC_ALL"),
    ],
)
def test_who_can_reach_it_is_what_was_asked(exposure: str, ingress: str) -> None:
    run = run_of(document(**{**PUBLIC, "exposure": exposure}))
    assert service_of(run)["ingress"] == ingress
    (binding,) = run.of_type("gcp:cloudrunv2/serviceIamMember:ServiceIamMember")
    assert binding.inputs["role"] == "roles/run.invoker"
    assert binding.inputs["member"].startswith("serviceAccount:")


def test_by_default_nobody_is_let_in_and_nothing_reaches_it_from_outside(runs: dict[str, Run]) -> None:
    assert service_of(runs["defaults"])["ingress"] == "INGRESS_TRAFFIC_INTERNAL_ONLY"
    assert not runs["defaults"].of_type("gcp:cloudrunv2/serviceIamMember:ServiceIamMember")
    assert "invokerIamDisabled" not in service_of(runs["defaults"])


def test_the_request_timeout_is_the_services_own_limit(runs: dict[str, Run]) -> None:
    assert service_of(runs["defaults"])["template"]["timeout"] == "30s"
    assert service_of(runs["max"])["template"]["timeout"] == "120s"


def test_warm_instances_are_the_minimum_and_zero_is_zero(runs: dict[str, Run]) -> None:
    for name in ("defaults", "max", "to-zero"):
        planned, scaling = plan(CASES[name][0]).scaling, service_of(runs[name])["template"]["scaling"]
        assert scaling["minInstanceCount"] == planned.min_replicas
        assert scaling["maxInstanceCount"] == planned.max_replicas
    assert service_of(runs["to-zero"])["template"]["scaling"]["minInstanceCount"] == 0


def test_traffic_goes_to_the_newest_ready_revision_alone(runs: dict[str, Run]) -> None:
    assert service_of(runs["defaults"])["traffic"] == [
        {"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", "percent": 100}
    ]
    assert "revision" not in service_of(runs["defaults"])["template"]


def test_choices_reach_the_service(runs: dict[str, Run]) -> None:
    body, (registered,) = service_of(runs["max"]), runs["max"].of_type(SERVICE)
    template = body["template"]
    assert template.get("gpuZonalRedundancyDisabled") is False
    assert template["sessionAffinity"] is True
    assert body["binaryAuthorization"] == {"useDefault": True}
    assert registered.inputs["deletionProtection"] is True
    assert template["vpcAccess"] == {
        "egress": "ALL_TRAFFIC",
        "networkInterfaces": [{"subnetwork": EXISTING["subnetwork"]}],
    }
    image = template["containers"][0]["image"]
    assert image.startswith("europe-west4-docker.pkg.dev/acme/hub/vllm/vllm-openai@sha256:")
    assert template["annotations"] == {"acme.example/owner": "ml"}
    assert {"team": "ml", "stack": "chat-eu"}.items() <= body["labels"].items()


def test_pulumi_waits_longer_than_an_instance_may_take(runs: dict[str, Run]) -> None:
    for name in ("defaults", "max"):
        (service,) = runs[name].of_type(SERVICE)
        waits = float(service.custom_timeouts["create"].removesuffix("s"))
        assert waits > plan(CASES[name][0]).timeouts.startup_s


def test_the_warm_up_sends_the_key_and_never_the_token_of_another_version() -> None:
    """With the token it would be answered 401 for ever, and no instance would become ready."""
    one_secret = {"token_secret": {"name": "serving", "key": "1"}}
    for key in ({"name": "serving", "key": "2"}, {"name": "serving"}):
        run = run_of(document(model=one_secret | {"source": "hf"}, api_key_secret=key))
        (engine,) = run.of_type(SERVICE)[0].inputs["template"]["containers"]
        assert {"HF_TOKEN", "VLLM_API_KEY"} <= {each["name"] for each in engine["envs"]}
        settings = json.loads(engine["commands"][3])
        assert settings["api_key_variable"] == "VLLM_API_KEY"


def test_an_uptime_check_calls_the_services_own_address(runs: dict[str, Run]) -> None:
    (check,) = runs["max"].of_type("gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig")
    watched = check.inputs["monitoredResource"]
    assert watched["type"] == "uptime_url"
    assert watched["labels"] == {"host": "chat-abc-uc.a.run.app", "project_id": "acme"}
    assert check.inputs["httpCheck"]["path"] == plan(MAX).container.health_path
    assert not runs["defaults"].of_type("gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig")


def test_the_alert_on_the_uptime_check_asks_for_that_check_by_its_id() -> None:
    outputs = {**OUTPUTS, UPTIME: {"uptimeCheckId": "chat-eu-health-x7Yz"}}
    run = record(lambda: ServingStack("stack", MAX, existing=EXISTING), outputs=outputs)
    (policy,) = [each for each in run.of_type(POLICY) if "ServingUnreachable" in each.inputs["displayName"]]
    (condition,) = policy.inputs["conditions"]
    query = condition["conditionPrometheusQueryLanguage"]["query"]
    assert 'check_id="chat-eu-health-x7Yz"' in query
    assert "{uptime_check}" not in json.dumps([each.inputs for each in run.of_type(POLICY)])
    assert policy.inputs["notificationChannels"] == EXISTING["notification_channels"]


def test_a_dollar_in_a_variable_stays_as_it_is_since_cloud_run_expands_none() -> None:
    described = schema("run.v2", "GoogleCloudRunV2EnvVar")["properties"]["value"]["description"]
    assert "Variable references are not supported" in described
    given = document(engine={"kind": "vllm", "extra_env": {"GREETING": "$(HOME) and $$"}})
    (engine,) = run_of(given).of_type(SERVICE)[0].inputs["template"]["containers"]
    assert {"name": "GREETING", "value": "$(HOME) and $$"} in engine["envs"]


def test_no_output_was_written_into_a_text_f071(runs: dict[str, Run]) -> None:
    for run in runs.values():
        assert "Output[" not in run.text
        assert "Calling __str__" not in run.text


def test_a_preview_registers_what_a_deployment_does_f075() -> None:
    first, second = run_of(MAX, EXISTING, preview=True), run_of(MAX, EXISTING)
    assert sorted(each.urn for each in first.resources) == sorted(each.urn for each in second.resources)


def test_the_endpoint_says_what_a_caller_sends(runs: dict[str, Run]) -> None:
    def endpoint(planned: ServingPlan) -> dict[str, Any]:
        from servingstack.targets.gcp.cloud_run.endpoint import endpoint as made

        return made(planned, "https://chat-x-uc.a.run.app")

    plain = endpoint(plan(DEFAULTS))
    assert plain["auth"] == "google-id-token"
    assert plain["timeout"]["request_s"] == plain["timeout"]["stream_s"] == 30
    assert "print-identity-token" in plain["invoke_example"]
    keyed = document(api_key_secret={"name": "key"})
    both = endpoint(plan(keyed))
    assert both["auth"] == "google-id-token and bearer"
    assert "X-Serverless-Authorization" in both["invoke_example"]
    assert endpoint(plan(MAX))["auth"] == "bearer"


def test_an_override_of_what_the_plan_owns_is_refused_with_the_field_to_use() -> None:
    for change, use in (
        ({"service": {"ingress": "INGRESS_TRAFFIC_ALL"}}, "exposure"),
        ({"service": {"template": {"timeout": "900s"}}}, "request_timeout"),
        ({"service": {"template": {"containers": []}}}, "extra_args"),
        ({"servic": {}}, "service"),
        ({"dashboard": {"dashboard_json": "{}"}}, "copy it"),
    ):
        with pytest.raises(pulumi.RunError, match=use):
            run_of(document(overrides=change))


def test_ids_and_decisions_must_agree() -> None:
    with pytest.raises(pulumi.RunError, match=r"existing\.network"):
        run_of(document(target={"cloud_run": {"vpc_egress": "private-ranges"}}))
    with pytest.raises(pulumi.RunError, match="vpc_egress"):
        run_of(DEFAULTS, {"network": "default"})
    with pytest.raises(pulumi.RunError, match="Did you mean `network`"):
        run_of(DEFAULTS, {"netwrok": "default"})


def test_everything_is_a_child_and_nothing_is_named_twice(runs: dict[str, Run]) -> None:
    for run in runs.values():
        names = [each.name for each in run.resources]
        assert len(names) == len(set(names))
        (component,) = run.of_type("servingstack:gcp:CloudRunService")
        children = [each for each in run.resources if each.type.startswith("gcp:")]
        assert {each.parent for each in children} == {component.urn}


def test_the_dashboard_is_json_that_a_reader_can_follow(runs: dict[str, Run]) -> None:
    (board,) = runs["max"].of_type("gcp:monitoring/dashboard:Dashboard")
    content = json.loads(board.inputs["dashboardJson"])
    titles = [tile["widget"]["title"] for tile in content["mosaicLayout"]["tiles"]]
    assert titles[0] == "Decided"
    assert "Not measured here" in titles
    assert not runs["quiet"].of_type("gcp:monitoring/dashboard:Dashboard")
