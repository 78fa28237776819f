"""How many instances, and how a change reaches them: the numbers of scaling and of a deployment.

Traps:
- A step of a deployment is at most half of the fleet, so with one instance there are no steps: a whole new
  fleet of one, all traffic at once, and the old one kept while the alarms watch.
- The service ends a deployment after eight hours and takes it back. Ten steps of a large model take longer:
  its steps are wider, never its time cut.
"""

from __future__ import annotations

import math

from servingstack.args import ServingStackArgs
from servingstack.errors import InvalidInput, Violation
from servingstack.plan import Scaling, ServingPlan

from .facts import BACKLOG, EXECUTION_S, IN_FLIGHT_PER_MODEL
from .parts import section
from .section import Deployment, Tracking

LEAST_STEP, MOST_STEP = 10, 50
"""Percent of the fleet; at most half of it (botocore, RollingUpdatePolicy.MaximumBatchSize: 5 to 50 %)."""
ROLLBACK_SHARE = 0.05
"""Share of server errors that takes a deployment back, or more where the objective allows more."""
SLOWER = 1.5
"""Times the tightest objective on a whole request, or what is expected of one."""
NEAR_TIMEOUT = 0.9
_FASTEST_BURN = 14.4


def tracking(plan: ServingPlan, *, queued: bool) -> Tracking | None:
    """Target tracking on what is in flight, or on the backlog; None for a fixed number of instances."""
    scaling = plan.scaling
    if not scaling.autoscaled:
        return None
    return Tracking(
        predefined=None if queued else IN_FLIGHT_PER_MODEL,
        metric="ApproximateBacklogSizePerInstance" if queued else "ConcurrentRequestsPerModel",
        target=scaling.threshold,
        # What starts is in the metric only once it serves: until then it counts as there.
        scale_out_cooldown_s=math.ceil(scaling.cold_start.total_s),
        scale_in_cooldown_s=scaling.scale_in_period_s,
    )


def speeds(draft: ServingPlan, *, queued: bool) -> Scaling:
    """What the service knows of taking instances away: the time between two steps. How long the load must be
    low before the first is the service's own."""
    given = draft.scaling
    idle = given.scale_to_zero_after_s
    fields = {
        # Nobody holds a request: without an instance it waits in the backlog, for as long as `queue_s` says.
        "hold_s": None,
        "scale_in_period_s": given.scale_in_delay_s if idle is None else idle,
        "scale_in_delay_s": 0,
    }
    if queued:
        fields |= {"metric": BACKLOG, "counts": "backlog"}
        fields["threshold_arithmetic"] = (
            f"{given.threshold_arithmetic}; the backlog holds what waits and what is in work"
        )
    return given.model_copy(update=fields)


def deployment(plan: ServingPlan, args: ServingStackArgs, download_s: int) -> Deployment:
    """Steps, how long each is watched, and what takes them back."""
    own, kept = args.target.sagemaker, max(1, plan.scaling.min_replicas)
    if own.deployment == "rolling" and kept < 2:
        allowed = "blue-green with one instance: a batch is at most half of the fleet"
        fix = "Leave it out, or set scaling.min_replicas: 2."
        raise InvalidInput([Violation("target.sagemaker.deployment", "rolling", allowed, fix)])
    kind = "rolling" if own.deployment == "rolling" else "canary" if kept > 1 else "all-at-once"
    share = 100 if kind == "all-at-once" else min(MOST_STEP, max(LEAST_STEP, math.ceil(100 / kept)))
    bake = own.bake_minutes * 60
    cold = plan.scaling.cold_start
    start = math.ceil(2 * (cold.node_s + cold.image_s)) + download_s + plan.timeouts.startup_s
    if kind == "rolling":
        share = _step(share, start, own.bake_minutes)
    return Deployment(
        kind=kind,
        step_percent=share,
        bake_s=bake,
        timeout_s=max(EXECUTION_S[0], _needed(share if kind == "rolling" else 100, start, bake)),
        rollback_alarms=(plan.names["rollback_errors"], plan.names["rollback_latency"]),
        rollback_error_share=_errors(args),
        rollback_latency_s=_latency(plan),
    )


def _needed(share: int, start: int, bake: int) -> int:
    """Seconds of a deployment: each step starts its instances and is watched, and the last one a while
    longer."""
    return math.ceil(100 / share) * (start + bake) + 2 * bake


def _step(share: int, start: int, bake_minutes: int) -> int:
    """The smallest step from `share` on whose deployment ends within the service's limit. Raises
    `InvalidInput` where even half of the fleet at a time does not."""
    for wider in range(share, MOST_STEP + 1):
        if _needed(wider, start, bake_minutes * 60) <= EXECUTION_S[1]:
            return wider
    fits = [
        minutes
        for minutes in range(1, bake_minutes)
        if _needed(MOST_STEP, start, minutes * 60) <= EXECUTION_S[1]
    ]
    allowed = (
        f"a shorter watch with deployment: rolling: half of the fleet at a time takes "
        f"{_needed(MOST_STEP, start, bake_minutes * 60)}s here, and the service allows {EXECUTION_S[1]}s"
    )
    fix = f"Set {max(fits)} or less, or deployment: blue-green." if fits else "Set deployment: blue-green."
    raise InvalidInput([Violation("target.sagemaker.bake_minutes", bake_minutes, allowed, fix)])


def _errors(args: ServingStackArgs) -> float:
    return round(max(ROLLBACK_SHARE, min(0.5, _FASTEST_BURN * (100 - args.slo.availability) / 100)), 6)


def _latency(plan: ServingPlan) -> float:
    """Slower than any objective allows, or about to run into the time limit; never what the plan itself
    expects of a good deployment at the peak, which would take each of them back."""
    asked = [
        objective.threshold_ms / 1000 * SLOWER
        for objective in plan.monitoring.objectives
        if objective.id.startswith("latency") and objective.threshold_ms is not None
    ]
    tightest = min([*asked, NEAR_TIMEOUT * plan.timeouts.request_s])
    expected, limits = plan.expected.latency_p95_ms.value / 1000, plan.timeouts
    limit = limits.request_s if expected < limits.request_s else limits.stream_s
    slower = min(SLOWER * expected, (expected + max(expected, limit)) / 2)
    return round(max(tightest, slower), 3)


def surge(plan: ServingPlan, instances: int) -> int:
    """Instances that a deployment starts beside so many."""
    share = section(plan).deployment
    if share.kind != "rolling":
        return max(1, instances)
    return math.ceil(max(1, instances) * share.step_percent / 100)
