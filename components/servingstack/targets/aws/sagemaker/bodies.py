"""The endpoint and what it is made of, as data: model, configuration, endpoint, and the buckets beside them.

Fields as in pulumi-aws 7.51; the endpoint is Cloud Control's (`aws-native`), whose update can keep the number
of instances that autoscaling has reached, which pulumi-aws' cannot (hashicorp/terraform-provider-aws#48990).
There a changed deployment configuration is an update too; in pulumi-aws a changed list of rollback alarms
would replace the endpoint.

Traps:
- Model and configuration cannot be changed. Their names follow their content, the logical ones too; the new
  ones come first, and the old ones go only once the endpoint has moved.
- An id that is handed in may be known only when deploying. It is in the physical name alone, so a change of
  it that fails midway must be completed; taken back, it meets its own old name.
- The number of instances in a configuration is only where a fleet starts. Afterwards it is the scaler's, so
  it is no part of the configuration's name and ignored when it changes.
- A machine with a disk of its own takes no volume size, and every GPU machine of the catalog has one.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan

from .facts import CHANNELS_DIRECTORY
from .names import hash_of, names_in, with_hash
from .parts import Body, Given, Hashed, Ref, as_text, region, section, tagged
from .rights import ASYNCHRONOUS, CAPTURED, DATA, DATA_CLOSED, SERVER

MODEL = "aws:sagemaker/model:Model"
CONFIG = "aws:sagemaker/endpointConfiguration:EndpointConfiguration"
ENDPOINT = "aws-native:sagemaker:Endpoint"
KEPT = "DataCaptureConfig"
"""What an update takes from the plan although it keeps the running variants: no autoscaler owns it."""
_MARGIN_S = 900


def model(plan: ServingPlan) -> Body:
    """The container: image, environment, weights, network."""
    chosen = section(plan)
    container: dict[str, Any] = {"image": chosen.image, "environment": chosen.environment}
    if chosen.model_data is not None:
        container["model_data_source"] = {"s3_data_sources": [_whole(chosen.model_data)]}
    if chosen.server_file is not None:
        where = Ref("bucket", "bucket", "s3://", f"/{server_prefix(plan)}/")
        container["additional_model_data_sources"] = [
            {"channel_name": SERVER, "s3_data_sources": [_whole(where)]}
        ]
    properties = {
        "name": Hashed(plan.names["model"], _handed(plan, role=True, vpc=True)),
        "execution_role_arn": role_arn(plan),
        "primary_container": container,
        "enable_network_isolation": chosen.network_isolation,
    }
    if chosen.vpc:
        properties["vpc_config"] = {
            "subnets": Given("subnet_ids"),
            "security_group_ids": Given("security_group_ids"),
        }
    needs = ("role-policy", "server-file")
    return Body("model", MODEL, tagged(plan, properties), needs=needs, content=hash_of(plan.names["model"]))


def config(plan: ServingPlan) -> Body:
    """One variant of instances, how requests reach it, and what is kept of them."""
    chosen, architecture = section(plan), plan.architecture
    variant = {
        "variant_name": chosen.variant,
        "model_name": Ref("model", "name"),
        "instance_type": architecture.instance_type,
        "initial_instance_count": chosen.initial_instances,
        "initial_variant_weight": 1.0,
        "model_data_download_timeout_in_seconds": chosen.download_timeout_s,
        "container_startup_health_check_timeout_in_seconds": chosen.startup_timeout_s,
        "inference_ami_version": chosen.inference_ami,
    }
    if chosen.asynchronous is None:
        variant["routing_configs"] = [{"routing_strategy": "LEAST_OUTSTANDING_REQUESTS"}]
    properties: dict[str, Any] = {
        "name": Hashed(plan.names["config"], _handed(plan, role=True, vpc=True, key=True)),
        "production_variants": [variant],
    }
    if chosen.kms_key:
        properties["kms_key_arn"] = Given("kms_key_arn")
    if chosen.data_capture_percent:
        properties["data_capture_config"] = _capture(plan)
    if chosen.asynchronous is not None:
        properties["async_inference_config"] = _asynchronous(plan)
    ignores = ("productionVariants[0].initialInstanceCount",) if chosen.tracking is not None else ()
    named, content = tagged(plan, properties), hash_of(plan.names["config"])
    return Body("config", CONFIG, named, needs=DATA_CLOSED, ignores=ignores, content=content)


def endpoint(plan: ServingPlan) -> Body:
    """What callers name. Moves to a new configuration in steps that the rollback alarms watch."""
    chosen = section(plan)
    properties: dict[str, Any] = {
        "endpoint_name": plan.names["endpoint"],
        "endpoint_config_name": Ref("config", "name"),
        "deployment_config": _deployment(plan),
        "tags": [{"key": key, "value": value} for key, value in sorted(plan.labels.items())],
    }
    if chosen.tracking is not None:
        properties["retain_all_variant_properties"] = True
        properties["exclude_retained_variant_properties"] = [{"variant_property_type": KEPT}]
    needs = ("log-group", "role-policy", "rollback-errors", "rollback-latency", "scaled-machine")
    timeout = chosen.deployment.timeout_s + _MARGIN_S
    return Body("endpoint", ENDPOINT, properties, needs=needs, timeout_s=timeout)


def named(plan: ServingPlan) -> dict[str, str]:
    """The plan's names with those that need its region, and those of what cannot be changed with a hash of
    their content."""
    names = {**plan.names, **names_in(plan.name, region(plan))}
    bare = plan.model_copy(update={"names": {**names, "model": "", "config": ""}})
    names["model"] = with_hash(names["model"], _identity(model(bare)))
    content: dict[str, Any] = {**_identity(config(bare)), "model": names["model"]}
    if section(plan).tracking is not None:
        content["production_variants"][0].pop("initial_instance_count")
    names["config"] = with_hash(names["config"], content)
    return names


def _identity(body: Body) -> dict[str, Any]:
    """What cannot be changed: everything but the tags."""
    text: dict[str, Any] = as_text(body.body)
    return {key: value for key, value in text.items() if key != "tags"}


def server_prefix(plan: ServingPlan) -> str:
    """Of the server file in the bucket: by content, so that a new file is a new object."""
    text = plan.container.files.get(section(plan).server_file or "", "")
    return with_hash(SERVER, text).replace(f"{SERVER}-", f"{SERVER}/")


def server_directory() -> str:
    """Where the server file is in the container."""
    return f"{CHANNELS_DIRECTORY}/{SERVER}"


def role_arn(plan: ServingPlan) -> Ref | Given:
    """The containers' role."""
    return Given("role_arn") if section(plan).own_role else Ref("role", "arn")


def _handed(
    plan: ServingPlan, *, role: bool = False, vpc: bool = False, key: bool = False
) -> tuple[Given, ...]:
    """Ids that were handed in and that the resource cannot change."""
    chosen = section(plan)
    found = [Given("role_arn")] if role and chosen.own_role else []
    found += [Given("subnet_ids"), Given("security_group_ids")] if vpc and chosen.vpc else []
    found += [Given("kms_key_arn")] if key and chosen.kms_key else []
    return tuple(found)


def _whole(uri: Any) -> dict[str, Any]:
    """All objects below a prefix, as they are."""
    below = f"{uri.rstrip('/')}/" if isinstance(uri, str) else uri
    return {"s3_uri": below, "s3_data_type": "S3Prefix", "compression_type": "None"}


def _capture(plan: ServingPlan) -> dict[str, Any]:
    chosen = section(plan)
    found: dict[str, Any] = {
        "enable_capture": True,
        "initial_sampling_percentage": chosen.data_capture_percent,
        "destination_s3_uri": Ref(DATA, "bucket", "s3://", f"/{CAPTURED}/"),
        "capture_options": [{"capture_mode": "Input"}, {"capture_mode": "Output"}],
        "capture_content_type_header": {"json_content_types": ["application/json"]},
    }
    return {**found, "kms_key_id": Given("kms_key_arn")} if chosen.kms_key else found


def _asynchronous(plan: ServingPlan) -> dict[str, Any]:
    chosen = section(plan)
    assert chosen.asynchronous is not None
    output: dict[str, Any] = {
        "s3_output_path": Ref(DATA, "bucket", "s3://", f"/{ASYNCHRONOUS}/answers/"),
        "s3_failure_path": Ref(DATA, "bucket", "s3://", f"/{ASYNCHRONOUS}/failures/"),
        "notification_config": {
            "success_topic": Ref("results-topic", "arn"),
            "error_topic": Ref("results-topic", "arn"),
        },
    }
    if chosen.kms_key:
        output["kms_key_id"] = Given("kms_key_arn")
    limit = {"max_concurrent_invocations_per_instance": chosen.asynchronous.max_in_flight}
    return {"client_config": limit, "output_config": output}


def _deployment(plan: ServingPlan) -> dict[str, Any]:
    chosen = section(plan).deployment
    found: dict[str, Any] = {
        "auto_rollback_configuration": {"alarms": [{"alarm_name": name} for name in chosen.rollback_alarms]}
    }
    share = {"type": "CAPACITY_PERCENT", "value": chosen.step_percent}
    if chosen.kind == "rolling":
        found["rolling_update_policy"] = {
            "maximum_batch_size": share,
            "wait_interval_in_seconds": chosen.bake_s,
            "maximum_execution_timeout_in_seconds": chosen.timeout_s,
        }
        return found
    traffic: dict[str, Any] = {"type": "ALL_AT_ONCE", "wait_interval_in_seconds": chosen.bake_s}
    if chosen.kind == "canary":
        traffic |= {"type": "CANARY", "canary_size": share}
    found["blue_green_update_policy"] = {
        "traffic_routing_configuration": traffic,
        "termination_wait_in_seconds": chosen.bake_s,
        "maximum_execution_timeout_in_seconds": chosen.timeout_s,
    }
    return found


__all__ = [
    "CONFIG",
    "ENDPOINT",
    "MODEL",
    "config",
    "endpoint",
    "model",
    "named",
    "role_arn",
    "server_directory",
    "server_prefix",
]
