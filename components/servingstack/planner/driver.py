"""Whether the image runs on the driver of the machines, where a service fixes it.

Trap: a driver that is too old is seen by nobody before the first start, and then each start fails alike. A
service that rents GPUs by the second gives them its own driver, which no setting changes.
"""

from __future__ import annotations

from servingstack.engines.limits import Driver
from servingstack.plan import Container, EnvVar, PlanWarning

from .demand import Demand

NEWEST_CUDA = "CUDA 13 needs branch 580 or newer, CUDA 12 branch 525"
"""docs.nvidia.com/deploy/cuda-compatibility, minor version compatibility, table 1."""


def refusal(demand: Demand, gpu_id: str) -> str | None:
    """Why the image does not run on the driver of that GPU's machines, or None if it does."""
    branch, needed = demand.can.drivers.get(gpu_id), demand.kind.driver(demand.args)
    if branch is None or needed is None or needed.branch <= branch:
        return None
    if needed.older and branch >= needed.oldest:
        return None
    return (
        f"{demand.can.option} gives an {gpu_id} driver {branch}, and the image needs {needed.branch} "
        f"({NEWEST_CUDA})"
    )


def fitted(demand: Demand, gpu_id: str, container: Container) -> tuple[Container, tuple[PlanWarning, ...]]:
    """The container with what it needs on a driver that `refusal` lets pass, and what a reviewer should know
    of it."""
    branch = demand.can.drivers.get(gpu_id)
    if branch is None:
        return container, ()
    needed = demand.kind.driver(demand.args)
    if needed is None:
        return container, (_unknown(demand, gpu_id, branch),)
    if needed.branch <= branch:
        return container, ()
    given = {variable.name for variable in container.env}
    added = tuple(EnvVar(name=name, value=value) for name, value in needed.older if name not in given)
    return container.model_copy(update={"env": (*container.env, *added)}), (_older(needed, gpu_id, branch),)


def _unknown(demand: Demand, gpu_id: str, branch: int) -> PlanWarning:
    return PlanWarning(
        code="driver-not-checked",
        path="engine.image",
        message=(
            f"{demand.can.option} gives an {gpu_id} driver {branch}. Which one the image needs is not known "
            f"here: {NEWEST_CUDA}."
        ),
    )


def _older(needed: Driver, gpu_id: str, branch: int) -> PlanWarning:
    names = ", ".join(name for name, _ in needed.older)
    return PlanWarning(
        code="older-driver",
        path="hardware.accelerators",
        message=(
            f"The {gpu_id} here has driver {branch}, and the image is made for {needed.branch}: {names} has "
            f"it bring its own CUDA libraries along (forward compatibility)."
        ),
    )
