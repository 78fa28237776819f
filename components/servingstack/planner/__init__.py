"""The planner: one input, one plan, or a refusal that names the limit. Pure, offline, in milliseconds.

options -> for each: resolve -> offers -> layouts (memory) -> fit (batch, latency) -> fleet (replicas, cost)
-> the cheapest -> plan; and of the plans the cheapest.

Trap: the plan is a function of the input alone. No clock, no environment, no order of a set may reach it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servingstack.args import ServingStackArgs
from servingstack.plan import ServingPlan

from .options import choose


def plan(args: ServingStackArgs | Mapping[str, Any]) -> ServingPlan:
    """Decide everything.

    Raises `InvalidInput` where the input is wrong or contradicts itself, `Infeasible` where no plan meets
    it."""
    return choose(ServingStackArgs.parse(args))


__all__ = ["plan"]
