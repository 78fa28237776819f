"""What is only handed on to Azure: ids of what exists already.

Trap: whether something exists is decided by the input (`target.container_apps.own_environment` and the like),
so that a plan is a plan without any cloud. The id alone is given here, and one without the other is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import pulumi

from servingstack.errors import InvalidInput, Violation
from servingstack.plan import ServingPlan

from .bodies import parts
from .refs import Given, placeholders

_WANTED_BY = {
    "environment_id": "target.container_apps.own_environment",
    "workspace_id": "target.container_apps.own_workspace",
    "subnet_id": "target.container_apps.subnet",
    "registry_id": "target.container_apps.registry",
    "key_vault_id": "target.container_apps.key_vault",
    "action_group_id": "target.container_apps.own_action_group",
}


@dataclass(frozen=True)
class ContainerAppsExisting:
    """All optional; each goes with the field of the input that says it is used. Azure's own ids,
    `/subscriptions/.../resourceGroups/.../providers/...`."""

    environment_id: pulumi.Input[str] | None = None
    """A Container Apps environment."""
    workspace_id: pulumi.Input[str] | None = None
    """A Log Analytics workspace."""
    subnet_id: pulumi.Input[str] | None = None
    """A subnet that is delegated to `Microsoft.App/environments`."""
    registry_id: pulumi.Input[str] | None = None
    """The container registry of `target.container_apps.registry`."""
    key_vault_id: pulumi.Input[str] | None = None
    """The vault of `target.container_apps.key_vault`."""
    action_group_id: pulumi.Input[str] | None = None
    """An action group of Azure Monitor."""

    def check(self, plan: ServingPlan) -> None:
        """Raises `InvalidInput` with every id that the plan needs and that is missing, or that has no use."""
        needed = {
            found.field
            for part in parts(plan)
            for found in placeholders(part.body)
            if isinstance(found, Given)
        }
        if wrong := list(self._wrong(needed)):
            raise InvalidInput(wrong)

    def _wrong(self, needed: set[str]) -> Iterator[Violation]:
        for field in fields(self):
            given, setting = getattr(self, field.name) is not None, _WANTED_BY[field.name]
            if field.name in needed and not given:
                fix = f"Add it, or leave {setting} out."
                yield Violation(f"existing.{field.name}", None, f"an id, since {setting} is set", fix)
            elif given and field.name not in needed:
                fix = f"Set {setting}, or remove it."
                yield Violation(
                    f"existing.{field.name}", "given", "left out: the plan has no use for it", fix
                )
