"""A lock holds a plan as it was reviewed: stable text, nothing dropped, a word for every way to differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servingstack import lock
from servingstack._version import __version__
from servingstack.errors import InvalidInput
from tests.sample import DOCUMENT, sample_plan

_PLAN = sample_plan().model_dump(mode="json")


def entry(**changes: Any) -> dict[str, Any]:
    """An entry whose hash is right for its plan with some fields changed."""
    plan = _PLAN | changes
    return {"key": plan["args_key"], "plan_hash": lock.content_hash(plan), "plan": plan}


def text(**changes: Any) -> str:
    """The sample plan's lock file, with top-level values changed after the fact."""
    return json.dumps(json.loads(lock.dumps(lock.make({"chat": sample_plan()}))) | changes)


def test_the_file_stands_beside_its_stack_file() -> None:
    assert lock.lock_path(Path("stacks/Pulumi.dev.yaml")) == Path("stacks/plan.dev.lock.json")
    assert lock.lock_path(Path("chat.yaml")) == Path("chat.lock.json")


def test_the_text_is_stable_and_names_versions_keys_and_whole_plans() -> None:
    plan = sample_plan()
    written = lock.dumps(lock.make({"chat": plan}))
    assert written == lock.dumps(lock.loads(written, "lock"))
    document = json.loads(written)
    assert document["lock_version"] == 1
    assert document["library_version"] == __version__
    assert document["stacks"]["chat"]["key"] == plan.args_key
    assert document["stacks"]["chat"]["plan"] == plan.model_dump(mode="json")
    assert list(document["stacks"]["chat"]["plan"]) == sorted(document["stacks"]["chat"]["plan"])


def test_a_plan_comes_back_from_the_file_as_it_went_in(tmp_path: Path) -> None:
    path = tmp_path / "plan.dev.lock.json"
    assert lock.read(path) is None
    lock.write(path, lock.make({"chat": sample_plan()}))
    read = lock.read(path)
    assert read is not None
    assert read.stacks["chat"].plan == sample_plan()
    assert [item.name for item in tmp_path.iterdir()] == ["plan.dev.lock.json"]


def test_no_lock_or_a_lock_of_other_stacks_is_absent() -> None:
    assert lock.compare(None, sample_plan()).state == "absent"
    other = lock.make({"other": sample_plan(DOCUMENT | {"name": "other"})})
    assert lock.compare(other, sample_plan()).state == "absent"


def test_the_same_args_match_and_a_fresh_plan_that_differs_is_told_by_field() -> None:
    locked = lock.make({"chat": sample_plan()})
    assert lock.compare(locked, sample_plan()).current
    newer = lock.compare(locked, sample_plan(architecture={"accelerator": "h100-80gb", "cpu_request": 9}))
    assert newer.state == "matching"
    assert not newer.current
    assert {str(change) for change in newer.changed} >= {
        "architecture.accelerator: a100-80gb => h100-80gb",
        "architecture.cpu_request: 8.0 => 9.0",
    }


def test_changed_args_make_the_lock_stale_and_the_changed_decisions_are_named() -> None:
    changed = DOCUMENT | {"traffic": {"requests_per_second": 8}}
    found = lock.compare(
        lock.make({"chat": sample_plan()}), sample_plan(changed, scaling={"min_replicas": 3})
    )
    assert found.state == "stale"
    assert "scaling.min_replicas: 2 => 3" in map(str, found.changed)
    assert found.locked == sample_plan()


def test_what_only_explains_a_decision_is_no_change() -> None:
    other = sample_plan(architecture={"why": "another sentence"})
    other = other.model_copy(update={"library_version": "9.9.9"})
    assert lock.compare(lock.make({"chat": sample_plan()}), other).current


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "line 1"),
        ("<<<<<<< ours", "Resolve a merge"),
        ("[]", "valid dictionary"),
        (text(lock_version=2), "lock_version"),
        (text(extra=1), "extra"),
        (text(stacks={"chat": entry() | {"key": "0" * 16}}), "edited by hand"),
        (text(stacks={"chat": entry() | {"plan_hash": "0" * 64}}), "edited by hand"),
        (text(stacks={"chat": entry() | {"plan": _PLAN | {"exposure": "public"}}}), "edited by hand"),
        (text(stacks={"chat": {"key": _PLAN["args_key"], "plan": _PLAN}}), "plan_hash"),
        (text(stacks={"other": entry()}), "edited by hand"),
        (text(stacks={"chat": entry(container=_PLAN["container"] | {"image": "a:latest"})}), "by digest"),
        (text(stacks={"chat": entry(schema_version=99)}), "schema_version"),
        (text(stacks={"chat": entry(newer=1)}), "a newer release"),
        ("[" * 100_000, "servingstack lock"),
        ("1" * 10_000, "servingstack lock"),
    ],
)
def test_a_lock_that_cannot_be_used_whole_is_refused(content: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        lock.loads(content, "plan.dev.lock.json")
    assert words in str(caught.value)
    assert "plan.dev.lock.json" in str(caught.value)


def test_the_version_is_the_packages_own() -> None:
    import tomllib

    project = Path(__file__).parents[1] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == __version__
