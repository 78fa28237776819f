"""LoRA flags: spelt as the pinned releases spell them, each adapter at its revision, several values as
several arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from servingstack.engines import facts, lora
from servingstack.engines.sglang_limits import VERSION as SGLANG
from servingstack.engines.vllm_limits import VERSION as VLLM
from servingstack.plan import ServingPlan
from servingstack.planner import plan

MODEL = "Qwen/Qwen2.5-7B-Instruct"
ADAPTERS: list[dict[str, Any]] = [
    {"name": "sql", "source": "acme/qwen-sql", "rank": 16, "revision": "0123abc"},
    {"name": "acme/legal", "source": "pvc://adapters/legal/v2", "rank": 32},
]


def served(engine: str, **model: Any) -> ServingPlan:
    return plan(
        {
            "name": "chat",
            "model": {"id": MODEL, "adapters": ADAPTERS, **model},
            "engine": {"kind": engine},
            "target": {"option": "kubernetes"},
            "hardware": {"accelerators": ["l40s"]},
        }
    )


def _lora(found: ServingPlan) -> dict[str, Any]:
    flags = {flag.name: flag for flag in found.container.flags if "lora" in flag.name}
    return {name: flag.values or flag.value for name, flag in flags.items()}


@pytest.mark.parametrize(("engine", "version"), [("vllm", VLLM), ("sglang", SGLANG)])
def test_every_flag_and_its_kind_is_the_releases_own(engine: str, version: str) -> None:
    known = facts.flags(engine, version)
    for flag in served(engine).container.flags:
        name = flag.name.removeprefix("no-") if flag.name not in known else flag.name
        assert name in known, flag
        if flag.values:
            assert known[name].kind in ("list", "str")
        if flag.value is None and not flag.values:
            assert known[name].kind in facts.FLAGLESS_KINDS, flag


def test_the_ranks_are_those_that_the_release_takes() -> None:
    assert tuple(map(int, facts.flags("vllm", VLLM)["max-lora-rank"].choices)) == lora.VLLM.ranks
    assert facts.flags("sglang", SGLANG)["max-lora-rank"].choices == ()


def test_vllm_is_told_names_directories_and_the_base() -> None:
    flags = _lora(served("vllm"))
    assert flags["enable-lora"] is None
    assert (flags["max-loras"], flags["max-cpu-loras"], flags["max-lora-rank"]) == ("2", "2", "32")
    modules = [json.loads(each) for each in flags["lora-modules"]]
    # LoRAModulePath of vllm/entrypoints/openai/models/protocol.py: these and no others.
    assert all(set(each) == {"name", "path", "base_model_name"} for each in modules)
    assert [each["name"] for each in modules] == ["sql", "acme/legal"]
    assert modules[1]["path"] == "/adapters/adapters/legal/v2"
    assert {each["base_model_name"] for each in modules} == {MODEL}


def test_sglang_keeps_a_place_for_the_base_model() -> None:
    flags = _lora(served("sglang"))
    assert flags["max-loras-per-batch"] == "3"
    assert int(flags["max-loaded-loras"]) >= 3, "arg_groups/lora_hook.py asserts it"
    paths = [json.loads(each) for each in flags["lora-paths"]]
    assert [each["lora_name"] for each in paths] == ["sql", "acme/legal"]


def test_a_value_that_vllm_would_read_as_name_and_path_is_json() -> None:
    """LoRAParserAction takes a text with `=` and without a comma for name=path."""
    for value in _lora(served("vllm"))["lora-modules"]:
        assert "," in value
        assert json.loads(value)


def test_only_what_comes_from_the_hub_is_fetched_and_at_its_revision() -> None:
    (download,) = served("vllm").container.downloads
    assert (download.repository, download.revision) == ("acme/qwen-sql", "0123abc")
    (path,) = [each.path for each in served("vllm").architecture.adapters if each.name == "sql"]
    assert download.path == path


def test_another_revision_is_another_directory() -> None:
    """A cache that outlives pods may hold the old one still."""
    changed = [ADAPTERS[0] | {"revision": "4567def"}, ADAPTERS[1]]
    before, after = served("vllm"), served("vllm", adapters=changed)
    assert before.container.downloads[0].path != after.container.downloads[0].path


def test_clients_reach_an_adapter_by_its_name_on_the_same_paths() -> None:
    found = served("vllm")
    assert "/v1/chat/completions" in found.container.public_paths
    assert not any("lora" in path for path in found.container.public_paths), "nobody loads one at run time"
