"""The shell: a plan's app as a Pulumi resource. It reads the plan and takes no decision.

Trap: the provider needs Modal's client, in the process that the engine starts for it; a preview needs neither
client nor token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pulumi

from servingstack.dynamic.modal import ModalAppResource
from servingstack.plan import ServingPlan
from servingstack.targets.existing import nothing

from . import bodies
from .dashboard import dashboard
from .endpoint import endpoint, rules, synthetic_check
from .existing import INSTEAD, ModalExisting

TOKEN = "servingstack:modal:ModalApp"
"""Never changes: it is in the URN of every child."""
_MARGIN_S = 600
"""For building the image's last layers, beside a start."""


def build(
    name: str,
    plan: ServingPlan,
    existing: Mapping[str, Any] | ModalExisting | None,
    opts: pulumi.ResourceOptions,
) -> ModalApp:
    """What `ServingStack` calls of every option. Raises `InvalidInput`."""
    nothing(ModalExisting, existing, INSTEAD)
    return ModalApp(name, plan, opts)


class ModalApp(pulumi.ComponentResource):
    """A plan's app on Modal with what watches it. Usable alone with a plan."""

    endpoint: pulumi.Output[dict[str, Any]]
    """How to call it: `url`, `protocol`, `auth`, `invoke_example`, `timeout`."""
    dashboard_url: pulumi.Output[str | None]
    """The app's page at Modal."""
    dashboard: pulumi.Output[dict[str, Any] | None]
    """Grafana's JSON, to import where your Grafana is; None where dashboards are off."""
    rules: pulumi.Output[dict[str, Any]]
    """The alerts, as a file of Prometheus rules has them."""
    synthetic_check: pulumi.Output[dict[str, Any] | None]
    """For Prometheus' blackbox exporter; None where no container is kept."""

    def __init__(self, name: str, plan: ServingPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the app of `plan`."""
        super().__init__(TOKEN, name, {"app": plan.names["app"]}, opts)
        wait = math.ceil(plan.timeouts.startup_s + _MARGIN_S)
        app = ModalAppResource(
            f"{name}-app",
            bodies.app(plan),
            pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=pulumi.CustomTimeouts(create=f"{wait}s", update=f"{wait}s"),
            ),
        )
        board = dashboard(plan) if plan.monitoring.dashboards else None
        self.endpoint = app.url.apply(lambda url: endpoint(plan, url))
        self.dashboard_url = app.app_id.apply(lambda identity: f"https://modal.com/id/{identity}")
        self.dashboard = pulumi.Output.from_input(board)
        self.rules = pulumi.Output.from_input(rules(plan))
        self.synthetic_check = app.url.apply(lambda url: synthetic_check(plan, url))
        self.register_outputs(
            {
                "endpoint": self.endpoint,
                "dashboard_url": self.dashboard_url,
                "dashboard": self.dashboard,
                "rules": self.rules,
                "synthetic_check": self.synthetic_check,
            }
        )


__all__ = ["ModalApp", "build"]
