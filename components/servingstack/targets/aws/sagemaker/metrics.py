"""SageMaker's series in CloudWatch, and the engine's own behind CloudWatch's PromQL, each in one place.

Sources: dg/monitoring-cloudwatch and dg/async-inference-monitor for names, units and dimensions;
dg/inference-monitoring for the labels of detailed observability, which is on for every endpoint configuration
made since 2026-06-17 unless it is switched off (dg/monitoring-detailed-observability-getting-started).

Traps:
- Latencies are microseconds, and TotalProcessingTime alone is milliseconds.
- GPU utilisation is a sum over the GPUs of an instance: 0 to 400 % with four.
- Utilisation is in another namespace than invocations.
- An asynchronous endpoint publishes no Invocations and no OverheadLatency; its backlog has no variant.
- The engine's own series can be asked by PromQL and put into alarms, but into no dashboard and no scaler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from servingstack.watched import Metric

from .facts import INSTANCE_NAMESPACE, NAMESPACE
from .names import VARIANT

MICROSECONDS = 1e-6
MINUTE_S = 60
"""Resolution of the service's metrics (dg/monitoring-cloudwatch)."""
ENDPOINT_LABEL = "aws.sagemaker.endpoint.name"


class Series:
    """The series of one endpoint."""

    def __init__(self, endpoint: str, gpus: int) -> None:
        self.endpoint = endpoint
        self.gpus = gpus
        """Of an instance."""

    def invocation(
        self, name: str, statistic: str, period_s: int = MINUTE_S, *, scale: float = 1.0
    ) -> Metric:
        """One of the variant's series about requests."""
        return Metric(
            namespace=NAMESPACE,
            name=name,
            statistic=statistic,
            dimensions={"EndpointName": self.endpoint, "VariantName": VARIANT},
            period_s=period_s,
            scale=scale,
        )

    def latency(self, name: str, statistic: str, period_s: int = MINUTE_S) -> Metric:
        """A latency, which the service counts in microseconds."""
        return self.invocation(name, statistic, period_s, scale=MICROSECONDS)

    def backlog(self, name: str, statistic: str, period_s: int = MINUTE_S) -> Metric:
        """One of the endpoint's series about waiting requests."""
        return Metric(
            namespace=NAMESPACE,
            name=name,
            statistic=statistic,
            dimensions={"EndpointName": self.endpoint},
            period_s=period_s,
        )

    def instance(self, name: str, statistic: str, period_s: int = MINUTE_S, *, per_gpu: bool) -> Metric:
        """A utilisation as a share of one; `per_gpu` for what the service sums over the GPUs."""
        return Metric(
            namespace=INSTANCE_NAMESPACE,
            name=name,
            statistic=statistic,
            dimensions={"EndpointName": self.endpoint, "VariantName": VARIANT},
            period_s=period_s,
            scale=0.01 / (self.gpus if per_gpu else 1),
        )

    @property
    def selector(self) -> str:
        """Matchers, without braces, of the engine's own series (Prometheus 3 quotes names with dots)."""
        return f'"{ENDPOINT_LABEL}"="{self.endpoint}"'


def scaled(expression: str, metrics: Mapping[str, Metric], ending: str = "") -> str:
    """An expression with each series in the signal's unit; `ending` is added to every name."""
    for key, metric in metrics.items():
        name = f"{key}{ending}"
        value = name if metric.scale == 1 else f"({name} * {metric.scale:.10g})"
        expression = re.sub(rf"\b{key}\b", value, expression)
    return expression
