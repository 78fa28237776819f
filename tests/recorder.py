"""Run a Pulumi program under mocks and keep everything it registers, options included.

Pulumi's own `MockResourceArgs` has neither parent nor options and drops unknown values, so the registration
requests themselves are read. Assertions come after the run: inside it, one on an unknown output would pass
silently.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from google.protobuf import json_format
from pulumi.runtime import mocks

from servingstack.cli.graph import ensure_event_loop

# pulumi's Python SDK, lib/pulumi/runtime/rpc.py: UNKNOWN, _special_sig_key, _special_secret_sig.
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"


@dataclass(frozen=True)
class Registered:
    """One registration as the engine would have got it."""

    type: str
    name: str
    urn: str
    parent: str
    inputs: dict[str, Any]
    depends_on: tuple[str, ...]
    ignore_changes: tuple[str, ...]
    custom_timeouts: dict[str, str]
    retain_on_delete: bool
    protect: bool
    provider: str
    aliases: tuple[Any, ...]


@dataclass
class Run:
    """What a program registered, in order, and what it said."""

    resources: list[Registered] = field(default_factory=list)
    reads: list[tuple[str, str]] = field(default_factory=list)
    """Type and id of what was looked up."""
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Registered outputs by URN."""
    messages: list[str] = field(default_factory=list)

    def named(self, name: str) -> Registered:
        """The only resource of this name."""
        (found,) = [each for each in self.resources if each.name == name]
        return found

    def of_type(self, token: str) -> list[Registered]:
        """Every resource of a type."""
        return [each for each in self.resources if each.type == token]

    def outputs_of(self, token: str) -> dict[str, Any]:
        """What the only component of a type registered as its outputs."""
        (found,) = self.of_type(token)
        return self.outputs[found.urn]

    @property
    def text(self) -> str:
        """Everything that was sent, as one text to search in."""
        return json.dumps([each.inputs for each in self.resources] + list(self.outputs.values()))


class _Nothing(mocks.Mocks):
    """No lookups; a custom resource has an id, echoes its inputs, and has the outputs given for its type."""

    def __init__(self, preview: bool, outputs: Mapping[str, dict[str, Any]]) -> None:
        self.preview, self.outputs = preview, outputs

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], None]:
        return {}, None

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[Any, Any]]:
        known = args.inputs | self.outputs.get(args.typ, {}) if not self.preview else {}
        return ("" if self.preview else f"{args.name}-id"), known


class _Handler(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__()
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(f"{record.levelname.lower()}: {record.getMessage()}")


def record(
    program: Callable[[], Any],
    *,
    preview: bool = False,
    config: dict[str, str] | None = None,
    outputs: Mapping[str, dict[str, Any]] | None = None,
) -> Run:
    """Run `program` as a preview (outputs unknown) or as a deployment; `outputs` are what a service would
    add, by type."""
    run = Run()

    class Monitor(mocks.MockMonitor):
        def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (Pulumi's name)
            answer = super().RegisterResource(request)
            if request.type != "pulumi:pulumi:Stack":
                run.resources.append(_registered(request, answer.urn))
            return answer

        def ReadResource(self, request: Any) -> Any:  # noqa: N802 (Pulumi's name)
            run.reads.append((request.type, request.id))
            return super().ReadResource(request)

        def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 (Pulumi's name)
            run.outputs[request.urn] = json_format.MessageToDict(request.outputs)
            return super().RegisterResourceOutputs(request)

    logger = logging.getLogger(f"servingstack.tests.{id(run)}")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.addHandler(_Handler(run.messages))
    nothing = _Nothing(preview, {} if outputs is None else outputs)
    pulumi.runtime.set_all_config(config if config is not None else {})
    ensure_event_loop()
    mocks.set_mocks(nothing, "project", "stack", preview=preview, monitor=Monitor(nothing), logger=logger)
    try:
        pulumi.runtime.test(program)()
    finally:
        pulumi.runtime.set_all_config({})
    return run


def _registered(request: Any, urn: str) -> Registered:
    waits = request.customTimeouts
    times = {name: getattr(waits, name) for name in ("create", "update", "delete") if getattr(waits, name)}
    return Registered(
        type=request.type,
        name=request.name,
        urn=urn,
        parent=request.parent,
        inputs=json_format.MessageToDict(request.object),
        depends_on=tuple(sorted(request.dependencies)),
        ignore_changes=tuple(request.ignoreChanges),
        custom_timeouts=times,
        retain_on_delete=request.retainOnDelete,
        protect=request.protect,
        provider=request.provider,
        aliases=tuple(request.aliases),
    )


def is_secret(value: Any) -> bool:
    """Whether a recorded value travels as a secret."""
    return isinstance(value, dict) and value.get(_SIGNATURE) == _SECRET


def strings(value: Any) -> Iterator[str]:
    """Every string in a recorded value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
