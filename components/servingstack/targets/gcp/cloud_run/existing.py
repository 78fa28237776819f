"""What is only handed on to Google's provider: ids of what exists already.

Trap: a network decides whether a revision has a way out through it, which is a decision of the input
(`target.cloud_run.vpc_egress`). The id alone is given here, and one without the other is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from servingstack.errors import InvalidInput, Violation
from servingstack.plan import ServingPlan


@dataclass(frozen=True)
class CloudRunExisting:
    """All optional: without a project, the provider's own (`gcp:project`, `$GOOGLE_PROJECT`) is used."""

    project: pulumi.Input[str] | None = None
    """Project id. Default: the provider's."""
    network: pulumi.Input[str] | None = None
    """VPC network that the service's traffic leaves through; goes with `target.cloud_run.vpc_egress`.
    Default: none."""
    subnetwork: pulumi.Input[str] | None = None
    """Subnetwork of it, in the service's region. Default: the one with the network's name."""
    notification_channels: pulumi.Input[list[str]] | None = None
    """Full names of Cloud Monitoring's channels that hear of every alert. Default: none, incidents are only
    listed."""

    def check(self, plan: ServingPlan) -> None:
        """Raises `InvalidInput` where the plan needs an id that is missing, or has no use for one."""
        wanted = plan.cloud_run is not None and plan.cloud_run.vpc_egress is not None
        given = self.network is not None or self.subnetwork is not None
        if wanted and not given:
            allowed = "a network or a subnetwork, since target.cloud_run.vpc_egress is set"
            raise InvalidInput([Violation("existing.network", None, allowed, "Add one of them.")])
        if given and not wanted:
            path = "existing.network" if self.network is not None else "existing.subnetwork"
            fix = "Set target.cloud_run.vpc_egress, or remove it."
            raise InvalidInput(
                [Violation(path, "given", "left out without target.cloud_run.vpc_egress", fix)]
            )
