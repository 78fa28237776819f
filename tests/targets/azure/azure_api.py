"""Azure's own models as an oracle for bodies: the management SDKs of Container Apps and Monitor, and the
classes of azure-native, which are generated from the same specifications.

A body here is what Pulumi was given: the REST API's with `properties` folded into the top level, and the
names of the path beside them.
"""

from __future__ import annotations

import collections.abc
import enum
import importlib
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi_azure_native as azure
from azure.mgmt.appcontainers import models as apps
from azure.mgmt.monitor import models as monitor
from pulumi import _types

PATH_NAMES = {
    "containerAppName",
    "environmentName",
    "storageName",
    "resourceGroupName",
    "ruleName",
    "actionGroupName",
}
APPS: dict[str, type] = {
    "azure-native:app:ContainerApp": apps.ContainerApp,
    "azure-native:app:ManagedEnvironment": apps.ManagedEnvironment,
    "azure-native:app:ManagedEnvironmentsStorage": apps.ManagedEnvironmentStorage,
}
MONITOR: dict[str, type] = {
    "azure-native:monitor:MetricAlert": monitor.MetricAlertResource,
    "azure-native:monitor:ScheduledQueryRule": monitor.ScheduledQueryRuleResource,
    "azure-native:monitor:ActionGroup": monitor.ActionGroupResource,
}
_DISCRIMINATORS = {"odataType": "odata.type"}
"""The SDK's own spelling of a name with a dot."""


def problems(token: str, body: Mapping[str, Any]) -> list[str]:
    """Everything that an oracle does not know or does not allow."""
    found = list(_native(token, body))
    if token in APPS:
        found += _model(APPS[token], body, token, folded=True)
    if token in MONITOR:
        found += _old_model(MONITOR[token], body, token)
    return found


# ---- azure-native's classes ----


def _native(token: str, body: Mapping[str, Any]) -> Iterator[str]:
    """Top-level names; what lies below is checked by the classes of the inputs."""
    _, module, name = token.split(":")
    resource = getattr(getattr(azure, module), name)
    source = importlib.import_module(
        resource.__module__
    )  # a nested type of the module may have the same name
    arguments = getattr(source, f"{name}InitArgs", None) or getattr(source, f"{name}Args")
    yield from _typed(arguments, body, token)


def _typed(cls: type, body: Mapping[str, Any], where: str) -> Iterator[str]:
    names = _types.input_type_py_to_pulumi_names(cls)
    kinds = _types.input_type_types(cls)
    for name, annotation in cls.__init__.__annotations__.items():
        if type(None) not in typing.get_args(annotation) and names[name] not in body:
            yield f"{where}: {names[name]} is missing"
    for key, value in body.items():
        if key not in kinds:
            yield f"{where}.{key}: not among {sorted(kinds)}"
        else:
            yield from _typed_value(kinds[key], value, f"{where}.{key}")


def _typed_value(kind: Any, value: Any, where: str) -> Iterator[str]:
    options = _options(kind)
    classes = [each for each in options if isinstance(each, type) and _types.is_input_type(each)]
    lists = [each for each in options if typing.get_origin(each) is collections.abc.Sequence]
    if isinstance(value, dict) and classes:
        tried = [list(_typed(each, value, where)) for each in classes]
        yield from min(tried, key=len)
    elif isinstance(value, list) and lists:
        (inner, *_) = typing.get_args(lists[0])
        for index, each in enumerate(value):
            yield from _typed_value(inner, each, f"{where}[{index}]")
    elif isinstance(value, str):
        yield from _enumerated(options, value, where)


def _options(kind: Any) -> list[Any]:
    """The members of a union, of inputs and outputs too."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return [option for member in typing.get_args(kind) for option in _options(member)]
    return [kind]


def _enumerated(options: list[Any], value: str, where: str) -> Iterator[str]:
    enums = [each for each in options if isinstance(each, type) and issubclass(each, enum.Enum)]
    allowed = [str(member.value) for each in enums for member in each]
    if [each.__name__ for each in enums] == ["ConditionOperator"]:
        # azure-native has one class for two enumerations of that name; the management SDK has this one.
        allowed = [str(member.value) for member in monitor.ConditionOperator]
    if allowed and value.lower() not in [each.lower() for each in allowed]:
        yield f"{where}: {value!r} is not among {allowed}"


# ---- new-style models of a management SDK ----


def _model(cls: Any, body: Mapping[str, Any], where: str, *, folded: bool = False) -> Iterator[str]:
    fields = {field._rest_name: attribute for attribute, field in cls({})._attr_to_rest_field.items()}
    kinds = _annotations(cls)
    inner = _resolved(kinds[fields["properties"]]) if folded and "properties" in fields else []
    below = next((each for each in inner if hasattr(each, "_deserialize")), None)
    properties: dict[str, Any] = {}
    for key, value in body.items():
        if folded and key in PATH_NAMES:
            continue
        if key in fields and key != "properties":
            yield from _value(kinds[fields[key]], value, f"{where}.{key}")
        elif below is not None:
            properties |= value if key == "properties" else {key: value}
        elif key in fields:
            yield from _value(kinds[fields[key]], value, f"{where}.{key}")
        else:
            yield f"{where}.{key}: not among {sorted(fields)}"
    if below is not None:
        yield from _model(below, properties, where)


def _annotations(cls: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        found |= inspect.get_annotations(base)
    return found


def _resolved(kind: Any) -> list[Any]:
    if isinstance(kind, str):
        return [getattr(apps, kind.removeprefix("_models."))]
    if isinstance(kind, typing.ForwardRef):
        return _resolved(kind.__forward_arg__)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [each for member in typing.get_args(kind) for each in _resolved(member)]
    return [kind]


def _value(kind: Any, value: Any, where: str) -> Iterator[str]:
    options = _resolved(kind)
    models = [each for each in options if hasattr(each, "_deserialize")]
    enums = [each for each in options if isinstance(each, type) and issubclass(each, enum.Enum)]
    lists = [each for each in options if typing.get_origin(each) is list]
    maps = [each for each in options if typing.get_origin(each) is dict]
    if models and isinstance(value, dict):
        yield from _model(models[0], value, where)
    elif enums:
        allowed = [member.value for member in enums[0]]
        if value not in allowed:
            yield f"{where}: {value!r} is not among {allowed}"
    elif lists and isinstance(value, list):
        (inner,) = typing.get_args(lists[0])
        for index, each in enumerate(value):
            yield from _value(inner, each, f"{where}[{index}]")
    elif maps and where.endswith("userAssignedIdentities"):
        if not isinstance(value, list):  # azure-native takes the ids alone
            yield f"{where}: {value!r} is no list of ids"
    elif maps and isinstance(value, dict):
        (_, inner) = typing.get_args(maps[0])
        for key, each in value.items():
            yield from _value(inner, each, f"{where}.{key}")
    else:
        yield from _plain([each for each in options if isinstance(each, type)], value, where)


def _plain(options: list[type], value: Any, where: str) -> Iterator[str]:
    """Numbers travel as floats; an id that is not known yet as nothing."""
    if value is None:
        return
    fits = {
        str: isinstance(value, str),
        bool: isinstance(value, bool),
        int: isinstance(value, int | float) and not isinstance(value, bool) and value == int(value),
        float: isinstance(value, int | float) and not isinstance(value, bool),
    }
    known = [each for each in options if each in fits]
    if known and not any(fits[each] for each in known):
        yield f"{where}: {value!r} is no {' or '.join(each.__name__ for each in known)}"


# ---- old-style models ----


def _old_model(cls: Any, body: Mapping[str, Any], where: str) -> Iterator[str]:
    cls = _subtype(cls, body)
    fields = {
        row["key"].replace("\\.", "\0").rpartition(".")[2].replace("\0", "."): (name, row["type"])
        for name, row in cls._attribute_map.items()
    }
    rules = getattr(cls, "_validation", {})
    given = {_DISCRIMINATORS.get(key, key): value for key, value in body.items() if key not in PATH_NAMES}
    for key, value in given.items():
        if key not in fields:
            yield f"{where}.{key}: not among {sorted(fields)}"
            continue
        name, kind = fields[key]
        yield from _ruled(rules.get(name, {}), value, f"{where}.{key}")
        yield from _old_value(kind, value, f"{where}.{key}")
    required = {key for key, (name, _) in fields.items() if rules.get(name, {}).get("required")}
    readonly = {key for key, (name, _) in fields.items() if rules.get(name, {}).get("readonly")}
    yield from (f"{where}: {key} is missing" for key in sorted(required - set(given)))
    yield from (f"{where}: {key} is read only" for key in sorted(readonly & set(given)))


def _subtype(cls: Any, body: Mapping[str, Any]) -> Any:
    for key, names in cls.__dict__.get("_subtype_map", {}).items():
        spelled = next(
            (name for name, real in _DISCRIMINATORS.items() if real.replace(".", "_") == key), None
        )
        mapped = cls._attribute_map[key]["key"].replace("\\", "")
        kind = body.get(spelled or mapped, body.get(mapped))
        if kind in names:
            return _subtype(getattr(monitor, names[kind]), body)
    return cls


def _ruled(rule: Mapping[str, Any], value: Any, where: str) -> Iterator[str]:
    length = len(value) if isinstance(value, str | list | dict) else 0
    if length > rule.get("max_length", length) or length < rule.get("min_length", length):
        yield f"{where}: {value!r} has a length of {length}, {dict(rule)}"
    if isinstance(value, int | float) and not rule.get("minimum", value) <= value <= rule.get(
        "maximum", value
    ):
        yield f"{where}: {value!r} is outside {dict(rule)}"


def _old_value(kind: str, value: Any, where: str) -> Iterator[str]:
    if kind.startswith("[") and isinstance(value, list):
        for index, each in enumerate(value):
            yield from _old_value(kind[1:-1], each, f"{where}[{index}]")
    elif kind.startswith("{") and isinstance(value, dict):
        for key, each in value.items():
            yield from _old_value(kind[1:-1], each, f"{where}.{key}")
    elif hasattr(monitor, kind) and isinstance(value, dict):
        yield from _old_model(getattr(monitor, kind), value, where)
    else:
        plain = {"str": str, "bool": bool, "int": int, "float": float, "duration": str}
        if kind in plain:
            yield from _plain([plain[kind]], value, where)
