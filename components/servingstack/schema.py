"""The JSON schema of every file that holds stacks, for editors: one schema that tells the three shapes apart.

Traps:
- Under defaults nothing is required of a single stack but its name, and null means "reset to unset" there. So
  the fields exist twice: strict for a file that is one stack, and partial for lists and defaults.
- Pydantic can read the docstrings below fields itself, while a class is made: it would read every source file
  at every import, for words that are needed here alone.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

from servingstack.args import ServingStackArgs
from servingstack.handed_on import FIELDS

_PARTIAL = "Partial"
_REFERENCE: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
    {
        "type": "object",
        "description": "The value of a config key, which may be secret.",
        "properties": {"config": {"type": "string"}},
        "required": ["config"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "description": "An output of another Pulumi stack.",
        "properties": {
            "stack": {"type": "string", "description": "org/project/environment"},
            "output": {"type": "string"},
        },
        "required": ["stack", "output"],
        "additionalProperties": False,
    },
]
_EXISTING: dict[str, Any] = {
    "type": "object",
    "description": "What exists, handed on as it is: plain values or references, no credential.",
    "properties": {name: {"description": words, "anyOf": _REFERENCE} for name, words in FIELDS.items()},
    "additionalProperties": False,
}


def schema() -> dict[str, Any]:
    """The schema as plain JSON values."""
    strict = ServingStackArgs.model_json_schema(mode="validation", schema_generator=_Described)
    definitions: dict[str, Any] = strict.pop("$defs")
    definitions["Stack"] = strict
    definitions |= {f"{name}{_PARTIAL}": _partial(body) for name, body in copy.deepcopy(definitions).items()}
    definitions["Existing"] = _EXISTING
    for name in ("Stack", f"Stack{_PARTIAL}"):
        definitions[name]["properties"]["existing"] = {"$ref": "#/$defs/Existing"}
    listed = {"allOf": [{"$ref": f"#/$defs/Stack{_PARTIAL}"}], "required": ["name"]}
    stacks = {
        "type": "array",
        "minItems": 1,
        "items": listed,
        "description": "The stacks; their names are unique.",
    }
    defaults = {
        "allOf": [{"$ref": f"#/$defs/Stack{_PARTIAL}"}],
        "not": {"required": ["name"]},
        "description": "Fields of every stack, before its own. Objects merge, lists replace, null resets.",
    }
    several = {
        "properties": {"stacks": stacks, "defaults": defaults},
        "required": ["stacks"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "servingstack: one stack, {defaults, stacks}, or a Pulumi stack file",
        "type": "object",
        "if": {"required": ["config"]},
        "then": _environment(stacks, defaults),
        "else": {
            "if": {"anyOf": [{"required": ["stacks"]}, {"required": ["defaults"]}]},
            "then": several,
            "else": {"$ref": "#/$defs/Stack"},
        },
        "$defs": definitions,
    }


class _Described(GenerateJsonSchema):
    """Pydantic's generator, with the docstring below each field as its description."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        body = super().model_schema(schema)
        properties = body.get("properties", {})
        for name, words in _words_of(schema["cls"]).items():
            if name in properties:
                properties[name] = self.handle_ref_overrides(properties[name] | {"description": words})
        return body


def _words_of(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings below the fields of a model, inherited ones included."""
    owners = [owner for owner in model.__mro__ if issubclass(owner, BaseModel) and owner is not BaseModel]
    found: dict[str, str] = {}
    for owner in reversed(owners):
        found |= _words_in(owner.__module__).get(owner.__qualname__, {})
    return found


@functools.cache
def _words_in(module: str) -> dict[str, dict[str, str]]:
    """The docstrings below the fields of each class of a module, by class and field."""
    path = inspect.getsourcefile(sys.modules[module])
    if path is None:
        return {}
    classes = [
        node
        for node in ast.parse(Path(path).read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]
    return {node.name: _below_fields(node.body) for node in classes}


def _below_fields(body: list[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, below in pairwise(body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                found[name] = inspect.cleandoc(words)
            case _:
                pass
    return found


def _environment(stacks: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return {
        "properties": {
            "config": {
                "type": "object",
                "properties": {
                    "servingstack:stacks": stacks,
                    "servingstack:defaults": defaults,
                    "servingstack:require_lock": {
                        "enum": [True, False, "true", "false"],
                        "description": "Whether `up` stops if the lock file is absent or stale. Default no.",
                    },
                },
                "required": ["servingstack:stacks"],
            }
        }
    }


def _partial(body: dict[str, Any]) -> dict[str, Any]:
    """A definition with nothing required, null allowed everywhere, and references to other partial ones."""
    body.pop("required", None)
    properties: dict[str, Any] = body.get("properties", {})
    for name, field in properties.items():
        if "const" in field:  # the tag of a union tells its members apart
            continue
        described = {key: field.pop(key) for key in ("description", "default") if key in field}
        properties[name] = described | {"anyOf": [_repointed(field), {"type": "null"}]}
    return body


def _repointed(value: Any) -> Any:
    """Objects merge, so what they hold is partial; lists are replaced, so their items stay strict. Without
    its tag a part of a union may be of several members."""
    if isinstance(value, dict):
        return {
            "anyOf" if key == "oneOf" else key: f"{inner}{_PARTIAL}"
            if key == "$ref"
            else inner
            if key == "items"
            else _repointed(inner)
            for key, inner in value.items()
            if key != "discriminator"
        }
    if isinstance(value, list):
        return [_repointed(inner) for inner in value]
    return value


def dumps() -> str:
    """The schema as stable text."""
    return json.dumps(schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


__all__ = ["dumps", "schema"]
