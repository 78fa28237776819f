"""The rows against what others say: Pulumi's SDKs, botocore, and Azure's own models.

The trap: a row that is wrong makes every test on it wrong in the same way, so what can be read elsewhere
is.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

import botocore
import pytest
from pulumi import _types as sdk_types
from tests.engine.clouds import aws, azure, gcp
from tests.engine.clouds.tables import Kind, names_of

TABLES = {"pulumi_aws": aws, "pulumi_gcp": gcp, "pulumi_azure_native": azure}
WITHOUT_SDK = {aws.NATIVE_ENDPOINT}
"""Registered by a class of the product's own: pulumi-aws-native is no dependency."""
ROWS = [
    pytest.param(package, token, kind, id=token)
    for package, table in TABLES.items()
    for token, kind in table.KINDS.items()
    if token not in WITHOUT_SDK
]


def sdk_class(package: str, token: str) -> Any:
    _, module, name = token.split(":")
    return getattr(importlib.import_module(f"{package}.{module.split('/')[0]}"), name)


def sdk_inputs(package: str, token: str) -> set[str]:
    module = importlib.import_module(sdk_class(package, token).__module__)
    name = token.rsplit(":", 1)[-1]
    # A type of the service may bear the name `<Resource>Args`; the resource's own is then `InitArgs`.
    arguments = getattr(module, f"{name}InitArgs", None) or getattr(module, f"{name}Args")
    return set(sdk_types.input_type_py_to_pulumi_names(arguments).values())


def tops(paths: tuple[str, ...]) -> list[str]:
    return [path for path in paths if "." not in path]


@pytest.mark.parametrize(("package", "token", "kind"), ROWS)
def test_every_input_of_the_sdk_stands_in_one_list_of_its_row(package: str, token: str, kind: Kind) -> None:
    listed = [*tops(kind.replaces), *tops(kind.updates), *tops(kind.refuses)]
    assert sorted(listed) == sorted(sdk_inputs(package, token))


@pytest.mark.parametrize(("package", "token", "kind"), ROWS)
def test_tokens_and_names_are_the_sdks_own(package: str, token: str, kind: Kind) -> None:
    cls = sdk_class(package, token)
    assert f"'{token}'" in inspect.getsource(cls)
    inputs = sdk_inputs(package, token)
    outputs = set(sdk_types.resource_py_to_pulumi_names(cls).values())
    for path in (*kind.replaces, *kind.updates, *kind.keeps, *kind.unique, *kind.defaults):
        assert path.split(".")[0] in inputs, path
    for reference in kind.references:
        assert reference.path.split(".")[0] in inputs
    assert kind.name is None or kind.name in inputs
    assert set(kind.outputs) <= outputs


@pytest.mark.parametrize(("package", "token", "kind"), ROWS)
def test_every_row_has_a_source_and_every_reference_a_row(package: str, token: str, kind: Kind) -> None:
    assert kind.source
    for reference in kind.references:
        assert set(names_of(reference.kind)) <= set(TABLES[package].KINDS)


# ---- Amazon
# ------------------------------------------------------------------------------------------------

OPERATIONS = {
    aws.MODEL: ("sagemaker", "2017-07-24", "UpdateModel"),
    aws.ENDPOINT_CONFIG: ("sagemaker", "2017-07-24", "UpdateEndpointConfig"),
    aws.ENDPOINT: ("sagemaker", "2017-07-24", "UpdateEndpoint"),
}


@cache
def service_model(service: str, version: str) -> dict[str, Any]:
    path = Path(botocore.__file__).parent / "data" / service / version / "service-2.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("token", OPERATIONS)
def test_what_amazon_has_no_update_call_for_is_replaced_but_for_its_tags(token: str) -> None:
    service, version, operation = OPERATIONS[token]
    updates = set(tops(aws.KINDS[token].updates))
    assert (operation in service_model(service, version)["operations"]) == (updates != {"tags"})


def test_an_endpoints_inputs_of_cloud_control_are_the_calls_own_members() -> None:
    """CreateEndpoint and UpdateEndpoint together; what only one of them takes is named here."""
    members: set[str] = set()
    for shape in ("CreateEndpointInput", "UpdateEndpointInput"):
        members |= set(service_model("sagemaker", "2017-07-24")["shapes"][shape]["members"])
    kind = aws.KINDS[aws.NATIVE_ENDPOINT]
    ours = {name[0].upper() + name[1:] for name in tops(kind.replaces) + tops(kind.updates)}
    assert ours == members


# ---- Azure
# ------------------------------------------------------------------------------------------------


def fixed_after_creation(model: Any) -> set[str]:
    """Fields that the service takes at creation and not in an update, by their names on the wire."""
    fields: dict[str, Any] = model()._attr_to_rest_field
    return {
        field._rest_name
        for field in fields.values()
        if field._visibility and "create" in field._visibility and "update" not in field._visibility
    }


@pytest.mark.parametrize(
    ("token", "models", "below"),
    [
        (azure.APP, ("ContainerApp", "ContainerAppProperties"), ""),
        (azure.ENVIRONMENT, ("ManagedEnvironment", "ManagedEnvironmentProperties"), ""),
        (azure.ENVIRONMENT, ("VnetConfiguration",), "vnetConfiguration."),
    ],
)
def test_what_azures_models_let_only_be_created_is_replaced(
    token: str, models: tuple[str, ...], below: str
) -> None:
    from azure.mgmt.appcontainers import models as appcontainers

    fixed = {name for model in models for name in fixed_after_creation(getattr(appcontainers, model))}
    assert fixed, models
    kind = azure.KINDS[token]
    assert {below + name for name in fixed} <= set(kind.replaces)
    named = {"environmentName", "containerAppName", "resourceGroupName"}
    ours = {path for path in kind.replaces if ("." in path) == bool(below)}
    assert ours <= {below + name for name in fixed} | named
