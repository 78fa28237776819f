"""Which plan a stack deploys: the locked one while it matches the input, else a fresh one.

Trap: a locked plan is what somebody reviewed. It is deployed as it stands, and where a newer library would
decide otherwise, that is said and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from servingstack import lock as locks
from servingstack._version import __version__
from servingstack.args import ServingStackArgs
from servingstack.errors import Infeasible, InvalidInput, Violation
from servingstack.plan import ServingPlan

Lock = locks.LockFile | ServingPlan | Mapping[str, Any]


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


__all__ = ["Lock", "decide"]
