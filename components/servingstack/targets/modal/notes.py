"""What a reviewer should know of a plan on Modal, as warnings.

Trap: a cold start is in no average. Whether the promises bear one is computed from the traffic, and what warm
capacity would cost stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from servingstack.args import ServingStackArgs, latency_objectives
from servingstack.errors import Infeasible, Nearest
from servingstack.plan import PlanWarning, ServingPlan
from servingstack.targets.cold_starts import cold_share

from . import limits as known
from .section import ModalSection
from .watch import NO_ENGINE_METRICS, NO_PERCENTILES

HOURS = 730.0
"""Of a month, as everywhere in a plan."""


def notes(draft: ServingPlan, args: ServingStackArgs, section: ModalSection) -> tuple[PlanWarning, ...]:
    """Every warning. Raises `Infeasible` where an objective cannot bear the cold starts of scale to zero."""
    return (
        *_cold(draft, args, section),
        *_unmeasured(args),
        *_streams(draft),
        *_callers(section),
        *_rate(args),
        *_export(args),
        *_buffer(draft, section),
        *_preempted(args),
    )


def warm_month_usd(draft: ServingPlan) -> float:
    """What one container costs a month."""
    return round((draft.cost.machine_hourly_usd or 0.0) * HOURS, 2)


def _cold(draft: ServingPlan, args: ServingStackArgs, section: ModalSection) -> Iterator[PlanWarning]:
    if draft.scaling.min_replicas > 0 or args.traffic.kind != "online":
        return
    start_s = draft.scaling.cold_start.total_s
    rate = draft.expected.utilisation_at_mean * draft.scaling.mean_replicas  # replicas' worth of traffic
    rate *= draft.expected.requests_per_s.value
    share = cold_share(rate, section.scaledown_window_s, start_s)
    month = f"${warm_month_usd(draft):,.0f} a month"
    for name in latency_objectives(args.slo):
        seconds = getattr(args.slo, name).total_seconds()
        allowed = 1 - float(name.rpartition("_p")[2]) / 100
        if name.startswith("tpot") or start_s <= seconds:
            continue
        if share > allowed:
            raise Infeasible(
                f"slo.{name} of {seconds * 1000:g} ms with scale to zero: a cold start takes "
                f"{start_s:.0f} s, and {share:.1%} of the requests meet one at this traffic, above "
                f"the {allowed:.0%} that may be slow",
                [
                    Nearest("scaling.min_replicas: 1", f"one container stays, for {month}"),
                    Nearest("traffic.kind: experiment", "callers that wait for a start"),
                ],
            )
    yield PlanWarning(
        code="cold-starts",
        path="scaling.scale_to_zero_after",
        message=(
            f"After {section.scaledown_window_s} s without a request the next one waits about {start_s:.0f} "
            f"s for a container; {share:.2%} of the requests do so if they come evenly. min_replicas: 1 "
            f"keeps one for {month}."
        ),
    )


def _unmeasured(args: ServingStackArgs) -> Iterator[PlanWarning]:
    for name in latency_objectives(args.slo):
        why = NO_PERCENTILES if name.startswith("latency") else NO_ENGINE_METRICS
        yield PlanWarning(
            code="slo-not-measured",
            path=f"slo.{name}",
            message=f"{name} is planned for, but not measured and not alerted on here. {why}",
        )


def _streams(draft: ServingPlan) -> Iterator[PlanWarning]:
    if draft.architecture.task == "generate":
        yield PlanWarning(
            code="stream-ends-at-request-timeout",
            path="request_timeout",
            message=(
                f"Modal has one time limit for a whole answer: a stream, too, ends after "
                f"{draft.timeouts.request_s} s. Raise request_timeout to the longest stream that you allow, "
                f"up to {known.LONGEST_REQUEST_S}s."
            ),
        )


def _callers(section: ModalSection) -> Iterator[PlanWarning]:
    if section.requires_proxy_auth:
        message = (
            "The address is on the internet; Modal lets in callers with a proxy token of the workspace "
            "(Modal-Key, Modal-Secret), and those reach every path of the engine."
        )
        yield PlanWarning(code="reached-by-token", path="exposure", message=message)
    else:
        message = (
            "Anyone reaches the engine: only its API key is between everyone and a GPU, and it does not "
            "guard every path. exposure: private has Modal ask for a token first."
        )
        yield PlanWarning(code="anyone-may-call", path="exposure", message=message)


def _rate(args: ServingStackArgs) -> Iterator[PlanWarning]:
    peak = args.traffic.peak_requests_per_second or 2 * (args.traffic.requests_per_second or 0)
    if peak > known.REQUESTS_PER_S:
        yield PlanWarning(
            code="account-rate-limit",
            path="traffic.peak_requests_per_second",
            message=(
                f"A new workspace is answered 429 above {known.REQUESTS_PER_S} requests a second over all "
                "its functions: ask Modal for more first."
            ),
        )


def _export(args: ServingStackArgs) -> Iterator[PlanWarning]:
    if args.observability.dashboards or args.observability.alerts is not None:
        yield PlanWarning(
            code="metrics-need-export",
            path="observability",
            message=(
                "Dashboard and alerts read what the workspace's OpenTelemetry integration sends to your "
                "Prometheus; switch it on in Modal's settings (metrics). The units behind its names are not "
                "documented: look at each panel once before you trust an alert."
            ),
        )


def _buffer(draft: ServingPlan, section: ModalSection) -> Iterator[PlanWarning]:
    if section.buffer_containers:
        usd = section.buffer_containers * (draft.cost.machine_hourly_usd or 0.0)
        yield PlanWarning(
            code="buffer-is-paid",
            path="target.modal.buffer_containers",
            message=f"Buffer containers cost ${usd:.2f}/h more than planned for as long as there is traffic.",
        )


def _preempted(args: ServingStackArgs) -> Iterator[PlanWarning]:
    if args.traffic.kind == "online":
        yield PlanWarning(
            code="containers-may-move",
            path="target.option",
            message=(
                "Modal may move a container to another machine at any time (modal.com/docs/guide/preemption"
                "): a request in it may fail or begin anew, so clients must try again."
            ),
        )
