"""The options: what each can do, and where its resources are.

To add an option: one folder, one line here, two golden plans.

Trap: a target's resources import a cloud's SDK, so they are named here by module path and loaded when a stack
targets them, never at import.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from servingstack.errors import InvalidInput, Violation

from .capabilities import Capabilities, Directory

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs
    from servingstack.plan import ServingPlan
    from servingstack.signals import Stack
    from servingstack.watched import Monitoring


@dataclass(frozen=True, slots=True)
class Option:
    """One line of the registry."""

    package: str
    """Holds the modules `capabilities`, `planning` and `resources`."""
    extra: str
    """Extra of this distribution that brings its SDK; empty where it needs none."""
    settings: str | None = None
    """Field of `target` with the option's own settings, and of the plan with its own decisions; None where
    they are not one field of each."""


REGISTRY: dict[str, Option] = {
    "kubernetes": Option("servingstack.targets.kubernetes", extra="kubernetes"),
    "cloud-run": Option("servingstack.targets.gcp.cloud_run", extra="gcp", settings="cloud_run"),
    "sagemaker": Option("servingstack.targets.aws.sagemaker", extra="aws", settings="sagemaker"),
    "container-apps": Option(
        "servingstack.targets.azure.container_apps", extra="azure", settings="container_apps"
    ),
    "modal": Option("servingstack.targets.modal", extra="modal", settings="modal"),
    "replicate": Option("servingstack.targets.replicate", extra="", settings="replicate"),
}


class Planning(Protocol):
    """What the planner asks an option's `planning` module; all pure."""

    @staticmethod
    def names(args: ServingStackArgs) -> dict[str, str]:
        """Physical names by role, within the service's rules."""
        ...

    @staticmethod
    def violations(args: ServingStackArgs) -> list[Violation]:
        """What is wrong with an input for this option, before any search."""
        ...

    @staticmethod
    def monitoring(stack: Stack) -> Monitoring:
        """What is watched, promised and alerted on, in the provider's own terms."""
        ...

    @staticmethod
    def complete(draft: ServingPlan, args: ServingStackArgs) -> ServingPlan:
        """The plan with the option's own decisions. Raises `InvalidInput` or `Infeasible` where the service
        cannot carry it out."""
        ...


class Published(Planning, Protocol):
    """The same of an option that serves what the service has (`Capabilities.published`)."""

    @staticmethod
    def whole(args: ServingStackArgs) -> ServingPlan:
        """The whole plan. Raises `InvalidInput` or `Infeasible`."""
        ...


@cache
def capabilities(option: str) -> Capabilities:
    """What an option can do. KeyError for an unknown one."""
    found: Capabilities = import_module(f"{REGISTRY[option].package}.capabilities").CAPABILITIES
    return found


def all_capabilities() -> tuple[Capabilities, ...]:
    """Every option's, in the registry's order."""
    return tuple(capabilities(option) for option in REGISTRY)


def planning(option: str) -> Planning:
    """An option's own part of planning. KeyError for an unknown one."""
    return cast("Planning", import_module(f"{REGISTRY[option].package}.planning"))


def published(option: str) -> Published:
    """The planning of an option that plans by itself. KeyError for an unknown one."""
    return cast("Published", planning(option))


def check_overrides(plan: ServingPlan) -> None:
    """Raises `InvalidInput` for overrides that the planned resources do not take."""
    if plan.overrides:  # options without the module refuse every one of them
        import_module(f"{REGISTRY[plan.architecture.option].package}.overrides").check(plan)


def build(option: str) -> Any:
    """The function that registers an option's resources: `build(name, plan, existing, opts)`. Raises
    `InvalidInput` where the extra that brings the SDK is not installed."""
    try:
        return import_module(f"{REGISTRY[option].package}.resources").build
    except ModuleNotFoundError as error:
        if error.name is not None:  # of a module that nobody foresaw to be missing
            raise
        allowed = "an option whose SDK is installed"
        raise InvalidInput([Violation("target.option", option, allowed, f"{error}.")]) from error


__all__ = [
    "REGISTRY",
    "Capabilities",
    "Directory",
    "Option",
    "Planning",
    "Published",
    "all_capabilities",
    "build",
    "capabilities",
    "check_overrides",
    "planning",
    "published",
]
