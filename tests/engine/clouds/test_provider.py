"""The test cloud itself, proven on programs of a few raw resources: that it refuses what a cloud refuses."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_aws
import pulumi_azure_native as azure_native
import pulumi_gcp
import pytest
from tests.engine.clouds import aws, azure, gcp
from tests.engine.clouds.conftest import LEFT_OPEN, Account, MakeAccount
from tests.engine.clouds.stack import kill_engine

pytestmark = LEFT_OPEN
MARKER = "marker-that-must-not-be-in-any-state"


class Raw:
    """A SageMaker endpoint by hand. What a test changes between two updates stands in the fields."""

    def __init__(self, account: Account, name: str) -> None:
        self.cloud = account.cloud
        self.image = "vllm:1"
        self.instance_type = "ml.g5.xlarge"
        self.maximum = 4
        self.fixed_config: str | None = None
        self.variant = "main"
        self.scaled = True
        self.token = "1"
        self.stack = account.open("raw", name, self.program)

    def program(self) -> None:
        role = pulumi_aws.iam.Role("role", name="serving", assume_role_policy="{}")
        grant = pulumi_aws.iam.RolePolicy("grant", role=role.name, policy=json.dumps({"Statement": []}))
        model = pulumi_aws.sagemaker.Model(
            "model",
            execution_role_arn=role.arn,
            primary_container={
                "image": self.image,
                "environment": {"TOKEN": pulumi.Output.secret(self.token)},
            },
            opts=pulumi.ResourceOptions(depends_on=[grant]),
        )
        config = pulumi_aws.sagemaker.EndpointConfiguration(
            "config",
            name=self.fixed_config,
            production_variants=[
                {
                    "variant_name": self.variant,
                    "model_name": model.name,
                    "instance_type": self.instance_type,
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
        if self.scaled:
            pulumi_aws.appautoscaling.Target(
                "target",
                min_capacity=1,
                max_capacity=self.maximum,
                resource_id=endpoint.name.apply(lambda name: f"endpoint/{name}/variant/{self.variant}"),
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
    assert raw.stack.outputs["arn"] == "arn:aws:sagemaker:us-east-1:123456789012:endpoint/chat"
    assert raw.stack.preview(expect_no_changes=True) == {}
    raw.stack.destroy()
    assert [name for _, _, name in raw.cloud.done("delete")] == order[::-1]
    assert raw.cloud.things() == []
    assert raw.cloud.cancelled > 0, "the engine told the provider that it was done"


def test_a_new_image_makes_a_new_model_and_config_before_the_endpoint_is_updated(raw: Raw) -> None:
    raw.stack.up()
    raw.image = "vllm:2"
    assert raw.stack.preview() == {"replace": 2, "update": 1}
    raw.cloud.log.clear()
    raw.stack.up()
    assert raw.cloud.done() == [
        ("create", "Model", "model"),
        ("create", "EndpointConfiguration", "config"),
        ("update", "Endpoint", "endpoint"),
        ("delete", "EndpointConfiguration", "config"),
        ("delete", "Model", "model"),
    ]


def test_a_name_that_is_fixed_on_what_is_replaced_is_refused_as_taken(raw: Raw) -> None:
    raw.fixed_config = "chat"
    raw.stack.up()
    raw.image = "vllm:2"
    assert "already exists" in raw.stack.failing_up()


def test_other_machines_under_a_scalable_target_are_refused(raw: Raw) -> None:
    raw.stack.up()
    raw.instance_type = "ml.g6.xlarge"
    assert "must be deregistered as a scalable target" in raw.stack.failing_up()


def test_an_endpoint_takes_the_new_configs_count_when_it_is_updated_and_only_then(raw: Raw) -> None:
    raw.stack.up()
    raw.cloud.one(aws.ENDPOINT).live["instances"]["main"] = 3
    raw.maximum = 6
    assert raw.stack.up() == [("update", "target")]
    assert raw.cloud.one(aws.ENDPOINT).live["instances"] == {"main": 3}
    raw.image = "vllm:2"
    raw.stack.up()
    assert raw.cloud.one(aws.ENDPOINT).live["instances"] == {"main": 1}


def test_what_a_secret_went_into_is_encrypted_wherever_it_comes_back(raw: Raw) -> None:
    raw.token = MARKER
    raw.stack.up()
    assert raw.cloud.one(aws.MODEL).inputs["primaryContainer"]["environment"]["TOKEN"] == MARKER
    raw.stack.refresh()
    raw.stack.preview()
    assert MARKER not in raw.stack.state_text()
    assert MARKER not in "".join(raw.stack.said)


def test_what_changed_outside_is_seen_by_a_refresh_and_put_back_by_an_update(raw: Raw) -> None:
    raw.stack.up()
    raw.cloud.one(aws.SCALING_TARGET).inputs["maxCapacity"] = 40
    assert raw.stack.preview() == {}, "without a refresh nobody has looked"
    assert raw.stack.refresh() == {"update": 1}
    assert raw.stack.preview() == {"update": 1}
    assert raw.stack.up() == [("update", "target")]
    assert raw.cloud.one(aws.SCALING_TARGET).inputs["maxCapacity"] == 4


def test_what_somebody_deleted_is_made_again_after_a_refresh(raw: Raw) -> None:
    raw.stack.up()
    raw.cloud.remove(raw.cloud.one(aws.SCALING_TARGET))
    raw.stack.refresh()
    assert raw.stack.up() == [("create", "target")]


def test_a_create_that_fails_leaves_what_was_made_and_the_next_update_makes_the_rest(raw: Raw) -> None:
    raw.cloud.fail("create", aws.ENDPOINT, "no capacity")
    assert "no capacity" in raw.stack.failing_up()
    assert raw.stack.pending() == []
    raw.cloud.log.clear()
    raw.stack.up()
    assert raw.cloud.done() == [("create", "Endpoint", "endpoint"), ("create", "Target", "target")]


def test_a_few_refusals_for_too_many_calls_are_tried_again_and_many_fail(raw: Raw) -> None:
    raw.cloud.throttle("create", aws.MODEL, 3)
    raw.stack.up()
    assert [each.outcome for each in raw.cloud.log if each.token == aws.MODEL] == [
        *["ThrottlingException"] * 3,
        "done",
    ]
    raw.cloud.throttle("create", aws.MODEL, 30)
    raw.image = "vllm:2"
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


def test_a_reference_to_what_is_not_there_is_refused(account: MakeAccount) -> None:
    def program() -> None:
        pulumi_aws.sagemaker.Endpoint("endpoint", endpoint_config_name="nobody")

    stack = account("aws").open("raw", "dangling", program)
    assert "names aws:sagemaker/endpointConfiguration:EndpointConfiguration nobody" in stack.failing_up()


def test_a_deletion_of_what_is_in_use_is_refused(raw: Raw) -> None:
    raw.stack.up()
    with pytest.raises(Exception, match="must not delete an EndpointConfig in use"):
        raw.cloud.delete(aws.ENDPOINT_CONFIG, "config", raw.cloud.one(aws.ENDPOINT_CONFIG).id)


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


def test_two_stacks_of_one_account_may_not_share_a_name(account: MakeAccount) -> None:
    shared = account("aws")

    def program() -> None:
        pulumi_aws.cloudwatch.MetricAlarm(
            "alarm", name="latency", comparison_operator="GreaterThanThreshold", evaluation_periods=1
        )

    shared.open("raw", "first", program).up()
    assert "already exists" in shared.open("raw", "second", program).failing_up()


def test_a_name_that_is_not_given_is_made_once_and_kept(account: MakeAccount) -> None:
    own = account("aws")
    stack = own.open("raw", "auto", lambda: void(pulumi_aws.iam.Role("role", assume_role_policy="{}")))
    stack.up()
    name = own.cloud.one(aws.ROLE).inputs["name"]
    assert name.startswith("role-")
    assert len(name) == len("role-") + 7
    assert stack.preview(expect_no_changes=True) == {}
    assert own.cloud.one(aws.ROLE).inputs["name"] == name


def void(_: object) -> None:
    """A program returns nothing."""


def google_service(**more: Any) -> None:
    pulumi_gcp.cloudrunv2.Service(
        "service",
        name="chat",
        location="us-central1",
        project=gcp.PROJECT,
        template={"containers": [{"image": "vllm:1"}]},
        **more,
    )


def test_googles_deletion_protection_stops_a_destroy_until_an_update_takes_it_off(
    account: MakeAccount,
) -> None:
    options: dict[str, Any] = {}
    own = account("gcp")
    stack = own.open("raw", "protected", lambda: google_service(**options))
    stack.up()
    with pytest.raises(Exception, match="deletionProtection"):
        stack.destroy()
    options["deletion_protection"] = False
    assert stack.up() == [("update", "service")]
    stack.destroy()
    assert own.cloud.things() == []


def azure_app(location: str, role: str) -> None:
    identity = azure_native.managedidentity.UserAssignedIdentity(
        "identity", resource_name_="chat", resource_group_name=azure.GROUP, location=location
    )
    azure_native.authorization.RoleAssignment(
        "pull",
        principal_id=identity.principal_id,
        scope=f"/subscriptions/{azure.SUBSCRIPTION}",
        role_definition_id=role,
    )
    environment = azure_native.app.ManagedEnvironment(
        "environment", environment_name="chat", resource_group_name=azure.GROUP, location=location
    )
    azure_native.app.ContainerApp(
        "app",
        container_app_name="chat",
        resource_group_name=azure.GROUP,
        location=location,
        environment_id=environment.id,
    )


def test_azure_refuses_to_change_the_role_of_an_assignment(account: MakeAccount) -> None:
    chosen = {"role": "reader"}
    own = account("azure")
    stack = own.open("raw", "roles", lambda: azure_app("eastus", chosen["role"]))
    stack.up()
    assert stack.preview(expect_no_changes=True) == {}
    chosen["role"] = "owner"
    assert "roleDefinitionId cannot be changed" in stack.failing_up()


def test_azure_deletes_no_environment_before_its_apps(account: MakeAccount) -> None:
    own = account("azure")
    stack = own.open("raw", "order", lambda: azure_app("eastus", "reader"))
    stack.up()
    with pytest.raises(Exception, match="does not have any container apps"):
        own.cloud.delete(azure.ENVIRONMENT, "environment", own.cloud.one(azure.ENVIRONMENT).id)
    stack.destroy()
    assert own.cloud.things() == []
