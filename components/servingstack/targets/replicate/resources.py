"""The shell: a plan's deployment as a Pulumi resource. It reads the plan and takes no decision.

Trap: a deployment is only deleted after 15 minutes without use, longer than Pulumi waits unless told so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pulumi

from servingstack.dynamic.replicate import ReplicateDeploymentResource
from servingstack.plan import ServingPlan
from servingstack.targets.existing import nothing

from . import bodies
from .endpoint import endpoint, synthetic_check
from .existing import INSTEAD, ReplicateExisting
from .watch import page

TOKEN = "servingstack:replicate:ReplicateDeployment"
"""Never changes: it is in the URN of every child."""
_MARGIN_S = 300


def build(
    name: str,
    plan: ServingPlan,
    existing: Mapping[str, Any] | ReplicateExisting | None,
    opts: pulumi.ResourceOptions,
) -> ReplicateDeployment:
    """What `ServingStack` calls of every option. Raises `InvalidInput`."""
    nothing(ReplicateExisting, existing, INSTEAD)
    return ReplicateDeployment(name, plan, opts)


class ReplicateDeployment(pulumi.ComponentResource):
    """A plan's deployment on Replicate. Usable alone with a plan."""

    endpoint: pulumi.Output[dict[str, Any]]
    """How to call it: `url`, `protocol`, `auth`, `invoke_example`, `timeout`."""
    dashboard_url: pulumi.Output[str | None]
    """Its page at Replicate, the only place with metrics."""
    synthetic_check: pulumi.Output[dict[str, Any] | None]
    """For Prometheus' blackbox exporter; None where no instance is kept or no input is known."""

    def __init__(self, name: str, plan: ServingPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the deployment of `plan`."""
        own = bodies.section(plan)
        super().__init__(TOKEN, name, {"deployment": f"{own.owner}/{own.name}"}, opts)
        body = bodies.deployment(plan)
        wait = f"{math.ceil(plan.container.warm_up.timeout_s + _MARGIN_S)}s"
        gone = f"{math.ceil(body['delete_wait_s'] + _MARGIN_S)}s"
        made = ReplicateDeploymentResource(
            f"{name}-deployment",
            body,
            pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=pulumi.CustomTimeouts(create=wait, update=wait, delete=gone),
            ),
        )
        self.endpoint = made.release.apply(lambda _: endpoint(plan))
        self.dashboard_url = pulumi.Output.from_input(page(own.owner, own.name))
        self.synthetic_check = pulumi.Output.from_input(synthetic_check(plan))
        self.register_outputs(
            {
                "endpoint": self.endpoint,
                "dashboard_url": self.dashboard_url,
                "synthetic_check": self.synthetic_check,
            }
        )


__all__ = ["ReplicateDeployment", "build"]
