"""`preview --diff REF --comment`: what a reviewer reads on a pull request."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servingstack.cli.comment import LONGEST, comment, marker, read_preview
from servingstack.cli.diff import Difference
from servingstack.cli.plan_text import usd
from servingstack.errors import InvalidInput

from .conftest import CHAT, DRAFTS, Command, Project

TALL = CHAT | {"hardware": {"accelerators": ["a100-80gb"]}}
URN = (
    "urn:pulumi:prod::serving::servingstack:index:ServingStack$aws:sagemaker/endpoint:Endpoint::chat-endpoint"
)


def _event(operation: str, *keys: str) -> dict[str, Any]:
    return {
        "resourcePreEvent": {"metadata": {"op": operation, "urn": URN, "keys": list(keys)}, "planning": True}
    }


END = {"summaryEvent": {"resourceChanges": {"same": 3, "replace": 1}, "isPreview": True}}


def _written(tmp_path: Path, *values: dict[str, Any]) -> Path:
    path = tmp_path / "preview.json"
    path.write_text("\n".join(json.dumps(value) for value in values))
    return path


def test_a_comment_says_what_changes_before_it_says_how(project: Project, command: Command) -> None:
    project.write(CHAT, DRAFTS)
    project.commit()
    project.write(TALL, DRAFTS)
    text = command("preview", "dev", "--diff", "HEAD", "--comment").out
    assert text.startswith(marker("dev"))
    assert "| `gpu` | `l4` | `a100-80gb` |" in text
    assert text.index("Cost a month") < text.index("| `gpu`") < text.index("<details>")
    assert "### drafts\nNo change." in text
    assert "Capacity: " in text


def test_the_pages_example_is_what_is_written(
    project: Project, command: Command, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    """The page on pull requests links to this file."""
    project.write(CHAT, DRAFTS)
    project.commit()
    project.write(TALL, DRAFTS)
    said = {
        "policyName": "request-timeout",
        "enforcementLevel": "advisory",
        "resourceUrn": URN,
        "message": "The client must set its own timeout of 30 s.",
    }
    path = _written(tmp_path, _event("replace", "endpointConfigName"), {"policyEvent": said}, END)
    text = command("preview", "dev", "--diff", "HEAD", "--comment", "--engine", str(path)).out
    assert "**replaced: `chat-endpoint`**" in text
    golden("cli/comment.md", text)


def test_a_comment_on_nothing_says_so_in_a_line(project: Project, command: Command) -> None:
    project.write(CHAT)
    project.commit()
    text = command("preview", "dev", "--diff", "HEAD", "--comment").out
    assert "No change against `HEAD`." in text
    assert "<details>" not in text


def test_a_move_to_another_option_is_in_bold_with_what_is_deleted(project: Project, command: Command) -> None:
    project.write(CHAT)
    project.commit()
    moved = {"source": "gs://acme-models/qwen", "max_model_len": 8192, "id": "Qwen/Qwen2.5-7B-Instruct"}
    there = {"option": "cloud-run", "region": "europe-west4"}
    project.write(CHAT | {"model": moved, "target": there, "slo": {"latency_p95": "30s"}})
    text = command("preview", "dev", "--diff", "HEAD", "--comment").out
    assert (
        "**It moves from `kubernetes` to `cloud-run`: address, protocol and the way to authenticate" in text
    )
    assert "\n**Deleted: `chat-kubernetes`, " in text
    assert "more.**" in text


def test_a_stack_that_goes_is_in_bold(project: Project, command: Command) -> None:
    project.write(CHAT, DRAFTS)
    project.commit()
    project.write(CHAT)
    text = command("preview", "dev", "--diff", "HEAD", "--comment").out
    assert "**Stack `drafts` is removed, with everything it serves.**" in text


def test_what_the_engine_replaces_is_in_bold_once_and_with_its_reason(
    project: Project, command: Command, tmp_path: Path
) -> None:
    project.write(CHAT)
    project.commit()
    steps = (_event("create-replacement", "name"), _event("replace", "name"), _event("delete-replaced"))
    path = _written(tmp_path, *steps, END)
    text = command("preview", "dev", "--diff", "HEAD", "--comment", "--engine", str(path)).out
    line = "- **replaced: `chat-endpoint`** (aws:sagemaker/endpoint:Endpoint), because of `name`"
    assert text.count("**replaced") == 1
    assert line in text
    assert "The engine's preview: 1 replace, 3 same." in text


def test_what_a_policy_says_is_a_row(tmp_path: Path) -> None:
    event = {
        "policyEvent": {
            "policyName": "request-timeout",
            "enforcementLevel": "mandatory",
            "resourceUrn": URN,
            "message": "No part of the path ends a request.\nSecond line",
        }
    }
    text = comment("dev", Difference("main", {}, [], 0.0), {}, read_preview(_written(tmp_path, event, END)))
    assert "| request-timeout | mandatory | chat-endpoint | No part of the path ends a request. |" in text


def test_the_digest_of_older_engines_is_read_too(tmp_path: Path) -> None:
    digest = {"steps": [{"op": "delete", "urn": URN}], "changeSummary": {"delete": 1}}
    found = read_preview(_written(tmp_path, digest))
    assert [step.name for step in found.gone] == ["chat-endpoint"]
    assert found.counts == {"delete": 1}


@pytest.mark.parametrize("content", ["", "not json", "[1]", json.dumps(_event("create")), "{}"])
def test_a_file_that_is_no_whole_preview_is_refused(tmp_path: Path, content: str) -> None:
    """A preview that died before its end would read as "nothing is replaced"."""
    path = tmp_path / "preview.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match="--engine"):
        read_preview(path)


def test_a_comment_needs_something_to_compare_with(project: Project, command: Command) -> None:
    project.write(CHAT)
    done = command("preview", "dev", "--comment")
    assert done.code == 2
    assert "--diff" in done.err


def test_nothing_of_a_file_breaks_the_comment(tmp_path: Path) -> None:
    evil = "x</details>|@everyone `code` [a](b) <script>"
    event = {
        "policyEvent": {
            "policyName": evil,
            "enforcementLevel": "advisory",
            "resourceUrn": evil,
            "message": evil,
        }
    }
    text = comment(evil, Difference(evil, {}, [evil], 0.0), {}, read_preview(_written(tmp_path, event, END)))
    row = next(line for line in text.splitlines() if line.startswith("| x"))
    assert row.replace("\\|", "").count("|") == 5
    assert "</details>" not in row
    assert "@everyone" not in row
    assert "<script>" not in row


def test_a_comment_never_exceeds_what_is_accepted(project: Project, command: Command) -> None:
    many = [CHAT | {"name": f"chat-{index}"} for index in range(12)]
    project.write()
    project.commit()
    project.write(*many)
    text = command("preview", "dev", "--diff", "HEAD", "--comment").out
    assert len(text) <= LONGEST + 10
    assert text.count("<details>") == text.count("</details>")


def test_a_stack_that_goes_to_zero_is_not_said_to_cost_nothing(project: Project, command: Command) -> None:
    project.write(CHAT)
    project.commit()
    project.write(CHAT | {"scaling": {"min_replicas": 0, "scale_to_zero_after": "10m"}})
    text = command("preview", "dev", "--diff", "HEAD", "--comment").out
    cost = command("plan", "dev", "--json").json()["stacks"]["chat"]["cost"]
    assert cost["monthly_usd"] == 0
    assert f"→ {usd(cost['expected_monthly_usd'])}" in text
    assert "at the mean traffic" in text
    assert "at the mean " in command("plan", "dev").out
    assert "at the mean traffic" in command("preview", "dev", "--diff", "HEAD").out
