"""Physical names, planned: within a length, valid as a DNS label, and a hash where something was cut off.

Trap: a name cut without a hash collides with its neighbour, and it does so only where names are
long: in production.
"""

from __future__ import annotations

import hashlib

KUBERNETES_LABEL = 63
"""Longest DNS label (RFC 1123), which a Service name and a label value must be."""

KUBERNETES_ROLES = (
    "engine",
    "door",
    "config",
    "scaler",
    "rules",
    "dashboard",
    "weights",
    "prepull",
    "placeholder",
)


def physical_name(name: str, role: str, limit: int = KUBERNETES_LABEL) -> str:
    """`{name}-{role}`, cut to `limit` with six hex digits of a hash where it is too long.

    Raises ValueError if the limit leaves no room for the role and the hash."""
    full = f"{name}-{role}"
    if len(full) <= limit:
        return full
    digest = hashlib.sha256(full.encode()).hexdigest()[:6]
    room = limit - len(role) - len(digest) - 2
    if room < 1:
        raise ValueError(f"a name limit of {limit} is too short for role {role!r}")
    return f"{name[:room].rstrip('-')}-{digest}-{role}"


def kubernetes_names(name: str) -> dict[str, str]:
    """Physical names by role on a cluster. The front door has the stack's own name, which callers type."""
    return {role: physical_name(name, role) for role in KUBERNETES_ROLES} | {"service": name}


def standard_labels(name: str, engine: str, extra: dict[str, str] | None = None) -> dict[str, str]:
    """Kubernetes' recommended labels, with the user's own below them."""
    return {
        **({} if extra is None else extra),
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/component": engine,
        "app.kubernetes.io/part-of": "servingstack",
        "app.kubernetes.io/managed-by": "pulumi",
    }
