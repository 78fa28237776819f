"""Bodies held against Google's own discovery documents, which google-api-python-client brings along.

`translated` turns what the provider takes (Terraform's shape in Pulumi's spelling) into what it sends.
`problems` compares a body with a schema: unknown fields, fields that only the service sets, types, enums,
formats, and what a description calls required.

The trap: a discovery document says little of numbers. Ranges that stand in a description are read from it
(`ranges`), so that a limit in the product is compared with Google's text and not with itself.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import googleapiclient.discovery_cache as documents

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "boolean": (bool,), "integer": (int, float), "number": (int, float),
    "object": (dict,), "array": (list,), "any": (object,),
}  # fmt: skip
_FORMATS = {"google-duration": re.compile(r"\d+(\.\d+)?s"), "int64": re.compile(r"-?\d+")}


@cache
def document(api: str) -> dict[str, Any]:
    """`run.v2`, `monitoring.v1`, ..."""
    path = Path(documents.__file__).parent / "documents" / f"{api}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def schema(api: str, name: str) -> dict[str, Any]:
    """One message of an API."""
    return document(api)["schemas"][name]


def problems(api: str, name: str, body: Any, path: str = "") -> list[str]:
    """Everything in which a body is not that message."""
    return list(_object(api, schema(api, name), body, path or name))


def _object(api: str, kind: dict[str, Any], body: Any, path: str) -> Iterator[str]:
    if not isinstance(body, dict):
        yield f"{path}: an object, not {body!r}"
        return
    fields = kind.get("properties", {})
    for field, rule in fields.items():
        if rule.get("description", "").startswith("Required.") and field not in body:
            yield f"{path}.{field}: required"
    for field, value in body.items():
        rule = fields.get(field, kind.get("additionalProperties"))
        if rule is None:
            yield f"{path}.{field}: no such field; there are {', '.join(sorted(fields))}"
        elif rule.get("readOnly") or rule.get("description", "").startswith("Output only."):
            yield f"{path}.{field}: only the service sets it"
        else:
            yield from _value(api, rule, value, f"{path}.{field}")


def _value(api: str, rule: dict[str, Any], value: Any, path: str) -> Iterator[str]:
    if "$ref" in rule:
        yield from _object(api, schema(api, rule["$ref"]), value, path)
        return
    kind = rule["type"]
    if (isinstance(value, bool) and kind in ("integer", "number")) or not isinstance(value, _TYPES[kind]):
        yield f"{path}: a {kind}, not {value!r}"
    elif kind == "integer" and value != int(value):
        yield f"{path}: a whole number, not {value!r}"
    elif "enum" in rule and value not in rule["enum"]:
        yield f"{path}: {value!r} is none of {', '.join(rule['enum'])}"
    elif (
        kind == "string" and (form := _FORMATS.get(rule.get("format", ""))) and not form.fullmatch(str(value))
    ):
        yield f"{path}: {value!r} is no {rule['format']}"
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _value(api, rule["items"], item, f"{path}[{index}]")
    elif kind == "object":
        yield from _object(api, rule, value, path)


def description(api: str, name: str, field: str) -> str:
    """What Google says of a field."""
    return schema(api, name)["properties"][field]["description"]


# ---- from the provider's shape to the API's ----

# Lists that Pulumi names in the plural, and single objects that the API has as lists.
_PLURALS = {"commands": "command", "dependsOns": "dependsOn", "envs": "env", "traffics": "traffic"}
_LISTS = ("ports",)
# What the provider keeps for itself or puts into the address.
_ASIDE = {
    "gcp:cloudrunv2/service:Service": ("name", "location", "project", "deletionProtection", "deletionPolicy"),
    "gcp:serviceaccount/account:Account": ("project",),
    "gcp:secretmanager/secret:Secret": ("secretId", "project"),
    "gcp:secretmanager/secretVersion:SecretVersion": ("secret",),
    "gcp:monitoring/slo:Slo": ("service", "sloId", "project"),
    "gcp:monitoring/genericService:GenericService": ("serviceId", "project"),
    "gcp:monitoring/alertPolicy:AlertPolicy": ("project",),
    "gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig": ("project",),
}
MESSAGES = {
    "gcp:cloudrunv2/service:Service": ("run.v2", "GoogleCloudRunV2Service"),
    "gcp:serviceaccount/account:Account": ("iam.v1", "CreateServiceAccountRequest"),
    "gcp:monitoring/slo:Slo": ("monitoring.v3", "ServiceLevelObjective"),
    "gcp:monitoring/genericService:GenericService": ("monitoring.v3", "Service"),
    "gcp:monitoring/alertPolicy:AlertPolicy": ("monitoring.v3", "AlertPolicy"),
    "gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig": ("monitoring.v3", "UptimeCheckConfig"),
    "gcp:monitoring/dashboard:Dashboard": ("monitoring.v1", "Dashboard"),
    "gcp:secretmanager/secret:Secret": ("secretmanager.v1", "Secret"),
    "gcp:secretmanager/secretVersion:SecretVersion": ("secretmanager.v1", "AddSecretVersionRequest"),
    "gcp:projects/iAMMember:IAMMember": ("cloudresourcemanager.v3", "Binding"),
    "gcp:storage/bucketIAMMember:BucketIAMMember": ("run.v2", "GoogleIamV1Binding"),
    "gcp:secretmanager/secretIamMember:SecretIamMember": ("secretmanager.v1", "Binding"),
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember": ("run.v2", "GoogleIamV1Binding"),
}
"""The message that each type of resource becomes."""


def translated(token: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """What the provider sends for a resource."""
    body = _spelled({key: value for key, value in inputs.items() if key not in _ASIDE.get(token, ())})
    kind = token.rpartition(":")[2]
    if kind.lower().endswith("iammember"):
        return {"role": body["role"], "members": [body["member"]]}
    return _TRANSLATED[kind](body) if kind in _TRANSLATED else body


def _account(body: dict[str, Any]) -> dict[str, Any]:
    identity = body.pop("accountId")
    return {"accountId": identity, "serviceAccount": body}


def _slo(body: dict[str, Any]) -> dict[str, Any]:
    days = body.pop("rollingPeriodDays")
    indicator = {"requestBased": body.pop("requestBasedSli")}
    return body | {"rollingPeriod": f"{int(days) * 86400}s", "serviceLevelIndicator": indicator}


def _secret_version(body: dict[str, Any]) -> dict[str, Any]:
    return {"payload": {"data": base64.b64encode(unsealed(body["secretData"]).encode()).decode()}}


_TRANSLATED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "Account": _account,
    "Dashboard": lambda body: json.loads(body["dashboardJson"]),
    "Secret": lambda body: body | {"replication": {"automatic": body["replication"]["auto"]}},
    "SecretVersion": _secret_version,
    "Slo": _slo,
}


def unsealed(value: Any) -> str:
    """A text that Pulumi marks as a secret."""
    return value["value"] if isinstance(value, dict) else value


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            _PLURALS.get(key, key): [_spelled(inner)] if key in _LISTS else _spelled(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_spelled(inner) for inner in value]
    return value
