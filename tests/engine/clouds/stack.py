"""One stack of an inline program, on the real engine and a `Cloud`.

The trap: `destroy` forgets what it could not delete only when it is told to, and a lock that a killed
engine left refuses the next update. So nothing here cleans up behind an assertion's back.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi import automation
from tests.engine.clouds.cloud import Cloud

from local_engine import LocalEngine

Step = tuple[str, str]
"""Operation and name of a resource."""


def quiet(_: str) -> None:
    """The engine's words, which pytest would print for every failure."""


@dataclass(frozen=True)
class Site:
    """Where a stack runs: the engine, and the account whose provider listens at `attached`."""

    engine: LocalEngine
    cloud: Cloud
    attached: str


class CloudStack:
    """`program` runs again at each operation, so what it closes over may change between two."""

    def __init__(self, site: Site, project: str, name: str, program: Callable[[], None]) -> None:
        self.said: list[str] = []
        """All that the engine wrote or sent, for a search for what must not be there."""
        self._engine, self._project, self._name = site.engine, project, name
        site.engine.env["PULUMI_DEBUG_PROVIDERS"] = site.attached
        self._stack = site.engine.inline_stack(project, name, program, {})

    def up(self, **options: Any) -> list[Step]:
        """What was done, in order, without what stayed the same."""
        steps: list[Step] = []
        result = self._stack.up(
            on_output=self._hear, on_event=lambda event: self._see(event, steps), **options
        )
        self.outputs = {name: output.value for name, output in result.outputs.items()}
        self.counts = _changes(result.summary.resource_changes or {})
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
        shown = self._stack.preview(
            on_output=self._hear, on_event=lambda event: self._see(event, []), **options
        )
        return _changes(shown.change_summary)

    def planned(self) -> list[Step]:
        """The steps that a preview foresees."""
        steps: list[Step] = []
        self._stack.preview(on_output=self._hear, on_event=lambda event: self._foresee(event, steps))
        return steps

    def refresh(self) -> dict[str, int]:
        done = self._stack.refresh(on_output=self._hear)
        return _changes(done.summary.resource_changes or {})

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
        done = event.res_outputs_event or event.res_op_failed_event
        if event.res_outputs_event is not None and done is not None:
            _append(done.metadata, steps)

    def _foresee(self, event: automation.events.EngineEvent, steps: list[Step]) -> None:
        self.said.append(repr(event))
        if event.resource_pre_event is not None:
            _append(event.resource_pre_event.metadata, steps)


def _append(step: Any, steps: list[Step]) -> None:
    operation = step.op.value
    if operation not in ("same", "read", "refresh"):
        steps.append((operation, step.urn.rsplit("::", 1)[-1]))


def _changes(summary: Any) -> dict[str, int]:
    counted = Counter({str(getattr(name, "value", name)): count for name, count in summary.items()})
    return {name: count for name, count in sorted(counted.items()) if name not in ("same", "read")}


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
