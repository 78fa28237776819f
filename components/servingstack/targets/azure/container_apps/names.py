"""Physical names, within Azure's rules.

Trap: an app's name is part of its address, and two apps of one name cannot stand in one group. So where a
change of the input replaces the app, its name must change with it, or the new one could not be made before
the old one goes: the hash in it is of whatever replaces it.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid

from servingstack.args import ServingStackArgs
from servingstack.naming import physical_name

from .limits import APP_NAME_LENGTH, ENVIRONMENT_NAME_LENGTH, SHORT_NAME_LENGTH

_HASH = 6


def names(args: ServingStackArgs) -> dict[str, str]:
    """By role."""
    settings, target = args.target.container_apps, args.target
    replaced_by = {
        "name": args.name,
        "region": target.region,
        "resource_group": settings.resource_group,
        "own_environment": settings.own_environment,
        "subnet": settings.subnet,
        "internal": args.exposure == "internal",
        "zone_redundant": settings.zone_redundant,
    }
    digest = hashlib.sha256(json.dumps(replaced_by, sort_keys=True).encode()).hexdigest()[:_HASH]
    base = re.sub(r"-{2,}", "-", args.name)
    app = f"{base[: APP_NAME_LENGTH - _HASH - 1].rstrip('-')}-{digest}"
    group = settings.resource_group
    return {
        "resource-group": f"{app}-serving" if group is None else group,
        "app": app,
        "environment": physical_name(app, "env", ENVIRONMENT_NAME_LENGTH),
        "workspace": f"{app}-logs",
        "identity": f"{app}-identity",
        "action-group": f"{app}-alerts",
        "action-group-short": base[:SHORT_NAME_LENGTH].rstrip("-"),
        # A workbook's name is a UUID; its title is what people see.
        "dashboard": str(uuid.uuid5(uuid.NAMESPACE_URL, f"servingstack:container-apps:{app}")),
    }


def secret_of(name: str, key: str | None) -> str:
    """The vault's secret for one that the input names: a vault knows no keys, so any but the default becomes
    a part of the name."""
    return name if key in (None, "token") else f"{name}-{re.sub(r'[^0-9A-Za-z-]', '-', str(key))}"


def app_secret(vault_secret: str) -> str:
    """Its name in the app, which knows lower case alone."""
    return vault_secret.lower()
