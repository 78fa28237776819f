"""Settings of Cloud Run that the rest of the input has no field for.

Trap: who may call is decided twice there, by network (`exposure`) and by identity (`invokers`). A service
that is open to one of them only is still closed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from servingstack.fields import YesNo

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)

# IAM's forms of a member (cloud.google.com/iam/docs/principal-identifiers), as far as they can call a
# service.
INVOKER = (
    r"^(allUsers|allAuthenticatedUsers|(user|group|serviceAccount):[^\s@:]+@[^\s@:]+|domain:[a-z0-9.-]+"
    r"|principal(Set)?://iam\.googleapis\.com/\S+)$"
)
REPOSITORY = r"^[a-z0-9-]+-docker\.pkg\.dev/[a-z0-9.:-]+(/[a-z0-9._-]+)+$"

COLLECTOR = (
    r"^[a-z0-9-]+-docker\.pkg\.dev/[a-z0-9.:-]+(/[a-z0-9._-]+)+(:[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64}$"
)

Invoker = Annotated[str, StringConstraints(pattern=INVOKER, max_length=500)]


class CloudRunArgs(BaseModel):
    """What Cloud Run alone needs to know."""

    model_config = _CONFIG
    invokers: tuple[Invoker, ...] = ()
    """Who may call, as IAM members: `serviceAccount:app@project.iam.gserviceaccount.com`, `group:...`; with
    `exposure: public` also `allUsers`. Default: nobody but who may already by the project's own roles."""
    zonal_redundancy: YesNo = False
    """Whether capacity is reserved in another zone for the case that one fails. Costs about half more per
    GPU, and has a quota of its own. Default no: another zone is tried, not promised."""
    vpc_egress: Literal["all-traffic", "private-ranges"] | None = None
    """What goes out through your network, which `existing.network` or `existing.subnetwork` names. Default:
    none, the service has its own way out."""
    image_repository: Annotated[str, StringConstraints(pattern=REPOSITORY)] | None = None
    """Artifact Registry repository that mirrors the image's registry, `europe-docker.pkg.dev/project/hub`;
    needed for registries that Cloud Run does not read. Default: the image is pulled from where it is."""
    collector_image: Annotated[str, StringConstraints(pattern=COLLECTOR)] | None = None
    """Google's Prometheus collector (`cloud-run-gmp-sidecar`), by digest, to run beside the engine: the time
    to the first token and per token, tokens and cache are then measured. Takes a core and 1 GiB of its own.
    Default: none; they are unavailable."""
    session_affinity: YesNo = False
    """Whether a client's requests go to the same instance where possible, for its prefix cache. Default
    no."""
    binary_authorization: YesNo = False
    """Whether the project's Binary Authorization policy must admit the image. Default no."""
    deletion_protection: YesNo = False
    """Whether the service can only be deleted after this is set to no. It holds no data, and an endpoint left
    behind costs. Default no."""
    uptime_check: YesNo | None = None
    """Whether Google's checkers call the service every minute, with an alert; takes `exposure: public` and an
    instance that is kept, which they would else keep awake. Default: where both are so."""
