"""Stacks on SageMaker as the recorder sees them, each run once."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tests.recorder import Registered, Run, record
from tests.targets.aws.sagemaker.documents import ACCOUNT, CASES

from servingstack.component import ServingStack

REGION = "us-east-1"
OUTPUTS: dict[str, dict[str, Any]] = {
    "aws:cloudwatch/logGroup:LogGroup": {"arn": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws/x"},
    "aws:iam/role:Role": {"arn": f"arn:aws:iam::{ACCOUNT}:role/containers"},
    "aws:s3/bucket:Bucket": {"arn": "arn:aws:s3:::stack-bucket-1", "bucket": "stack-bucket-1"},
    "aws:sns/topic:Topic": {"arn": f"arn:aws:sns:{REGION}:{ACCOUNT}:topic"},
    "aws:appautoscaling/policy:Policy": {
        "arn": f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:scalingPolicy:1:resource/x:policyName/x"
    },
}
"""What only Amazon knows of a resource."""


def run_of(given: dict[str, Any], existing: dict[str, Any] | None = None, *, preview: bool = False) -> Run:
    """What a program with this stack registers."""
    return record(lambda: ServingStack("stack", given, existing=existing), preview=preview, outputs=OUTPUTS)


@cache
def run(name: str) -> Run:
    """One of the cases."""
    return run_of(*CASES[name])


def role(found: Registered) -> str:
    """What a resource is in the stack; a hash of its content is no part of that."""
    return re.sub(r"-[0-9a-f]{10}$", "", found.name.removeprefix("stack-sagemaker-"))


def by_role(found: Run) -> dict[str, Registered]:
    """Every resource of Amazon's."""
    return {role(each): each for each in found.resources if each.type.startswith(("aws:", "aws-native:"))}
