"""One stack of an inline program, on the real engine and a `Cloud`.

The trap: `destroy` forgets what it could not delete only when it is told to, and a lock that a killed
engine left refuses the next update. So nothing here cleans up behind an assertion's back.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pulumi import automation
from pulumi.automation import _server

from local_engine import LocalEngine

Step = tuple[str, str]
"""Operation and name of a resource."""
PROGRAM_ENDS_S = 30
"""How long a program may take to notice that its engine has gone."""
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
        with _loops_closed():
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
        with _loops_closed():
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


@contextmanager
def _loops_closed() -> Iterator[None]:
    """Closes what an inline program leaves open when its engine fails or dies under it.

    The Automation API closes the program's loop after one more word to the engine, which is gone by then
    (pulumi/automation/_server.py: log.debug before loop.close). Python would complain whenever it collects
    the loop: in another test, or after the last. The thread it runs on must be done first."""
    loops: list[asyncio.AbstractEventLoop] = []
    programs: list[threading.Event] = []
    new, run = asyncio.new_event_loop, _server.LanguageServer.Run

    def remembered() -> asyncio.AbstractEventLoop:
        loops.append(new())
        return loops[-1]

    def watched(self: Any, request: Any, context: Any) -> Any:
        programs.append(ended := threading.Event())
        try:
            return run(self, request, context)
        finally:
            ended.set()

    with (
        mock.patch.object(asyncio, "new_event_loop", remembered),
        mock.patch.object(_server.LanguageServer, "Run", watched),
    ):
        try:
            yield
        finally:
            if all(ended.wait(PROGRAM_ENDS_S) for ended in programs):
                for loop in loops:
                    _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_closed():
        return
    tasks = asyncio.all_tasks(loop)
    for _ in range(3):  # what stopped the loop before may still be queued, and stop it once more
        pending = {task for task in asyncio.all_tasks(loop) if not task.done()}
        for task in pending:
            task.cancel()
        if pending:
            with suppress(RuntimeError):
                loop.run_until_complete(asyncio.wait(pending, timeout=PROGRAM_ENDS_S))
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # seen, so that nobody is told of it
    loop.close()


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
