"""The shell: a plan's bodies as Pulumi resources. It reads the plan and takes no decision.

Traps:
- The endpoint is Cloud Control's, by a thin class with the plugin's version pinned: its own SDK is 104 MB for
  two types. Its provider is made here with the planned region: `aws:region` is another provider's setting.
- A dictionary that becomes a nested argument is translated by the SDK's types; the thin class has none, so
  its names are written as the engine has them.
- A child's logical name and parent are part of its identity: a change of either needs an alias. Only what
  cannot be changed has its content there, since that makes it another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pulumi

from servingstack.plan import ServingPlan
from servingstack.targets.existing import parse

from .calling import endpoint
from .dashboard import url as dashboard_url
from .everything import bodies
from .existing import SageMakerExisting
from .overrides import apply
from .parts import Account, After, Body, Given, Hashed, Joined, Json, Ref, markers, region

try:
    import pulumi_aws as aws
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "target `sagemaker` needs the extra `aws`: pip install 'servingstack[aws]'"
    ) from error

TOKEN = "servingstack:aws:SageMakerEndpoint"
"""Never changes: it is in the URN of every child."""
NATIVE_VERSION = "1.84.0"
"""Of the aws-native plugin whose schema the endpoint's properties follow."""
_DELETE_S = 3600
EXAMPLE = '{"subnet_ids": [...]}'


def build(
    name: str,
    plan: ServingPlan,
    existing: Mapping[str, Any] | SageMakerExisting | None,
    opts: pulumi.ResourceOptions,
) -> SageMakerEndpoint:
    """What `ServingStack` calls of every option. Raises `InvalidInput`."""
    return SageMakerEndpoint(name, plan, opts, existing=parse(SageMakerExisting, existing, EXAMPLE))


class NativeEndpoint(pulumi.CustomResource):
    """`AWS::SageMaker::Endpoint` by Cloud Control."""

    endpointName: pulumi.Output[str]  # noqa: N815 (the engine's own spelling)

    def __init__(
        self, resource_name: str, opts: pulumi.ResourceOptions | None = None, **properties: Any
    ) -> None:
        pinned = pulumi.ResourceOptions(version=NATIVE_VERSION, replace_on_changes=["endpointName"])
        props = {_camel(key): _spelt(value) for key, value in properties.items()}
        super().__init__(
            "aws-native:sagemaker:Endpoint",
            resource_name,
            {**props, "endpointArn": None},
            pulumi.ResourceOptions.merge(pinned, opts),
        )


class SageMakerEndpoint(pulumi.ComponentResource):
    """A plan's endpoint on SageMaker with what scales and watches it. Usable alone with a plan."""

    endpoint: pulumi.Output[dict[str, Any]]
    """How to call it: `url`, `protocol`, `auth`, `invoke_example`, `timeout`."""
    dashboard_url: pulumi.Output[str | None]
    """The dashboard in the console; None without one."""

    def __init__(
        self,
        name: str,
        plan: ServingPlan,
        opts: pulumi.ResourceOptions | None = None,
        *,
        existing: SageMakerExisting | None = None,
    ) -> None:
        """Register every resource of `plan`. Raises `InvalidInput` for overrides that are refused, and for
        ids that are missing or have no use."""
        given = SageMakerExisting() if existing is None else existing
        given.check(plan)
        planned = apply(bodies(plan), plan.overrides)
        super().__init__(TOKEN, name, {"endpoint": plan.names["endpoint"]}, opts)
        native = _native(self, name, plan)
        made: dict[str, Any] = {}
        for body in planned:
            values = _Resolver(given, made).resolved(body.body)
            options = _options(self, body, made, native if body.token.startswith("aws-native:") else None)
            part = f"{body.role}-{body.content}" if body.content else body.role
            made[body.role] = _CLASSES[body.token]()(f"{name}-{part}", opts=options, **values)
        self.endpoint = made["endpoint"].endpointName.apply(lambda _: endpoint(plan))
        self.dashboard_url = pulumi.Output.from_input(dashboard_url(plan))
        self.register_outputs({"endpoint": self.endpoint, "dashboard_url": self.dashboard_url})


def _native(parent: pulumi.Resource, name: str, plan: ServingPlan) -> pulumi.ProviderResource:
    """Cloud Control's provider in the planned region."""
    options = pulumi.ResourceOptions(parent=parent, version=NATIVE_VERSION)
    return pulumi.ProviderResource("aws-native", f"{name}-cloud-control", {"region": region(plan)}, options)


def _options(
    parent: pulumi.Resource,
    body: Body,
    made: Mapping[str, Any],
    provider: pulumi.ProviderResource | None,
) -> pulumi.ResourceOptions:
    waits = None
    if body.timeout_s is not None:
        limit = f"{body.timeout_s}s"
        waits = pulumi.CustomTimeouts(create=limit, update=limit, delete=f"{_DELETE_S}s")
    return pulumi.ResourceOptions(
        parent=parent,
        provider=provider,
        depends_on=[made[role] for role in body.needs if role in made],
        ignore_changes=list(body.ignores) if body.ignores else None,
        custom_timeouts=waits,
        retain_on_delete=True if body.retain else None,
        delete_before_replace=True if body.first_away else None,
        replace_on_changes=[body.first_away] if body.first_away else None,
    )


class _Resolver:
    """Markers as outputs of what they stand for."""

    def __init__(self, given: SageMakerExisting, made: Mapping[str, Any]) -> None:
        self.given, self.made = given, made
        self.ways = {
            Ref: self._ref,
            Given: lambda value: getattr(given, value.field),
            Account: self._account,
            Joined: lambda value: _joined(*map(self.resolved, value.parts)),
            Hashed: self._hashed,
            After: lambda value: pulumi.Output.all(self._ref(value.value), self._ref(value.other)).apply(
                lambda known: known[0]
            ),
            Json: self._json,
            dict: lambda value: {key: self.resolved(inner) for key, inner in value.items()},
            list: lambda value: [self.resolved(inner) for inner in value],
            tuple: lambda value: [self.resolved(inner) for inner in value],
        }

    def resolved(self, value: Any) -> Any:
        """A value whose markers are outputs."""
        way = self.ways.get(type(value))
        return value if way is None else way(value)

    def _ref(self, value: Ref) -> Any:
        found = getattr(self.made[value.role], value.attribute)
        return _joined(value.before, found, value.after) if value.before or value.after else found

    def _account(self, value: Account) -> Any:
        account = self.made[value.role].arn.apply(_account)
        return _joined(value.before, account, value.after)

    def _hashed(self, value: Hashed) -> Any:
        ids = [self.resolved(each) for each in value.over]
        return pulumi.Output.all(*ids).apply(lambda known: _with(value.name, known)) if ids else value.name

    def _json(self, value: Json) -> Any:
        content = self.resolved(value.content)
        if not any(True for _ in markers(value.content)):
            return _text(content)
        return pulumi.Output.json_dumps(content, sort_keys=True)


def _joined(*parts: Any) -> pulumi.Output[str]:
    """One text; what a mock leaves out is empty."""
    return pulumi.Output.all(*parts).apply(lambda known: "".join(part for part in known if part is not None))


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def _account(arn: str | None) -> str:
    """Fifth part of an ARN; mocks have none."""
    return "" if arn is None else f"{arn}:::::".split(":")[4]


def _with(name: str, ids: list[Any]) -> str:
    """A name with a hash of ids that were handed in."""
    return f"{name}-{hashlib.sha256(_text(ids).encode()).hexdigest()[:6]}"


def _spelt(value: Any) -> Any:
    """Nested names as the engine has them."""
    if isinstance(value, Mapping):
        return {_camel(key): _spelt(inner) for key, inner in value.items()}
    return [_spelt(inner) for inner in value] if isinstance(value, list) else value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


# Looked up when used: the SDK loads a module at its first use.
_CLASSES: dict[str, Any] = {
    "aws-native:sagemaker:Endpoint": lambda: NativeEndpoint,
    "aws:appautoscaling/policy:Policy": lambda: aws.appautoscaling.Policy,
    "aws:appautoscaling/target:Target": lambda: aws.appautoscaling.Target,
    "aws:cloudwatch/compositeAlarm:CompositeAlarm": lambda: aws.cloudwatch.CompositeAlarm,
    "aws:cloudwatch/dashboard:Dashboard": lambda: aws.cloudwatch.Dashboard,
    "aws:cloudwatch/logGroup:LogGroup": lambda: aws.cloudwatch.LogGroup,
    "aws:cloudwatch/metricAlarm:MetricAlarm": lambda: aws.cloudwatch.MetricAlarm,
    "aws:iam/role:Role": lambda: aws.iam.Role,
    "aws:iam/rolePolicy:RolePolicy": lambda: aws.iam.RolePolicy,
    "aws:s3/bucket:Bucket": lambda: aws.s3.Bucket,
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": lambda: (
        aws.s3.BucketLifecycleConfiguration
    ),
    "aws:s3/bucketObject:BucketObject": lambda: aws.s3.BucketObject,
    "aws:s3/bucketPolicy:BucketPolicy": lambda: aws.s3.BucketPolicy,
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": lambda: aws.s3.BucketPublicAccessBlock,
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": lambda: (
        aws.s3.BucketServerSideEncryptionConfiguration
    ),
    "aws:sagemaker/endpointConfiguration:EndpointConfiguration": lambda: aws.sagemaker.EndpointConfiguration,
    "aws:sagemaker/model:Model": lambda: aws.sagemaker.Model,
    "aws:sns/topic:Topic": lambda: aws.sns.Topic,
    "aws:sns/topicPolicy:TopicPolicy": lambda: aws.sns.TopicPolicy,
    "aws:sns/topicSubscription:TopicSubscription": lambda: aws.sns.TopicSubscription,
}

__all__ = ["SageMakerEndpoint", "build"]
