"""What is registered, as the calls that the provider makes of it, held against Amazon's service models."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.targets.aws.amazon_api import CALLS, Request, member, model, problems, requests
from tests.targets.aws.sagemaker.documents import CASES
from tests.targets.aws.sagemaker.runs import by_role, run

from servingstack import planner
from servingstack.targets.aws.sagemaker import facts, fleet, resources

ENDPOINT = "aws-native:sagemaker:Endpoint"


def calls(name: str) -> dict[str, list[Request]]:
    """By role."""
    return {role: requests(each.type, each.inputs) for role, each in by_role(run(name)).items()}


@pytest.mark.parametrize("name", CASES)
def test_every_request_is_what_the_service_takes(name: str) -> None:
    for role, made in calls(name).items():
        for request in made:
            assert problems(request) == [], f"{role}: {request.operation}"


def test_the_cases_register_every_type_that_the_option_has() -> None:
    seen = {each.type for name in CASES for each in by_role(run(name)).values()}
    assert seen == set(CALLS) == set(resources._CLASSES)


def test_the_checker_sees_what_is_wrong() -> None:
    """Each kind of mistake once: else an empty list above proves nothing."""
    found = by_role(run("max"))
    config, endpoint, role = (copy.deepcopy(found[each].inputs) for each in ("config", "endpoint", "role"))
    variant = config["productionVariants"][0]
    variant["instanceType"] = "g5.xlarge"
    variant["modelDataDownloadTimeoutInSeconds"] = 30
    variant["variantName"] = "two words"
    variant["routingConfigs"] = [{"routingStrategi": "RANDOM"}]
    config["name"] = "x" * 64
    config["colour"] = "blue"
    del config["dataCaptureConfig"]["destinationS3Uri"]
    (request,) = requests(found["config"].type, config)
    said = "\n".join(problems(request))
    for part in (
        "'g5.xlarge' is none of", "30 is less than 60", "'two words' is not",
        "no member for 'routingStrategi'", "64 is more than 63", "nothing takes 'colour'", "DestinationS3Uri",
    ):  # fmt: skip
        assert part in said, part
    endpoint["deploymentConfig"]["rollingUpdatePolicy"]["maximumBatchSize"]["type"] = "SHARE"
    assert any(
        "'SHARE' is none of" in each for call in requests(ENDPOINT, endpoint) for each in problems(call)
    )
    role["maxSessionDuration"] = 5
    assert "nothing takes" in problems(requests(found["role"].type, role)[0])[0]


@pytest.mark.parametrize(
    ("limit", "where", "key"),
    [
        (facts.NAME_LENGTH, ("sagemaker", "CreateEndpoint", "EndpointName"), "max"),
        (facts.NAME_LENGTH, ("sagemaker", "CreateModel", "ModelName"), "max"),
        (facts.NAME_LENGTH, ("sagemaker", "CreateEndpointConfig", "EndpointConfigName"), "max"),
        (facts.ROLE_NAME_LENGTH, ("iam", "CreateRole", "RoleName"), "max"),
        (facts.ALARM_NAME_LENGTH, ("cloudwatch", "PutMetricAlarm", "AlarmName"), "max"),
        (facts.MOST_TAGS, ("sagemaker", "CreateEndpointConfig", "Tags"), "max"),
        (facts.MOST_VARIABLES, ("sagemaker", "CreateModel", "PrimaryContainer.Environment"), "max"),
        (
            facts.LONGEST_URI,
            ("sagemaker", "CreateModel", "PrimaryContainer.ModelDataSource.S3DataSource.S3Uri"),
            "max",
        ),
        (
            facts.MOST_IN_FLIGHT,
            (
                "sagemaker",
                "CreateEndpointConfig",
                "AsyncInferenceConfig.ClientConfig.MaxConcurrentInvocationsPerInstance",
            ),
            "max",
        ),
        (
            facts.LONGEST_ASYNC_S,
            ("sagemaker-runtime", "InvokeEndpointAsync", "InvocationTimeoutSeconds"),
            "max",
        ),
        (facts.LONGEST_TTL_S, ("sagemaker-runtime", "InvokeEndpointAsync", "RequestTTLSeconds"), "max"),
        (facts.SHORTEST_TTL_S, ("sagemaker-runtime", "InvokeEndpointAsync", "RequestTTLSeconds"), "min"),
        (
            facts.EXECUTION_S[1],
            (
                "sagemaker",
                "CreateEndpoint",
                "DeploymentConfig.BlueGreenUpdatePolicy.MaximumExecutionTimeoutInSeconds",
            ),
            "max",
        ),
        (
            facts.BAKE_S[1],
            (
                "sagemaker",
                "CreateEndpoint",
                "DeploymentConfig.BlueGreenUpdatePolicy.TrafficRoutingConfiguration.WaitIntervalInSeconds",
            ),
            "max",
        ),
    ],
)
def test_a_limit_is_amazons(limit: int, where: tuple[str, str, str], key: str) -> None:
    assert member(*where).metadata[key] == limit


@pytest.mark.parametrize(
    "name", ["ModelDataDownloadTimeoutInSeconds", "ContainerStartupHealthCheckTimeoutInSeconds"]
)
def test_how_long_a_start_may_take_is_amazons(name: str) -> None:
    limits = member("sagemaker", "CreateEndpointConfig", f"ProductionVariants[].{name}").metadata
    assert (limits["min"], limits["max"]) == facts.TIMEOUT_S


def test_a_variable_is_as_long_as_amazon_allows() -> None:
    environment = member("sagemaker", "CreateModel", "PrimaryContainer.Environment")
    assert environment.value.metadata["max"] == facts.LONGEST_VARIABLE


def test_the_scalers_words_are_amazons() -> None:
    scaler = model("application-autoscaling")
    assert facts.IN_FLIGHT_PER_MODEL in scaler.shape_for("MetricType").enum
    assert facts.VARIANT_DIMENSION in scaler.shape_for("ScalableDimension").enum
    assert facts.SCALABLE_NAMESPACE in scaler.shape_for("ServiceNamespace").enum


def test_a_key_does_not_reach_the_disk_of_an_instance_and_the_plan_says_so() -> None:
    key = member("sagemaker", "CreateEndpointConfig", "KmsKeyId")
    assert "does not encrypt instance local storage" in key.documentation
    for name, told in (("max", True), ("queued", True), ("defaults", False)):
        codes = {warning.code for warning in planner.plan(CASES[name][0]).warnings}
        assert ("key-does-not-reach-the-disk" in codes) == told


def test_a_step_of_a_deployment_is_at_most_half_of_the_fleet() -> None:
    """The validator knows the number's bounds only for the whole type; the text has the rest."""
    batch = member("sagemaker", "CreateEndpoint", "DeploymentConfig.RollingUpdatePolicy.MaximumBatchSize")
    assert f"5% to {fleet.MOST_STEP}%" in batch.documentation


@pytest.mark.parametrize("name", CASES)
def test_an_alarm_looks_back_no_longer_than_cloudwatch_lets_it(name: str) -> None:
    """PutMetricAlarm: a day in all for periods below an hour, seven days for others."""
    for made in calls(name).values():
        for request in made:
            if request.operation == "PutMetricAlarm" and "Metrics" in request.params:
                periods = {each["MetricStat"]["Period"] for each in request.params["Metrics"][:-1]}
                (period,) = periods
                assert period % 60 == 0
                window = period * request.params["EvaluationPeriods"]
                assert window <= (7 * 86400 if period >= 3600 else 86400)
                assert len(request.params["Metrics"]) <= 10


@pytest.mark.parametrize("name", CASES)
def test_an_alarm_on_metrics_returns_one_series_and_has_no_single_metric_beside_them(name: str) -> None:
    for made in calls(name).values():
        for request in made:
            if request.operation == "PutMetricAlarm" and "Metrics" in request.params:
                returned = [each for each in request.params["Metrics"] if each["ReturnData"]]
                assert len(returned) == 1
                assert not {"MetricName", "Statistic", "Period", "Dimensions"} & set(request.params)


def test_texts_hold_no_output_that_was_never_awaited() -> None:
    """F071."""
    for name in CASES:
        assert "Output[" not in run(name).text
        assert "object at 0x" not in run(name).text


@pytest.mark.parametrize("name", CASES)
def test_every_policy_and_every_document_is_json(name: str) -> None:
    documents: list[Any] = []
    for each in by_role(run(name)).values():
        documents += [
            each.inputs[key] for key in ("policy", "assumeRolePolicy", "dashboardBody") if key in each.inputs
        ]
    assert documents
    for text in documents:
        json.loads(text)
