"""A stack's requests against an account in memory (moto), in the engine's order: made, changed, gone.

moto has no UpdateEndpoint and no PutCompositeAlarm, and takes a Deny for one whatever its condition says;
those are left out here, and the engine's own tests (`tests/engine/clouds`) have them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws
from tests.targets.aws.amazon_api import Request, requests
from tests.targets.aws.sagemaker.documents import CASES, document
from tests.targets.aws.sagemaker.runs import OUTPUTS, by_role, run, run_of

REGION = "us-east-1"
MISSING = {"UpdateEndpoint", "PutCompositeAlarm", "PutBucketPolicy"}
TOPIC = OUTPUTS["aws:sns/topic:Topic"]["arn"]
BUCKET = OUTPUTS["aws:s3/bucket:Bucket"]["bucket"]


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield


def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)  # pyright: ignore[reportArgumentType]


def send(request: Request) -> None:
    """One call, where moto has it. The bucket and the topics have the names that the recorder gave them."""
    if request.operation in MISSING or "EvaluationCriteria" in request.params:
        return
    params = dict(request.params)
    if request.operation in ("CreateBucket", "PutBucketTagging"):
        params["Bucket"] = BUCKET
    if request.operation == "CreateTopic":
        params["Name"] = TOPIC.rpartition(":")[2]
        params.pop("Tags", None)  # several topics have one name here
    if request.operation == "CreateEndpointConfig":  # moto's list of machines ends in 2020
        params["ProductionVariants"] = [
            each | {"InstanceType": "ml.g4dn.xlarge"} for each in params["ProductionVariants"]
        ]
    name = "".join(f"_{char.lower()}" if char.isupper() else char for char in request.operation)[1:]
    getattr(client(request.service), name)(**params)


def made(name: str) -> None:
    for each in by_role(run(name)).values():
        for request in requests(each.type, each.inputs):
            send(request)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("queued", "queued-warm")])
def test_every_stack_is_made_in_an_empty_account(name: str) -> None:
    made(name)
    found = by_role(run(name))
    endpoint = client("sagemaker").describe_endpoint(EndpointName=found["endpoint"].inputs["endpointName"])
    config = client("sagemaker").describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
    (variant,) = config["ProductionVariants"]
    model = client("sagemaker").describe_model(ModelName=variant["ModelName"])
    assert model["PrimaryContainer"]["Image"] == found["model"].inputs["primaryContainer"]["image"]
    assert (
        client("s3").get_object(Bucket=BUCKET, Key=found["server-file"].inputs["key"])["Body"].read().decode()
        == found["server-file"].inputs["content"]
    )
    if name != "quiet":
        board = client("cloudwatch").get_dashboard(DashboardName=found["dashboard"].inputs["dashboardName"])
        assert json.loads(board["DashboardBody"])["widgets"]


def test_scaling_is_on_the_variant_and_within_its_bounds() -> None:
    made("two-warm")
    scaler = client("application-autoscaling")
    (target,) = scaler.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert target["ResourceId"] == "endpoint/chat/variant/main"
    assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 5)
    (policy,) = scaler.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    assert policy["ResourceId"] == target["ResourceId"]


def test_the_roles_policy_is_read_back_whole() -> None:
    made("max")
    found = by_role(run("max"))
    given = client("iam").get_role_policy(
        RoleName=found["role"].inputs["name"], PolicyName=found["role-policy"].inputs["name"]
    )["PolicyDocument"]
    assert given == json.loads(found["role-policy"].inputs["policy"])


def test_another_model_stands_beside_the_old_one_and_the_old_one_goes_after() -> None:
    """F030: two of a name cannot be; what follows its content can stand beside what it was."""
    made("defaults")
    changed = by_role(run_of(document(model={"id": "mistralai/Mistral-7B-Instruct-v0.3"})))
    before = by_role(run("defaults"))
    for role in ("model", "config"):
        assert changed[role].name != before[role].name, "another resource to the engine, too"
        for request in requests(changed[role].type, changed[role].inputs):
            send(request)
    sagemaker = client("sagemaker")
    assert len(sagemaker.list_models()["Models"]) == 2
    sagemaker.delete_endpoint_config(EndpointConfigName=before["config"].inputs["name"])
    sagemaker.delete_model(ModelName=before["model"].inputs["name"])
    (left,) = sagemaker.list_models()["Models"]
    assert left["ModelName"] == changed["model"].inputs["name"]


def test_everything_can_be_taken_away_in_the_reverse_order() -> None:
    made("two-warm")
    found = by_role(run("two-warm"))
    scaler, sagemaker = client("application-autoscaling"), client("sagemaker")
    target = {
        key: found["scaling-target"].inputs[key]
        for key in ("resourceId", "scalableDimension", "serviceNamespace")
    }
    spelt = {key[0].upper() + key[1:]: value for key, value in target.items()}
    scaler.delete_scaling_policy(PolicyName=found["scaling-policy"].inputs["name"], **spelt)
    scaler.deregister_scalable_target(**spelt)
    sagemaker.delete_endpoint(EndpointName=found["endpoint"].inputs["endpointName"])
    sagemaker.delete_endpoint_config(EndpointConfigName=found["config"].inputs["name"])
    sagemaker.delete_model(ModelName=found["model"].inputs["name"])
    client("iam").delete_role_policy(
        RoleName=found["role"].inputs["name"], PolicyName=found["role-policy"].inputs["name"]
    )
    client("iam").delete_role(RoleName=found["role"].inputs["name"])
    assert sagemaker.list_endpoints()["Endpoints"] == []
    assert sagemaker.list_models()["Models"] == []
    assert scaler.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"] == []
