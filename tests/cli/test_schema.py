"""The JSON schema takes what the library takes, refuses what an editor should mark, describes each field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from servingstack import documents
from servingstack.schema import schema
from servingstack.yaml12 import load

from .conftest import CHAT, DRAFTS, Command

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "stacks").glob("Pulumi.*.yaml"), *(ROOT / "examples").glob("*.yaml")])
VALIDATOR = jsonschema.Draft202012Validator(schema())


def environment(**config: Any) -> dict[str, Any]:
    return {"config": {f"servingstack:{key}": value for key, value in config.items()} | {"aws:region": "x"}}


def test_the_schema_is_a_schema_and_the_committed_one_is_current(command: Command) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert command("schema").out == (ROOT / "stacks" / "schema.json").read_text(encoding="utf-8")
    assert command("schema", "--json").json() == schema()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_names_the_schema_in_its_first_line_and_keeps_to_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    modeline = text.splitlines()[0]
    assert modeline.startswith("# yaml-language-server: $schema=")
    assert (path.parent / modeline.split("=", 1)[1]).resolve() == ROOT / "stacks" / "schema.json"
    VALIDATOR.validate(load(text, path.name))


@pytest.mark.parametrize(
    "document",
    [
        CHAT,
        CHAT | {"existing": {"kubeconfig": {"config": "k"}, "context": "prod"}},
        CHAT | {"engine": {"kind": "vllm", "max_num_seqs": 8}},
        CHAT | {"observability": {"alerts": False}},
        {
            "stacks": [CHAT, {"name": "b"}],
            "defaults": {"model": {"precision": "fp8"}, "target": {"option": "auto"}},
        },
        environment(
            stacks=[{"name": "a", "slo": None}], defaults={"engine": {"max_num_seqs": 8}}, require_lock=True
        ),
    ],
)
def test_it_takes_what_a_document_may_say(document: dict[str, Any]) -> None:
    VALIDATOR.validate(document)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"name": "chat"},
        CHAT | {"trafic": {}},
        CHAT | {"slo": {"ttft_p95": 500}},
        CHAT | {"slo": {"ttft_p95": "500"}},
        CHAT | {"hardware": {"memory_request": "60"}},
        CHAT | {"name": "Chat"},
        CHAT | {"exposure": "publik"},
        CHAT | {"engine": {"kind": "vllm", "max_num_seq": 8}},
        CHAT | {"existing": {"kubeconfig": {"secure": "v1:abc"}}},
        CHAT | {"existing": {"kubecofig": "a"}},
        {"stacks": []},
        {"stacks": [{"model": {"id": "x"}}]},
        {"stacks": [CHAT], "platforms": {}},
        {"stacks": [CHAT], "defaults": {"name": "x"}},
        {"stacks": [CHAT], "defaults": {"hardware": {"nodes": [{"accelerator": "l4"}]}}},
        environment(stacks=[CHAT | {"labels": 5}]),
        environment(defaults={}),
        environment(stacks=[DRAFTS], require_lock="yes"),
    ],
)
def test_it_refuses_what_the_library_refuses(document: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(document)
    with pytest.raises(documents.InvalidInput):
        documents.parse_text(json.dumps(document), "file.yaml")


def _properties(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        for name, field in node.get("properties", {}).items():
            yield f"{path}.{name}", field
        for key, inner in node.items():
            yield from _properties(inner, f"{path}/{key}")


def _described(field: dict[str, Any]) -> bool:
    """Its own words, or those of what it refers to, which Pydantic says once when they are the same."""
    if "description" in field or "const" in field:
        return True
    named = [field, *field.get("anyOf", [])]
    references = [item["$ref"].rsplit("/", 1)[-1] for item in named if "$ref" in item]
    return any("description" in schema()["$defs"][name] for name in references)


def test_every_field_of_a_stack_is_described() -> None:
    found = {
        path: field for path, field in _properties(schema()["$defs"]) if not path.startswith("/Existing/")
    }
    assert [path for path, field in found.items() if not _described(field) and "/Existing/" not in path] == []
    assert len(found) > 100
