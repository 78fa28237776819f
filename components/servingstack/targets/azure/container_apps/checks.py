"""What Container Apps cannot take, found before any search, all at once.

Trap: what is wrong with a name, a probe or a volume here is refused by Azure in the middle of a deployment,
after half of it exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from servingstack import catalog
from servingstack.args import SecretKey, ServingStackArgs
from servingstack.errors import Violation

from .limits import (
    LONGEST_REQUEST_S,
    MOST_REPLICAS,
    SCALE_IN_WINDOW_S,
    STORAGE_NAME_LENGTH,
)
from .names import secret_of
from .settings import SECRET

_PATH = "target.container_apps"
SCHEME = "azurefile"
STORAGE_NAME = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
"""Of a storage in an environment: lower case, a letter first, single hyphens (azurerm, validate)."""
MOST_TAGS = 45
"""Azure takes 50 on a resource, some of them the stack's own
(learn.microsoft.com/azure/azure-resource-manager/management/tag-resources)."""
OWN_TAGS = ("name", "component", "part-of", "managed-by")
"""Keys of the tags that every resource has from the stack itself (app.tags)."""
_NO_TAG = re.compile(r"[<>%&\\?/]")


def violations(args: ServingStackArgs) -> list[Violation]:
    """Everything that is wrong."""
    return [
        *_environment(args),
        *_callers(args),
        *_secrets(args),
        *_share(args),
        *_times(args),
        *_replicas(args),
        *_tags(args),
    ]


def _environment(args: ServingStackArgs) -> Iterator[Violation]:
    settings = args.target.container_apps
    if settings.own_environment:
        for name in ("subnet", "zone_redundant", "storage_account", "share_key_secret", "more_gpus"):
            if name in settings.model_fields_set and getattr(settings, name):
                fix = "Remove it: the environment has its own."
                yield Violation(f"{_PATH}.{name}", "given", "left out with own_environment", fix)
        if settings.workload_profile is None:
            fix = "Name it, as `az containerapp env workload-profile list` does."
            allowed = "the name of the environment's GPU profile, with own_environment"
            yield Violation(f"{_PATH}.workload_profile", None, allowed, fix)
        if not settings.own_workspace:
            allowed = "true with own_environment, whose logs go where it says"
            fix = "Set it, and hand the workspace's id on as existing.workspace_id."
            yield Violation(f"{_PATH}.own_workspace", False, allowed, fix)
        return
    if settings.workload_profile is not None:
        fix = "Remove it, or set own_environment."
        yield Violation(
            f"{_PATH}.workload_profile", settings.workload_profile, "only with own_environment", fix
        )
    for gpu in settings.more_gpus:
        if not catalog.instance_types("azure", gpu, service="container-apps"):
            have = {row.gpu_id for row in catalog.instance_types("azure", service="container-apps")}
            yield Violation(f"{_PATH}.more_gpus", gpu, f"some of {', '.join(sorted(have))}", "Remove it.")
    if settings.zone_redundant and not settings.subnet:
        fix = "Set subnet, and hand its id on as existing.subnet_id."
        yield Violation(f"{_PATH}.zone_redundant", True, "false without subnet", fix)


def _callers(args: ServingStackArgs) -> Iterator[Violation]:
    settings = args.target.container_apps
    if args.exposure == "public" and args.api_key_secret is None:
        fix = "Name an api_key_secret, or use exposure: internal."
        yield Violation("exposure", "public", "private or internal without api_key_secret", fix)
    if args.exposure == "internal" and not (settings.subnet or settings.own_environment):
        fix = "Set target.container_apps.subnet: only an environment in your network has an address there."
        yield Violation("exposure", "internal", "private without a network of yours", fix)


def secrets(args: ServingStackArgs) -> list[tuple[str, str, str | None]]:
    """Path, name and key of every secret that the input names."""
    found: list[tuple[str, str, str | None]] = []

    def add(path: str, secret: SecretKey | None) -> None:
        if secret is not None:
            found.append((path, secret.name, secret.key))

    add("model.token_secret", args.model.token_secret)
    add("api_key_secret", args.api_key_secret)
    bucket = getattr(args.engine, "storage_secret", None)  # of an engine that reads a bucket itself
    if bucket is not None:
        found.append(("engine.storage_secret", bucket, "key.json"))
    return found


def _secrets(args: ServingStackArgs) -> Iterator[Violation]:
    settings = args.target.container_apps
    named = secrets(args)
    for path, name, key in named:
        secret = secret_of(name, key)
        if re.match(SECRET, secret) is None:
            allowed = "a name that a key vault can have: 1 to 127 letters, digits and `-`"
            yield Violation(path, secret, allowed, "Name the vault's secret.")
    asked = [path for path, _, _ in named]
    if settings.share_key_secret is not None:
        asked.append(f"{_PATH}.share_key_secret")
    if asked and settings.key_vault is None:
        allowed = f"the key vault that holds {', '.join(asked)}"
        fix = "Name it, and hand its id on as existing.key_vault_id."
        yield Violation(f"{_PATH}.key_vault", None, allowed, fix)


def _share(args: ServingStackArgs) -> Iterator[Violation]:
    settings = args.target.container_apps
    scheme, _, rest = args.model.source.partition("://")
    if scheme != SCHEME:
        for name in ("storage_account", "share_key_secret"):
            if getattr(settings, name) is not None:
                fix = "Remove it, or use model.source: azurefile://<share>/<path>."
                yield Violation(f"{_PATH}.{name}", "given", "only with an azurefile:// source", fix)
        return
    share = rest.partition("/")[0]
    if re.match(STORAGE_NAME, share) is None or len(share) > STORAGE_NAME_LENGTH:
        what = "a storage of the environment" if settings.own_environment else "a share"
        allowed = f"azurefile://<name>/<path>, the name of {what}: at most {STORAGE_NAME_LENGTH} lower case "
        fix = "Correct the name."
        yield Violation(
            "model.source", args.model.source, f"{allowed}letters, digits, single `-`, a letter first", fix
        )
    if settings.own_environment:
        return
    if settings.storage_account is None:
        fix = "Name the storage account that has the share."
        yield Violation(f"{_PATH}.storage_account", None, "the account with an azurefile:// source", fix)
    if settings.share_protocol == "nfs" and not settings.subnet:
        fix = "Set subnet, from which the account must be reachable; or use smb with share_key_secret."
        yield Violation(f"{_PATH}.share_protocol", "nfs", "smb without a subnet of yours", fix)
    if settings.share_protocol == "smb" and settings.share_key_secret is None:
        fix = "Put the account's key into the key vault and name the secret here."
        yield Violation(
            f"{_PATH}.share_key_secret", None, "a secret of the vault, with share_protocol: smb", fix
        )


def _times(args: ServingStackArgs) -> Iterator[Violation]:
    asked = args.stream_timeout
    if asked is not None and asked.total_seconds() > LONGEST_REQUEST_S:
        allowed = f"at most {LONGEST_REQUEST_S}s, after which the service's ingress ends every request"
        fix = "Shorten it, or use an option that streams for longer: kubernetes."
        yield Violation("stream_timeout", f"{asked.total_seconds():g}s", allowed, fix)
    delay = args.scaling.scale_in_delay
    if delay is not None and delay.total_seconds() != SCALE_IN_WINDOW_S:
        allowed = f"{SCALE_IN_WINDOW_S}s, which the service does not let change"
        yield Violation("scaling.scale_in_delay", f"{delay.total_seconds():g}s", allowed, "Remove it.")
    hold = args.scaling.hold
    whole = (0 if hold is None else hold.total_seconds()) + args.request_s
    if hold is not None and whole > LONGEST_REQUEST_S:
        allowed = f"at most {LONGEST_REQUEST_S}s together with request_timeout: the ingress holds no longer"
        fix = "Keep a replica (min_replicas: 1), or shorten one of them."
        yield Violation("scaling.hold", f"{hold.total_seconds():g}s", allowed, fix)


def _replicas(args: ServingStackArgs) -> Iterator[Violation]:
    depth = args.scaling.queue_depth
    if depth is not None:
        allowed = "left out: the service scales by requests a second and sees no queue"
        yield Violation("scaling.queue_depth", depth, allowed, "Remove it, or use option: kubernetes.")
    for name in ("min_replicas", "max_replicas"):
        value = getattr(args.scaling, name)
        if value is not None and value > MOST_REPLICAS:
            fix = "Use several stacks behind a load balancer."
            yield Violation(f"scaling.{name}", value, f"at most {MOST_REPLICAS} in a revision", fix)


def _tags(args: ServingStackArgs) -> Iterator[Violation]:
    labels = dict(args.labels or {})
    for key, value in labels.items():
        if _NO_TAG.search(key) is not None:
            fix = "Use a key of your own without it."
            yield Violation(f"labels.{key}", value, r"a key without `<>%&\?/`, as Azure's tags need", fix)
        elif key.lower() in OWN_TAGS:  # Azure's names of tags know no case
            allowed = f"another key: {', '.join(OWN_TAGS)} are the stack's own"
            yield Violation(f"labels.{key}", value, allowed, "Rename it.")
    if len(labels) > MOST_TAGS:
        fix = "Remove some."
        yield Violation("labels", f"{len(labels)} labels", f"at most {MOST_TAGS}: Azure's tags are 50", fix)
