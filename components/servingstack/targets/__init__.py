"""The options: what each can do, and where its resources are.

To add an option: one folder, one line here, two golden plans.

Trap: a target's resources import a cloud's SDK, so they are named here by module path and loaded when a stack
targets them, never at import.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module

from .capabilities import Capabilities


@dataclass(frozen=True, slots=True)
class Option:
    """One line of the registry."""

    capabilities: str
    """Module that holds `CAPABILITIES`; pure."""
    resources: str
    """Module that holds the exported component."""


REGISTRY: dict[str, Option] = {
    "kubernetes": Option(
        capabilities="servingstack.targets.kubernetes.capabilities",
        resources="servingstack.targets.kubernetes.resources",
    ),
}


@cache
def capabilities(option: str) -> Capabilities:
    """What an option can do. KeyError for an unknown one."""
    found: Capabilities = import_module(REGISTRY[option].capabilities).CAPABILITIES
    return found


def all_capabilities() -> tuple[Capabilities, ...]:
    """Every option's, in the registry's order."""
    return tuple(capabilities(option) for option in REGISTRY)


__all__ = ["REGISTRY", "Capabilities", "Option", "all_capabilities", "capabilities"]
