"""Prints the program that somebody without this library would have written for the same stack.

    .venv/bin/python benchmarks/written_out.py '{"name": "chat", ...}' > by_hand.py

Trap: a program that skips what a careful one does is faster and proves nothing. So this one has the same
objects, lookups of definitions, dependencies, time limits and ignored fields; only the component is missing.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from pprint import pformat
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OWN = "servingstack:"
"""Types of the component and its part, which a program by hand has not."""


def written_out(document: dict[str, Any]) -> str:
    """Python source with a function `program`, from what the component registers in a preview."""
    sys.path.insert(0, str(ROOT))
    from tests.recorder import record

    from servingstack import ServingStack

    run = record(lambda: ServingStack("chat", document) and None, preview=True)
    lines = ["import pulumi", "import pulumi_kubernetes as k8s", "", "", "def program():", "    made = {}"]
    for kind, identity in run.reads:
        lines.append(f"    {_class(kind)}.get({f'requires-{identity}'!r}, {identity!r})")
    names = {each.urn: each.name for each in run.resources if not each.type.startswith(OWN)}
    for each in run.resources:
        if each.urn in names:
            lines += _resource(each, [names[urn] for urn in each.depends_on if urn in names])
    return "\n".join([*lines, ""])


def _resource(each: Any, needs: list[str]) -> list[str]:
    content = {_snake(key): value for key, value in each.inputs.items() if key not in ("apiVersion", "kind")}
    if _custom(each.type):
        content |= {"api_version": each.inputs["apiVersion"], "kind": each.inputs["kind"]}
    options: dict[str, Any] = {"ignore_changes": list(each.ignore_changes) or None}
    options["retain_on_delete"] = each.retain_on_delete or None
    limits = f"pulumi.CustomTimeouts(**{each.custom_timeouts!r})" if each.custom_timeouts else "None"
    body = pformat(_whole(content), width=100).replace("\n", "\n        ")
    return [
        f"    made[{each.name!r}] = {_class(each.type)}(",
        f"        {each.name!r},",
        f"        **{body},",
        "        opts=pulumi.ResourceOptions(",
        f"            depends_on=[{', '.join(f'made[{name!r}]' for name in needs)}],",
        f"            custom_timeouts={limits},",
        f"            **{options!r},",
        "        ),",
        "    )",
    ]


def _custom(kind: str) -> bool:
    """Whether the SDK has no class for a type: `kubernetes:keda.sh/v1alpha1:ScaledObject`."""
    group = kind.split(":")[1].partition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def _class(kind: str) -> str:
    """The SDK's class of a type: `kubernetes:apps/v1:Deployment` is `k8s.apps.v1.Deployment`."""
    if _custom(kind):
        return "k8s.apiextensions.CustomResource"
    _, group, name = kind.split(":")
    return f"k8s.{group.replace('.k8s.io', '').replace('/', '.')}.{name}"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found.group(1).lower()}", name)


def _whole(value: Any) -> Any:
    """Pulumi's wire knows floats alone; what was an integer is one again."""
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


if __name__ == "__main__":
    print(written_out(json.loads(sys.argv[1])))
