"""What waits for what, what is ignored, and what an id that is missing says."""

from __future__ import annotations

import json
import re
from importlib import metadata
from typing import Any

import pulumi
import pytest
from packaging.requirements import Requirement
from tests.recorder import Registered
from tests.targets.aws.sagemaker.documents import CASES, DEFAULTS, GROUPS, KEY, SUBNETS, document
from tests.targets.aws.sagemaker.runs import by_role, run, run_of

from servingstack.planner import plan
from servingstack.targets.aws.sagemaker import everything
from servingstack.targets.aws.sagemaker.parts import Body

COUNT = "productionVariants[0].initialInstanceCount"


def waits(found: dict[str, Registered], role: str) -> set[str]:
    """Roles that a resource waits for, and what those wait for."""
    urns = {each.urn: name for name, each in found.items()}
    seen: set[str] = set()
    left = [role]
    while left:
        for urn in found[left.pop()].depends_on:
            name = urns.get(urn)
            if name is not None and name not in seen:
                seen.add(name)
                left.append(name)
    return seen


@pytest.mark.parametrize("name", CASES)
def test_the_endpoint_comes_after_all_that_it_needs(name: str) -> None:
    """F036, F041: rights, logs and the alarms that take a deployment back are there first."""
    found = by_role(run(name))
    needed = {"model", "config", "log-group", "rollback-errors", "rollback-latency", "server-file"}
    if "role" in found:
        needed |= {"role", "role-policy"}
    assert needed <= waits(found, "endpoint")


@pytest.mark.parametrize("name", [name for name in CASES if name != "fixed"])
def test_scaling_is_registered_on_the_endpoint_that_is_there(name: str) -> None:
    """F036: from the endpoint's own name and the variant's; a wrong id is accepted and has no effect."""
    found = by_role(run(name))
    assert "endpoint" in waits(found, "scaling-target")
    assert "scaling-target" in waits(found, "scaling-policy")
    endpoint = found["endpoint"].inputs["endpointName"]
    (variant,) = found["config"].inputs["productionVariants"]
    assert (
        found["scaling-target"].inputs["resourceId"]
        == f"endpoint/{endpoint}/variant/{variant['variantName']}"
    )
    for role in ("resourceId", "scalableDimension", "serviceNamespace"):
        assert found["scaling-policy"].inputs[role] == found["scaling-target"].inputs[role]


def test_the_scaler_goes_before_the_machine_changes_and_comes_back_after() -> None:
    """The service refuses another type while it is registered. That it does so on a real engine is tested in
    `tests/engine/clouds`; here, what makes it so."""
    found = by_role(run("defaults"))
    assert found["scaled-machine"].inputs["content"] == plan(DEFAULTS).architecture.instance_type
    assert "scaled-machine" in waits(found, "endpoint")
    assert found["scaled-machine"].urn in found["scaling-target"].depends_on
    assert "scaled-machine" not in by_role(run("fixed"))


@pytest.mark.parametrize("name", CASES)
def test_the_number_of_instances_is_the_scalers_where_there_is_one(name: str) -> None:
    """F029, F032: a redeployment would set the fleet back to where it started."""
    found = by_role(run(name))
    scaled = "scaling-target" in found
    assert (COUNT in found["config"].ignore_changes) == scaled
    endpoint = found["endpoint"].inputs
    assert endpoint.get("retainAllVariantProperties", False) == scaled
    if scaled:
        kept = endpoint["excludeRetainedVariantProperties"]
        assert kept == [{"variantPropertyType": "DataCaptureConfig"}], "what the plan owns still changes"


@pytest.mark.parametrize("name", CASES)
def test_no_variant_names_a_model_and_scales_by_itself(name: str) -> None:
    """F033: managed instance scaling is for inference components; with a model it is refused."""
    for variant in by_role(run(name))["config"].inputs["productionVariants"]:
        assert variant["modelName"]
        assert "managedInstanceScaling" not in variant


def test_the_least_busy_instance_is_asked_and_a_queue_asks_nobody() -> None:
    """Round robin gives one instance two long requests while another has none."""
    (variant,) = by_role(run("defaults"))["config"].inputs["productionVariants"]
    assert variant["routingConfigs"] == [{"routingStrategy": "LEAST_OUTSTANDING_REQUESTS"}]
    (queued,) = by_role(run("queued"))["config"].inputs["productionVariants"]
    assert "routingConfigs" not in queued


def test_a_deployment_watches_the_stacks_own_alarms_and_moves_in_steps() -> None:
    for name in CASES:
        found = by_role(run(name))
        moved = found["endpoint"].inputs["deploymentConfig"]
        watched = {each["alarmName"] for each in moved["autoRollbackConfiguration"]["alarms"]}
        assert watched == {found[role].inputs["name"] for role in ("rollback-errors", "rollback-latency")}
    moved = by_role(run("two-warm"))["endpoint"].inputs["deploymentConfig"]["blueGreenUpdatePolicy"]
    traffic = moved["trafficRoutingConfiguration"]
    assert (traffic["type"], traffic["canarySize"]) == ("CANARY", {"type": "CAPACITY_PERCENT", "value": 50})
    alone = by_role(run("fixed"))["endpoint"].inputs["deploymentConfig"]["blueGreenUpdatePolicy"]
    assert alone["trafficRoutingConfiguration"]["type"] == "ALL_AT_ONCE"
    assert alone["terminationWaitInSeconds"] > 0, "the old instance is kept while the alarms watch"
    assert "rollingUpdatePolicy" in by_role(run("max"))["endpoint"].inputs["deploymentConfig"]


def test_pulumi_waits_longer_than_the_service_does() -> None:
    """Else an update is given up while it goes on, and the next one meets a busy endpoint."""
    for name in CASES:
        endpoint = by_role(run(name))["endpoint"]
        moved = endpoint.inputs["deploymentConfig"]
        policy = moved.get("blueGreenUpdatePolicy", moved.get("rollingUpdatePolicy"))
        for operation in ("create", "update"):
            waited = endpoint.custom_timeouts[operation]
            seconds = sum(
                float(number) * {"h": 3600, "m": 60, "s": 1}[unit] for number, unit in _durations(waited)
            )
            assert seconds > policy["maximumExecutionTimeoutInSeconds"]


def _durations(text: str) -> list[tuple[str, str]]:
    return re.findall(r"([\d.]+)([hms])", text)


def test_the_endpoint_is_made_in_the_planned_region_by_its_own_provider() -> None:
    found = run("queued")
    (provider,) = found.of_type("pulumi:providers:aws-native")
    assert provider.inputs["region"] == "us-west-2"
    assert by_role(found)["endpoint"].provider.startswith(provider.urn)
    regional = [
        each for role, each in by_role(found).items() if role not in ("role", "role-policy", "endpoint")
    ]
    assert {each.inputs["region"] for each in regional} == {"us-west-2"}


def test_ids_that_were_handed_in_are_used_where_they_belong() -> None:
    found = by_role(run("max"))
    assert found["model"].inputs["vpcConfig"] == {"subnets": SUBNETS, "securityGroupIds": GROUPS}
    assert found["config"].inputs["kmsKeyArn"] == KEY
    assert found["config"].inputs["dataCaptureConfig"]["kmsKeyId"] == KEY
    assert found["model"].inputs["enableNetworkIsolation"] is True


def test_another_subnet_is_another_name_of_what_cannot_change() -> None:
    """F030: the id is known only when deploying, so the name gets a hash of it there."""
    given, existing = CASES["max"]
    assert existing is not None
    other = by_role(run_of(given, existing | {"subnet_ids": ["subnet-9"]}))
    first = by_role(run("max"))
    for role in ("model", "config"):
        assert other[role].inputs["name"] != first[role].inputs["name"]
    assert other["endpoint"].inputs["endpointName"] == first["endpoint"].inputs["endpointName"]


def test_a_preview_registers_what_a_deployment_does() -> None:
    """F075."""
    for name in ("defaults", "max", "queued"):
        foreseen = run_of(*CASES[name], preview=True)
        assert sorted((each.type, each.name) for each in foreseen.resources) == sorted(
            (each.type, each.name) for each in run(name).resources
        )


@pytest.mark.parametrize(
    ("settings", "existing", "path"),
    [
        ({"vpc": True}, {}, "existing.subnet_ids"),
        ({"vpc": True}, {"subnet_ids": SUBNETS}, "existing.security_group_ids"),
        ({}, {"subnet_ids": SUBNETS}, "existing.subnet_ids"),
        ({"kms_key": True}, {}, "existing.kms_key_arn"),
        ({}, {"kms_key_arn": KEY}, "existing.kms_key_arn"),
        ({}, {"weights_key_arn": KEY}, "existing.weights_key_arn"),
        ({"own_role": True}, {}, "existing.role_arn"),
        ({}, {"role_arn": "arn"}, "existing.role_arn"),
        ({"own_topic": True}, {}, "existing.alarm_topic_arn"),
        ({}, {"alarm_topic_arn": "arn"}, "existing.alarm_topic_arn"),
        ({"own_role": True}, {"role_arn": "notanarn"}, "existing.role_arn"),
        ({"own_role": True}, {"role_arn": KEY}, "existing.role_arn"),
        ({"kms_key": True}, {"kms_key_arn": "11111111"}, "existing.kms_key_arn"),
        ({"own_topic": True}, {"alarm_topic_arn": KEY}, "existing.alarm_topic_arn"),
        ({"vpc": True}, {"subnet_ids": SUBNETS[0], "security_group_ids": GROUPS}, "existing.subnet_ids"),
        ({"vpc": True}, {"subnet_ids": [], "security_group_ids": GROUPS}, "existing.subnet_ids"),
        (
            {"vpc": True},
            {"subnet_ids": SUBNETS, "security_group_ids": SUBNETS},
            "existing.security_group_ids",
        ),
        ({}, {"vpc_id": "vpc-1"}, "existing.vpc_id"),
    ],
)
def test_an_id_without_its_setting_and_a_setting_without_its_id_stop_before_anything_is_made(
    settings: dict[str, Any], existing: dict[str, Any], path: str
) -> None:
    with pytest.raises(pulumi.RunError, match=f"  {path}: "):
        run_of(document(target={"sagemaker": settings}), existing)


def test_the_weights_key_is_asked_for_where_the_plan_needs_it() -> None:
    with pytest.raises(pulumi.RunError, match=r"  existing\.weights_key_arn: "):
        run_of(CASES["weights-with-a-key"][0], {})


OVERRIDES = [
    ({"log-group": {"retention_in_days": 90}}, None),
    ({"log-group": {"name": "x"}}, "overrides.log-group.name"),
    ({"scaling-target": {"min_capacity": 0}}, "overrides.scaling-target.min_capacity"),
    ({"model": {"tags": {}}}, "overrides.model"),
    ({"endpoint": {"endpoint_config_name": "x"}}, "overrides.endpoint"),
    ({"nothing": {}}, "overrides.nothing"),
]


@pytest.mark.parametrize(("overrides", "path"), OVERRIDES)
def test_an_override_reaches_what_takes_one_and_is_refused_elsewhere(
    overrides: dict[str, Any], path: str | None
) -> None:
    given = document(overrides=overrides)
    if path is None:
        assert by_role(run_of(given))["log-group"].inputs["retentionInDays"] == 90
        return
    with pytest.raises(pulumi.RunError, match=f"  {path}: "):
        run_of(given)


def test_what_waits_for_each_other_is_said_and_not_tried_for_ever() -> None:
    with pytest.raises(ValueError, match="wait for each other: a, b"):
        everything.ordered([Body("a", "t", {}, needs=("b",)), Body("b", "t", {}, needs=("a",))])


def test_the_provider_is_the_one_that_forces_no_new_endpoint() -> None:
    """F031: before 7 a changed configuration replaced the endpoint under its callers."""
    extras = [Requirement(text) for text in metadata.requires("servingstack") or []]
    (aws,) = [
        each for each in extras if each.name == "pulumi-aws" and "'aws'" in str(each.marker).replace('"', "'")
    ]
    assert not aws.specifier.contains("6.99.0")
    assert aws.specifier.contains("7.51.0")
    assert not aws.specifier.contains("8.0.0")


def test_the_answer_says_how_to_call_and_how_long_it_may_take() -> None:
    outputs = run("defaults").outputs_of("servingstack:index:ServingStack")
    endpoint = outputs["endpoint"]
    assert endpoint["url"] == "https://runtime.sagemaker.us-east-1.amazonaws.com/endpoints/chat/invocations"
    assert (endpoint["protocol"], endpoint["auth"]) == ("sagemaker", "aws-sigv4")
    limits = plan(DEFAULTS).timeouts
    assert endpoint["timeout"] == {
        "request_s": limits.request_s, "stream_s": limits.stream_s, "wait_s": limits.queue_s,
    }  # fmt: skip
    assert json.dumps("Qwen/Qwen2.5-7B-Instruct") in endpoint["invoke_example"].replace("\\", "")
    queued = run("queued").outputs_of("servingstack:index:ServingStack")["endpoint"]
    assert queued["url"].endswith("/endpoints/summaries-async/async-invocations")
    assert "--invocation-timeout-seconds 600" in queued["invoke_example"]
