"""`preview` shows what a deployment registers, without engine or credentials; `--diff` what changes."""

from __future__ import annotations

import json
import sys
from typing import Any

import pulumi
import pytest

from servingstack.cli.graph import Resource, record

from .conftest import CHAT, DRAFTS, Command, Project

TALL = CHAT | {"hardware": {"accelerators": ["a100-80gb"]}}


def test_preview_json_is_the_plan_and_every_resource_with_its_parent_and_inputs(
    project: Project, command: Command
) -> None:
    shown = command("preview", "dev", "--json").json()["stacks"]["chat"]
    assert set(shown) == {"plan", "resources"}
    assert shown["plan"]["name"] == "chat"
    resources = {item["name"]: item for item in shown["resources"]}
    assert set(shown["resources"][0]) == {"type", "name", "parent", "inputs"}
    top = shown["resources"][0]
    assert (top["type"], top["parent"]) == ("servingstack:index:ServingStack", None)
    assert top["inputs"]["gpu"] == shown["plan"]["architecture"]["accelerator"]
    assert all(item["parent"] in resources for item in shown["resources"][1:])
    kinds = {item["type"] for item in shown["resources"]}
    assert {"kubernetes:apps/v1:Deployment", "kubernetes:keda.sh/v1alpha1:ScaledObject"} <= kinds
    deployment = resources["chat-kubernetes-deployment"]["inputs"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == shown["plan"]["container"]["image"]
    assert isinstance(container["ports"][0]["containerPort"], int)


def test_an_extra_that_is_not_installed_is_named_and_is_no_crash(
    project: Project, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "servingstack.targets.aws.sagemaker.resources", raising=False)
    monkeypatch.setitem(sys.modules, "pulumi_aws", None)  # what an import of it meets then
    source = {"id": "Qwen/Qwen2.5-7B-Instruct", "source": "s3://acme-models/qwen", "max_model_len": 8192}
    aws = {"option": "sagemaker", "region": "us-east-1"}
    project.write(CHAT | {"model": source, "target": aws, "slo": {"latency_p95": "20s"}})
    done = command("preview", "dev")
    assert done.code == 2
    assert "servingstack[aws]" in done.err


def test_two_previews_of_the_same_input_are_the_same_text(project: Project, command: Command) -> None:
    assert command("preview", "dev", "--json").out == command("preview", "dev", "--json").out


def test_one_file_with_one_stack_gives_one_object(command: Command, project: Project) -> None:
    path = project.root / "one.yaml"
    path.write_text(json.dumps(CHAT))
    assert set(command("preview", "--file", str(path), "--json").json()) == {"plan", "resources"}


def test_what_comes_from_config_is_masked_and_what_comes_from_another_stack_is_null(
    project: Project, command: Command
) -> None:
    existing = {
        "kubeconfig": {"config": "kubeconfig"},
        "context": {"stack": "org/net/prod", "output": "context"},
    }
    project.write(CHAT | {"existing": existing})
    resources = command("preview", "dev", "--json").json()["stacks"]["chat"]["resources"]
    provider = next(item for item in resources if item["type"] == "pulumi:providers:kubernetes")
    assert provider["inputs"]["kubeconfig"] == "[secret]"
    assert provider["inputs"]["context"] is None


def test_the_printed_tree_has_every_resource_below_its_parent_and_cuts_long_texts(
    project: Project, command: Command
) -> None:
    result = command("preview", "dev")
    assert result.code == 0
    lines = result.out.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("Resources of chat ("))
    assert lines[start + 1].startswith("chat  servingstack:index:ServingStack")
    assert any("├── chat-kubernetes-deployment  kubernetes:apps/v1:Deployment" in line for line in lines)
    assert any("haproxy.cfg: " in line and "characters)" in line for line in lines)
    assert result.out.index("Architecture") < result.out.index("Resources of chat")


def test_a_brief_preview_is_the_decision_and_one_line_for_each_resource(
    project: Project, command: Command
) -> None:
    shown = command("preview", "dev", "--json").json()["stacks"]["chat"]
    lines = command("preview", "dev", "--brief").out.splitlines()
    assert lines[0].startswith("chat: ")
    assert lines[0].removeprefix("chat: ")[:40] in shown["plan"]["architecture"]["why"]
    start = next(index for index, line in enumerate(lines) if line.startswith("Resources of chat ("))
    listed = [line.lstrip("│├└─ ") for line in lines[start + 1 :] if line]
    assert listed == [f"{item['name']}  {item['type']}" for item in shown["resources"]]


def test_the_locked_plan_is_what_a_preview_shows_while_it_matches(project: Project, command: Command) -> None:
    assert command("lock", "dev").code == 0
    project.other_release("batching", "max_num_seqs", 7)
    shown = command("preview", "dev", "--json").json()["stacks"]["chat"]
    assert shown["plan"]["batching"]["max_num_seqs"] == 7
    assert shown["resources"][0]["inputs"]["max_num_seqs"] == 7
    text = command("preview", "dev").out
    assert "this release would decide otherwise" in text
    assert "batching.max_num_seqs: 7 => " in text


def test_a_stale_lock_is_named_with_the_fields_that_change(project: Project, command: Command) -> None:
    command("lock", "dev")
    project.write(TALL)
    text = command("preview", "dev").out
    assert "Lock: STALE" in text
    assert "architecture.accelerator: l4 => a100-80gb" in text


def test_diff_shows_decisions_cost_and_resources_that_change_since_a_ref(
    project: Project, command: Command
) -> None:
    project.commit()
    project.write(TALL | {"observability": {"dashboards": False}}, DRAFTS)
    shown = command("preview", "dev", "--diff", "HEAD", "--json").json()["stacks"]
    chat, drafts = shown["chat"]["diff"], shown["drafts"]["diff"]
    assert chat["ref"] == "HEAD"
    assert {"path": "gpu", "before": "l4", "after": "a100-80gb"} in chat["decision"]
    money = chat["monthly_usd"]
    assert money["after"] > money["before"] > 0
    assert money["change"] == pytest.approx(money["after"] - money["before"], abs=0.02)
    assert [item["name"] for item in chat["resources"]["removed"]] == ["chat-kubernetes-dashboard"]
    changed = {item["name"]: item["fields"] for item in chat["resources"]["changed"]}
    assert {"path": "gpu", "before": "l4", "after": "a100-80gb"} in changed["chat"]
    assert drafts["monthly_usd"]["before"] == 0
    assert drafts["resources"]["removed"] == []
    assert len(drafts["resources"]["added"]) == len(shown["drafts"]["resources"])


def test_diff_in_words_ends_with_the_change_of_the_monthly_cost(project: Project, command: Command) -> None:
    project.write(CHAT, DRAFTS)
    project.commit()
    project.write(TALL)
    text = command("preview", "dev", "--diff", "HEAD").out
    changes = text[text.index("Changes since HEAD") :]
    assert "gpu: l4 => a100-80gb" in changes
    assert "~ chat-kubernetes-deployment" in changes
    assert "drafts: removed" in changes
    assert changes.splitlines()[-1].startswith("Cost a month: +$")
    listed = command("preview", "dev", "--diff", "HEAD", "--json").json()
    assert listed["removed_stacks"] == ["drafts"]


def test_nothing_changes_against_the_same_files(project: Project, command: Command) -> None:
    project.commit()
    text = command("preview", "dev", "--diff", "HEAD").out
    assert "chat: no change" in text
    assert "Cost a month: $0.00" in text


def test_a_ref_from_before_the_environment_existed_has_no_stacks(project: Project, command: Command) -> None:
    (project.root / "stacks" / "Pulumi.dev.yaml").unlink()
    project.commit()
    project.write(CHAT)
    assert command("preview", "dev", "--diff", "HEAD", "--json").json()["stacks"]["chat"]["diff"][
        "resources"
    ]["added"]


def test_the_lock_at_the_ref_is_what_was_deployed_then(project: Project, command: Command) -> None:
    command("lock", "dev")
    project.other_release("architecture", "accelerator", "t4")
    project.commit()
    command("lock", "dev")
    decision = command("preview", "dev", "--diff", "HEAD", "--json").json()["stacks"]["chat"]["diff"][
        "decision"
    ]
    assert {"path": "gpu", "before": "t4", "after": "l4"} in decision


@pytest.mark.parametrize(
    ("old", "words"),
    [
        (CHAT | {"trafic": {}}, "trafic"),
        (CHAT | {"slo": {"ttft_p95": "1ms"}}, "no plan meets this"),
    ],
    ids=["invalid", "infeasible"],
)
def test_a_change_that_mends_what_could_not_be_planned_is_shown_as_new_and_says_why(
    project: Project, command: Command, old: dict[str, object], words: str
) -> None:
    project.write(old, DRAFTS)
    project.commit()
    project.write(CHAT, DRAFTS)
    result = command("preview", "dev", "--diff", "HEAD", "--json")
    assert result.code == 0
    chat = result.json()["stacks"]["chat"]
    (problem,) = chat["diff"]["problems"]
    assert words in problem
    assert len(chat["diff"]["resources"]["added"]) == len(chat["resources"])
    assert "cannot be planned at HEAD" in command("preview", "dev", "--diff", "HEAD").out


def test_a_stack_that_is_right_at_the_ref_is_compared_beside_one_that_is_infeasible(
    project: Project, command: Command
) -> None:
    project.write(CHAT | {"slo": {"ttft_p95": "1ms"}}, DRAFTS)
    project.commit()
    project.write(CHAT, DRAFTS)
    drafts = command("preview", "dev", "--diff", "HEAD", "--json").json()["stacks"]["drafts"]["diff"]
    assert drafts["resources"] == {"added": [], "removed": [], "changed": []}


def test_files_at_the_ref_that_are_no_text_or_no_lock_are_named_and_no_crash(
    project: Project, command: Command
) -> None:
    path = project.write(CHAT)
    project.lock.write_text("<<<<<<< ours\n")
    project.commit()
    project.lock.unlink()
    shown = command("preview", "dev", "--diff", "HEAD", "--json")
    assert "plan.dev.lock.json at HEAD" in shown.json()["stacks"]["chat"]["diff"]["problems"][0]
    path.write_bytes(b"name: \xe9\n")
    project.commit()
    project.write(CHAT)
    shown = command("preview", "dev", "--diff", "HEAD", "--json")
    assert shown.code == 0
    assert "UTF-8" in shown.json()["stacks"]["chat"]["diff"]["problems"][0]


def test_a_ref_that_is_none_is_invalid_input(project: Project, command: Command) -> None:
    project.commit()
    assert command("preview", "dev", "--diff", "nowhere", "--json").code == 2


def test_unknown_secret_and_plain_values_are_told_apart() -> None:
    class Thing(pulumi.CustomResource):
        def __init__(self, name: str, inputs: dict[str, object]) -> None:
            super().__init__("test:index:Thing", name, dict(inputs))

    def program() -> None:
        first = Thing("first", {"plain": 2.5, "whole": 3, "items": [1, {"b": 1, "a": True}]})
        Thing("second", {"id_of_first": first.id, "secret": pulumi.Output.secret("hunter2"), "none": None})

    first, second = record(program)
    assert first == Resource(
        "test:index:Thing", "first", None, {"items": [1, {"a": True, "b": 1}], "plain": 2.5, "whole": 3}
    )
    assert second.inputs["id_of_first"] is None
    assert second.inputs["secret"] == "[secret]"


def test_a_diff_is_the_input_and_what_follows_from_it_and_nothing_that_stays(
    project: Project, command: Command
) -> None:
    project.commit()
    project.write(CHAT | {"model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096}})
    result = command("preview", "dev", "--diff", "HEAD")
    lines = [line.strip() for line in result.out.splitlines()]
    assert lines[0] == "Changes since HEAD"
    assert "input: model.max_model_len: 8192 => 4096" in lines
    where = "spec.template.spec.containers[engine].args"
    assert f"{where}: --max-model-len=8192 => --max-model-len=4096" in lines
    assert "Resources of chat" not in result.out
    assert len(lines) < 60
    sides = [line.partition(": ")[2].split(" => ") for line in lines if " => " in line]
    assert all(len(set(side)) == len(side) for side in sides)
    shown = command("preview", "dev", "--diff", "HEAD", "--json").json()["stacks"]["chat"]["diff"]
    assert {"path": "model.max_model_len", "before": 8192, "after": 4096} in shown["input"]


SAGEMAKER = {key: value for key, value in CHAT.items() if key != "hardware"} | {
    "target": {"option": "sagemaker"}
}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"overrides": {"endpoint": {"tags": {"a": "b"}}}}, "overrides.endpoint"),
        ({"overrides": {"topic": {"no_such_property": 1}}}, "overrides.topic.no_such_property"),
        ({"target": {"option": "sagemaker", "sagemaker": {"kms_key": True}}}, "existing.kms_key_arn"),
        ({"target": {"option": "sagemaker", "sagemaker": {"vpc": True}}}, "existing.subnet_ids"),
        (
            {"target": {"option": "cloud-run", "cloud_run": {"vpc_egress": "all-traffic"}}},
            "existing.network",
        ),
        ({"target": {"cloud": "auto"}, "existing": {"projct": "p"}}, "existing.projct"),
    ],
)
def test_what_only_the_component_refuses_is_told_as_wrong_input_f072(
    project: Project, command: Command, change: dict[str, Any], path: str
) -> None:
    project.write(SAGEMAKER | change)
    found = command("preview", "dev", "--json")
    assert found.code == 2, found.err
    paths = [each["path"] for each in found.error()["violations"]]
    assert f"stacks[0].{path}" in [each.removeprefix("servingstack:") for each in paths], paths
