"""A project of its own for each test of the command line, and the commands run in this process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from servingstack.cli import run
from servingstack.lock import content_hash

CHAT = {
    "name": "chat",
    "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 8192},
    "slo": {"ttft_p95": "2s", "tpot_p95": "80ms"},
    "traffic": {"requests_per_second": 1, "input_tokens": 512, "output_tokens": 128},
    "hardware": {"accelerators": ["l4", "a100-80gb"]},
    "target": {"option": "kubernetes"},
}
DRAFTS = CHAT | {"name": "drafts", "model": {"id": "Qwen/Qwen2.5-1.5B-Instruct", "max_model_len": 4096}}


@dataclass(frozen=True)
class Result:
    """What one command did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def error(self) -> dict[str, Any]:
        return json.loads(self.err)["error"]


Command = Callable[..., Result]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`command("plan", "dev", "--json")`."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = run(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@dataclass(frozen=True)
class Project:
    """A Pulumi project with one environment, `dev`, in a git repository."""

    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "stacks" / "plan.dev.lock.json"

    def write(self, *stacks: dict[str, Any], environment: str = "dev", **config: Any) -> Path:
        """The environment's stack file; JSON is YAML."""
        values = {f"servingstack:{key}": value for key, value in {"stacks": list(stacks), **config}.items()}
        path = self.root / "stacks" / f"Pulumi.{environment}.yaml"
        path.write_text(json.dumps({"config": values}))
        return path

    def other_release(self, part: str, field: str, value: Any) -> None:
        """The lock of `chat` as a release would have written it that decides one field otherwise."""
        content = json.loads(self.lock.read_text())
        entry = content["stacks"]["chat"]
        entry["plan"][part][field] = value
        entry["plan_hash"] = content_hash(entry["plan"])
        self.lock.write_text(json.dumps(content))

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "state")

    def git(self, *arguments: str) -> None:
        who = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        subprocess.run(["git", "-C", str(self.root), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\nstackConfigDir: stacks\n")
    (tmp_path / "stacks").mkdir()
    made = Project(tmp_path)
    made.git("init", "-q")
    made.write(CHAT)
    monkeypatch.chdir(tmp_path)
    return made
