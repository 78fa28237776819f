"""A Pulumi project's config and lock file become deployed stacks: the whole of `stacks/__main__.py`.

Trap: `Config.require_object` decrypts what is secret inside an object and says nothing. The engine tells only
that a key held a secret somewhere, so a key that did is refused here as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi

from servingstack import documents, lock
from servingstack.component import ServingStack
from servingstack.documents import NAMESPACE, ConfigValue, Document, StackOutput
from servingstack.errors import Infeasible, InvalidInput


def deploy(folder: Path) -> Mapping[str, ServingStack]:
    """Create every stack of this environment's config, and export what its callers need, by stack.

    `folder` holds the lock files, `plan.<env>.lock.json`. Raises `pulumi.RunError` for input that is
    wrong, for demands that no plan meets, and, in an update with `servingstack:require_lock`, for an
    absent or stale lock."""
    try:
        file = folder / f"Pulumi.{pulumi.get_stack()}.yaml"
        document = documents.with_benches(_document(folder), file)
        locked = lock.read(folder / f"plan.{pulumi.get_stack()}.lock.json")
    except InvalidInput as error:
        raise pulumi.RunError(str(error)) from None
    _fit_together(document, locked)
    references: dict[str, pulumi.StackReference] = {}
    stacks: dict[str, ServingStack] = {}
    for entry in document.stacks:
        name = entry.args.name
        existing = {field: _resolved(value, references) for field, value in entry.existing.items()}
        stack = stacks[name] = ServingStack(name, entry.args, existing=existing, lock=locked)
        outputs = {
            "endpoint": stack.endpoint,
            "dashboard_url": stack.dashboard_url,
            "hourly_cost": stack.hourly_cost,
        }
        pulumi.export(name, outputs)
    return stacks


def _fit_together(document: Document, locked: lock.LockFile | None) -> None:
    """Stacks that share a GPU fit it, as they will be deployed: before any of them is."""
    if all(entry.args.colocate is None for entry in document.stacks):
        return
    # The catalog behind them is read only when somebody plans.
    from servingstack.decision import decide
    from servingstack.planner import packing

    try:
        entries = [
            packing.Entry(each.path, each.args, decide(each.args, locked)[0])
            for each in document.stacks
            if each.args.colocate is not None
        ]
        if found := packing.violations(entries):
            raise InvalidInput(found)
    except (InvalidInput, Infeasible) as error:
        raise pulumi.RunError(str(error)) from None


def _document(folder: Path) -> Document:
    config = pulumi.Config(NAMESPACE.removesuffix(":"))
    secret = [key for key in documents.KNOWN_KEYS if pulumi.runtime.is_config_secret(f"{NAMESPACE}{key}")]
    if secret:
        raise InvalidInput([documents.secret_violation(f"{NAMESPACE}{key}") for key in secret])
    values = {key: config.get_object(key) for key in documents.KNOWN_KEYS}
    given = {key: value for key, value in values.items() if value is not None}
    return documents.from_config(given, folder)


def _resolved(value: Any, references: dict[str, pulumi.StackReference]) -> Any:
    """A reference's value, as an Output; anything else as it is."""
    if isinstance(value, ConfigValue):
        namespace, colon, key = value.key.rpartition(":")
        return pulumi.Config(namespace if colon else None).require_secret(key)
    if isinstance(value, StackOutput):
        if value.stack not in references:
            references[value.stack] = pulumi.StackReference(value.stack)
        return references[value.stack].require_output(value.output)
    return value
