"""Every environment of the project on the real engine, from its own file, and the real CLI reading the
project."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pulumi import automation
from tests.engine.conftest import ROOT, InlineStack

from servingstack.project import deploy
from servingstack.yaml12 import load

_RENTED = ("cloud-run", "container-apps", "modal", "replicate", "sagemaker")
"""Environments of services, whose providers are stood in for in `clouds/` and `dynamic/`."""
ENVIRONMENTS = sorted(
    name
    for path in (ROOT / "stacks").glob("Pulumi.*.yaml")
    if (name := path.name.split(".")[1]) not in _RENTED
)
ON_OTHER_NODES = ("prod",)  # the simulated cluster has no H100


@pytest.fixture(scope="module")
def program() -> Callable[[], None]:
    return runpy.run_path(str(ROOT / "stacks" / "__main__.py"), run_name="stacks")["program"]


def stack_file(environment: str) -> Path:
    return ROOT / "stacks" / f"Pulumi.{environment}.yaml"


def names(environment: str) -> list[str]:
    config = load(stack_file(environment).read_text(), environment)["config"]
    return [item["name"] for item in config["servingstack:stacks"]]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_environment_previews_from_its_own_file(
    environment: str, inline_stack: InlineStack, program: Callable[[], None]
) -> None:
    stack = inline_stack("servingstack", environment, program, stack_file(environment))
    shown = stack.preview()
    assert shown.change_summary[automation.OpType.CREATE] > 20 * len(names(environment))
    assert "warning" not in shown.stderr


@pytest.mark.parametrize("environment", [name for name in ENVIRONMENTS if name not in ON_OTHER_NODES])
def test_an_environment_comes_up_is_then_without_changes_and_goes_down(
    environment: str, inline_stack: InlineStack, program: Callable[[], None], cluster: Any
) -> None:
    stack = inline_stack("servingstack", environment, program, stack_file(environment))
    try:
        outputs = stack.up().outputs
        for name in names(environment):
            value = outputs[name].value
            assert value["endpoint"]["url"].startswith("http")
            assert value["hourly_cost"] > 0
        again = stack.preview(expect_no_changes=True).change_summary
        assert set(again) <= {automation.OpType.SAME, automation.OpType.READ}
    finally:
        stack.destroy()
    left = cluster.kubectl("get", "deployments", "--all-namespaces", "-o", "name")
    assert not [
        line for line in left.splitlines() if line.split("/")[-1].startswith(tuple(names(environment)))
    ]


def small(**changed: Any) -> dict[str, Any]:
    return {
        "name": "small",
        "model": {"id": "Qwen/Qwen2.5-0.5B-Instruct", "max_model_len": 2048},
        "target": {"option": "kubernetes"},
        "hardware": {"accelerators": ["l4"]},
    } | changed


def test_an_update_stops_where_a_lock_is_required_and_absent_and_a_preview_warns(
    inline_stack: InlineStack, tmp_path: Path
) -> None:
    config = {"servingstack:require_lock": True, "servingstack:stacks": [small()]}
    stack = inline_stack("unlocked", "staging", lambda: void(deploy(tmp_path)), config)
    shown = stack.preview()
    assert "locked" in shown.stdout
    with pytest.raises(automation.CommandError) as caught:
        stack.up()
    told = str(caught.value)
    assert "require_lock" in told
    assert "Traceback" not in told
    assert "small" in told


def test_wrong_config_stops_with_every_violation_and_no_traceback(
    inline_stack: InlineStack, tmp_path: Path
) -> None:
    config = {"servingstack:stacks": [small(slo={"ttft_p95": 500}), small(name="Other", exposure="publik")]}
    stack = inline_stack("wrong", "dev", lambda: void(deploy(tmp_path)), config)
    with pytest.raises(automation.CommandError) as caught:
        stack.preview()
    told = str(caught.value)
    for path in ("stacks[0].slo.ttft_p95", "stacks[1].name", "stacks[1].exposure"):
        assert path in told
    assert "Traceback" not in told


def test_a_secret_inside_the_stacks_is_refused_where_pulumi_would_hand_it_out(
    inline_stack: InlineStack, tmp_path: Path
) -> None:
    stack = inline_stack("secret", "dev", lambda: void(deploy(tmp_path)), {"servingstack:stacks": [small()]})
    key = "servingstack:stacks[0].existing.context"
    stack.set_config(key, automation.ConfigValue("a-secret-context", secret=True), path=True)
    with pytest.raises(automation.CommandError) as caught:
        stack.preview()
    told = str(caught.value)
    assert "no secure value inside an object" in told
    assert "a-secret-context" not in told


def test_a_config_key_of_its_own_is_handed_on_and_stays_secret(
    inline_stack: InlineStack, tmp_path: Path, cluster: Any
) -> None:
    existing = {"kubeconfig": {"config": "kubeconfig"}}
    config = {"servingstack:stacks": [small(existing=existing)]}
    stack = inline_stack("referring", "dev", lambda: void(deploy(tmp_path)), config)
    stack.set_config(
        "referring:kubeconfig", automation.ConfigValue(cluster.kubeconfig.read_text(), secret=True)
    )
    assert stack.preview().change_summary[automation.OpType.CREATE] > 10


def void(_: object) -> None:
    """A program returns nothing."""


def test_the_real_command_line_reads_the_project_and_every_environments_config_as_we_do(
    engine_env: dict[str, str], tmp_path: Path
) -> None:
    shutil.copytree(
        ROOT / "stacks", tmp_path / "stacks", ignore=shutil.ignore_patterns("*.py", "__pycache__")
    )
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)

    def run(*arguments: str) -> str:
        command = ["pulumi", "--non-interactive", *arguments]
        environment = os.environ | engine_env
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for environment in ENVIRONMENTS:
        run("stack", "init", f"cli-{environment}")
        shutil.copy(stack_file(environment), tmp_path / "stacks" / f"Pulumi.cli-{environment}.yaml")
        read = json.loads(run("config", "--json", "--stack", f"cli-{environment}"))
        written = load(stack_file(environment).read_text(), environment)["config"]
        assert set(read) == set(written)
        for key, value in written.items():
            assert read[key]["secret"] is False
            assert json.loads(read[key]["value"]) == value
        run("stack", "rm", "--yes", f"cli-{environment}")
