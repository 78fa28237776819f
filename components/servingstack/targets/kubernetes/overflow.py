"""What a serverless endpoint beside the replicas takes: from when, at which price, and what to know.

Scaling is not starved by it: the engine's own queue, which the front door fills before it queues anything,
reaches the scaler's threshold first.

Trap: with no replica up, everything goes there. A stack that may scale to zero would then never wake, since
nothing waits: refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from servingstack import catalog
from servingstack.args import ServingStackArgs
from servingstack.errors import InvalidInput, Violation
from servingstack.overflow import Overflow, OverflowArgs
from servingstack.plan import Architecture, PlanWarning, ServingPlan
from servingstack.targets.modal.limits import LONGEST_REQUEST_S

_CATALOG = {"modal": ("modal", "modal"), "cloud-run": ("gcp", "cloud-run")}
"""Cloud and service by option."""


def violations(args: ServingStackArgs) -> Iterator[Violation]:
    """What an endpoint beside the replicas cannot go with."""
    asked, timeout = args.target.overflow, args.request_timeout
    if asked is None:
        return
    if args.scaling.scale_to_zero_after is not None:
        allowed = (
            "left out with scale_to_zero_after: with no replica up all goes there, and nothing wakes one"
        )
        yield Violation("target.overflow", asked.option, allowed, "Keep one replica, or leave it out.")
    if asked.option == "modal" and timeout is not None and timeout.total_seconds() > LONGEST_REQUEST_S:
        allowed = f"at most {LONGEST_REQUEST_S}s with target.overflow.option modal, which then redirects"
        yield Violation("request_timeout", f"{timeout.total_seconds():g}s", allowed, "Shorten it.")


def added(draft: ServingPlan, asked: OverflowArgs) -> ServingPlan:
    """The plan with the endpoint in its front door. Raises `InvalidInput` where more would have to wait than
    may."""
    door = draft.front_door
    if door is None:
        return draft
    if asked.at is not None and asked.at > door.max_queue:
        allowed = f"at most {door.max_queue}, as many as may wait"
        raise InvalidInput([Violation("target.overflow.at", asked.at, allowed, "Lower it, or leave it out.")])
    price = _price(draft.architecture, asked)
    overflow = Overflow(
        option=asked.option,
        host=asked.url.removeprefix("https://"),
        at=door.max_queue if asked.at is None else asked.at,
        from_rps=round(draft.expected.requests_per_s.value * draft.scaling.max_replicas, 4),
        proxy_token_secret=asked.proxy_token_secret,
        hourly_usd=None if price is None else price.usd_per_hour,
        price_source=None if price is None else f"{price.region}, {price.date}, {price.source}",
    )
    return draft.model_copy(
        update={
            "front_door": door.model_copy(update={"overflow": overflow}),
            "warnings": (*draft.warnings, _warning(draft, overflow)),
        }
    )


def _price(architecture: Architecture, asked: OverflowArgs) -> catalog.Price | None:
    """The cheapest container there with as many of the same GPU as a replica has."""
    cloud, service = _CATALOG[asked.option]
    found = [
        price
        for machine in catalog.instance_types(cloud, architecture.accelerator, service)
        if machine.gpu_count == architecture.gpus_per_replica
        for price in catalog.prices(cloud, machine.name)
    ]
    return min(found, key=lambda price: (price.usd_per_hour, price.region), default=None)


def _warning(draft: ServingPlan, overflow: Overflow) -> PlanWarning:
    return PlanWarning(
        code="overflow-is-another-stack",
        path="target.overflow",
        message=(
            f"{overflow.option} at {overflow.host} takes new requests once {overflow.at} wait, and all while "
            "no replica is up. It is neither deployed nor checked here: it must serve the same model under "
            "the same name, and is sent callers' Authorization header as it came. A request that has to wait "
            f"for a container to start there is 504 after {draft.timeouts.request_s} s: keep one there."
        ),
    )
