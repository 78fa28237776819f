"""The sidecar for tests: its own command and environment, with a real HAProxy, an engine on the loopback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.targets.kubernetes.door import Door, wait_until
from tests.targets.kubernetes.servers import Engine, NameServer

from servingstack.plan import ServingPlan
from servingstack.targets import haproxy
from servingstack.targets.azure.container_apps import sidecar


class Beside(Door):
    """A door as the service starts it: nothing is put down but what its own script writes."""

    def __init__(  # pyright: ignore[reportMissingSuperCall]
        self, binary: str, folder: Path, plan: ServingPlan, *, key: str | None = None, engine: bool = True
    ) -> None:
        assert plan.front_door is not None
        self.plan, self.port, self.stats_port = plan, plan.front_door.port, plan.front_door.stats_port
        self.names = NameServer()
        self.engines = [Engine("127.0.0.1", plan.container.port)] if engine else []
        self.drained = folder / "drained"
        tools = folder / "bin"
        tools.mkdir()
        (tools / "haproxy").symlink_to(binary)
        environment = {
            **sidecar.environment(plan),
            "PATH": f"{tools}:{os.environ['PATH']}",
            "TMPDIR": str(folder),
            "DRAINED_FILE": str(self.drained),
            **({} if key is None else {haproxy.API_KEY_ENV: key}),
        }
        self._file = folder / "log"
        self._log = self._file.open("wb")
        self.process = subprocess.Popen(
            sidecar.command(), stdout=self._log, stderr=self._log, env=environment, start_new_session=True
        )
        wait_until(self._listens, f"HAProxy listens: {self._file}")
        wait_until(lambda: self.up() == len(self.engines), "HAProxy takes the engine in")

    def lines(self) -> list[dict[str, Any]]:
        """What the door said of each request."""
        text = self._file.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def stop(self) -> None:
        """As the service does: SIGTERM to the first process."""
        self.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it may have ended
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()
        self.names.close()
        for engine in self.engines:
            engine.close()
