"""Where a stack's series are: label matchers and metric names, each in one place.

Traps:
- A matcher that differs by one letter from the label on the series is not an error, it is an empty result: a
  dead scaler, a silent alert. So every query takes its matchers from here, and the monitors that make the
  labels take their names from the same plan.
- DCGM's and KEDA's exporters export `namespace` and `pod` labels that Prometheus' own target labels would
  overwrite. Their charts leave `honorLabels` false (NVIDIA/dcgm-exporter deployment/values.yaml and
  kedacore/charts keda/templates/manager/servicemonitor.yaml set none), so Prometheus keeps the exporter's
  label as `exported_namespace` and `exported_pod`. That form alone is used here: a monitor with
  `honorLabels: true` for them shows empty GPU panels.
- HAProxy's exporter counts responses by class (`4xx`), not by code. A full queue therefore answers from a
  backend of its own, whose requests are the 429s.
- HAProxy's frontend counts idle connections as sessions, and a load balancer's health checks and requests
  without the key as requests, some of them as 5xx. So all is counted at the backends: `engine` has what may
  pass, from the hold to the answer, `busy` has the 429s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BACKEND = "engine"
"""HAProxy's backend of replicas."""
BUSY_BACKEND = "busy"
"""HAProxy's backend that answers 429 when the queue is full."""
OVERFLOW_BACKEND = "overflow"
"""HAProxy's backend of an endpoint beside the replicas."""

# As the exporters of HAProxy 2.6 and 2.8 write them; a test asks a running HAProxy for each.
BACKEND_RESPONSES = "haproxy_backend_http_responses_total"
BACKEND_RESPONSE_ERRORS = "haproxy_backend_response_errors_total"
BACKEND_REQUESTS = "haproxy_backend_http_requests_total"
BACKEND_SESSIONS = "haproxy_backend_current_sessions"
BACKEND_QUEUE = "haproxy_backend_current_queue"
BACKEND_QUEUE_TIME = "haproxy_backend_queue_time_average_seconds"

HELD = "servingstack_held_requests"
"""Requests held while no replica is up, from the front door's own Lua: they are in no queue of HAProxy."""

# NVIDIA/dcgm-exporter etc/default-counters.csv: percent, and MiB.
GPU_UTILISATION = "DCGM_FI_DEV_GPU_UTIL"
GPU_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
"""A ratio. Of a slice there is no other: DCGM_FI_DEV_GPU_UTIL exists for whole GPUs alone. A slice's series
bear `GPU_I_ID` and `GPU_I_PROFILE` (dcgm-exporter internal/pkg/rendermetrics)."""
GPU_MEMORY_USED = "DCGM_FI_DEV_FB_USED"
GPU_MEMORY_FREE = "DCGM_FI_DEV_FB_FREE"

SCALER_ERRORS = "keda_scaler_detail_errors_total"
"""KEDA 2.21.0, pkg/metricscollector/prommetrics.go; labels namespace, scaledObject, scaler, ..."""


@dataclass(frozen=True)
class Scope:
    """Label matchers of one stack. A monitor's `job` is the name of the Service it selects."""

    namespace: str
    engine_job: str
    """Service of the replicas."""
    door_job: str
    """Service of the front door."""
    workload: str
    """Workload whose pods are the replicas."""
    scaler: str
    """ScaledObject."""
    overflow: bool = False
    """Whether an endpoint beside the replicas takes requests too."""

    @classmethod
    def of(cls, names: Mapping[str, str], namespace: str, *, overflow: bool = False) -> Scope:
        """From a plan's names by role."""
        return cls(namespace, names["engine"], names["service"], names["engine"], names["scaler"], overflow)

    @property
    def answering(self) -> str:
        """Backends that answer requests, with a bar between."""
        return f"{BACKEND}|{OVERFLOW_BACKEND}" if self.overflow else BACKEND

    @property
    def backends(self) -> str:
        """All of them, that of the full queue included."""
        return f"{self.answering}|{BUSY_BACKEND}"

    @property
    def engine(self) -> str:
        """Matchers, without braces, of what the engine exports."""
        return f'namespace="{self.namespace}",job="{self.engine_job}"'

    @property
    def up(self) -> str:
        """One sample per ready replica: endpoints that are not ready are not scraped."""
        return f"up{{{self.engine}}} == 1"

    @property
    def door_up(self) -> str:
        """One sample per front door that can be scraped."""
        return f'up{{namespace="{self.namespace}",job="{self.door_job}"}} == 1'

    @property
    def gpu(self) -> str:
        """Matchers of DCGM's series for the replicas' pods. Both endings of a pod's name are covered: a
        Deployment's hash and suffix, a StatefulSet's number."""
        return f'exported_namespace="{self.namespace}",exported_pod=~"{self.workload}(-[a-z0-9]+){{1,2}}"'

    @property
    def scaled_object(self) -> str:
        """Matchers of what KEDA says of the stack's scaler."""
        return f'exported_namespace="{self.namespace}",scaledObject="{self.scaler}"'

    @property
    def held(self) -> str:
        """Requests that wait for a first replica."""
        return f'{HELD}{{namespace="{self.namespace}",job="{self.door_job}"}}'

    def door(self, metric: str, proxy: str, more: str = "") -> str:
        """A selector of the front door's series of one backend, or of several with a bar between; `more` are
        further matchers, with a comma before."""
        which = f'proxy{"=~" if "|" in proxy else "="}"{proxy}"'
        return f'{metric}{{namespace="{self.namespace}",job="{self.door_job}",{which}{more}}}'
