"""The account in memory by itself: that it refuses what the services refuse."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.clouds import aws, azure, gcp, sagemaker_rules
from tests.engine.clouds.cloud import Cloud, CloudError, Thing
from tests.engine.clouds.values import changed_paths

Json = Any


def amazon() -> Cloud:
    return Cloud(aws.KINDS, aws.SETTINGS, aws.INVOKES, sagemaker_rules.RULES)


def google() -> Cloud:
    return Cloud(gcp.KINDS, gcp.SETTINGS, gcp.INVOKES, {})


def microsoft() -> Cloud:
    return Cloud(azure.KINDS, azure.SETTINGS, azure.INVOKES, {})


def config(cloud: Cloud, name: str, machine: str = "ml.g5.xlarge", variant: str = "main") -> Thing:
    role = cloud.things(aws.ROLE) or [cloud.create(aws.ROLE, "role", {"name": "serving"})]
    model = {"name": f"model-{name}", "executionRoleArn": role[0].value("arn")}
    cloud.create(aws.MODEL, "model", model)
    variants = [
        {
            "variantName": variant,
            "modelName": model["name"],
            "instanceType": machine,
            "initialInstanceCount": 1,
        }
    ]
    return cloud.create(aws.ENDPOINT_CONFIG, "config", {"name": name, "productionVariants": variants})


def endpoint(cloud: Cloud) -> Thing:
    config(cloud, "first")
    made = cloud.create(aws.ENDPOINT, "endpoint", {"name": "chat", "endpointConfigName": "first"})
    target = {
        "resourceId": "endpoint/chat/variant/main",
        "scalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "serviceNamespace": "sagemaker",
        "minCapacity": 1,
        "maxCapacity": 4,
    }
    cloud.create(aws.SCALING_TARGET, "target", target)
    return made


def switch(cloud: Cloud, to: str) -> None:
    cloud.update(aws.ENDPOINT, "endpoint", "chat", {"name": "chat", "endpointConfigName": to})


def test_a_name_that_is_taken_is_refused() -> None:
    cloud = amazon()
    cloud.create(aws.ALARM, "alarm", {"name": "latency"})
    with pytest.raises(CloudError, match="name latency already exists"):
        cloud.create(aws.ALARM, "another", {"name": "latency"})


def test_a_reference_to_what_is_not_there_is_refused() -> None:
    with pytest.raises(CloudError, match="Configuration nobody, which is not there"):
        amazon().create(aws.ENDPOINT, "endpoint", {"name": "chat", "endpointConfigName": "nobody"})


def test_a_kind_without_a_row_is_refused_and_remembered() -> None:
    cloud = amazon()
    with pytest.raises(CloudError, match="has no row"):
        cloud.create("aws:ec2/vpc:Vpc", "vpc", {})
    assert cloud.without_row == ["aws:ec2/vpc:Vpc"]


def test_a_config_in_use_and_a_role_with_a_policy_are_not_deleted() -> None:
    cloud = amazon()
    endpoint(cloud)
    cloud.create("aws:iam/rolePolicy:RolePolicy", "grant", {"name": "grant", "role": "serving"})
    with pytest.raises(CloudError, match="must not delete an EndpointConfig in use"):
        cloud.delete(aws.ENDPOINT_CONFIG, "config", "first")
    with pytest.raises(CloudError, match="you must delete the items attached"):
        cloud.delete(aws.ROLE, "role", "serving")


def test_other_machines_under_a_scalable_target_are_refused_and_another_model_is_not() -> None:
    cloud = amazon()
    endpoint(cloud)
    config(cloud, "bigger", machine="ml.g6.xlarge")
    config(cloud, "renamed", variant="other")
    config(cloud, "newer")
    for refused in ("bigger", "renamed"):
        with pytest.raises(CloudError, match="must be deregistered as a scalable target"):
            switch(cloud, refused)
    switch(cloud, "newer")


def test_an_endpoints_update_takes_the_new_configs_count() -> None:
    cloud = amazon()
    made = endpoint(cloud)
    made.live["instances"]["main"] = 3
    config(cloud, "newer")
    cloud.update(
        aws.ENDPOINT, "endpoint", "chat", {"name": "chat", "endpointConfigName": "first", "tags": {}}
    )
    assert made.live["instances"] == {"main": 3}, "tags start no deployment"
    switch(cloud, "newer")
    assert made.live["instances"] == {"main": 1}


def test_what_is_added_counts_with_all_that_is_in_it() -> None:
    """One immutable part of a new object is enough to replace; what the service keeps is no change."""
    cloud = amazon()
    alarms = {"autoRollbackConfiguration": {"alarms": [{"alarmName": "errors"}]}}
    added = changed_paths({}, {"deploymentConfig": alarms}, ())
    assert added == ["deploymentConfig.autoRollbackConfiguration.alarms.alarmName"]
    assert cloud.decide(aws.ENDPOINT, added[0])
    assert not cloud.decide(aws.NATIVE_ENDPOINT, added[0])
    assert changed_paths({"a": [{"b": 1}]}, {"a": [{"b": 1}, {"b": 2}]}, ()) == ["a.b"]
    assert changed_paths({"a": 1, "b": ["x"]}, {"b": ["x"]}, ("a",)) == []
    assert changed_paths({"a": None, "b": []}, {"c": ""}, ()) == []


def test_a_composite_alarms_parts_must_be_there_and_stay() -> None:
    cloud = amazon()
    rule = {"alarmName": "burn", "alarmRule": 'ALARM("fast") AND ALARM("slow")'}
    cloud.create(aws.ALARM, "fast", {"name": "fast"})
    with pytest.raises(CloudError, match="slow, which is not there"):
        cloud.create(aws.COMPOSITE_ALARM, "burn", rule)
    cloud.create(aws.ALARM, "slow", {"name": "slow"})
    cloud.create(aws.COMPOSITE_ALARM, "burn", rule)
    with pytest.raises(CloudError, match="depends on that alarm"):
        cloud.delete(aws.ALARM, "slow", "slow")


def test_google_deletes_no_service_whose_protection_nobody_took_off() -> None:
    cloud = google()
    service = {"name": "chat", "location": "us-central1", "project": gcp.PROJECT}
    made = cloud.create(gcp.SERVICE, "service", service)
    with pytest.raises(CloudError, match="deletionProtection"):
        cloud.delete(gcp.SERVICE, "service", made.id)
    cloud.update(gcp.SERVICE, "service", made.id, service | {"deletionProtection": False})
    cloud.delete(gcp.SERVICE, "service", made.id)
    assert cloud.things() == []


def test_azure_changes_no_assignments_role_and_deletes_no_environment_before_its_apps() -> None:
    cloud = microsoft()
    place = {"resourceGroupName": azure.GROUP, "location": azure.REGION}
    cloud.seed(azure.RESOURCE_GROUP, **place)
    identity = cloud.create(azure.IDENTITY, "identity", place | {"resourceName": "chat"})
    role = {"scope": "/subscriptions/x", "roleAssignmentName": "a", "roleDefinitionId": "reader"}
    role["principalId"] = identity.value("principalId")
    assignment = cloud.create(azure.ROLE_ASSIGNMENT, "pull", role)
    with pytest.raises(CloudError, match="roleDefinitionId cannot be changed"):
        cloud.update(azure.ROLE_ASSIGNMENT, "pull", assignment.id, role | {"roleDefinitionId": "owner"})
    environment = cloud.create(azure.ENVIRONMENT, "environment", place | {"environmentName": "chat"})
    app = place | {"containerAppName": "chat", "environmentId": environment.id}
    made = cloud.create(azure.APP, "app", app)
    with pytest.raises(CloudError, match="does not have any container apps"):
        cloud.delete(azure.ENVIRONMENT, "environment", environment.id)
    cloud.delete(azure.APP, "app", made.id)
    cloud.delete(azure.ENVIRONMENT, "environment", environment.id)
