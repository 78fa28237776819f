"""The containers' role: each right by name, on what the plan uses and nothing else.

Sources: dg/sagemaker-roles (what CreateModel needs) for the actions, the Service Authorization Reference for
which of them know resources. `ecr:GetAuthorizationToken`, `cloudwatch:PutMetricData` and `ec2:Describe...`
know none, so these exact actions alone have `*`; metrics are bound to the service's two namespaces.

Trap: the service passes on what the role may do. A right that the role has not is a health check that fails
after half an hour, with the reason in a log group that the role could not write to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from servingstack.plan import ServingPlan

from .facts import INSTANCE_NAMESPACE, NAMESPACE
from .parts import Account, Given, Json, Ref, keeps_data, region, section

Statement = dict[str, Any]
VERSION = "2012-10-17"
CAPTURED, ASYNCHRONOUS, SERVER = "captured", "asynchronous", "server"
"""Prefixes in the stack's buckets."""
DATA = "data-bucket"
"""The bucket of what users write; the other one holds the stack's own files."""
DATA_CLOSED = (f"{DATA}-access", f"{DATA}-encryption", f"{DATA}-lifecycle", f"{DATA}-policy")
"""What is true of it before anything is put into it."""
_DESCRIBED = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
_INTERFACES = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
)


def trust() -> Json:
    """Only the service, and only for this account's endpoints."""
    return _document(
        [
            {
                "Effect": "Allow",
                "Principal": {"Service": "sagemaker.amazonaws.com"},
                "Action": "sts:AssumeRole",
                "Condition": {"StringEquals": {"aws:SourceAccount": Account("log-group")}},
            }
        ]
    )


def policy(plan: ServingPlan) -> Json:
    """Everything that the plan's containers need."""
    chosen = section(plan)
    statements = [*_image(plan), *_observed(), *_weights(chosen.model_data)]
    if chosen.bucket:
        statements += _buckets(plan)
    if chosen.kms_key:
        statements += _key()
    if chosen.weights_key:
        statements.append(_allow("kms:Decrypt", Given("weights_key_arn")))
    if chosen.vpc:
        statements += _network(plan)
    if chosen.asynchronous is not None:
        statements.append(_allow("sns:Publish", Ref("results-topic", "arn")))
    return _document(statements)


def _document(statements: list[Statement]) -> Json:
    return Json({"Version": VERSION, "Statement": statements})


def _allow(actions: str | tuple[str, ...], resources: Any, **condition: Any) -> Statement:
    statement: Statement = {
        "Effect": "Allow",
        "Action": list(actions) if isinstance(actions, tuple) else actions,
        "Resource": resources,
    }
    return {**statement, "Condition": condition} if condition else statement


def _image(plan: ServingPlan) -> Iterator[Statement]:
    yield _allow("ecr:GetAuthorizationToken", "*")
    yield _allow(
        ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"),
        section(plan).image_repository_arn,
    )


def _observed() -> Iterator[Statement]:
    yield _allow(
        ("logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"),
        [Ref("log-group", "arn"), Ref("log-group", "arn", after=":*")],
    )
    yield _allow(
        "cloudwatch:PutMetricData",
        "*",
        StringEquals={"cloudwatch:namespace": [NAMESPACE, INSTANCE_NAMESPACE]},
    )


def _weights(source: str | None) -> Iterator[Statement]:
    if source is None:
        return
    bucket, _, prefix = source.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    below = f"{prefix}/*" if prefix else "*"
    yield _allow("s3:GetObject", f"arn:aws:s3:::{bucket}/{below}")
    yield _allow("s3:ListBucket", f"arn:aws:s3:::{bucket}", StringLike={"s3:prefix": [prefix, below]})


def _buckets(plan: ServingPlan) -> Iterator[Statement]:
    chosen = section(plan)
    if chosen.server_file is not None:
        yield _allow("s3:GetObject", Ref("bucket", "arn", after=f"/{SERVER}/*"))
        yield _listed("bucket", [SERVER])
    if not keeps_data(plan):
        return
    kept = [CAPTURED] if chosen.data_capture_percent else []
    if chosen.asynchronous is not None:  # requests are read from it, answers put into it
        kept.append(ASYNCHRONOUS)
        yield _allow("s3:GetObject", Ref(DATA, "arn", after=f"/{ASYNCHRONOUS}/*"))
    yield _allow("s3:PutObject", [Ref(DATA, "arn", after=f"/{prefix}/*") for prefix in kept])
    yield _listed(DATA, kept)


def _listed(role: str, prefixes: list[str]) -> Statement:
    below = [f"{prefix}/*" for prefix in sorted(prefixes)]
    return _allow("s3:ListBucket", Ref(role, "arn"), StringLike={"s3:prefix": below})


def _key() -> Iterator[Statement]:
    yield _allow(("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"), Given("kms_key_arn"))
    yield _allow("kms:CreateGrant", Given("kms_key_arn"), Bool={"kms:GrantIsForAWSResource": "true"})


def _network(plan: ServingPlan) -> Iterator[Statement]:
    yield _allow(_DESCRIBED, "*")
    yield _allow(
        _INTERFACES,
        [
            Account("log-group", f"arn:aws:ec2:{region(plan)}:", f":{kind}/*")
            for kind in ("network-interface", "subnet", "security-group")
        ],
    )
