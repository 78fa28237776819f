"""From the plan to the program that Modal's client deploys: the same plan gives the same text.

Modal is deployed by running code, so the code is generated whole from the plan's section: a fixed text with
the decisions as JSON in it. Its fingerprint goes along as a tag of the app, which is how a later run sees
whether what is there is what was planned.

Trap: names that Modal renamed with 1.0 (`keep_warm`, `concurrency_limit`, `container_idle_timeout`,
`allow_concurrent_inputs`, `web_endpoint`) are no longer taken; a test greps for them.
"""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from typing import Any

from servingstack.plan import ServingPlan
from servingstack.targets import launch

from .checks import OWN_TAG
from .section import ModalSection

FINGERPRINT_TAG = f"{OWN_TAG}-program"
_PLACE = "    @SPEC@\n"


def section(plan: ServingPlan) -> ModalSection:
    """Modal's part of a plan. Raises ValueError for a plan of another option."""
    if plan.modal is None:
        raise ValueError(f"the plan of {plan.name} is for {plan.architecture.option}, not for Modal")
    return plan.modal


def spec(plan: ServingPlan) -> dict[str, Any]:
    """Every decision that the program reads; tags last, since they hold the fingerprint of the rest."""
    own, container = section(plan), plan.container
    command = launch.command(plan, ready_port=own.ready_port, api_key=own.api_key)
    found: dict[str, Any] = {
        "app": own.app,
        "label": own.label,
        "image": container.image,
        "registry_secret": own.registry_secret,
        "gpu": own.gpu,
        "cpu": own.cpu,
        "memory_mib": own.memory_mib,
        "region": own.region,
        "min_containers": own.min_containers,
        "max_containers": own.max_containers,
        "buffer_containers": own.buffer_containers,
        "scaledown_window_s": own.scaledown_window_s,
        "max_inputs": own.max_inputs,
        "target_inputs": own.target_inputs,
        "timeout_s": own.timeout_s,
        "startup_timeout_s": own.startup_timeout_s,
        "port": container.port,
        "ready_port": own.ready_port,
        "requires_proxy_auth": own.requires_proxy_auth,
        "cache_volume": own.cache_volume,
        "cache_path": container.cache_path,
        "weights_volume": own.weights_volume,
        "weights_path": container.model_path,
        "secrets": {name: list(keys) for name, keys in own.secrets.items()},
        "env": {each.name: each.value for each in container.env if each.secret_name is None},
        "env_of_secrets": {
            each.name: each.secret_key for each in container.env if each.secret_name is not None
        },
        "files_of_secrets": {each.path: each.secret_key for each in container.secret_files},
        "command": [*command, *launch.flags(plan)],
    }
    text = json.dumps(found, sort_keys=True) + _body()
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return found | {"tags": own.tags | {FINGERPRINT_TAG: digest}}


def program(plan: ServingPlan) -> str:
    """The module's whole text."""
    text = json.dumps(spec(plan), sort_keys=True, indent=1)
    return _body().replace(_PLACE, f"    {text!r}\n")


def fingerprint(plan: ServingPlan) -> str:
    """Of the program, as the app's tag has it."""
    return str(spec(plan)["tags"][FINGERPRINT_TAG])


def _body() -> str:
    return resources.files("servingstack.targets.modal").joinpath("program.txt").read_text(encoding="utf-8")
