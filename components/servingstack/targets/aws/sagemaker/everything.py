"""Every resource of a plan, each after what it refers to.

Trap: Pulumi takes things away in reverse order of what refers to what, so an order that only works when
creating would take the configuration from under a running endpoint. The order here follows the references.
"""

from __future__ import annotations

from servingstack.plan import ServingPlan

from . import alarms, dashboard, scaling, storage
from .bodies import config, endpoint, model
from .parts import Body, Given, markers


def bodies(plan: ServingPlan) -> list[Body]:
    """The whole stack."""
    return ordered(
        [
            *storage.identity(plan),
            *storage.bucket(plan),
            model(plan),
            config(plan),
            endpoint(plan),
            *scaling.bodies(plan),
            *alarms.bodies(plan),
            *dashboard.bodies(plan),
        ]
    )


def wanted(body: Body) -> set[str]:
    """Roles that a body refers to."""
    return {each.role for each in markers(body.body) if not isinstance(each, Given)}


def ordered(found: list[Body]) -> list[Body]:
    """The same, each after what it refers to or needs. ValueError where they wait for each other."""
    roles = {body.role for body in found}
    left, done, placed = list(found), list[Body](), set[str]()
    while left:
        ready = [body for body in left if (wanted(body) | set(body.needs) & roles) <= placed]
        if not ready:
            raise ValueError(f"these wait for each other: {', '.join(body.role for body in left)}")
        done += ready
        placed |= {body.role for body in ready}
        left = [body for body in left if body.role not in placed]
    return done
