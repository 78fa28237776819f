"""The shell: a plan's parts as Pulumi resources. It reads the plan and takes no decision.

Traps:
- The SDK is large, but loads a module at its first use: each class is looked up when a part needs it.
- An app in an environment of yours cannot be made beside the old one when that environment is exchanged: its
  name is planned and the group the same. There the old one goes first. Nowhere else.
- What a replica needs to start is waited for by the service itself, so the time-outs come from the plan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from servingstack.plan import ServingPlan
from servingstack.targets.existing import parse

from .app import section
from .bodies import parts
from .endpoint import dashboard_url, endpoint
from .existing import ContainerAppsExisting
from .overrides import apply
from .refs import Given, Json, Part, Ref, RoleId, Text

try:
    import pulumi_azure_native as azure
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "target `container-apps` needs the extra `azure`: pip install 'servingstack[azure]'"
    ) from error

TOKEN = "servingstack:azure:ContainerAppsServing"
"""Never changes: it is in the URN of every child."""
LEAST_WAIT_S = 1800
"""An environment takes up to half an hour (azurerm, container_app_environment_resource.go: timeout of
create)."""
_MARGIN_S = 300
EXAMPLE = '{"key_vault_id": ...}'


def build(
    name: str,
    plan: ServingPlan,
    existing: Mapping[str, Any] | ContainerAppsExisting | None,
    opts: pulumi.ResourceOptions,
) -> ContainerAppsServing:
    """What `ServingStack` calls of every option. Raises `InvalidInput`."""
    return ContainerAppsServing(name, plan, opts, existing=parse(ContainerAppsExisting, existing, EXAMPLE))


class ContainerAppsServing(pulumi.ComponentResource):
    """A plan's container app with what it needs and what watches it. Usable alone with a plan."""

    endpoint: pulumi.Output[dict[str, Any]]
    """How to call it: `url`, `protocol`, `auth`, `invoke_example`, `timeout`."""
    dashboard_url: pulumi.Output[str | None]
    """The workbook in the portal; None without one."""

    def __init__(
        self,
        name: str,
        plan: ServingPlan,
        opts: pulumi.ResourceOptions | None = None,
        *,
        existing: ContainerAppsExisting | None = None,
    ) -> None:
        """Register every part of `plan`. Raises `InvalidInput` for overrides that are refused, and for ids
        that are missing or have no use."""
        given = ContainerAppsExisting() if existing is None else existing
        given.check(plan)
        planned = apply(parts(plan), plan.overrides)
        super().__init__(TOKEN, name, {"app": plan.names["app"]}, opts)
        shell = _Shell(given, {})
        for part in planned:
            body = {_snake(key): shell.filled(value) for key, value in part.body.items()}
            options = _options(self, plan, part, shell.made)
            shell.made[part.role] = _constructor(part.kind)(f"{name}-{part.role}", opts=options, **body)
        self.endpoint = shell.made["app"].configuration.apply(lambda found: endpoint(plan, _host(found)))
        board = shell.made.get("dashboard")
        self.dashboard_url = (
            pulumi.Output.from_input(None) if board is None else board.id.apply(dashboard_url)
        )
        self.register_outputs({"endpoint": self.endpoint, "dashboard_url": self.dashboard_url})


class _Shell:
    """What was made so far, and what exists."""

    def __init__(self, given: ContainerAppsExisting, made: dict[str, Any]) -> None:
        self.given, self.made = given, made

    def filled(self, value: Any) -> Any:
        """A body with its placeholders filled in."""
        if isinstance(value, dict):
            return {key: self.filled(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.filled(inner) for inner in value]
        if isinstance(value, Text):
            return pulumi.Output.concat(*(self.filled(piece) for piece in value.pieces))
        if isinstance(value, Json):
            return pulumi.Output.json_dumps(self.filled(value.document), sort_keys=True)
        return self._known(value)

    def _known(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return getattr(self.made[value.role], value.output)
        if isinstance(value, Given):
            return getattr(self.given, value.field)
        return _role(value, self._known(value.on)) if isinstance(value, RoleId) else value


def _role(role: RoleId, scope: pulumi.Input[str]) -> pulumi.Output[str]:
    """Its id, in the subscription that the scope's id begins with."""
    kind = f"providers/Microsoft.Authorization/roleDefinitions/{role.uuid}"
    return pulumi.Output.from_input(scope).apply(lambda found: "/".join([*found.split("/")[:3], kind]))


def _options(
    parent: pulumi.Resource, plan: ServingPlan, part: Part, made: Mapping[str, Any]
) -> pulumi.ResourceOptions:
    own = section(plan)
    exchanged = {"app": not own.create_environment, "environment": own.subnet}
    return pulumi.ResourceOptions(
        parent=parent,
        depends_on=[made[role] for role in part.after if role in made],
        custom_timeouts=timeouts(plan) if part.role in ("app", "environment") else None,
        delete_before_replace=True if exchanged.get(part.role, False) else None,
    )


def timeouts(plan: ServingPlan) -> pulumi.CustomTimeouts:
    """How long Pulumi waits for a revision: a machine, its image, and a start."""
    wait = max(LEAST_WAIT_S, plan.rollout.progress_deadline_s + _MARGIN_S)
    stop = max(LEAST_WAIT_S, plan.timeouts.grace_s + _MARGIN_S)
    return pulumi.CustomTimeouts(
        create=f"{math.ceil(wait)}s", update=f"{math.ceil(wait)}s", delete=f"{stop}s"
    )


def _host(configuration: Any) -> str:
    """The app's address, which only the service knows."""
    ingress = None if configuration is None else configuration.get("ingress")
    found = None if ingress is None else ingress.get("fqdn")
    return "" if found is None else found


def _constructor(kind: str) -> Callable[..., Any]:
    module, name = kind.split(".")
    return getattr(getattr(azure, module), name)


def _snake(name: str) -> str:
    """The SDK's spelling of a top-level property; `resourceName` and `version` of some have a line at the
    end."""
    if name == "resourceName":
        return "resource_name_"
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found.group(1).lower()}", name)


__all__ = ["ContainerAppsServing", "build"]
