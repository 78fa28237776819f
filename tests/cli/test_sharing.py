"""Stacks of one environment on shared GPUs: packed and paid once, or refused together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Command, Project

NODE = {
    "accelerator": "l4",
    "gpus": 1,
    "count": 3,
    "cpu": 30,
    "memory": "110Gi",
    "hourly_price": 0.8,
    "sharing": {"time_slices": 4, "renamed": True},
}
LIGHT = {"requests_per_second": 0.5, "input_tokens": 256, "output_tokens": 64}


def member(name: str, model: str, **parts: Any) -> dict[str, Any]:
    return {
        "name": name,
        "model": {"id": model},
        "target": {"option": "kubernetes"},
        "hardware": {"nodes": [NODE]},
        "traffic": LIGHT,
        "colocate": "small",
        **parts,
    }


FITTING = (member("chat", "Qwen/Qwen2.5-1.5B-Instruct"), member("search", "BAAI/bge-m3"))
TOO_LARGE = (member("big", "Qwen/Qwen2.5-7B-Instruct"), member("other", "Qwen/Qwen2.5-3B-Instruct"))


def test_a_group_is_printed_with_its_members_and_its_gpu_is_paid_once(
    project: Project, command: Command
) -> None:
    project.write(*FITTING)
    out = " ".join(command("plan", "dev").out.split())
    assert "Group small: chat" in out
    assert "share 1 x l4" in out
    assert "Total of 2 stacks: $0.80 an hour" in out, "not a share each, and not a GPU each"
    (group,) = command("plan", "dev", "--json").json()["groups"]
    assert (group["members"], group["gpus"], group["hourly_usd"]) == (["chat", "search"], 1, 0.8)


@pytest.mark.parametrize("words", [("plan", "dev"), ("preview", "dev"), ("lock", "dev")])
def test_a_group_that_does_not_fit_is_exit_2_in_every_command(
    project: Project, command: Command, words: tuple[str, ...]
) -> None:
    project.write(*TOO_LARGE)
    result = command(*words, "--json")
    assert result.code == 2
    (violation,) = result.error()["violations"]
    assert violation["path"].endswith("stacks[1].colocate")
    assert "big" in violation["allowed"]
    assert "GiB" in violation["allowed"]
    assert "small-1: big; small-2: other" in violation["fix"]
    assert not project.lock.exists()


def test_one_member_alone_can_still_be_looked_at(project: Project, command: Command) -> None:
    project.write(*TOO_LARGE)
    assert command("plan", "dev", "--stack", "big").code == 0


def test_small_models_on_whole_gpus_hear_what_sharing_would_save(project: Project, command: Command) -> None:
    alone = {key: value for key, value in NODE.items() if key != "sharing"}
    nodes = {"hardware": {"nodes": [alone]}}
    stacks = [{key: v for key, v in each.items() if key != "colocate"} | nodes for each in FITTING]
    project.write(*stacks)
    out = " ".join(command("plan", "dev").out.split())
    assert "fit one l4 together" in out
    assert "small-model-big-gpu" in out


def test_the_examples_plan_says_what_it_packed(command: Command) -> None:
    example = Path(__file__).parents[2] / "examples" / "packed.yaml"
    out = " ".join(command("plan", "--file", str(example)).out.split())
    assert "Group retrieval: search" in out
    assert "a slice 1g.10gb of it (MIG), isolated" in out
