"""One stack of an inline program, on the real engine and a `Cloud`.

The trap: `destroy` forgets what it could not delete only when it is told to, and a lock that a killed
engine left refuses the next update. So nothing here cleans up behind an assertion's back.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pulumi import automation

from local_engine import LocalEngine

Step = tuple[str, str]
"""Operation and name of a resource."""
UNCHANGED = ("same", "read", "refresh")


@dataclass(frozen=True)
class Site:
    """Where a stack runs: the engine, the account's provider (a value of `PULUMI_DEBUG_PROVIDERS`), and the
    configuration."""

    engine: LocalEngine
    attached: str
    config: Mapping[str, str]


class CloudStack:
    """`program` runs again at each operation, so what it closes over may change between two."""

    def __init__(self, site: Site, project: str, name: str, program: Callable[[], None]) -> None:
        self.counts: dict[str, int] = {}
        """Resources of the last operation by what was done to them, without what stayed the same."""
        self.said: list[str] = []
        """All that the engine wrote or sent, for a search for what must not be there."""
        self._engine, self._project, self._name = site.engine, project, name
        site.engine.env["PULUMI_DEBUG_PROVIDERS"] = site.attached
        self._stack = site.engine.inline_stack(project, name, program, site.config)
        # Outputs and history are three more runs of the engine for each update: the state file has both.
        self._stack.outputs = dict  # type: ignore[method-assign]
        self._stack.info = lambda *_: SimpleNamespace(resource_changes={})  # type: ignore[method-assign]

    def up(self, **options: Any) -> list[Step]:
        """What was done, in order, without what stayed the same."""
        steps: list[Step] = []
        self._stack.up(on_output=self._hear, on_event=lambda event: self._see(event, steps), **options)
        return steps

    def failing_up(self) -> str:
        """What an update that fails says."""
        try:
            steps = self.up()
        except automation.CommandError as error:
            return str(error)
        raise AssertionError(f"the update did not fail: {steps}")

    def preview(self, **options: Any) -> dict[str, int]:
        """How many resources an update would change, by operation."""
        self._stack.preview(on_output=self._hear, on_event=lambda event: self._see(event, []), **options)
        return self.counts

    def refresh(self) -> dict[str, int]:
        self._stack.refresh(on_output=self._hear, on_event=lambda event: self._see(event, []))
        return self.counts

    def destroy(self) -> None:
        self._stack.destroy(on_output=self._hear)

    def cancel(self) -> None:
        self._stack.cancel()

    def pending(self) -> list[str]:
        """Names of resources whose creation was begun and never reported."""
        pending = self._checkpoint().get("pending_operations") or []
        return [each["resource"]["urn"].rsplit("::", 1)[-1] for each in pending]

    def resources(self) -> dict[str, dict[str, Any]]:
        """The state's resources by name, secrets encrypted."""
        return {
            each["urn"].rsplit("::", 1)[-1]: each
            for each in self._checkpoint().get("resources") or []
            if not each["type"].startswith("pulumi:")
        }

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, secrets encrypted."""
        stacks = [each for each in self._checkpoint()["resources"] if each["type"] == "pulumi:pulumi:Stack"]
        return stacks[0].get("outputs", {})

    def state_text(self) -> str:
        """The state as it lies on disk, its backups and history included."""
        root = Path(self._engine.env["PULUMI_BACKEND_URL"].removeprefix("file://"))
        mine = [path for path in root.rglob("*.json*") if self._project in path.parts]
        assert mine
        return "".join(path.read_text(errors="replace") for path in mine)

    def _checkpoint(self) -> dict[str, Any]:
        root = Path(self._engine.env["PULUMI_BACKEND_URL"].removeprefix("file://"))
        file = root / ".pulumi" / "stacks" / self._project / f"{self._name}.json"
        return json.loads(file.read_text())["checkpoint"]["latest"] or {}

    def _hear(self, text: str) -> None:
        self.said.append(text)

    def _see(self, event: automation.events.EngineEvent, steps: list[Step]) -> None:
        self.said.append(repr(event))
        if event.res_outputs_event is not None:
            step = event.res_outputs_event.metadata
            if step.op.value not in UNCHANGED:
                steps.append((step.op.value, step.urn.rsplit("::", 1)[-1]))
        if event.summary_event is not None:
            changes = event.summary_event.resource_changes
            self.counts = {
                name: count
                for name, count in sorted((str(getattr(op, "value", op)), n) for op, n in changes.items())
                if name not in UNCHANGED
            }


def kill_engine() -> None:
    """Kills the `pulumi` that this very process has started, as a machine that goes away would."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent, name = (
                (folder / "stat").read_text().rsplit(")", 1)[1].split()[1],
                (folder / "comm").read_text(),
            )
        except OSError:
            continue
        if int(parent) == os.getpid() and name.strip() == "pulumi":
            os.kill(int(folder.name), signal.SIGKILL)
