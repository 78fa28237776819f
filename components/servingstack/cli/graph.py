"""The resources of a stack without engine, cluster or credentials: the component runs under Pulumi's mocks.

Trap: `MockResourceArgs` drops unknown values and nulls, so the inputs are read from the registration requests
themselves. There unknowns, secrets and outputs are marked by well-known strings (Pulumi's wire format).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from servingstack.cli.source import Planned, under
from servingstack.documents import ConfigValue, StackOutput
from servingstack.errors import InvalidInput
from servingstack.redact import REDACTED

# pulumi's Python SDK, lib/pulumi/runtime/rpc.py: UNKNOWN, _special_sig_key, _special_secret_sig,
# _special_output_value_sig, _special_resource_sig.
_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_RESOURCE = "5cf8f73096256a8f31e491e813e4eb8e"


@dataclass(frozen=True)
class Resource:
    """One registered resource."""

    type: str
    name: str
    parent: str | None
    """Name of its parent, None for the component itself."""
    inputs: Mapping[str, Any]
    """Plain JSON; unknown values are None, secrets are `[secret]`."""

    def document(self) -> dict[str, Any]:
        return {"type": self.type, "name": self.name, "parent": self.parent, "inputs": dict(self.inputs)}


def resources(stack: Planned) -> tuple[Resource, ...]:
    """What a deployment registers. Values from config or other stacks are unknown here.

    Raises `InvalidInput` or `Infeasible` where it would be refused, and not the engine's wrapping of it."""
    from servingstack.component import Refused, ServingStack

    def program() -> None:
        args = stack.entry.args
        ServingStack(args.name, args, existing=_stand_ins(stack.entry.existing), lock=stack.deployed)

    try:
        return record(program)
    except Refused as refused:
        refusal = refused.refusal
    if isinstance(refusal, InvalidInput):
        raise InvalidInput(
            [replace(each, path=under(stack.entry.path, each.path)) for each in refusal.violations]
        )
    raise refusal


def record(program: Callable[[], Any]) -> tuple[Resource, ...]:
    """Run a Pulumi program under mocks, as in a preview, and return what it registered."""
    import pulumi
    from pulumi.runtime import mocks

    class Nothing(mocks.Mocks):
        def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], None]:
            del args  # nothing is looked up
            return {}, None

        def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[Any, Any]]:
            return "", echoed(args.inputs)

    class Recorder(mocks.MockMonitor):
        def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (Pulumi's name)
            seen.append((request.type, request.name, request.parent, request.object))
            return super().RegisterResource(request)

    seen: list[tuple[str, str, str, Any]] = []
    quiet = logging.getLogger("servingstack.preview")
    quiet.setLevel(logging.ERROR)
    nothing = Nothing()
    monitor = Recorder(nothing)
    ensure_event_loop()
    mocks.set_mocks(nothing, "servingstack", "preview", preview=True, monitor=monitor, logger=quiet)
    pulumi.runtime.test(program)()
    return _in_order(tuple(_resources(seen)))


def echoed(inputs: Mapping[Any, Any]) -> dict[Any, Any]:
    """Inputs as outputs. Azure's SDK is given a list of identities and answers an object by their ids."""
    identity = inputs.get("identity")
    ids = identity.get("userAssignedIdentities") if isinstance(identity, dict) else None
    if not isinstance(ids, list):
        return dict(inputs)
    by_id = {str(each): dict[str, Any]() for each in cast("list[Any]", ids)}
    return {**inputs, "identity": {**cast("dict[str, Any]", identity), "userAssignedIdentities": by_id}}


def ensure_event_loop() -> None:
    """Pulumi takes this thread's loop for granted; whoever used `asyncio.run` here has taken it away."""
    import asyncio

    try:
        asyncio.get_event_loop()
    except RuntimeError:
        asyncio.set_event_loop(asyncio.new_event_loop())


def _in_order(found: tuple[Resource, ...]) -> tuple[Resource, ...]:
    """Children by name below their parents: the order of registration differs from run to run."""
    parents = {item.name: item.parent for item in found}

    def ancestry(name: str | None) -> tuple[str, ...]:
        return () if name is None else (*ancestry(parents.get(name)), name)

    return tuple(sorted(found, key=lambda item: ancestry(item.name)))


def _resources(seen: Iterable[tuple[str, str, str, Any]]) -> Iterable[Resource]:
    from google.protobuf import json_format

    for type_, name, parent, struct in seen:
        if type_ == "pulumi:pulumi:Stack":
            continue
        above = parent.rsplit("::", 1)[-1] if parent and "pulumi:pulumi:Stack::" not in parent else None
        inputs = _plain(json_format.MessageToDict(struct))
        yield Resource(type_, name, above, inputs)


def _plain(value: Any) -> Any:
    """Wire format to plain JSON: unknown is None, a secret is masked, whole floats are integers again."""
    if isinstance(value, dict):
        return _plain_object(value)
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None if value == _UNKNOWN else value


def _plain_object(value: dict[str, Any]) -> Any:
    signature = value.get(_SIGNATURE)
    if signature == _SECRET or (signature == _OUTPUT and value.get("secret")):
        return REDACTED
    if signature == _OUTPUT:
        return _plain(value.get("value"))
    if signature == _RESOURCE:
        return str(value.get("urn", "")).rsplit("::", 1)[-1]
    return {key: _plain(value[key]) for key in sorted(value)}


def _stand_ins(existing: Mapping[str, Any]) -> dict[str, Any]:
    """References become unknown outputs, config values secret ones: nothing is decrypted or fetched."""
    return {
        name: _stand_in(value) if isinstance(value, ConfigValue | StackOutput) else value
        for name, value in existing.items()
    }


def _stand_in(value: ConfigValue | StackOutput) -> Any:
    import asyncio

    import pulumi

    def settled(result: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_event_loop().create_future()
        future.set_result(result)
        return future

    secret = isinstance(value, ConfigValue)
    return pulumi.Output(set(), settled(None), settled(False), settled(secret))
