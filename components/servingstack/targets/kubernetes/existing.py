"""What is only handed on to the cluster's provider: how to reach a cluster that exists.

Trap: nothing of it may be among a component's properties. What stands there in the clear is in the state in
the clear.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import pulumi


@dataclass(frozen=True)
class KubernetesExisting:
    """How to reach the cluster. All optional: without any, the ambient kubeconfig (`$KUBECONFIG`,
    `~/.kube/config`) or the provider in the resource's options is used."""

    kubeconfig: pulumi.Input[str] | None = None
    """Content or path of a kubeconfig; treated as a secret whether it was one or not. Default: the ambient
    one."""
    context: pulumi.Input[str] | None = None
    """Context in it. Default: its current one."""

    def __repr__(self) -> str:
        """Without the values: a kubeconfig is a credential."""
        given = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        return f"KubernetesExisting({', '.join(f'{name}=...' for name in given)})"
