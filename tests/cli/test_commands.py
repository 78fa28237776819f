"""The command line's contract: where input is found, what JSON looks like, and which exit code means what."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servingstack._version import __version__
from servingstack.cli import source
from servingstack.plan import ServingPlan

from .conftest import CHAT, DRAFTS, Command, Project

IMPOSSIBLE = CHAT | {"slo": {"ttft_p95": "1ms"}}


def file(folder: Path, content: Any) -> str:
    path = folder / "input.yaml"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_an_environment_is_found_by_name_from_any_folder_of_the_project(
    project: Project, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(project.root / "a" / "b")
    assert list(command("plan", "dev", "--json").json()["stacks"]) == ["chat"]
    assert command("plan", "org/project/dev", "--json").code == 0


def test_plan_json_of_a_file_with_one_stack_is_the_plan_itself(command: Command, tmp_path: Path) -> None:
    for content in (CHAT, {"stacks": [CHAT]}):
        plan = ServingPlan.model_validate(command("plan", "--file", file(tmp_path, content), "--json").json())
        assert plan.name == "chat"


def test_plan_json_of_several_stacks_has_them_by_name_and_stack_picks_one(
    project: Project, command: Command, tmp_path: Path
) -> None:
    several = file(tmp_path, {"stacks": [CHAT, DRAFTS]})
    assert list(command("plan", "-f", several, "--json").json()["stacks"]) == ["chat", "drafts"]
    assert command("plan", "-f", several, "--json", "--stack", "drafts").json()["name"] == "drafts"
    project.write(CHAT, DRAFTS)
    assert command("plan", "dev", "--stack", "chat", "--json").json()["name"] == "chat"
    refused = command("plan", "dev", "--stack", "draft", "--json")
    assert refused.code == 2
    assert refused.error()["violations"][0]["fix"] == "Did you mean `drafts`?"


def test_plan_text_prints_each_stack_and_the_total(project: Project, command: Command) -> None:
    project.write(CHAT, DRAFTS)
    result = command("plan", "dev")
    assert result.code == 0
    for words in (
        "chat: Qwen/Qwen2.5-7B-Instruct",
        "drafts: Qwen/Qwen2.5-1.5B-Instruct",
        "Total of 2 stacks",
    ):
        assert words in result.out
    assert result.err == ""


def test_what_no_plan_meets_is_exit_1_with_the_binding_limit_and_the_nearest_change(
    command: Command, tmp_path: Path
) -> None:
    path = file(tmp_path, IMPOSSIBLE)
    text = command("plan", "--file", path)
    assert (text.code, text.out) == (1, "")
    assert "no plan meets this" in text.err
    result = command("plan", "--file", path, "--json")
    assert (result.code, result.out) == (1, "")
    error = result.error()
    assert error["kind"] == "infeasible"
    assert "ttft_p95" in error["binding"]
    assert error["violations"] == []
    assert all(item["change"] and item["consequence"] for item in error["nearest"])


def test_several_refused_stacks_are_all_named(command: Command, tmp_path: Path) -> None:
    path = file(tmp_path, {"stacks": [IMPOSSIBLE, IMPOSSIBLE | {"name": "other"}, DRAFTS]})
    binding = command("plan", "--file", path, "--json").error()["binding"]
    assert "chat: " in binding
    assert "other: " in binding


def test_invalid_input_is_exit_2_with_every_violation(command: Command, tmp_path: Path) -> None:
    path = file(tmp_path, {"stacks": [CHAT | {"slo": {"ttft_p95": 500}}, DRAFTS | {"warm": "yes"}]})
    result = command("plan", "--file", path, "--json")
    assert (result.code, result.out) == (2, "")
    error = result.error()
    assert error["kind"] == "invalid_input"
    assert {"stacks[0].slo.ttft_p95", "stacks[1].warm"} <= {item["path"] for item in error["violations"]}
    assert set(error["violations"][0]) == {"path", "value", "allowed", "fix"}
    assert "stacks[0].slo.ttft_p95: got 500" in command("plan", "--file", path).err


def test_a_model_nobody_knows_is_invalid_input_at_its_place(command: Command, tmp_path: Path) -> None:
    path = file(tmp_path, {"stacks": [DRAFTS, CHAT | {"model": {"id": "nobody/knows-this"}}]})
    result = command("plan", "--file", path, "--json")
    assert result.code == 2
    assert result.error()["violations"][0]["path"].startswith("stacks[1].model")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan"], "an environment's name or --file"),
        (["plan", "dev", "--file", "x.yaml"], "an environment's name or --file"),
        (["plan", "prod"], "dev"),
        (["plan", "dve"], "Did you mean `dev`?"),
        (["plan", "--file", "none.yaml"], "none.yaml"),
        (["plan", "--fiel", "x"], "--fiel"),
        (["pln", "dev"], "pln"),
        (["preview", "dev", "--diff", "no-such-ref"], "no-such-ref"),
    ],
)
def test_a_wrong_command_line_is_exit_2(
    project: Project, command: Command, arguments: list[str], words: str
) -> None:
    plain, as_json = command(*arguments), command(*arguments, "--json")
    assert (plain.code, as_json.code) == (2, 2)
    assert words in plain.err
    assert as_json.error()["kind"] == "invalid_input"
    assert words in json.dumps(as_json.error(), ensure_ascii=False)


def test_outside_a_project_the_reader_is_told_so(command: Command, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    result = command("plan", "dev")
    assert result.code == 2
    assert "Pulumi.yaml" in result.err


def test_a_crash_is_exit_70_and_shows_a_traceback_only_when_asked(
    project: Project, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(source, "make_plan", broken)
    quiet, loud, as_json = (
        command("plan", "dev"),
        command("plan", "dev", "--debug"),
        command("plan", "dev", "--json"),
    )
    assert quiet.code == loud.code == as_json.code == 70
    assert "ZeroDivisionError: a fault" in quiet.err
    assert "report" in quiet.err
    assert "Traceback" not in quiet.err
    assert "Traceback" in loud.err
    assert as_json.error()["kind"] == "crash"


def test_debug_shows_where_an_ordinary_error_came_from_and_keeps_its_code(
    project: Project, command: Command
) -> None:
    result = command("plan", "prod", "--debug")
    assert result.code == 2
    assert "Traceback" in result.err


def test_version_and_help_are_exit_0(command: Command) -> None:
    assert command("--version").out.strip() == __version__
    help_text = command("--help").out
    assert command().out.split() == help_text.split()
    assert command().code == 0
    assert all(name in help_text for name in ("plan", "preview", "lock", "schema", "--debug"))


def test_an_esc_environment_is_said_to_be_unresolved(project: Project, command: Command) -> None:
    path = project.write(CHAT)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"environment": ["a/b"]}))
    assert "ESC environments" in command("plan", "dev").out


def test_plan_loads_no_pulumi_and_importing_the_command_loads_neither_typer_nor_rich(
    project: Project,
) -> None:
    program = (
        "import sys; from servingstack.cli import run; "
        "heavy = {'typer', 'rich', 'pulumi', 'yaml'} & set(sys.modules); "
        "code = run(['plan', 'dev', '--json']); "
        "print(sorted(heavy), code, 'pulumi' in sys.modules, 'rich' in sys.modules and 1, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.startswith("[] 0 False")


def test_the_installed_command_ends_quietly_when_its_reader_goes_away(project: Project) -> None:
    script = Path(sys.executable).with_name("servingstack")
    done = subprocess.run(
        f"{script} plan dev | head -1", shell=True, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("chat: ")
    assert done.stderr == ""


def test_an_output_that_cannot_be_written_is_no_crash() -> None:
    """/dev/full refuses every write, as a full disk does."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from servingstack.cli import main; main()", "schema"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 74
    assert "can be used" in done.stderr
    assert "fault of servingstack" not in done.stderr
