"""What a stack watches, promises and alerts on: pure, from the plan's decisions, in Prometheus' language.

`monitoring()` fills a plan's `monitoring`; `edge_warnings()` gives the warnings that belong beside it.

Trap: metric names are never typed here. The engine's come from its tables, which were read out of the pinned
release; the others from `scope`, each with its source.
"""

from __future__ import annotations

from servingstack.signals.alerts import alerts
from servingstack.signals.burn_rates import PAGE_FACTORS, recording_rules
from servingstack.signals.objectives import edge_warnings, objectives, service_level
from servingstack.signals.scope import Scope
from servingstack.signals.stack import Stack
from servingstack.signals.watch import ACTIVITY, QUEUE_DEPTH, signals
from servingstack.watched import Monitoring


def monitoring(stack: Stack) -> Monitoring:
    """Objectives, signals, recording rules and alerts of a stack on Kubernetes.

    Raises `InvalidInput` for objectives that the engine's histograms cannot count."""
    asked = stack.args.observability
    levels = [(objective, service_level(stack, objective)) for objective in objectives(stack)]
    watched, missing = signals(stack)
    recorded = [rule for _, level in levels for rule in recording_rules(level)]
    return Monitoring(
        objectives=tuple(objective for objective, _ in levels),
        signals=watched,
        recording_rules=tuple(recorded) if asked.dashboards or asked.alerts is not None else (),
        alerts=alerts(stack, levels),
        unavailable=missing,
        dashboards=asked.dashboards,
        page_burn_rates=PAGE_FACTORS,
    )


__all__ = ["ACTIVITY", "QUEUE_DEPTH", "Scope", "Stack", "edge_warnings", "monitoring"]
