"""What a reviewer should know of a plan on Cloud Run, as warnings."""

from __future__ import annotations

from collections.abc import Iterator

from servingstack.args import ServingStackArgs, latency_objectives
from servingstack.plan import PlanWarning, ServingPlan

from . import objectives
from .checks import ANYONE, IN_IMAGE
from .section import CloudRunSection

LARGE_IN_IMAGE_BYTES = 10e9
"""docs.cloud.google.com/run/docs/configuring/jobs/gpu-best-practices: the image is best for less."""


def notes(draft: ServingPlan, args: ServingStackArgs, section: CloudRunSection) -> tuple[PlanWarning, ...]:
    """Every warning."""
    return (
        *(() if section.collector is not None else objectives.unmeasured(latency_objectives(args.slo))),
        *_collector(section),
        *_weights(draft, args),
        *_streams(draft),
        *_cpu(section),
        *_quota(section),
        *_zones(draft, args, section),
        *_callers(section),
        *_uptime(section),
    )


def _collector(section: CloudRunSection) -> Iterator[PlanWarning]:
    if section.collector is not None:
        yield PlanWarning(
            code="collector-writes-for-the-project",
            path="target.cloud_run.collector_image",
            message=(
                "The service's account may write metrics of the whole project: monitoring.metricWriter "
                "cannot be granted on less. The engine's objectives have alerts, and no SLO of Cloud "
                "Monitoring: the metric it would be of exists once an engine has written it."
            ),
        )


def _weights(draft: ServingPlan, args: ServingStackArgs) -> Iterator[PlanWarning]:
    held = draft.architecture.memory_per_gpu.weights
    if args.model.source.startswith(IN_IMAGE) and held > LARGE_IN_IMAGE_BYTES:
        yield PlanWarning(
            code="large-image",
            path="model.source",
            message=(
                f"The image holds {held / 1e9:.0f} GB of weights. Google advises images for models of less "
                "than 10 GB: larger ones take long to deploy, and their start is slower than from a bucket."
            ),
        )


def _streams(draft: ServingPlan) -> Iterator[PlanWarning]:
    limit = draft.timeouts.request_s
    if draft.architecture.task == "generate":
        yield PlanWarning(
            code="stream-ends-at-request-timeout",
            path="request_timeout",
            message=(
                f"Cloud Run has one time limit for a whole answer: a stream, too, ends after {limit} s. "
                f"Raise request_timeout to the longest stream that you allow, up to 1h."
            ),
        )


def _cpu(section: CloudRunSection) -> Iterator[PlanWarning]:
    yield PlanWarning(
        code="cpu-scales-too",
        path="",
        message=(
            f"Instances are added at {section.concurrency_utilization:.0%} of {section.max_concurrency} "
            "requests in flight. Cloud Run's API can be told not to look at the CPU at all, the provider "
            f"leaves such a zero out: so the CPU adds one too, at {section.cpu_utilization:.0%}, the highest "
            "that can be set."
        ),
    )


def _quota(section: CloudRunSection) -> Iterator[PlanWarning]:
    listed = ", ".join(f"{quota.id} {quota.needed} {quota.unit}" for quota in section.quotas)
    yield PlanWarning(
        code="quota",
        path="scaling.max_replicas",
        message=f"The project needs, in this region, at the peak with a rollout: {listed}.",
    )


def _zones(draft: ServingPlan, args: ServingStackArgs, section: CloudRunSection) -> Iterator[PlanWarning]:
    if section.zonal_redundancy or args.traffic.kind != "online":
        return
    yield PlanWarning(
        code="no-zonal-redundancy",
        path="target.cloud_run.zonal_redundancy",
        message=(
            "If a zone fails, instances start elsewhere only where GPUs are free. zonal_redundancy: true has "
            "them reserved, at about half more per GPU, and needs its own quota."
        ),
    )
    if draft.scaling.max_replicas == 1:
        yield PlanWarning(
            code="one-instance",
            path="scaling.max_replicas",
            message=(
                "Cloud Run moves instances at times; with a single one that is a gap of a cold start. Allow "
                "two."
            ),
        )


def _callers(section: CloudRunSection) -> Iterator[PlanWarning]:
    anyone = [member for member in section.invokers if member in ANYONE]
    if anyone:
        yield PlanWarning(
            code="anyone-may-call",
            path="target.cloud_run.invokers",
            message=(
                f"{anyone[0]} may call: only the API key is between everyone and a GPU, and it does not "
                "guard every path of the engine. A load balancer with Cloud Armor before `exposure: "
                "internal` does."
            ),
        )
    elif not section.invokers:
        yield PlanWarning(
            code="nobody-may-call",
            path="target.cloud_run.invokers",
            message=(
                "No invoker is bound: only who has roles/run.invoker on the project can call. Name your "
                "callers' service accounts."
            ),
        )


def _uptime(section: CloudRunSection) -> Iterator[PlanWarning]:
    if section.uptime_check and not any(member in ANYONE for member in section.invokers):
        yield PlanWarning(
            code="uptime-check-must-be-let-in",
            path="target.cloud_run.invokers",
            message=(
                "The uptime check calls as service-<project number>@gcp-sa-monitoring-notification"
                ".iam.gserviceaccount.com; name that account among the invokers, or it is answered 403."
            ),
        )
