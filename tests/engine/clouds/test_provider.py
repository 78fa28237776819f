"""The test cloud's provider under the real engine, proven on a program of a few raw resources."""

from __future__ import annotations

import json

import pulumi
import pulumi_aws
import pytest
from tests.engine.clouds import aws
from tests.engine.clouds.cloud import RETRIES
from tests.engine.clouds.conftest import Account, MakeAccount
from tests.engine.clouds.stack import kill_engine

MARKER = "marker-that-must-not-be-in-any-state"


class Raw:
    """A SageMaker endpoint by hand. What a test changes between two updates stands in the fields."""

    def __init__(self, account: Account, name: str) -> None:
        self.cloud = account.cloud
        self.maximum = 4
        self.stack = account.open("raw", name, self.program)

    def program(self) -> None:
        role = pulumi_aws.iam.Role("role", name="serving", assume_role_policy="{}")
        grant = pulumi_aws.iam.RolePolicy("grant", role=role.name, policy=json.dumps({"Statement": []}))
        model = pulumi_aws.sagemaker.Model(
            "model",
            execution_role_arn=role.arn,
            primary_container={
                "image": "vllm:1",
                "environment": {"TOKEN": pulumi.Output.secret(MARKER)},
            },
            opts=pulumi.ResourceOptions(depends_on=[grant]),
        )
        config = pulumi_aws.sagemaker.EndpointConfiguration(
            "config",
            production_variants=[
                {
                    "variant_name": "main",
                    "model_name": model.name,
                    "instance_type": "ml.g5.xlarge",
                    "initial_instance_count": 1,
                }
            ],
        )
        endpoint = pulumi_aws.sagemaker.Endpoint(
            "endpoint",
            name="chat",
            endpoint_config_name=config.name,
            opts=pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create="40m")),
        )
        pulumi_aws.appautoscaling.Target(
            "target",
            min_capacity=1,
            max_capacity=self.maximum,
            resource_id=endpoint.name.apply(lambda name: f"endpoint/{name}/variant/main"),
            scalable_dimension="sagemaker:variant:DesiredInstanceCount",
            service_namespace="sagemaker",
        )
        pulumi.export("arn", endpoint.arn)


@pytest.fixture
def raw(account: MakeAccount, request: pytest.FixtureRequest) -> Raw:
    return Raw(account("aws"), request.node.name[-40:].strip("_"))


def test_a_stack_is_made_in_order_stays_unchanged_and_is_gone_in_reverse(raw: Raw) -> None:
    foreseen = raw.stack.preview()
    assert raw.cloud.log == [], "a preview touches nothing"
    raw.stack.up()
    assert raw.stack.counts == foreseen == {"create": 7}
    order = ["role", "grant", "model", "config", "endpoint", "target"]
    assert [name for _, _, name in raw.cloud.done()] == order
    assert raw.stack.outputs()["arn"] == "arn:aws:sagemaker:us-east-1:123456789012:endpoint/chat"
    assert {each.name: each.timeout_s for each in raw.cloud.log}["endpoint"] == 40 * 60
    name = raw.cloud.one(aws.MODEL).inputs["name"]
    assert name.startswith("model-"), "made where none is given"
    assert len(name) == len("model-") + 7
    assert raw.stack.preview(expect_no_changes=True) == {}, "and kept"
    raw.stack.destroy()
    assert [name for _, _, name in raw.cloud.done("delete")] == order[::-1]
    assert raw.cloud.things() == []
    assert raw.cloud.cancelled > 0, "the engine told the provider that it was done"


def test_a_refresh_sees_what_others_changed_or_deleted_and_an_update_puts_it_back(raw: Raw) -> None:
    raw.stack.up()
    raw.cloud.one(aws.ROLE).inputs["maxSessionDuration"] = 7200
    raw.cloud.remove(raw.cloud.one(aws.SCALING_TARGET))
    assert raw.stack.preview() == {}, "without a refresh nobody has looked"
    assert raw.stack.refresh() == {"delete": 1, "update": 1}
    assert raw.stack.up() == [("update", "role"), ("create", "target")]
    assert raw.cloud.one(aws.ROLE).inputs["maxSessionDuration"] == 3600
    # A refresh, a preview and two updates have gone by: a secret must be in none of their traces.
    sent = raw.cloud.one(aws.MODEL).inputs["primaryContainer"]
    assert sent["environment"]["TOKEN"] == MARKER
    assert MARKER not in raw.stack.state_text()
    assert MARKER not in "".join(raw.stack.said)


def test_a_create_that_fails_leaves_what_was_made_and_the_next_update_makes_the_rest(raw: Raw) -> None:
    raw.cloud.throttle("create", aws.MODEL, RETRIES)
    raw.cloud.fail("create", aws.ENDPOINT, "no capacity")
    assert "no capacity" in raw.stack.failing_up()
    outcomes = [each.outcome for each in raw.cloud.log if each.token == aws.MODEL]
    assert outcomes == [*["ThrottlingException"] * RETRIES, "done"], "that was only tried again"
    assert raw.stack.pending() == []
    raw.cloud.log.clear()
    raw.stack.up()
    assert raw.cloud.done() == [("create", "Endpoint", "endpoint"), ("create", "Target", "target")]
    raw.cloud.throttle("update", aws.SCALING_TARGET, RETRIES + 1)
    raw.maximum = 5
    assert "Rate exceeded" in raw.stack.failing_up()


def test_a_killed_engine_leaves_an_object_whose_fixed_name_the_next_update_runs_into(raw: Raw) -> None:
    raw.cloud.before("create", aws.ENDPOINT, kill_engine)
    raw.stack.failing_up()
    assert raw.stack.pending() == ["endpoint"]
    assert "currently locked" in raw.stack.failing_up()
    raw.stack.cancel()
    assert "already exists" in raw.stack.failing_up(), "made, and in no state: better told than paid twice"
    raw.cloud.remove(raw.cloud.one(aws.ENDPOINT))
    raw.stack.up()
    assert raw.stack.preview() == {}


def test_a_change_of_a_property_without_a_row_replaces_and_is_reported(raw: Raw) -> None:
    raw.stack.up()
    kinds = dict(raw.cloud.kinds)
    row = kinds[aws.SCALING_TARGET]
    kinds[aws.SCALING_TARGET] = type(row)(
        **{**vars(row), "updates": tuple(name for name in row.updates if name != "maxCapacity")}
    )
    raw.cloud.kinds = kinds
    raw.maximum = 5
    assert raw.stack.preview() == {"replace": 1}
    assert raw.cloud.without_row == [f"{aws.SCALING_TARGET} maxCapacity"]
    raw.cloud.without_row.clear()
