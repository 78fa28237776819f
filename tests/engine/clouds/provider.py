"""The engine's side of a `Cloud`: one gRPC provider for all packages, attached by `PULUMI_DEBUG_PROVIDERS`.

The trap: the engine hands secrets and values that are not known yet as marked texts inside the
properties. They are taken out before the cloud sees anything and put back into every answer, or a state
file would show them.
"""

# The methods' names are the protocol's.
# ruff: noqa: N802

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc
from tests.engine.clouds.cloud import RETRIES, Cloud, CloudError, Thing, Throttled
from tests.engine.clouds.tables import Kind
from tests.engine.clouds.values import changed_paths, kept, with_defaults

Json = Any
NATIVE = ("aws-native", "azure-native")
"""Compare the inputs of now and then; bridged providers compare inputs with what is there."""
PACKAGES = ("aws", "aws-native", "gcp", "azure-native")
_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # sdk/go/common/resource/plugin/rpc.go: UnknownStringValue
_SIGNATURE = "4dabf18193072939515e22adb298388d"  # sdk/go/common/resource/properties.go: SigKey
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # the same: SecretSig


@dataclass(frozen=True)
class Secret:
    value: Json


class Unknown:
    """A value that only an update will know."""

    def __eq__(self, other: object) -> bool:
        return False  # it may become anything, so it counts as changed

    __hash__ = None  # type: ignore[assignment]


UNKNOWN = Unknown()


def decode(value: Json) -> Json:
    """A property as the engine sends it, its marks as `Secret` and `UNKNOWN`."""
    if isinstance(value, Mapping):
        if value.get(_SIGNATURE) == _SECRET:
            return Secret(decode(value.get("value")))
        return {key: decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return UNKNOWN if value == _UNKNOWN else value


def encode(value: Json) -> Json:
    if isinstance(value, Secret):
        return {_SIGNATURE: _SECRET, "value": encode(value.value)}
    if isinstance(value, Unknown):
        return _UNKNOWN
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [encode(item) for item in value]
    return value


def plain(value: Json) -> Json:
    """The value without its marks of secrecy, as the service gets it."""
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def has(value: Json, kind: type) -> bool:
    if isinstance(value, kind):
        return True
    if isinstance(value, Secret):
        return has(value.value, kind)
    if isinstance(value, Mapping):
        return any(has(item, kind) for item in value.values())
    return isinstance(value, list) and any(has(item, kind) for item in value)


def received(struct: struct_pb2.Struct) -> dict[str, Json]:
    return decode(json_format.MessageToDict(struct))


def answer(values: Mapping[str, Json]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    json_format.ParseDict(encode(dict(values)), struct)
    return struct


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.config: dict[str, dict[str, Json]] = {}
        """What each package was configured with."""

    # -- the plugin

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="99.0.0")

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        changed = received(request.news) != received(request.olds)
        kind = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=kind)

    def Configure(self, request: Any, context: Any) -> Any:
        self.config[request.type.rsplit(":", 1)[-1]] = plain(received(request.args))
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False
        )

    def Cancel(self, request: Any, context: Any) -> Any:
        self.cloud.cancelled += 1
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        found = self.cloud.invokes.get(request.tok)
        if found is None:
            _abort(context, CloudError("NoRow", f"{request.tok} has no row in tests/engine/clouds"))
            return None
        return provider_pb2.InvokeResponse(**{"return": answer(found)})

    # -- resources

    def Check(self, request: Any, context: Any) -> Any:
        token, name, news = _type(request), _name(request), received(request.news)
        try:
            kind = self.cloud.kind(token)
        except CloudError as error:
            _abort(context, error)
        if kind.auto_name and kind.name and news.get(kind.name) is None:
            before = received(request.olds).get(kind.name)
            news[kind.name] = before or f"{name}-{_digits(request.randomSeed + request.urn.encode())}"
        return provider_pb2.CheckResponse(inputs=answer(news))

    def Diff(self, request: Any, context: Any) -> Any:
        token = _type(request)
        kind = self.cloud.kind(token)
        news = with_defaults(kind, plain(received(request.news)))
        native = token.partition(":")[0] in NATIVE
        state = plain(received(request.old_inputs if native else request.olds))
        own = {row.split(".")[0] for row in kind.replaces + kind.updates + kind.refuses} | {*news}
        old = {key: value for key, value in state.items() if key in own}
        paths = changed_paths(old, news, kept(kind))
        found = {path: self.cloud.decide(token, path) for path in paths}
        kinds = provider_pb2.PropertyDiff
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if found else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=sorted({path.split(".")[0] for path in found}),
            replaces=sorted({path.split(".")[0] for path, replaces in found.items() if replaces}),
            deleteBeforeReplace=kind.delete_before_replace,
            hasDetailedDiff=True,
            detailedDiff={
                path: kinds(kind=kinds.UPDATE_REPLACE if replaces else kinds.UPDATE)
                for path, replaces in found.items()
            },
        )

    def Create(self, request: Any, context: Any) -> Any:
        token, raw = _type(request), received(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=answer(self._foreseen(token, raw)))
        thing = self._tried(
            context, lambda: self.cloud.create(token, _name(request), plain(raw), request.timeout)
        )
        return provider_pb2.CreateResponse(id=thing.id, properties=answer(self._state(thing, raw)))

    def Update(self, request: Any, context: Any) -> Any:
        token, raw = _type(request), received(request.news)
        if request.preview:
            kind = self.cloud.kind(token)
            state = {**received(request.olds), **_shown(kind, with_defaults(kind, raw))}
            return provider_pb2.UpdateResponse(properties=answer(state))
        thing = self._tried(
            context,
            lambda: self.cloud.update(token, _name(request), request.id, plain(raw), request.timeout),
        )
        return provider_pb2.UpdateResponse(properties=answer(self._state(thing, raw)))

    def Delete(self, request: Any, context: Any) -> Any:
        self._tried(
            context,
            lambda: self.cloud.delete(_type(request), _name(request), request.id, request.timeout),
        )
        return empty_pb2.Empty()

    def Read(self, request: Any, context: Any) -> Any:
        thing = self.cloud.read(_type(request), request.id)
        if thing is None:
            return provider_pb2.ReadResponse()
        asked = received(request.inputs)
        now = self._state(thing, received(request.properties))
        inputs = {
            key: _projected(value, thing.inputs[key])
            for key, value in asked.items()
            if thing.inputs.get(key) is not None
        }
        return provider_pb2.ReadResponse(id=thing.id, properties=answer(now), inputs=answer(inputs))

    # -- parts

    def _foreseen(self, token: str, raw: Mapping[str, Json]) -> dict[str, Json]:
        kind = self.cloud.kind(token)
        only_known_later = {*kind.outputs, *kind.keeps} - {*raw}  # dotted ones come with what they are in
        return {
            **_shown(kind, with_defaults(kind, raw)),
            **{name: UNKNOWN for name in only_known_later if "." not in name},
        }

    def _state(self, thing: Thing, raw: Mapping[str, Json]) -> dict[str, Json]:
        """The object's properties, as secret as what they were made from."""
        marked = self.cloud.kind(thing.token).secret_outputs
        found: dict[str, Json] = {}
        for name, value in thing.properties().items():
            was = raw.get(name)
            if has(was, Secret):
                found[name] = was if plain(was) == value else Secret(value)
            else:
                found[name] = Secret(value) if name in marked else value
        return _shown(self.cloud.kind(thing.token), found)

    def _tried(self, context: Any, call: Any) -> Any:
        for attempt in range(RETRIES + 1):
            try:
                return call()
            except Throttled as error:
                if attempt == RETRIES:
                    _abort(context, error)
            except CloudError as error:
                _abort(context, error)
        return None


def _shown(kind: Kind, values: Mapping[str, Json]) -> dict[str, Json]:
    """Properties as the service gives them back."""
    found = dict(values)
    for path in kind.keyed:
        found = _keyed(found, path.split("."))
    return found


def _keyed(value: Json, path: list[str]) -> Json:
    if isinstance(value, Secret):
        return Secret(_keyed(value.value, path))
    if not path:
        if not isinstance(value, list):
            return value
        ids = [plain(each) for each in value]
        return UNKNOWN if has(ids, Unknown) else {each: {"clientId": "", "principalId": ""} for each in ids}
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    return {**value, path[0]: _keyed(value[path[0]], path[1:])}


def _projected(asked: Json, now: Json) -> Json:
    """What is there now, in the shape of what was asked for: the rest the program never wrote."""
    if isinstance(asked, Secret):
        inner = now.value if isinstance(now, Secret) else now
        return Secret(_projected(asked.value, inner))
    if isinstance(asked, Mapping) and isinstance(now, Mapping):
        return {key: _projected(value, now[key]) for key, value in asked.items() if key in now}
    if isinstance(asked, list) and isinstance(now, list) and len(asked) == len(now):
        return [_projected(was, is_now) for was, is_now in zip(asked, now, strict=True)]
    return copy.deepcopy(now)


def _digits(seed: bytes) -> str:
    """Seven hex digits that the engine's seed decides."""
    return hashlib.sha256(seed).hexdigest()[:7]


def _type(request: Any) -> str:
    return str(request.urn).split("::")[2].rsplit("$", 1)[-1]


def _name(request: Any) -> str:
    return str(request.urn).rsplit("::", 1)[-1]


def _abort(context: Any, error: CloudError) -> None:
    context.abort(grpc.StatusCode.UNKNOWN, str(error))


@contextmanager
def served(cloud: Cloud) -> Iterator[tuple[Provider, str]]:
    """The provider while it listens on this machine, and the value for `PULUMI_DEBUG_PROVIDERS`."""
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=unlimited)
    provider = Provider(cloud)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield provider, ",".join(f"{package}:{port}" for package in PACKAGES)
    finally:
        server.stop(grace=None).wait()
