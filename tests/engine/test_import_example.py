"""`examples/import` as its own project: it installs the built wheel and nothing of this working tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pytest
from tests.engine.conftest import ROOT, InlineStack

EXAMPLE = ROOT / "examples" / "import"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "servingstack"
UV = shutil.which("uv") or CACHE / "uv" / "bin" / "uv"
"""On PATH, or where `tools/setup.sh` puts it."""


def _run(*command: str | Path, **more: Any) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **more
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the built wheel with the extra it needs, at the versions of the lock file."""
    folder = tmp_path_factory.mktemp("importing")
    _run(UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
    (wheel,) = folder.glob("servingstack-*.whl")
    constraints = folder / "constraints.txt"
    _run(
        UV, "export", "--quiet", "--frozen", "--no-dev", "--extra", "kubernetes", "--no-emit-project",
        "--no-hashes", "--project", ROOT, "--output-file", constraints,
    )  # fmt: skip
    _run(UV, "venv", "--quiet", folder / "venv")
    made = folder / "venv" / "bin" / "python"
    _run(
        UV, "pip", "install", "--quiet", "--python", made, "--constraint", constraints,
        f"{wheel}[kubernetes]",
    )  # fmt: skip
    return made


@dataclass(frozen=True)
class Deployed:
    """What came of one `up`, and one preview after it."""

    library: str
    outputs: dict[str, Any]
    again: list[str]
    state: dict[str, Any]


@pytest.fixture(scope="module")
def deployed(
    python: Path, engine_env: dict[str, str], cluster: Any, inline_stack: InlineStack, tmp_path_factory: Any
) -> Any:
    kubeconfig = cluster.kubeconfig.read_text()
    inline_stack("cluster", "dev", lambda: pulumi.export("kubeconfig", pulumi.Output.secret(kubeconfig))).up()
    work_dir = tmp_path_factory.mktemp("work")
    shutil.copy(EXAMPLE / "Pulumi.yaml", work_dir)
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    environment |= {name: value for name, value in engine_env.items() if name != "KUBECONFIG"}

    def act(action: str) -> dict[str, Any]:
        script = Path(__file__).with_name("run_example.py")
        config = json.dumps({"importing:cluster": "organization/cluster/dev"})
        shown = _run(
            python, "-P", script, action, EXAMPLE, work_dir, config,
            env=environment, cwd=work_dir, timeout=600,
        )  # fmt: skip
        return json.loads(shown.splitlines()[-1])

    try:
        yield Deployed(**act("up"))
    finally:
        act("destroy")
    left = cluster.kubectl("get", "deployments", "--all-namespaces", "-o", "name")
    assert not [line for line in left.splitlines() if "chat" in line or "drafts" in line]


def test_the_library_is_the_installed_wheel(deployed: Deployed) -> None:
    assert "site-packages" in deployed.library
    assert not Path(deployed.library).is_relative_to(ROOT)


def test_both_stacks_are_deployed_and_a_second_preview_changes_nothing(
    deployed: Deployed, cluster: Any
) -> None:
    for name, namespace in (("chat", "assistants"), ("drafts", "drafts")):
        assert deployed.outputs[name]["protocol"] == "openai"
        listed = json.loads(cluster.kubectl("get", "deployments", "-n", namespace, "-o", "json"))["items"]
        assert any(item["metadata"]["name"].startswith(name) for item in listed)
        assert all(item["status"].get("readyReplicas", 0) >= 1 for item in listed)
    assert set(deployed.again) <= {"same", "read"}


def test_the_transform_reached_every_deployment_of_its_stack_and_no_other(
    deployed: Deployed, cluster: Any
) -> None:
    def owners(namespace: str) -> set[str | None]:
        listed = json.loads(cluster.kubectl("get", "deployments", "-n", namespace, "-o", "json"))["items"]
        return {item["metadata"].get("annotations", {}).get("example.com/owner") for item in listed}

    assert owners("assistants") == {"assistants"}
    assert owners("drafts") == {None}


def test_each_stack_uses_the_provider_it_was_given(deployed: Deployed) -> None:
    resources = deployed.state["resources"]
    providers = {
        item["urn"].rsplit("::", 1)[-1] for item in resources if "pulumi:providers:kubernetes" in item["type"]
    }
    assert providers == {"assistants", "drafts-kubernetes-cluster"}
    used = {
        item["urn"].rsplit("::", 1)[-1].split("-")[0]: item["provider"].split("::")[-2]
        for item in resources
        if item["type"] == "kubernetes:apps/v1:Deployment"
    }
    assert used == {"chat": "assistants", "drafts": "drafts-kubernetes-cluster"}


def test_the_kubeconfig_stands_nowhere_in_the_state_in_the_clear(deployed: Deployed, cluster: Any) -> None:
    secret = next(
        line.split(":", 1)[1].strip()
        for line in cluster.kubeconfig.read_text().splitlines()
        if "client-key-data" in line or "token" in line
    )
    assert len(secret) > 10
    assert secret not in json.dumps(deployed.state)
