"""What is only handed on to the cluster's provider: how to reach a cluster that exists.

Trap: nothing of it may be among a component's properties. What stands there in the clear is in the state in
the clear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

import pulumi

from servingstack.errors import InvalidInput, Violation


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

    @classmethod
    def parse(cls, given: Mapping[str, Any] | KubernetesExisting | None) -> KubernetesExisting:
        """From a mapping, as a stack file has it. Raises `InvalidInput` for a field there is not."""
        if given is None or isinstance(given, KubernetesExisting):
            return cls() if given is None else given
        if not isinstance(given, Mapping):
            allowed = "an object with how to reach the cluster"
            kind = f"a {type(given).__name__}"
            raise InvalidInput([Violation("existing", kind, allowed, 'Write {"kubeconfig": ...}.')])
        names = [field.name for field in fields(cls)]
        if wrong := [_unknown(name, names) for name in given if name not in names]:
            raise InvalidInput(wrong)
        return cls(**given)


def _unknown(name: str, names: list[str]) -> Violation:
    close = get_close_matches(str(name), names, n=1)
    fix = f"Did you mean `{close[0]}`?" if close else "Remove it."
    return Violation(f"existing.{name}", None, f"one of {', '.join(names)}", fix)
