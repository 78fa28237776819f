"""How a container is started by the launcher: its command, for services that cannot run a script as a probe.

Trap: what a service takes as a command has no shell, so the script is one argument and its settings, as JSON,
are the next; the engine's own command follows as it stands.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from servingstack.plan import ServingPlan

POLL_S = 2
"""Between two tries of a warm-up."""
HEALTH_TIMEOUT_S = 5


def command(
    plan: ServingPlan,
    *,
    ready_port: int,
    api_key: tuple[str, str] | None = None,
    drained: tuple[str, int] | None = None,
) -> list[str]:
    """Exec form, without the engine's flags. `api_key` is the secret's name and key that callers must send.
    `drained` is a file that a proxy beside the engine makes once it has answered what it had taken, and how
    many seconds a stopping engine waits for that."""
    container = plan.container
    settings = _settings(plan, ready_port, api_key)
    if drained is not None:
        settings["proxy"] = {"drained": drained[0], "drain_s": drained[1]}
    text = json.dumps(settings, sort_keys=True)
    return ["python3", "-c", _text("servingstack.targets", "launcher.py"), text, *container.command]


def flags(plan: ServingPlan) -> list[str]:
    """The engine's flags as arguments."""
    found = plan.container.flags
    return [f"--{flag.name}" if flag.value is None else f"--{flag.name}={flag.value}" for flag in found]


def _settings(plan: ServingPlan, ready_port: int, api_key: tuple[str, str] | None) -> dict[str, Any]:
    container, warm_up = plan.container, plan.container.warm_up
    return {
        "ready_port": ready_port,
        "port": container.port,
        "health_path": container.health_path,
        "health_timeout_s": HEALTH_TIMEOUT_S,
        "startup_s": plan.timeouts.startup_s,
        "poll_s": POLL_S,
        "path": warm_up.path,
        "body": warm_up.body,
        "requests": warm_up.requests,
        "timeout_s": warm_up.timeout_s,
        "api_key_variable": next(
            (
                variable.name
                for variable in container.env
                if api_key is not None and (variable.secret_name, variable.secret_key) == api_key
            ),
            None,
        ),
        "files": container.files,
        "script": _text("servingstack.targets.kubernetes", "warm_up.py"),
    }


def _text(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
