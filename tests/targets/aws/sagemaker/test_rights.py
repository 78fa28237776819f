"""What the containers may do: everything that the plan needs and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.targets.aws.amazon_api import statements
from tests.targets.aws.sagemaker.documents import ACCOUNT, CASES, KEY, OTHERS_ROLE, WEIGHTS_KEY
from tests.targets.aws.sagemaker.runs import by_role, run

from servingstack import planner
from servingstack.targets.aws.sagemaker import everything
from servingstack.targets.aws.sagemaker.parts import Ref, markers

WITHOUT_RESOURCES = {
    "ecr:GetAuthorizationToken", "cloudwatch:PutMetricData", "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcs",
}  # fmt: skip
"""Actions that know no resource (Service Authorization Reference)."""
OWN = [name for name in CASES if name != "owned-by-others"]


def rights(name: str) -> list[dict[str, Any]]:
    return statements(by_role(run(name))["role-policy"].inputs["policy"])


def allowed(name: str, action: str) -> list[str]:
    """Resources of an action."""
    return [where for each in rights(name) if action in each["Action"] for where in each["Resource"]]


@pytest.mark.parametrize("name", OWN)
def test_no_action_is_a_pattern_and_no_resource_is_everything_unless_the_action_knows_none(name: str) -> None:
    for each in rights(name):
        assert each["Effect"] == "Allow"
        assert not [action for action in each["Action"] if "*" in action]
        if "*" in each["Resource"]:
            assert set(each["Action"]) <= WITHOUT_RESOURCES
        else:
            assert all(where.startswith("arn:aws:") for where in each["Resource"])


@pytest.mark.parametrize("name", OWN)
def test_metrics_go_to_the_services_two_namespaces_alone(name: str) -> None:
    (metrics,) = [each for each in rights(name) if "cloudwatch:PutMetricData" in each["Action"]]
    assert metrics["Condition"] == {
        "StringEquals": {"cloudwatch:namespace": ["AWS/SageMaker", "/aws/sagemaker/Endpoints"]}
    }


def test_only_the_service_for_this_account_may_take_the_role() -> None:
    """Without the account's condition another customer's endpoint could be made to use it."""
    trust = json.loads(by_role(run("defaults"))["role"].inputs["assumeRolePolicy"])
    (statement,) = trust["Statement"]
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}


def test_weights_are_read_below_their_prefix_alone() -> None:
    assert "arn:aws:s3:::acme-models/mixtral/v1/*" in allowed("max", "s3:GetObject")
    listed = [each for each in rights("max") if "s3:ListBucket" in each["Action"]]
    assert {tuple(each["Resource"]) for each in listed} == {
        ("arn:aws:s3:::acme-models",),
        ("arn:aws:s3:::stack-bucket-1",),
    }
    assert all("s3:prefix" in each["Condition"]["StringLike"] for each in listed)
    assert not [where for where in allowed("defaults", "s3:GetObject") if "acme" in where]


def test_the_stacks_bucket_is_written_where_something_is_kept_and_nowhere_else() -> None:
    assert allowed("defaults", "s3:PutObject") == []
    assert allowed("max", "s3:PutObject") == ["arn:aws:s3:::stack-bucket-1/captured/*"]
    assert allowed("queued", "s3:PutObject") == ["arn:aws:s3:::stack-bucket-1/asynchronous/*"]
    assert "arn:aws:s3:::stack-bucket-1/server/*" in allowed("defaults", "s3:GetObject")


def test_the_image_comes_from_its_own_repository() -> None:
    assert allowed("defaults", "ecr:BatchGetImage") == ["arn:aws:ecr:us-east-1:763104351884:repository/vllm"]


def test_a_key_is_used_only_where_one_was_handed_in() -> None:
    assert allowed("defaults", "kms:Decrypt") == []
    assert allowed("max", "kms:GenerateDataKey") == [KEY]
    (grant,) = [each for each in rights("max") if "kms:CreateGrant" in each["Action"]]
    assert grant["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


def test_weights_under_another_key_can_be_read_and_nothing_be_written_with_it() -> None:
    assert allowed("weights-with-a-key", "kms:Decrypt") == [WEIGHTS_KEY]
    assert allowed("weights-with-a-key", "kms:GenerateDataKey") == []
    assert allowed("max", "kms:Decrypt") == [KEY]


def test_interfaces_are_made_only_in_a_network_of_ones_own() -> None:
    assert allowed("defaults", "ec2:CreateNetworkInterface") == []
    assert set(allowed("max", "ec2:CreateNetworkInterface")) == {
        f"arn:aws:ec2:us-east-1:{ACCOUNT}:{kind}/*"
        for kind in ("network-interface", "subnet", "security-group")
    }


def test_answers_are_announced_where_requests_wait() -> None:
    assert allowed("defaults", "sns:Publish") == []
    assert len(allowed("queued", "sns:Publish")) == 1


def test_a_role_of_ones_own_is_used_as_it_is() -> None:
    found = by_role(run("owned-by-others"))
    assert {"role", "role-policy"} & set(found) == set()
    assert found["model"].inputs["executionRoleArn"] == OTHERS_ROLE


@pytest.mark.parametrize("name", CASES)
def test_a_policy_is_short_enough_and_holds_no_secret(name: str) -> None:
    """IAM: 10 240 characters for all policies inside a role."""
    for role, each in by_role(run(name)).items():
        assert len(each.inputs.get("policy", "")) <= 10_240, role


def test_the_bucket_is_closed_encrypted_and_reached_by_tls_alone() -> None:
    found = by_role(run("defaults"))
    access = {
        key: value for key, value in found["bucket-access"].inputs.items() if key.startswith(("b", "i", "r"))
    }
    assert {key for key, value in access.items() if value is True} == {
        "blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets",
    }  # fmt: skip
    (deny,) = statements(found["bucket-policy"].inputs["policy"])
    assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    (rule,) = by_role(run("max"))["bucket-encryption"].inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": KEY}


@pytest.mark.parametrize("name", CASES)
def test_what_users_wrote_outlives_the_stack_as_closed_as_it_was_and_ends_by_itself(name: str) -> None:
    """A bucket that stays without its rules is open, unencrypted and there for ever."""
    found = by_role(run(name))
    stays = {role for role, each in found.items() if each.retain_on_delete}
    if name not in ("max", "queued", "queued-warm"):
        assert stays == set()
        return
    parts = {each.split("-", 1)[1] for each in found if each.startswith("bucket-")} | {"lifecycle"}
    assert parts == {"access", "encryption", "policy", "lifecycle"}
    assert stays == {"data-bucket", *(f"data-bucket-{part}" for part in parts)}
    rules = found["data-bucket-lifecycle"].inputs["rules"]
    days = {rule["filter"]["prefix"]: rule["expiration"]["days"] for rule in rules}
    assert days == dict.fromkeys(("captured/", "asynchronous/"), 14 if name == "max" else 30)


@pytest.mark.parametrize("name", CASES)
def test_nothing_of_the_users_is_in_the_bucket_that_goes_with_the_stack(name: str) -> None:
    """It could not be deleted, and what was captured yesterday is there whatever today's plan says."""
    plan = planner.plan(CASES[name][0])
    for body in everything.bodies(plan):
        mine = [each for each in markers(body.body) if isinstance(each, Ref) and each.role == "bucket"]
        assert not [each for each in mine if "captured" in each.after or "asynchronous" in each.after]
    found = by_role(run(name))
    closed = {role for role in found if role.startswith("data-bucket-")}
    urns = {found[role].urn for role in closed}
    assert urns <= set(found["config"].depends_on), "closed before anything is put into it"


def test_only_own_alarms_may_send_to_the_topic_of_alarms() -> None:
    said = statements(by_role(run("defaults"))["topic-policy"].inputs["policy"])
    (allow,) = [each for each in said if each["Effect"] == "Allow"]
    assert allow["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    pattern = f"arn:aws:cloudwatch:us-east-1:{ACCOUNT}:alarm:chat*"
    assert allow["Condition"] == {"ArnLike": {"aws:SourceArn": pattern}}
