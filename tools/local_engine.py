"""The real Pulumi engine on stacks of one's own: local state, no account, inline programs.

The trap: `stack_settings` of the Automation API drops lists and maps, and a stack file that loses its salt
makes its secrets unreadable. So the file is written here as it stands, and keeps the salt it had.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pulumi import automation

from toolchain import resolve, search_path

_PROVIDER = "pulumi-resource-kubernetes"
_PASSPHRASE = "servingstack-local"  # guards nothing: the state it encrypts lives and dies on this machine


class LocalEngine:
    """The engine of one state directory, with a file backend and a home of its own below it."""

    def __init__(self, state: Path, kubeconfig: Path | None = None) -> None:
        self._state = state
        home, backend = state / "pulumi-home", state / "backend"
        for folder in (home, backend):
            folder.mkdir(parents=True, exist_ok=True)
        tools = resolve(["engine", "cluster"])
        # On PATH it would be found too, with a warning in every run.
        _install_plugin(home, tools.pop(_PROVIDER))
        self.env = {
            "PATH": search_path(tools),
            "PULUMI_HOME": str(home),
            "PULUMI_BACKEND_URL": backend.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": _PASSPHRASE,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        if kubeconfig is not None:
            self.env["KUBECONFIG"] = str(kubeconfig)

    def inline_stack(
        self, project: str, stack: str, program: Callable[[], None], config: Path | Mapping[str, Any]
    ) -> automation.Stack:
        """The stack, made when it is new. `config` is a stack file, or the fully named keys one would hold.

        The engine and its plugins see `env`. The program runs in the caller's process and sees its variables,
        and `pulumi` is looked for on its PATH: so callers set `env` there too.
        """
        work_dir = self._state / "work" / project / stack
        work_dir.mkdir(parents=True, exist_ok=True)
        settings = {"name": project, "runtime": "python", "main": os.fspath(work_dir)}
        (work_dir / "Pulumi.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
        _write_stack_file(work_dir / f"Pulumi.{stack}.yaml", config)
        return automation.create_or_select_stack(
            stack_name=stack,
            project_name=project,
            program=program,
            opts=automation.LocalWorkspaceOptions(work_dir=str(work_dir), env_vars=dict(self.env)),
        )


def _install_plugin(home: Path, executable: Path) -> None:
    """Puts the provider where `pulumi plugin install` would (sdk/go/common/workspace/plugins.go)."""
    kind = _PROVIDER.removeprefix("pulumi-")
    link = home / "plugins" / f"{kind}-{executable.parent.name}" / _PROVIDER
    if link.resolve() != executable.resolve():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(executable)


def _write_stack_file(path: Path, config: Path | Mapping[str, Any]) -> None:
    if isinstance(config, Path):
        content: dict[str, Any] = yaml.safe_load(config.read_text()) or {}
    else:
        content = {"config": dict(config)}
    if path.exists():
        before: dict[str, Any] = yaml.safe_load(path.read_text()) or {}
        if "encryptionsalt" in before:
            content.setdefault("encryptionsalt", before["encryptionsalt"])
    path.write_text(yaml.safe_dump(content, sort_keys=False))
