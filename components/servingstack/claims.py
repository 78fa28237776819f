"""Two stacks of one program that would be the same objects: refused before the second is registered.

Trap: their logical names differ, so the engine sees two resources; the cluster or cloud sees one name, and
the second deployment takes over or fails half-way. What was claimed belongs to one run: it hangs on the run's
own stack resource, which goes with it, so that tests and inline programs do not see each other.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime import settings

from servingstack.errors import InvalidInput, Violation
from servingstack.plan import ServingPlan

_Place = tuple[str, str, str, int | None]
_CLAIMED: WeakKeyDictionary[pulumi.Resource, dict[_Place, tuple[str, object]]] = WeakKeyDictionary()
"""Who has a place, and what says where it is: kept, since the id of an object that is gone is given again."""


def claim(component: str, plan: ServingPlan, elsewhere: object) -> None:
    """Take the plan's name for a component of this run.

    elsewhere: what says that it is another cluster or account (providers, `existing`), None where nothing
    does; two stacks with objects of their own may well be two places.

    Raises `InvalidInput` where another component of this run has the name in the same place. Without a run,
    as under mocks alone, nothing is checked."""
    run = settings.get_root_resource()
    if run is None:
        return
    architecture = plan.architecture
    where = plan.placement.namespace if plan.placement is not None else architecture.region or ""
    place = (architecture.option, where, plan.name, None if elsewhere is None else id(elsewhere))
    taken = _CLAIMED.setdefault(run, {})
    holder, _ = taken.setdefault(place, (component, elsewhere))
    if holder == component:
        return
    in_what = "namespace" if plan.placement is not None else "region"
    allowed = f"a name that no other stack has in {in_what} {where!r}; component {holder!r} has it"
    fix = f"Give one of them another name, or another {in_what}."
    raise InvalidInput([Violation("name", plan.name, allowed, fix)])
