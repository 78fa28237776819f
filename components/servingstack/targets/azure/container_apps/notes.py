"""What a reviewer of a plan should know of Container Apps.

Trap: a warning that stands on every plan is read on none. Each of these depends on the input.
"""

from __future__ import annotations

from collections.abc import Iterator

from servingstack import catalog
from servingstack.args import ServingStackArgs
from servingstack.plan import PlanWarning, ServingPlan

from .limits import LONGEST_REQUEST_S, REVISION_DEADLINE_S


def notes(plan: ServingPlan, args: ServingStackArgs) -> tuple[PlanWarning, ...]:
    """Every warning of the option."""
    return (
        *_quota(plan),
        *_price(plan),
        *_scaling(plan),
        *_environment(args),
        *_callers(args),
        *_alerts(plan, args),
        *_images(args),
        *_hold(plan),
        *_start(plan),
    )


def _quota(plan: ServingPlan) -> Iterator[PlanWarning]:
    section = plan.container_apps
    assert section is not None
    yield PlanWarning(
        code="quota",
        path="scaling.max_replicas",
        message=f"The subscription needs, at the peak with a rollout: {section.quota}.",
    )


def _price(plan: ServingPlan) -> Iterator[PlanWarning]:
    architecture = plan.architecture
    row = catalog.price("azure", architecture.instance_type or "", architecture.region or "")
    if plan.cost.basis == "on-demand" and row is not None and row.estimate:
        yield PlanWarning(
            code="estimated-price",
            path="target.region",
            message=(
                f"No price of {architecture.region} was read: the costs are at another region's rates. "
                "Give your own in hardware.prices."
            ),
        )


def _scaling(plan: ServingPlan) -> Iterator[PlanWarning]:
    rate = plan.expected.requests_per_s.value
    if plan.scaling.autoscaled and rate < 1:
        yield PlanWarning(
            code="scale-rule-too-coarse",
            path="scaling.min_replicas",
            message=(
                f"A replica serves {rate:.2g} requests a second, and the service's rule counts whole ones: "
                "it adds a replica late. Set min_replicas to what the peak needs, "
                f"{plan.scaling.peak_replicas}, or serve this model where queue depth scales."
            ),
        )


def _environment(args: ServingStackArgs) -> Iterator[PlanWarning]:
    settings = args.target.container_apps
    if not settings.own_environment:
        return
    yield PlanWarning(
        code="environment-must-log",
        path="target.container_apps.own_workspace",
        message=(
            "Alerts and dashboard read ContainerAppHTTPLogs and ContainerAppConsoleLogs. The environment "
            "must send both to that workspace, by a diagnostic setting of its own."
        ),
    )
    if args.exposure == "internal":
        yield PlanWarning(
            code="environment-must-be-internal",
            path="exposure",
            message=(
                "The environment must be an internal one. In a public one nobody is let in: private "
                "addresses alone are allowed."
            ),
        )


def _callers(args: ServingStackArgs) -> Iterator[PlanWarning]:
    if args.exposure == "private" and not args.target.container_apps.own_environment:
        yield PlanWarning(
            code="nobody-may-call",
            path="exposure",
            message=(
                "Only apps of the same environment can call, and this environment is the stack's own, with "
                "none but this app in it. For callers in your network: exposure: internal with "
                "target.container_apps.subnet; in an environment of yours: own_environment; from outside: "
                "exposure: public with api_key_secret."
            ),
        )


def _alerts(plan: ServingPlan, args: ServingStackArgs) -> Iterator[PlanWarning]:
    settings = args.target.container_apps
    if plan.monitoring.alerts and not (settings.notify_emails or settings.own_action_group):
        yield PlanWarning(
            code="alerts-reach-nobody",
            path="target.container_apps.notify_emails",
            message=(
                "Alerts go to an action group that tells nobody. Name addresses in notify_emails, or an "
                "action group of your own (own_action_group)."
            ),
        )


def _images(args: ServingStackArgs) -> Iterator[PlanWarning]:
    settings = args.target.container_apps
    if settings.registry is None:
        yield PlanWarning(
            code="images-from-afar",
            path="target.container_apps.registry",
            message=(
                "Each new replica pulls gigabytes from a public registry, which limits anonymous pulls. "
                "Mirror the images into an Azure container registry of the region; a premium one can "
                "stream them."
            ),
        )
    else:
        yield PlanWarning(
            code="images-must-be-mirrored",
            path="target.container_apps.registry",
            message="Import the images once, by digest: `az acr import --source docker.io/<image> --image "
            "<path>`.",
        )


def _hold(plan: ServingPlan) -> Iterator[PlanWarning]:
    if plan.scaling.hold_s is not None:
        yield PlanWarning(
            code="held-by-the-ingress",
            path="scaling.hold",
            message=(
                f"While there is no replica, the ingress holds requests, for up to {LONGEST_REQUEST_S} s "
                "whatever scaling.hold says; a client that is answered `stream timeout` must try again."
            ),
        )


def _start(plan: ServingPlan) -> Iterator[PlanWarning]:
    total = plan.scaling.cold_start.total_s
    if total > REVISION_DEADLINE_S:
        yield PlanWarning(
            code="revision-degraded-at-first",
            path="target.container_apps.slow_start",
            message=(
                f"A replica takes {total:.0f} s to start. After {REVISION_DEADLINE_S} s the service calls "
                "the revision degraded, and goes on; the old one serves until the new one is ready."
            ),
        )
