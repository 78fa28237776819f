"""Settings of Container Apps that the rest of the input has no field for.

Trap: what exists is named twice. Here stands whether it is used, which decides what the stack creates; its
id, which nobody decides by, stands in `existing`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from servingstack.fields import Whole, YesNo
from servingstack.units import GpuId, Size

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)

# Azure's own rules of names: learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules
# (resource groups, registries, vaults, storage accounts), and azure-mgmt-appcontainers for profiles.
RESOURCE_GROUP = r"^[-\w().]{0,89}[-\w()]$"
REGISTRY = r"^[a-z0-9]{5,50}\.azurecr\.io$"
VAULT = r"^[a-zA-Z](-?[a-zA-Z0-9]){2,23}$"
ACCOUNT = r"^[a-z0-9]{3,24}$"
PROFILE = r"^[a-zA-Z0-9][-_a-zA-Z0-9]{0,59}$"
SECRET = r"^[0-9a-zA-Z-]{1,127}$"
EMAIL = r"^[^@\s]{1,64}@[^@\s]{1,255}$"

Email = Annotated[str, StringConstraints(pattern=EMAIL)]


class ContainerAppsArgs(BaseModel):
    """What Container Apps alone needs to know."""

    model_config = _CONFIG
    resource_group: Annotated[str, StringConstraints(pattern=RESOURCE_GROUP)] | None = None
    """Resource group that exists, for everything of the stack. Default: none, the stack makes one of its
    name."""
    own_environment: YesNo = False
    """Whether the app goes into an environment that exists, its id in `existing.environment_id`; it must have
    the GPU's workload profile (`workload_profile`). Default no, the stack makes one."""
    workload_profile: Annotated[str, StringConstraints(pattern=PROFILE)] | None = None
    """Name of the GPU's consumption workload profile in an environment that exists. Default: in one of the
    stack's own, `gpu-` and the GPU's id."""
    more_gpus: tuple[GpuId, ...] = ()
    """Other GPUs whose profiles the stack's environment has ready, at no cost. A profile that an app runs on
    cannot be taken away, so before a change to another GPU name the new one here, and after it the old one,
    for one deployment each. Default: none."""
    subnet: YesNo = False
    """Whether the stack's environment is in a network of yours, its subnet in `existing.subnet_id`: delegated
    to `Microsoft.App/environments`, at least a /27. Default no, in the service's."""
    zone_redundant: YesNo = False
    """Whether the environment spreads replicas over zones; needs `subnet`, and cannot be changed later
    without replacing the environment. Default no."""
    own_workspace: YesNo = False
    """Whether logs go to a Log Analytics workspace that exists, its id in `existing.workspace_id`; needed
    with `own_environment`, whose logs it must already get. Default no, the stack makes one."""
    log_retention_days: Whole = Field(default=30, ge=30, le=730)
    """How long the stack's own workspace keeps logs, days. Default 30, which the price of ingestion holds."""
    registry: Annotated[str, StringConstraints(pattern=REGISTRY)] | None = None
    """Azure container registry that mirrors the images under their own paths, `name.azurecr.io`, its id in
    `existing.registry_id`; pulled with the stack's identity. Default: none, images are pulled from where they
    are published, within that registry's limits for anonymous pulls."""
    key_vault: Annotated[str, StringConstraints(pattern=VAULT, max_length=24)] | None = None
    """Key vault with the secrets that the input names, by Azure's roles and not by access policies, its id in
    `existing.key_vault_id`. Needed as soon as a secret is named: `{name: chat-key}` is the vault's secret of
    that name, `{name: chat, key: HF_TOKEN}` is `chat-HF-TOKEN`, since a vault knows no keys. Default:
    none."""
    storage_account: Annotated[str, StringConstraints(pattern=ACCOUNT)] | None = None
    """Storage account with the share of an `azurefile://` source, for the stack's own environment. Default:
    none; in an environment that exists the source names a storage that it has."""
    share_protocol: Literal["nfs", "smb"] = "nfs"
    """How the share is read: `nfs` needs `subnet` and no key, `smb` needs `share_key_secret`; in an
    environment that exists, what its storage is. Default `nfs`."""
    share_key_secret: Annotated[str, StringConstraints(pattern=SECRET)] | None = None
    """Name of the key vault's secret with the storage account's key, for `smb`. Default: none."""
    ephemeral_storage: Size = Field(default=8 * 1024**3, ge=1024**3, le=1024**4)
    """Disk that a replica has for itself, with a unit. Default 8GiB, all that is documented for a replica
    above one core; weights from the hub must fit into it."""
    slow_start: YesNo = False
    """Whether a replica may take longer than ten minutes until it is ready, from the machine to the warm-up.
    The service then calls the revision degraded until it is, and may report the deployment as failed. Default
    no, such a plan is refused."""
    notify_emails: tuple[Email, ...] = Field(default=(), max_length=20)
    """Addresses that alerts are mailed to. Default: none."""
    own_action_group: YesNo = False
    """Whether alerts go to an action group that exists, its id in `existing.action_group_id`. Default no, the
    stack makes one."""
