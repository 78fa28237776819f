"""`ServingStack`: one typed input as a Pulumi component. It plans or takes the locked plan, and hands it to a
target.

The plan's summary is the component's input, so that a preview shows `gpu: "a100-80gb" => "h100-80gb"` beside
the resources that change; outputs would not show there.

Traps:
- Nothing of `existing` is among the properties: what stands there in the clear is in the state in the clear.
- Every decision is taken before anything is registered, from plain values. No output decides whether a
  resource exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from servingstack import lock as locks
from servingstack._version import __version__
from servingstack.args import ServingStackArgs
from servingstack.errors import Infeasible, InvalidInput, Violation
from servingstack.plan import PlanWarning, ServingPlan
from servingstack.targets import build

TOKEN = "servingstack:index:ServingStack"
"""Never changes: it is in the URN of everything below."""
GATED = "gated-model-without-token"
"""The planner's warning that a preview shows and a deployment refuses: the replicas could never start."""

Lock = locks.LockFile | ServingPlan | Mapping[str, Any]


class ServingStack(pulumi.ComponentResource):
    """A planned, provisioned and monitored model server."""

    endpoint: pulumi.Output[dict[str, Any]]
    """How to call it: `url`, `protocol`, `auth`, `invoke_example`, `timeout`. The same shape for every
    option."""
    dashboard_url: pulumi.Output[str | None]
    """Where its dashboard is, as far as the target knows."""
    hourly_cost: pulumi.Output[float]
    """USD per hour at the fewest replicas."""
    plan: pulumi.Output[dict[str, Any]]
    """The whole plan, as JSON."""

    def __init__(
        self,
        name: str,
        args: ServingStackArgs | Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
        *,
        existing: Any = None,
        lock: Lock | None = None,
    ) -> None:
        """Plan `args` and register the stack.

        name: logical name of the component, plain; also the stack's name if a mapping of args has none.
        args: what the model server must achieve.
        existing: the option's `Existing`, or a mapping with its fields. Default: nothing is handed on.
        lock: a lock file's content, or one locked plan. While it matches `args` it is deployed as it stands.
            Default: planned anew.

        Raises TypeError if the name is an output, and pulumi.RunError for input that is wrong or that no plan
        meets."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a ServingStack is a plain string, not {type(name).__name__}")
        try:
            plan, notes = decide(_parsed(name, args), lock)
            super().__init__(TOKEN, name, plan.summary(), opts)
            self._say(plan, notes)
            part = f"{name}-{plan.architecture.option}"
            serving = build(plan.architecture.option)(
                part, plan, existing, pulumi.ResourceOptions(parent=self)
            )
        except (InvalidInput, Infeasible) as error:
            raise pulumi.RunError(f"{name}: {error}") from None
        self.endpoint = serving.endpoint
        self.dashboard_url = serving.dashboard_url
        self.hourly_cost = pulumi.Output.from_input(plan.cost.hourly_usd)
        self.plan = pulumi.Output.from_input(plan.model_dump(mode="json"))
        self.register_outputs(
            {
                "endpoint": self.endpoint,
                "dashboard_url": self.dashboard_url,
                "hourly_cost": self.hourly_cost,
                "plan": self.plan,
            }
        )

    def _say(self, plan: ServingPlan, notes: list[str]) -> None:
        """Warnings beside the component. A gated model without a token stops a deployment, and not a
        preview."""
        for note in notes:
            pulumi.warn(note, self)
        for warning in plan.warnings:
            if warning.code == GATED and not pulumi.runtime.is_dry_run():
                raise pulumi.RunError(f"{plan.name}: {_text(warning)}")
            pulumi.warn(_text(warning), self)


def decide(args: ServingStackArgs, lock: Lock | None) -> tuple[ServingPlan, list[str]]:
    """The plan to deploy, and what a reviewer should hear of it.

    Raises `InvalidInput`, `Infeasible`, or pulumi.RunError where `servingstack:require_lock` is on and a
    deployment would not be the reviewed one."""
    locked = _locked_plan(lock, args.name)
    if locked is not None and locked.args_key == args.key():
        return locked, _differences(locked, args)
    fresh = _fresh(args)
    if locked is None:
        problem = "no locked plan; planned anew. `servingstack lock` writes one for review."
    else:
        changes = locks.compare(locks.make({args.name: locked}), fresh).changed
        listed = "; ".join(str(change) for change in changes)
        problem = (
            f"the lock is stale: the input has changed since. {listed if listed else 'No decision differs.'}"
        )
    if _lock_required() and not pulumi.runtime.is_dry_run():
        raise pulumi.RunError(
            f"{args.name}: {problem} servingstack:require_lock is on, so this is not deployed."
        )
    return fresh, [problem]


def _parsed(name: str, args: ServingStackArgs | Mapping[str, Any]) -> ServingStackArgs:
    return ServingStackArgs.parse({"name": name, **args} if isinstance(args, Mapping) else args)


def _fresh(args: ServingStackArgs) -> ServingPlan:
    from servingstack.planner import plan  # the catalog behind it is read only when somebody plans

    return plan(args)


def _locked_plan(lock: Lock | None, name: str) -> ServingPlan | None:
    """The plan locked for this stack, from any of the forms a lock comes in."""
    if lock is None or isinstance(lock, ServingPlan):
        return lock
    if isinstance(lock, Mapping):
        if "stacks" not in lock:
            return locks.parse(ServingPlan, lock, "lock")
        lock = locks.parse(locks.LockFile, lock, "lock")
    if not isinstance(lock, locks.LockFile):
        allowed = "a lock file's content, a plan, or none; not a path"
        kind = f"a {type(lock).__name__}"
        raise InvalidInput([Violation("lock", kind, allowed, "Read the file with servingstack.lock.read.")])
    entry = lock.stacks.get(name)
    return None if entry is None else entry.plan


def _differences(locked: ServingPlan, args: ServingStackArgs) -> list[str]:
    """Where a fresh plan would differ from the locked one: a newer library may know better, and may only say
    so."""
    if locked.library_version == __version__:
        return []
    try:
        changes = locks.compare(locks.make({args.name: locked}), _fresh(args)).changed
    except (InvalidInput, Infeasible) as error:
        return [f"deploying the locked plan; a fresh one would be refused: {error}"]
    listed = "; ".join(str(change) for change in changes)
    return [f"deploying the locked plan; a fresh one would differ: {listed}"] if changes else []


def _lock_required() -> bool:
    return pulumi.Config("servingstack").get_bool("require_lock") is True


def _text(warning: PlanWarning) -> str:
    return (
        f"{warning.path}: {warning.message} [{warning.code}]"
        if warning.path
        else f"{warning.message} [{warning.code}]"
    )


__all__ = ["ServingStack"]
