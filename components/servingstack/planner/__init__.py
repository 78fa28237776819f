"""The planner: one input, one plan, or a refusal that names the limit. Pure, offline, in milliseconds.

resolve -> offers -> layouts (memory) -> fit (batch, latency) -> fleet (replicas, cost) -> the cheapest ->
plan.

Trap: the plan is a function of the input alone. No clock, no environment, no order of a set may reach it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servingstack.args import ServingStackArgs
from servingstack.plan import ServingPlan

from .assemble import assemble
from .checks import check_engine, option_of
from .demand import resolve
from .refusal import refuse
from .search import search


def plan(args: ServingStackArgs | Mapping[str, Any]) -> ServingPlan:
    """Decide everything.

    Raises `InvalidInput` where the input is wrong or contradicts itself, `Infeasible` where no plan meets
    it."""
    parsed = ServingStackArgs.parse(args)
    can = option_of(parsed)
    demand = resolve(parsed)
    check_engine(demand)
    outcome = search(demand, can)
    if outcome.best is None:
        raise refuse(parsed, outcome, can)
    return assemble(demand, outcome, outcome.best, can)


__all__ = ["plan"]
