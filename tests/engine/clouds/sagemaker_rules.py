"""What SageMaker and Application Auto Scaling do to each other; no row can say it.

The trap: an endpoint's instances are in none of its properties. An update takes the counts of the new
configuration, and is refused where it would change the machines under a registered scalable target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.engine.clouds.aws import ENDPOINT, ENDPOINT_CONFIG, NATIVE_ENDPOINT, SCALING_TARGET
from tests.engine.clouds.cloud import Cloud, CloudError, Rule, Thing

Json = Any


def endpoints(cloud: Cloud) -> list[Thing]:
    """Each endpoint of the account, whichever provider made it."""
    return cloud.things(ENDPOINT) + cloud.things(NATIVE_ENDPOINT)


def _variants(cloud: Cloud, config: str) -> dict[str, dict[str, Json]]:
    found = next(each for each in cloud.things(ENDPOINT_CONFIG) if each.inputs["name"] == config)
    return {each["variantName"]: each for each in found.inputs["productionVariants"]}


def _queued(cloud: Cloud, config: str) -> bool:
    found = next(each for each in cloud.things(ENDPOINT_CONFIG) if each.inputs["name"] == config)
    return bool(found.inputs.get("asyncInferenceConfig"))


def _counts(variants: Mapping[str, Mapping[str, Json]]) -> dict[str, Json]:
    return {name: each.get("initialInstanceCount") for name, each in variants.items()}


def _name(endpoint: Thing) -> str:
    return endpoint.inputs.get("name") or endpoint.inputs["endpointName"]


def _created(cloud: Cloud, endpoint: Thing, inputs: Mapping[str, Json]) -> None:
    endpoint.live["instances"] = _counts(_variants(cloud, inputs["endpointConfigName"]))


def _updated(cloud: Cloud, endpoint: Thing, inputs: Mapping[str, Json]) -> None:
    """UpdateEndpoint: the counts are the new configuration's, unless RetainAllVariantProperties is true."""
    if inputs["endpointConfigName"] == endpoint.inputs["endpointConfigName"]:
        return
    if _queued(cloud, inputs["endpointConfigName"]) != _queued(cloud, endpoint.inputs["endpointConfigName"]):
        # The service's own words, for one of the two ways (aws/sagemaker-python-sdk#3124).
        raise CloudError(
            "ValidationException", "The AsyncInferenceConfig parameter cannot be removed from this endpoint"
        )
    now = _variants(cloud, endpoint.inputs["endpointConfigName"])
    then = _variants(cloud, inputs["endpointConfigName"])
    for variant, was in now.items():
        if not _registered(cloud, _name(endpoint), variant):
            continue
        if then.get(variant, {}).get("instanceType") != was.get("instanceType"):
            # docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling.html: "If the update would change the
            # instance type for any model that is a target for automatic scaling, the update fails."
            raise CloudError(
                "ValidationException",
                f"variant {variant} must be deregistered as a scalable target with AWS Auto Scaling before "
                f"it can be removed or have its instance type updated",
            )
    running = endpoint.live["instances"] if inputs.get("retainAllVariantProperties") else {}
    endpoint.live["instances"] = {name: running.get(name, count) for name, count in _counts(then).items()}


def _registered(cloud: Cloud, endpoint: str, variant: str) -> bool:
    wanted = f"endpoint/{endpoint}/variant/{variant}"
    return any(each.inputs["resourceId"] == wanted for each in cloud.things(SCALING_TARGET))


def _target_created(cloud: Cloud, target: Thing, inputs: Mapping[str, Json]) -> None:
    _, name, _, variant = inputs["resourceId"].split("/")
    endpoint = next(each for each in endpoints(cloud) if _name(each) == name)
    if variant not in endpoint.live["instances"]:
        raise CloudError("ValidationException", f"{name} has no variant {variant}")


RULES: dict[tuple[str, str], Rule] = {
    ("create", ENDPOINT): _created,
    ("update", ENDPOINT): _updated,
    ("create", NATIVE_ENDPOINT): _created,
    ("update", NATIVE_ENDPOINT): _updated,
    ("create", SCALING_TARGET): _target_created,
}
