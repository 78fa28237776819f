"""What is registered, held against Azure's own models; and what each value must be for what reason."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pulumi
import pytest
from azure.mgmt.appcontainers import models as apps
from pulumi_azure_native import app as native
from tests.engines import triton_documents
from tests.recorder import Run, strings
from tests.targets.azure.azure_api import APPS, MONITOR, problems
from tests.targets.azure.container_apps.documents import (
    APP,
    DEFAULTS,
    ENVIRONMENT,
    EXISTING,
    IDS,
    MAX,
    document,
    run_of,
)

from servingstack.errors import InvalidInput
from servingstack.planner import plan
from servingstack.targets import haproxy
from servingstack.targets.azure.container_apps import limits, sidecar
from servingstack.targets.azure.container_apps.bodies import parts
from servingstack.targets.azure.container_apps.existing import ContainerAppsExisting
from servingstack.targets.azure.container_apps.refs import Ref, placeholders

ROLE = "azure-native:authorization:RoleAssignment"
TRITON = {
    **triton_documents.document(
        triton_documents.model(input=[{"name": "X", "data_type": "TYPE_FP32", "dims": [4]}])
    ),
    "name": "ranker",
    "target": {"option": "container-apps", "container_apps": {"key_vault": "chat-vault"}},
}
TRITON["model"] = {**TRITON["model"], "source": "gs://models/repository"}
TRITON["engine"] = {**TRITON["engine"], "storage_secret": "bucket"}
TRITON["hardware"] = {"accelerators": ["t4"]}
SHELF: dict[str, Any] = {
    **TRITON,
    "model": {**TRITON["model"], "source": "azurefile://models/repository"},
    "engine": {name: value for name, value in TRITON["engine"].items() if name != "storage_secret"},
    "target": {
        "option": "container-apps",
        "region": "eastus",
        "container_apps": {"subnet": True, "storage_account": "chatmodels"},
    },
}
SMB = document(
    model={"source": "azurefile://models/qwen"},
    container_apps={
        "storage_account": "chatmodels",
        "share_protocol": "smb",
        "key_vault": "chat-vault",
        "share_key_secret": "account-key",
    },
)
SHARED = document(
    model={"source": "azurefile://models/qwen"},
    exposure="internal",
    container_apps={
        "resource_group": "shared",
        "own_environment": True,
        "workload_profile": "t4",
        "own_workspace": True,
        "own_action_group": True,
    },
)
CASES: dict[str, tuple[dict[str, Any], dict[str, str] | None]] = {
    "defaults": (DEFAULTS, None),
    "max": (MAX, EXISTING),
    "to-zero": (document(scaling={"min_replicas": 0, "scale_to_zero_after": "10m", "hold": "60s"}), None),
    "smb": (SMB, {"key_vault_id": IDS["key_vault_id"]}),
    "shared": (SHARED, {name: IDS[name] for name in ("environment_id", "workspace_id", "action_group_id")}),
    "public": (
        document(
            exposure="public",
            api_key_secret={"name": "chat", "key": "key_1"},
            model={"token_secret": {"name": "hub"}},
            container_apps={"key_vault": "chat-vault"},
        ),
        {"key_vault_id": IDS["key_vault_id"]},
    ),
    "reads-itself": (TRITON, {"key_vault_id": IDS["key_vault_id"]}),
    "shelf": (SHELF, {"subnet_id": IDS["subnet_id"]}),
    "quiet": (document(observability={"alerts": False, "dashboards": False}), None),
    "fixed": (document(scaling={"min_replicas": 2, "max_replicas": 2}), None),
}


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: run_of(*case) for name, case in CASES.items()}


def app_of(run: Run) -> dict[str, Any]:
    (found,) = run.of_type(APP)
    return found.inputs


def containers(run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    engine, door = app_of(run)["template"]["containers"]
    return engine, door


@pytest.mark.parametrize("name", CASES)
def test_every_body_is_what_azures_models_take(runs: dict[str, Run], name: str) -> None:
    seen = [each for each in runs[name].resources if each.type.startswith("azure-native:")]
    assert {APP} <= {each.type for each in seen} & set(APPS)
    if name != "quiet":
        assert set(MONITOR) - {each.type for each in seen} <= {"azure-native:monitor:ActionGroup"}
    for each in seen:
        assert problems(each.type, each.inputs) == [], each.name


def test_the_checker_sees_what_is_wrong(runs: dict[str, Run]) -> None:
    """Each kind of mistake once: else an empty list above proves nothing."""
    body = json.loads(json.dumps(app_of(runs["max"])))
    body["template"]["containers"][0]["imge"] = "x"
    body["template"]["containers"][0]["probes"][0]["type"] = "Warm"
    body["configuration"]["ingress"]["transport"] = "https"
    body["template"]["scale"]["minReplicas"] = "2"
    body["template"]["scale"]["rules"][0]["http"]["metadata"]["concurrentRequests"] = 4
    del body["configuration"]["ingress"]["ipSecurityRestrictions"][0]["action"]
    found = "\n".join(problems(APP, body))
    for part in ("imge", "'Warm'", "'https'", "'2'", "concurrentRequests", "action is missing"):
        assert part in found, part
    (rule, *_) = runs["max"].of_type("azure-native:monitor:MetricAlert")
    wrong = json.loads(json.dumps(rule.inputs))
    wrong["criteria"]["allOf"][0]["operator"] = "Above"
    wrong["severity"] = "high"
    del wrong["scopes"]
    found = "\n".join(problems(rule.type, wrong))
    for part in ("Above", "'high'", "scopes is missing"):
        assert part in found, part


@pytest.mark.parametrize("name", CASES)
def test_no_text_is_an_output_that_was_printed_f071(runs: dict[str, Run], name: str) -> None:
    for each in runs[name].resources:
        for text in strings(each.inputs):
            assert "Output[" not in text
            assert "__str__" not in text


@pytest.mark.parametrize("name", CASES)
def test_a_preview_registers_what_a_deployment_does_and_looks_nothing_up_f075_f076(
    runs: dict[str, Run], name: str
) -> None:
    before = run_of(*CASES[name], preview=True)
    assert sorted(each.urn for each in before.resources) == sorted(each.urn for each in runs[name].resources)
    assert before.reads == runs[name].reads == []


@pytest.mark.parametrize("name", CASES)
def test_what_a_body_refers_to_stands_before_it(name: str) -> None:
    made: set[str] = set()
    for part in parts(plan(CASES[name][0])):
        needed = {found.role for found in placeholders(part.body) if isinstance(found, Ref)}
        assert needed <= made, part.role
        assert set(part.after) <= made
        made.add(part.role)


@pytest.mark.parametrize("name", ["defaults", "max"])
def test_the_gpus_profile_has_a_name_and_a_type_and_no_counts_f095(runs: dict[str, Run], name: str) -> None:
    (environment,) = runs[name].of_type(ENVIRONMENT)
    (profile,) = [
        each for each in environment.inputs["workloadProfiles"] if "GPU" in each["workloadProfileType"]
    ]
    assert set(profile) == {"name", "workloadProfileType"}
    assert profile["workloadProfileType"] in {"Consumption-GPU-NC8as-T4", "Consumption-GPU-NC24-A100"}
    assert app_of(runs[name])["workloadProfileName"] == profile["name"]


@pytest.mark.parametrize("name", CASES)
def test_the_engine_is_first_and_both_containers_fill_the_profile(runs: dict[str, Run], name: str) -> None:
    """The GPU goes to the first container."""
    engine, door = containers(runs[name])
    assert (engine["name"], door["name"]) == ("engine", "front-door")
    size = {"Consumption-GPU-NC8as-T4": (8, 56), "Consumption-GPU-NC24-A100": (24, 220)}
    planned = plan(CASES[name][0])
    section = planned.container_apps
    assert section is not None
    cores, gib = size[section.workload_profile_type]
    assert engine["resources"]["cpu"] + door["resources"]["cpu"] == cores
    assert [each["resources"]["memory"][-2:] for each in (engine, door)] == ["Gi", "Gi"]
    assert sum(float(each["resources"]["memory"][:-2]) for each in (engine, door)) == gib
    assert planned.front_door is not None
    assert planned.front_door.memory_bytes <= section.door_gib * 1024**3


@pytest.mark.parametrize("name", CASES)
def test_a_replica_is_asked_within_the_services_limits_and_long_enough(
    runs: dict[str, Run], name: str
) -> None:
    planned = plan(CASES[name][0])
    engine, door = containers(runs[name])
    for container in (engine, door):
        assert [probe["type"] for probe in container["probes"]] == ["Startup", "Readiness", "Liveness"]
        for probe in container["probes"]:
            assert 1 <= probe["failureThreshold"] <= 30
            assert probe["timeoutSeconds"] <= 240
            assert 1 <= probe["periodSeconds"] <= 240
            assert 0 <= probe["initialDelaySeconds"] <= 60
            assert probe["successThreshold"] == 1
            assert isinstance(probe["httpGet"]["port"], float)  # no name of a port, which a sidecar has not
    startup = engine["probes"][0]
    assert startup["httpGet"]["port"] not in (planned.container.port, planned.container.metrics_port)
    assert startup["periodSeconds"] * startup["failureThreshold"] >= planned.timeouts.startup_s
    assert engine["probes"][2]["httpGet"]["port"] == planned.container.port


def test_readiness_of_the_door_asks_for_the_engine_and_liveness_does_not(runs: dict[str, Run]) -> None:
    """A dead engine takes the replica out and restarts itself, not the door that says 503."""
    _, door = containers(runs["max"])
    _, ready, alive = (probe["httpGet"] for probe in door["probes"])
    assert ready["port"] == app_of(runs["max"])["configuration"]["ingress"]["targetPort"]
    assert alive["path"] == haproxy.READY_PATH


@pytest.mark.parametrize("name", CASES)
def test_the_ingress_calls_the_door_and_one_revision_serves(runs: dict[str, Run], name: str) -> None:
    configuration = app_of(runs[name])["configuration"]
    planned = plan(CASES[name][0])
    assert planned.front_door is not None
    assert configuration["activeRevisionsMode"] == "Single"
    assert configuration["ingress"]["targetPort"] == planned.front_door.port != planned.container.port
    assert configuration["ingress"]["allowInsecure"] is False
    assert configuration["ingress"]["traffic"] == [{"latestRevision": True, "weight": 100}]


def test_only_the_environment_reaches_a_private_app_and_only_the_network_an_internal_one(
    runs: dict[str, Run],
) -> None:
    seen = {name: app_of(runs[name])["configuration"]["ingress"] for name in CASES}
    assert seen["defaults"]["external"] is False
    assert seen["max"]["external"] is seen["public"]["external"] is seen["shared"]["external"] is True
    (environment,) = runs["max"].of_type(ENVIRONMENT)
    assert environment.inputs["vnetConfiguration"]["internal"] is True
    for name in ("max", "shared"):  # closed even where somebody's environment turned out to be public
        rules = seen[name]["ipSecurityRestrictions"]
        assert {rule["action"] for rule in rules} == {"Allow"}
        assert {rule["ipAddressRange"] for rule in rules} == {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}
    assert "ipSecurityRestrictions" not in seen["public"]


def test_requests_scale_replicas_and_neither_cpu_nor_memory_does(runs: dict[str, Run]) -> None:
    for name in ("defaults", "max", "to-zero"):
        planned, scale = plan(CASES[name][0]), app_of(runs[name])["template"]["scale"]
        (rule,) = scale["rules"]
        assert rule["http"]["metadata"] == {"concurrentRequests": f"{planned.scaling.threshold:g}"}
        assert (scale["minReplicas"], scale["maxReplicas"]) == (
            planned.scaling.min_replicas,
            planned.scaling.max_replicas,
        )
        assert planned.scaling.counts == "per_second"
    assert "rules" not in app_of(runs["fixed"])["template"]["scale"]


def test_a_stack_that_may_rest_waits_before_it_does_and_others_say_nothing_of_it(
    runs: dict[str, Run],
) -> None:
    resting, awake = (app_of(runs[name])["template"]["scale"] for name in ("to-zero", "max"))
    assert (resting["minReplicas"], resting["cooldownPeriod"], resting["pollingInterval"]) == (0, 600, 30)
    assert not {"cooldownPeriod", "pollingInterval"} & set(awake)


def test_a_stopping_replica_has_time_for_its_door_and_then_its_engine(runs: dict[str, Run]) -> None:
    for name in CASES:
        planned, template = plan(CASES[name][0]), app_of(runs[name])["template"]
        door = planned.front_door
        assert door is not None
        assert door.drain_s >= planned.timeouts.request_s
        assert sidecar.LEAVE_S + door.drain_s < template["terminationGracePeriodSeconds"] <= 600


def test_the_configuration_belongs_to_the_revision_and_secrets_to_the_vault(runs: dict[str, Run]) -> None:
    """A secret of the app is shared by its revisions: what only one of them may see stands in its
    template."""
    run = runs["max"]
    _, door = containers(run)
    variables = {each["name"]: each for each in door["env"]}
    assert {"DOOR_CONFIG", "DOOR_LUA", "DOOR_TIMING"} <= set(variables)
    assert variables[haproxy.API_KEY_ENV] == {"name": haproxy.API_KEY_ENV, "secretRef": "chat-key"}
    (secret,) = app_of(run)["configuration"]["secrets"]
    assert secret["keyVaultUrl"] == "https://chat-vault.vault.azure.net/secrets/chat-key"
    for each in CASES:
        assert not [
            found for found in app_of(runs[each])["configuration"].get("secrets", []) if "value" in found
        ]


def test_a_key_of_a_secret_becomes_a_part_of_the_vaults_name(runs: dict[str, Run]) -> None:
    run = runs["public"]
    secrets = {each["name"]: each["keyVaultUrl"] for each in app_of(run)["configuration"]["secrets"]}
    assert secrets == {
        "chat-key-1": "https://chat-vault.vault.azure.net/secrets/chat-key-1",
        "hub": "https://chat-vault.vault.azure.net/secrets/hub",
    }
    engine, _ = containers(run)
    assert {"name": "HF_TOKEN", "secretRef": "hub"} in engine["env"]


def test_a_file_that_a_library_reads_is_a_volume_of_one_secret(runs: dict[str, Run]) -> None:
    run = runs["reads-itself"]
    (volume,) = [each for each in app_of(run)["template"]["volumes"] if each["storageType"] == "Secret"]
    (item,) = volume["secrets"]
    engine, _ = containers(run)
    (mount,) = [each for each in engine["volumeMounts"] if each["volumeName"] == volume["name"]]
    path = f"{mount['mountPath']}/{item['path']}"
    assert {"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": path} in engine["env"]
    assert item["secretRef"] in {each["name"] for each in app_of(run)["configuration"]["secrets"]}


def test_the_identity_may_pull_and_read_the_named_secrets_and_nothing_else(runs: dict[str, Run]) -> None:
    granted = {
        name: {(each.inputs["roleDefinitionId"].rpartition("/")[2], each.inputs["scope"]) for each in found}
        for name in CASES
        if (found := runs[name].of_type(ROLE)) or True
    }
    pull, read = limits.ROLES["AcrPull"], limits.ROLES["Key Vault Secrets User"]
    vault = IDS["key_vault_id"]
    assert granted["defaults"] == set()
    assert granted["max"] == {(pull, IDS["registry_id"]), (read, f"{vault}/secrets/chat-key")}
    assert granted["smb"] == {(read, f"{vault}/secrets/account-key")}
    for each in runs["max"].of_type(ROLE):
        assert each.inputs["principalType"] == "ServicePrincipal"
        assert each.inputs["roleDefinitionId"].startswith(
            "/subscriptions/11111111-1111-4111-8111-111111111111/"
        )
        assert each.urn in app_urn_dependencies(runs["max"])
    assert app_of(runs["max"])["configuration"]["identitySettings"][0]["lifecycle"] == "None"


def app_urn_dependencies(run: Run) -> tuple[str, ...]:
    (found,) = run.of_type(APP)
    return found.depends_on


def test_images_come_by_digest_and_from_the_registry_with_the_identity(runs: dict[str, Run]) -> None:
    for name in CASES:
        for container in containers(runs[name]):
            assert "@sha256:" in container["image"]
    mirrored = [container["image"] for container in containers(runs["max"])]
    planned = plan(DEFAULTS)
    assert planned.front_door is not None
    assert mirrored == [
        f"models.azurecr.io/{planned.container.image.removeprefix('docker.io/')}",
        f"models.azurecr.io/library/{planned.front_door.image}",
    ]
    (registry,) = app_of(runs["max"])["configuration"]["registries"]
    assert registry["server"] == "models.azurecr.io"
    assert set(registry) == {"server", "identity"}


def test_weights_are_read_from_a_share_that_cannot_be_written(runs: dict[str, Run]) -> None:
    storage = "azure-native:app:ManagedEnvironmentsStorage"
    (nfs,), (smb,) = runs["max"].of_type(storage), runs["smb"].of_type(storage)
    assert nfs.inputs["properties"]["nfsAzureFile"] == {
        "server": "chatmodels.file.core.windows.net",
        "shareName": "/chatmodels/models",
        "accessMode": "ReadOnly",
    }
    azure_file = smb.inputs["properties"]["azureFile"]
    assert azure_file["accessMode"] == "ReadOnly"
    assert "accountKey" not in azure_file
    assert azure_file["accountKeyVaultProperties"]["keyVaultUrl"].endswith("/secrets/account-key")
    (environment,) = runs["smb"].of_type(ENVIRONMENT)
    assert environment.inputs["identity"]["type"] == "UserAssigned"
    assert not runs["shared"].of_type(storage)
    kinds = {
        name: next(each for each in app_of(runs[name])["template"]["volumes"] if each["name"] == "weights")
        for name in ("max", "smb", "shared")
    }
    assert {name: each["storageType"] for name, each in kinds.items()} == {
        "max": "NfsAzureFile",
        "smb": "AzureFile",
        "shared": "NfsAzureFile",
    }
    engine, _ = containers(runs["max"])
    assert {"volumeName": "weights", "mountPath": "/models"} in engine["volumeMounts"]
    assert "/models/llama-8b" in json.dumps(engine["args"] + engine["command"][4:])


def test_a_repository_on_a_share_is_mounted_version_by_version_beside_its_rendered_files(
    runs: dict[str, Run],
) -> None:
    engine, _ = containers(runs["shelf"])
    (mount,) = [each for each in engine["volumeMounts"] if each["volumeName"] == "weights"]
    assert mount["subPath"] == "repository/classifier/1"
    assert mount["mountPath"].endswith("/classifier/1")
    assert "/models/classifier/config.pbtxt" in json.loads(engine["command"][3])["files"]


def test_storage_types_are_those_of_the_service() -> None:
    assert {"EmptyDir", "Secret", "AzureFile", "NfsAzureFile"} <= {each.value for each in apps.StorageType}
    assert {each.value for each in native.StorageType} >= {"EmptyDir", "NfsAzureFile"}


def test_shared_memory_is_a_directory_only_where_an_engine_needs_more_than_64_mib(
    runs: dict[str, Run],
) -> None:
    paths = {
        name: {each["mountPath"] for each in containers(runs[name])[0]["volumeMounts"]} for name in CASES
    }
    assert "/dev/shm" in paths["reads-itself"]
    assert "/dev/shm" not in paths["max"]


def test_the_launcher_starts_warms_and_stops_the_engine_after_the_door(runs: dict[str, Run]) -> None:
    for name in CASES:
        planned, (engine, door) = plan(CASES[name][0]), containers(runs[name])
        assert engine["command"][:2] == ["python3", "-c"]
        settings = json.loads(engine["command"][3])
        assert settings["path"] == planned.container.warm_up.path
        assert settings["requests"] >= 1
        assert settings["ready_port"] == engine["probes"][0]["httpGet"]["port"]
        told = {each["name"]: each.get("value") for each in door["env"]}["DRAINED_FILE"]
        assert settings["proxy"]["drained"] == told
        (mount,) = [each for each in door["volumeMounts"] if told.startswith(each["mountPath"])]
        assert mount in engine["volumeMounts"]


def test_what_exists_is_used_and_not_made(runs: dict[str, Run]) -> None:
    run = runs["shared"]
    made = {each.type.rpartition(":")[2] for each in run.resources}
    assert not {"ManagedEnvironment", "Workspace", "ActionGroup", "ResourceGroup"} & made
    assert app_of(run)["environmentId"] == IDS["environment_id"]
    assert app_of(run)["workloadProfileName"] == "t4"
    (rule, *_) = run.of_type("azure-native:monitor:ScheduledQueryRule")
    assert rule.inputs["scopes"] == [IDS["workspace_id"]]
    assert rule.inputs["actions"]["actionGroups"] == [IDS["action_group_id"]]


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        (
            None,
            ["existing.key_vault_id", "existing.registry_id", "existing.subnet_id", "existing.workspace_id"],
        ),
        ({**EXISTING, "environment_id": IDS["environment_id"]}, ["existing.environment_id"]),
    ],
)
def test_an_id_that_is_missing_or_has_no_use_is_refused(
    given: dict[str, str] | None, paths: list[str]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        ContainerAppsExisting(**(given or {})).check(plan(MAX))
    assert sorted(each.path for each in caught.value.violations) == paths


def test_an_id_that_is_spelt_wrong_is_refused_by_its_name() -> None:
    with pytest.raises(pulumi.RunError, match="Did you mean `key_vault_id`"):
        run_of(document(), {"keyvault_id": "x"})


@pytest.mark.parametrize(
    ("role", "change", "said"),
    [
        ("app", {"template": {"scale": {"minReplicas": 3}}}, "scaling.min_replicas"),
        ("app", {"configuration": {"activeRevisionsMode": "Multiple"}}, "Exactly one revision"),
        ("environment", {"zoneRedundant": True}, "zone_redundant"),
        ("identity", {"tags": {}}, "a role that takes one"),
    ],
)
def test_an_override_of_what_the_plan_owns_is_refused(role: str, change: dict[str, Any], said: str) -> None:
    with pytest.raises(pulumi.RunError, match=said):
        run_of(document(overrides={role: change}))


def test_an_override_of_anything_else_reaches_its_resource(runs: dict[str, Run]) -> None:
    (environment,) = runs["max"].of_type(ENVIRONMENT)
    assert environment.inputs["kind"] == "workloadProfiles"


def test_replacements_are_made_before_the_old_goes_unless_an_id_of_yours_is_exchanged(
    runs: dict[str, Run],
) -> None:
    """Names change with whatever of the input replaces an app, so that both can stand side by side."""
    name = {key: plan(given).names["app"] for key, (given, _) in CASES.items() if given["name"] == "chat"}
    assert len({name["defaults"], name["max"], name["shared"]}) == 3
    assert name["defaults"] == name["fixed"] == name["quiet"] == name["public"]


@pytest.mark.parametrize("name", CASES)
def test_pulumi_waits_as_long_as_a_start_takes(runs: dict[str, Run], name: str) -> None:
    planned = plan(CASES[name][0])
    (app,) = runs[name].of_type(APP)
    assert int(app.custom_timeouts["create"][:-1]) > planned.rollout.progress_deadline_s
    assert int(app.custom_timeouts["create"][:-1]) >= 1800


def test_without_the_sdk_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['pulumi_azure_native'] = None; "
        "import servingstack.targets.azure.container_apps.resources"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'servingstack[azure]'" in done.stderr


def test_the_endpoint_says_how_to_call_it_and_the_workbook_where_it_is(runs: dict[str, Run]) -> None:
    outputs = runs["max"].outputs_of("servingstack:index:ServingStack")
    endpoint = outputs["endpoint"]
    assert endpoint["url"] == "https://chat.internal.happy-sea.eastus.azurecontainerapps.io"
    assert endpoint["auth"] == "bearer"
    assert endpoint["timeout"] == {"request_s": 60, "stream_s": 200, "wait_s": plan(MAX).timeouts.queue_s}
    assert "Authorization: Bearer $API_KEY" in endpoint["invoke_example"]
    assert outputs["dashboard_url"].startswith("https://portal.azure.com/#resource")
    quiet = runs["quiet"].outputs_of("servingstack:index:ServingStack")
    assert quiet.get("dashboard_url") is None
