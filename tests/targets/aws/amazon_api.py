"""Resources held against Amazon's own service models, which botocore brings along.

`requests` turns what the provider takes (Terraform's shape in Pulumi's spelling) into what it sends. Every
input must find its member of the request: one that finds none is a problem, so nothing is left unchecked.
`problems` then compares each request with the model: required members and types by botocore's own validator;
enums, patterns and lengths here, since that validator leaves them to the service.

The trap: the models' patterns are written for another language, and anchored without saying so.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import boto3
from botocore.validate import ParamValidator

Json = Any
_RENAMED = (
    (r"\p{L}\p{Z}\p{N}", r"\w\s"),
    (r"\p{Print}", "[ -~]"),
    (r"[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\r\n\t]", "[ -\ud7ff\ue000-\ufffd\r\n\t]"),
)
"""What the models' patterns have that Python's have not."""


@dataclass(frozen=True)
class Request:
    """One call of an API."""

    service: str
    operation: str
    params: dict[str, Json]
    problems: tuple[str, ...] = ()
    """Inputs that have no member of it."""


@cache
def model(service: str) -> Any:
    """The whole model of a service."""
    client = boto3.Session().client(
        service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    return client.meta.service_model


def shape(service: str, operation: str) -> Any:
    """What an operation takes."""
    return model(service).operation_model(operation).input_shape


def member(service: str, operation: str, path: str) -> Any:
    """One member, however deep: `ProductionVariants[].InstanceType`."""
    found = shape(service, operation)
    for part in path.split("."):
        found = found.members[part.removesuffix("[]")]
        if part.endswith("[]"):
            found = found.member
    return found


def problems(request: Request) -> list[str]:
    """Everything in which a request is not what the operation takes."""
    expected = shape(request.service, request.operation)
    report = ParamValidator().validate(request.params, expected)
    found = [report.generate_report()] if report.has_errors() else []
    return [*request.problems, *found, *_limits(expected, request.params, request.operation)]


def _limits(expected: Any, value: Json, path: str) -> Iterator[str]:
    limits = expected.metadata
    for inner, part, where in _parts(expected, value, path):
        yield from _limits(inner, part, where)
    if isinstance(value, str):
        yield from _size(limits, len(value), path)
        if "enum" in limits and value not in limits["enum"]:
            yield f"{path}: {value!r} is none of {', '.join(limits['enum'])}"
        if "pattern" in limits and not _pattern(limits["pattern"]).fullmatch(value):
            yield f"{path}: {value!r} is not {limits['pattern']}"
    elif isinstance(value, int | float):
        yield from _size(limits, value, path)
    elif expected.type_name in ("list", "map"):
        yield from _size(limits, len(value), path)


def _parts(expected: Any, value: Json, path: str) -> Iterator[tuple[Any, Json, str]]:
    """What a value holds: expectation, value, place."""
    if expected.type_name == "structure" and isinstance(value, Mapping):
        for name, inner in value.items():
            if name in expected.members:
                yield expected.members[name], inner, f"{path}.{name}"
    elif expected.type_name == "list" and isinstance(value, list):
        for index, inner in enumerate(value):
            yield expected.member, inner, f"{path}[{index}]"
    elif expected.type_name == "map" and isinstance(value, Mapping):
        for name, inner in value.items():
            yield expected.key, name, f"{path} (key)"
            yield expected.value, inner, f"{path}.{name}"


def _size(limits: Mapping[str, Any], size: float, path: str) -> Iterator[str]:
    if "min" in limits and size < limits["min"]:
        yield f"{path}: {size} is less than {limits['min']}"
    if "max" in limits and size > limits["max"]:
        yield f"{path}: {size} is more than {limits['max']}"


@cache
def _pattern(text: str) -> re.Pattern[str]:
    for theirs, ours in _RENAMED:
        text = text.replace(theirs, ours)
    return re.compile(text)


# ---- from the provider's shape to the API's ----


@dataclass(frozen=True)
class Call:
    """How a resource becomes one call."""

    service: str
    operation: str
    takes: tuple[str, ...]
    """Inputs that go into it."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The API's name of an input where it is another one."""
    change: Callable[[dict[str, Json]], dict[str, Json]] | None = None
    """What the provider does beyond names."""


def requests(token: str, inputs: Mapping[str, Json]) -> list[Request]:
    """Every call that creates a resource, and for what is updated in place its update."""
    calls = CALLS[token]
    taken = {name for call in calls for name in call.takes} | set(ASIDE.get(token, ("region",)))
    lost = tuple(f"{token}: nothing takes {name!r}" for name in inputs if name not in taken)
    found: list[Request] = []
    for call in calls:
        mine = {name: copy.deepcopy(inputs[name]) for name in call.takes if name in inputs}
        mine = call.change(mine) if call.change is not None else mine
        unknown: list[str] = []
        params = _shaped(shape(call.service, call.operation), mine, call, call.operation, unknown)
        found.append(Request(call.service, call.operation, params, (*lost, *unknown)))
    return found


def _shaped(expected: Any, value: Json, call: Call, path: str, unknown: list[str]) -> Json:
    """A value with the API's names. What is one structure there may be a list of one here."""
    kind = expected.type_name
    if kind == "structure":
        return _structure(expected, value, call, path, unknown)
    if kind == "list":
        if isinstance(value, Mapping):  # labels and dimensions
            value = [{_key(expected.member): key, "value": text} for key, text in value.items()]
        listed = value if isinstance(value, list) else [value]
        return [_shaped(expected.member, each, call, f"{path}[]", unknown) for each in listed]
    if kind == "map":
        return {key: _shaped(expected.value, text, call, path, unknown) for key, text in value.items()}
    if kind in ("integer", "long") and isinstance(value, float) and value == int(value):
        return int(value)
    return float(value) if kind in ("double", "float") and isinstance(value, str) else value


def _structure(expected: Any, value: Json, call: Call, path: str, unknown: list[str]) -> dict[str, Json]:
    if isinstance(value, list):
        (value,) = value
    if not isinstance(value, Mapping):
        unknown.append(f"{path}: {value!r} where a structure is due")
        return {}
    names = {name.lower(): name for name in expected.members}
    found: dict[str, Json] = {}
    for given, inner in value.items():
        name = names.get(given.lower(), names.get(call.renamed.get(given, "").lower()))
        if name is None:
            unknown.append(f"{path}: no member for {given!r}; there are {', '.join(names.values())}")
        else:
            found[name] = _shaped(expected.members[name], inner, call, f"{path}.{name}", unknown)
    return found


def _key(expected: Any) -> str:
    return "key" if "Key" in expected.members else "name"


def _metrics(inputs: dict[str, Json]) -> dict[str, Json]:
    """Period and statistic are beside the metric there, and inside it here."""
    if "metricQueries" not in inputs:
        return inputs
    found: list[dict[str, Json]] = []
    for query in inputs.pop("metricQueries"):
        metric = dict(query.pop("metric", {}))
        if metric:
            beside = {name: metric.pop(name) for name in ("period", "stat", "unit") if name in metric}
            query["metricStat"] = {"metric": metric, **beside}
        found.append(query)
    return {**inputs, "metrics": found}


def _topic_policy(inputs: dict[str, Json]) -> dict[str, Json]:
    return {"topicArn": inputs["arn"], "attributeName": "Policy", "attributeValue": inputs["policy"]}


def _bucket(inputs: dict[str, Json]) -> dict[str, Json]:
    """The provider ends a prefix with 26 digits (terraform-plugin-sdk helper/id)."""
    return {"bucket": f"{inputs['bucketPrefix']}{'0' * 26}"}


def _inside(name: str) -> Callable[[dict[str, Json]], dict[str, Json]]:
    def change(inputs: dict[str, Json]) -> dict[str, Json]:
        return {"bucket": inputs.pop("bucket"), name: inputs}

    return change


_SAGEMAKER = {
    "s3DataSources": "S3DataSource", "routingConfigs": "RoutingConfig", "kmsKeyArn": "KmsKeyId",
}  # fmt: skip
CALLS: dict[str, tuple[Call, ...]] = {
    "aws:sagemaker/model:Model": (
        Call(
            "sagemaker",
            "CreateModel",
            ("name", "executionRoleArn", "primaryContainer", "vpcConfig", "enableNetworkIsolation", "tags"),
            {"name": "ModelName", **_SAGEMAKER},
        ),
    ),
    "aws:sagemaker/endpointConfiguration:EndpointConfiguration": (
        Call(
            "sagemaker",
            "CreateEndpointConfig",
            ("name", "productionVariants", "kmsKeyArn", "dataCaptureConfig", "asyncInferenceConfig", "tags"),
            {"name": "EndpointConfigName", **_SAGEMAKER},
        ),
    ),
    "aws-native:sagemaker:Endpoint": (
        Call(
            "sagemaker",
            "CreateEndpoint",
            ("endpointName", "endpointConfigName", "deploymentConfig", "tags"),
        ),
        Call(
            "sagemaker",
            "UpdateEndpoint",
            (
                "endpointName", "endpointConfigName", "deploymentConfig", "retainAllVariantProperties",
                "excludeRetainedVariantProperties",
            ),
        ),
    ),
    "aws:appautoscaling/target:Target": (
        Call(
            "application-autoscaling",
            "RegisterScalableTarget",
            ("serviceNamespace", "scalableDimension", "resourceId", "minCapacity", "maxCapacity", "tags"),
        ),
    ),
    "aws:appautoscaling/policy:Policy": (
        Call(
            "application-autoscaling",
            "PutScalingPolicy",
            (
                "name", "policyType", "serviceNamespace", "scalableDimension", "resourceId",
                "targetTrackingScalingPolicyConfiguration", "stepScalingPolicyConfiguration",
            ),
            {"name": "PolicyName"},
        ),
    ),
    "aws:cloudwatch/metricAlarm:MetricAlarm": (
        Call(
            "cloudwatch",
            "PutMetricAlarm",
            (
                "name", "alarmDescription", "comparisonOperator", "threshold", "evaluationPeriods",
                "datapointsToAlarm", "treatMissingData", "metricQueries", "namespace", "metricName",
                "dimensions", "statistic", "period", "alarmActions", "okActions", "evaluationCriteria",
                "evaluationInterval", "tags",
            ),
            {"name": "AlarmName"},
            _metrics,
        ),
    ),
    "aws:cloudwatch/compositeAlarm:CompositeAlarm": (
        Call(
            "cloudwatch",
            "PutCompositeAlarm",
            ("alarmName", "alarmDescription", "alarmRule", "alarmActions", "okActions", "tags"),
        ),
    ),
    "aws:cloudwatch/dashboard:Dashboard": (
        Call("cloudwatch", "PutDashboard", ("dashboardName", "dashboardBody")),
    ),
    "aws:cloudwatch/logGroup:LogGroup": (
        Call("logs", "CreateLogGroup", ("name", "tags"), {"name": "logGroupName"}),
        Call("logs", "PutRetentionPolicy", ("name", "retentionInDays"), {"name": "logGroupName"}),
    ),
    "aws:iam/role:Role": (
        Call(
            "iam",
            "CreateRole",
            ("name", "description", "assumeRolePolicy", "tags"),
            {"name": "RoleName", "assumeRolePolicy": "AssumeRolePolicyDocument"},
        ),
    ),
    "aws:iam/rolePolicy:RolePolicy": (
        Call(
            "iam",
            "PutRolePolicy",
            ("name", "role", "policy"),
            {"name": "PolicyName", "role": "RoleName", "policy": "PolicyDocument"},
        ),
    ),
    "aws:sns/topic:Topic": (Call("sns", "CreateTopic", ("name", "tags")),),
    "aws:sns/topicPolicy:TopicPolicy": (
        Call("sns", "SetTopicAttributes", ("arn", "policy"), change=_topic_policy),
    ),
    "aws:sns/topicSubscription:TopicSubscription": (
        Call("sns", "Subscribe", ("topic", "protocol", "endpoint"), {"topic": "TopicArn"}),
    ),
    "aws:s3/bucket:Bucket": (
        Call("s3", "CreateBucket", ("bucketPrefix",), change=_bucket),
        Call(
            "s3",
            "PutBucketTagging",
            ("bucketPrefix", "tags"),
            {"tags": "tagSet"},
            lambda inputs: {**_bucket(inputs), "tagging": {"tags": inputs["tags"]}},
        ),
    ),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": (
        Call(
            "s3",
            "PutPublicAccessBlock",
            ("bucket", "blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"),
            change=_inside("publicAccessBlockConfiguration"),
        ),
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": (
        Call(
            "s3",
            "PutBucketEncryption",
            ("bucket", "rules"),
            {"kmsMasterKeyId": "KMSMasterKeyID"},
            _inside("serverSideEncryptionConfiguration"),
        ),
    ),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": (
        Call(
            "s3", "PutBucketLifecycleConfiguration", ("bucket", "rules"),
            change=_inside("lifecycleConfiguration"),
        ),
    ),
    "aws:s3/bucketPolicy:BucketPolicy": (Call("s3", "PutBucketPolicy", ("bucket", "policy")),),
    "aws:s3/bucketObject:BucketObject": (
        Call("s3", "PutObject", ("bucket", "key", "content", "contentType"), {"content": "Body"}),
    ),
}  # fmt: skip
"""Every type that the option registers."""
ASIDE = {
    "aws:iam/role:Role": (), "aws:iam/rolePolicy:RolePolicy": (),
    "aws-native:sagemaker:Endpoint": ("endpointArn",),
    "aws:s3/bucket:Bucket": ("region", "forceDestroy"),
}  # fmt: skip
"""What the provider keeps for itself; elsewhere the region alone."""


def statements(document: str) -> list[dict[str, Json]]:
    """Of a policy, actions and resources always as lists."""
    found: list[dict[str, Json]] = []
    for each in json.loads(document)["Statement"]:
        lists = {
            name: [each[name]] if isinstance(each[name], str) else list(each[name])
            for name in ("Action", "Resource")
            if name in each
        }
        found.append({**each, **lists})
    return found
