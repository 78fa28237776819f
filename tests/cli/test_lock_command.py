"""`lock` writes what a pull request reviews; `lock --check`, for CI, fails only where a review is due."""

from __future__ import annotations

import json

import pytest

from servingstack import lock

from .conftest import CHAT, DRAFTS, Command, Project

TALL = CHAT | {"hardware": {"accelerators": ["a100-80gb"]}}


def test_lock_writes_every_stack_beside_the_environments_file(project: Project, command: Command) -> None:
    project.write(CHAT, DRAFTS)
    result = command("lock", "dev", "--json")
    assert result.code == 0
    assert result.json()["written"] is True
    assert {name: item["state"] for name, item in result.json()["stacks"].items()} == {
        "chat": "absent",
        "drafts": "absent",
    }
    written = lock.read(project.lock)
    assert written is not None
    assert list(written.stacks) == ["chat", "drafts"]
    assert written.stacks["chat"].plan.model_dump(mode="json") == json.loads(
        command("plan", "dev", "--stack", "chat", "--json").out
    )


def test_writing_it_twice_changes_nothing(project: Project, command: Command) -> None:
    command("lock", "dev")
    first = project.lock.read_bytes()
    assert "the same args" in command("lock", "dev").out
    assert project.lock.read_bytes() == first


def test_check_passes_on_a_current_lock_and_writes_nothing(project: Project, command: Command) -> None:
    command("lock", "dev")
    before = project.lock.stat().st_mtime_ns
    result = command("lock", "dev", "--check")
    assert result.code == 0
    assert result.out.startswith("current:")
    assert project.lock.stat().st_mtime_ns == before


def test_check_fails_on_an_absent_lock(project: Project, command: Command) -> None:
    result = command("lock", "dev", "--check", "--json")
    assert result.code == 2
    assert result.error()["violations"][0]["path"] == "plan.dev.lock.json: chat"
    assert not project.lock.exists()


def test_check_fails_on_changed_args_and_names_the_decisions_that_change(
    project: Project, command: Command
) -> None:
    command("lock", "dev")
    project.write(TALL)
    result = command("lock", "dev", "--check")
    assert result.code == 2
    assert "architecture.accelerator: l4 => a100-80gb" in result.err
    assert "servingstack lock" in result.err


def test_a_stale_lock_says_what_to_run_first_and_lists_one_change_a_line(
    project: Project, command: Command
) -> None:
    command("lock", "dev")
    project.write(TALL)
    for text in (command("lock", "dev", "--check").err, command("plan", "dev").out):
        assert text.index("run `servingstack lock dev`") < text.index("architecture.accelerator: l4")
        lines = [line.strip() for line in text.splitlines()]
        assert "architecture.accelerator: l4 => a100-80gb" in lines


def test_check_fails_on_changed_args_that_change_no_decision(project: Project, command: Command) -> None:
    command("lock", "dev")
    project.write(CHAT | {"rollout": {}})
    assert command("lock", "dev", "--check").code == 2


def test_check_fails_on_a_locked_stack_that_is_gone(project: Project, command: Command) -> None:
    project.write(CHAT, DRAFTS)
    command("lock", "dev")
    project.write(CHAT)
    result = command("lock", "dev", "--check")
    assert result.code == 2
    assert "plan.dev.lock.json: drafts" in result.err


def test_check_passes_and_tells_where_a_newer_release_would_decide_otherwise(
    project: Project, command: Command
) -> None:
    command("lock", "dev")
    project.other_release("batching", "max_num_seqs", 7)
    result = command("lock", "dev", "--check")
    assert result.code == 0
    assert "batching.max_num_seqs: 7 => " in result.out


def test_a_lock_of_a_file_stands_beside_that_file(project: Project, command: Command) -> None:
    path = project.root / "one.yaml"
    path.write_text(json.dumps(CHAT))
    assert command("lock", "--file", str(path)).code == 0
    assert (project.root / "one.lock.json").is_file()


BROKEN = {"a merge": b"<<<<<<< ours\n", "latin-1": b"\xe9", "no lock": b"[]", "deep": b"[" * 100_000}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_lock_file_is_exit_2_for_what_reads_it_and_written_anew_by_lock(
    project: Project, command: Command, content: bytes
) -> None:
    project.lock.write_bytes(content)
    for arguments in (("plan", "dev"), ("preview", "dev"), ("lock", "dev", "--check")):
        result = command(*arguments)
        assert result.code == 2
        assert "plan.dev.lock.json" in result.err
        assert "servingstack lock" in result.err
    assert "could not be used" in command("lock", "dev").out
    assert command("lock", "dev", "--check").code == 0


def test_a_folder_in_the_locks_place_is_exit_2(project: Project, command: Command) -> None:
    project.lock.mkdir()
    for arguments in (("plan", "dev"), ("lock", "dev")):
        result = command(*arguments)
        assert result.code == 2
        assert "plan.dev.lock.json" in result.err
    assert [item.name for item in project.lock.parent.iterdir() if item.suffix == ".partial"] == []


def test_a_lock_that_was_edited_by_hand_is_refused(project: Project, command: Command) -> None:
    command("lock", "dev")
    content = json.loads(project.lock.read_text())
    content["stacks"]["chat"]["plan"]["scaling"]["max_replicas"] = 500
    project.lock.write_text(json.dumps(content))
    result = command("preview", "dev")
    assert result.code == 2
    assert "edited by hand" in result.err
