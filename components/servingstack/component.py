"""`ServingStack`: one typed input as a Pulumi component. It plans or takes the locked plan, and hands it to a
target.

The plan's summary is the component's input, so that a preview shows `gpu: "a100-80gb" => "h100-80gb"` beside
the resources that change; outputs would not show there.

Traps:
- Nothing of `existing` is among the properties: what stands there in the clear is in the state in the clear.
- Every decision is taken before anything is registered, from plain values. No output decides whether a
  resource exists.
- What checks, plans and registers is loaded by the first stack, not by the import: a program that imports
  this package and makes no stack, or fails before it does, pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pulumi

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs
    from servingstack.decision import Lock
    from servingstack.errors import Infeasible, InvalidInput
    from servingstack.plan import PlanWarning, ServingPlan

TOKEN = "servingstack:index:ServingStack"
"""Never changes: it is in the URN of everything below."""
GATED = "gated-model-without-token"
"""The planner's warning that a preview shows and a deployment refuses: the replicas could never start."""


class Refused(pulumi.RunError):
    """Input that is wrong, or that no plan meets, as the engine prints it: a sentence, and no traceback."""

    def __init__(self, name: str, refusal: InvalidInput | Infeasible) -> None:
        super().__init__(f"{name}: {refusal}")
        self.refusal = refusal
        """The same with its data."""


class ServingStack(pulumi.ComponentResource):
    """A planned, provisioned and monitored model server."""

    endpoint: pulumi.Output[dict[str, Any]]
    """How to call it: `url`, `protocol`, `auth`, `invoke_example`, `timeout`. The same shape for every
    option."""
    dashboard_url: pulumi.Output[str | None]
    """Where its dashboard is, as far as the target knows."""
    hourly_cost: pulumi.Output[float]
    """USD per hour at the fewest replicas."""
    plan: pulumi.Output[dict[str, Any]]
    """The whole plan, as JSON."""

    def __init__(
        self,
        name: str,
        args: ServingStackArgs | Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
        *,
        existing: Any = None,
        lock: Lock | None = None,
    ) -> None:
        """Plan `args` and register the stack.

        name: logical name of the component, plain; also the stack's name if a mapping of args has none.
        args: what the model server must achieve.
        existing: the option's `Existing`, or a mapping with its fields. Default: nothing is handed on.
        lock: a lock file's content, or one locked plan. While it matches `args` it is deployed as it stands.
            Default: planned anew.

        Raises TypeError if the name is an output, and `Refused`, a pulumi.RunError, for input that is wrong
        or that no plan meets."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a ServingStack is a plain string, not {type(name).__name__}")
        from servingstack.claims import claim
        from servingstack.decision import decide
        from servingstack.errors import Infeasible, InvalidInput
        from servingstack.targets import build
        from servingstack.targets.overriding import properties_known

        try:
            plan, notes = decide(_parsed(name, args), lock)
            claim(name, plan, _elsewhere(opts, existing))
            super().__init__(TOKEN, name, plan.summary(), opts)
            self._say(plan, notes)
            part = f"{name}-{plan.architecture.option}"
            with properties_known(plan.overrides):
                serving = build(plan.architecture.option)(
                    part, plan, existing, pulumi.ResourceOptions(parent=self)
                )
        except (InvalidInput, Infeasible) as error:
            raise Refused(name, error) from None
        self.endpoint = serving.endpoint
        self.dashboard_url = serving.dashboard_url
        self.hourly_cost = pulumi.Output.from_input(plan.cost.hourly_usd)
        # `from_input` would make an output, and a task, of each of the thousand values inside.
        document = plan.model_dump(mode="json")
        self.plan = pulumi.Output.from_input(plan.name).apply(lambda _: document)
        self.register_outputs(
            {
                "endpoint": self.endpoint,
                "dashboard_url": self.dashboard_url,
                "hourly_cost": self.hourly_cost,
                "plan": self.plan,
            }
        )

    def _say(self, plan: ServingPlan, notes: list[str]) -> None:
        """Warnings beside the component. A gated model without a token stops a deployment, and not a
        preview."""
        for note in notes:
            pulumi.warn(note, self)
        for warning in plan.warnings:
            if warning.code == GATED and not pulumi.runtime.is_dry_run():
                raise pulumi.RunError(f"{plan.name}: {_text(warning)}")
            pulumi.warn(_text(warning), self)


def _elsewhere(opts: pulumi.ResourceOptions | None, existing: Any) -> object:
    """What may make it another cluster or account than that of a stack without."""
    if existing is not None:
        return existing
    return None if opts is None else opts.provider or opts.providers or opts.parent


def _parsed(name: str, args: ServingStackArgs | Mapping[str, Any]) -> ServingStackArgs:
    from servingstack.args import ServingStackArgs

    return ServingStackArgs.parse({"name": name, **args} if isinstance(args, Mapping) else args)


def _text(warning: PlanWarning) -> str:
    return (
        f"{warning.path}: {warning.message} [{warning.code}]"
        if warning.path
        else f"{warning.message} [{warning.code}]"
    )


__all__ = ["Refused", "ServingStack"]
