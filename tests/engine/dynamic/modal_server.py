# ruff: noqa: N802 (methods have the protobuf's names)
"""A stand-in for Modal's control plane: the base class of Modal's own protobuf, with an account in memory.

Modal's real client talks to it over gRPC. What is kept is what a later call asks about: apps with their tags,
functions with their definitions, volumes, secrets. Everything that is not answered here is UNIMPLEMENTED.

Trap: the server's thread owns the loop; tests only read its dictionaries.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import empty_pb2
from grpclib import GRPCError, Status
from grpclib.server import Server
from modal_proto import api_pb2
from modal_proto.api_grpc import ModalClientBase


@dataclass
class App:
    id: str
    name: str
    tags: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    """Ids by name, as last published."""
    deployments: int = 0


@dataclass
class Account:
    """What is there, and what was asked."""

    token: tuple[str, str] = ("ak-test", "as-test")
    secrets: dict[str, set[str]] = field(default_factory=dict)
    apps: dict[tuple[str, str], App] = field(default_factory=dict)
    functions: dict[str, api_pb2.Function] = field(default_factory=dict)
    volumes: dict[tuple[str, str], str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    faults: dict[str, list[Status]] = field(default_factory=dict)
    """Statuses to answer a method with, one call each."""
    before: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What happens when a method is called, before it is answered."""
    images: list[api_pb2.Image] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    endpoint: str | None = None
    """Where deployed functions answer, for a test that lets one; None for an address of Modal's, where
    nobody does."""

    def function(self, app: str = "chat", environment: str = "") -> api_pb2.Function:
        """The deployed function of an app."""
        return self.functions[self.apps[environment, app].functions["serve"]]

    def url_of(self, function: api_pb2.Function) -> str:
        if self.endpoint is not None:
            return self.endpoint
        return f"https://acme--{function.webhook_config.requested_suffix}.modal.run"


class Servicer(ModalClientBase):
    """The methods that a deployment needs."""

    def __init__(self, account: Account) -> None:
        self.account = account

    async def _take(self, stream: Any, method: str) -> Any:
        request = await stream.recv_message()
        metadata = dict(stream.metadata)
        self.account.calls[method] += 1
        if method in self.account.before:
            self.account.before.pop(method)()
        if (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret")) != self.account.token:
            raise GRPCError(Status.UNAUTHENTICATED, "Token validation failed")
        if faults := self.account.faults.get(method):
            raise GRPCError(faults.pop(0), f"{method} is out of order")
        return request

    async def ClientHello(self, stream: Any) -> None:
        await self._take(stream, "ClientHello")
        await stream.send_message(api_pb2.ClientHelloResponse())

    async def AuthTokenGet(self, stream: Any) -> None:
        await self._take(stream, "AuthTokenGet")
        await stream.send_message(api_pb2.AuthTokenGetResponse(token="e30.e30.e30"))

    async def EnvironmentGetOrCreate(self, stream: Any) -> None:
        request = await self._take(stream, "EnvironmentGetOrCreate")
        settings = api_pb2.EnvironmentSettings(image_builder_version="2025.06", webhook_suffix="")
        metadata = api_pb2.EnvironmentMetadata(name=request.deployment_name, settings=settings)
        answer = api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)
        await stream.send_message(answer)

    # ---- apps

    async def AppGetOrCreate(self, stream: Any) -> None:
        request = await self._take(stream, "AppGetOrCreate")
        app = self._published(request.environment_name, request.app_name)
        await stream.send_message(api_pb2.AppGetOrCreateResponse(app_id=app.id))

    async def AppGetByDeploymentName(self, stream: Any) -> None:
        request = await self._take(stream, "AppGetByDeploymentName")
        found = self.account.apps.get((request.environment_name, request.name))
        identity = "" if found is None else found.id
        await stream.send_message(api_pb2.AppGetByDeploymentNameResponse(app_id=identity))

    async def AppCreate(self, stream: Any) -> None:
        request = await self._take(stream, "AppCreate")
        identity = f"ap-{len(self.account.apps) + 1:022d}"
        self._new, self._environment = App(identity, request.description), request.environment_name
        await stream.send_message(api_pb2.AppCreateResponse(app_id=identity))

    async def AppGetLayout(self, stream: Any) -> None:
        request = await self._take(stream, "AppGetLayout")
        layout = api_pb2.AppLayout(function_ids=self._by_id(request.app_id).functions)
        await stream.send_message(api_pb2.AppGetLayoutResponse(app_layout=layout))

    async def AppGetTags(self, stream: Any) -> None:
        request = await self._take(stream, "AppGetTags")
        await stream.send_message(api_pb2.AppGetTagsResponse(tags=self._by_id(request.app_id).tags))

    async def AppPublish(self, stream: Any) -> None:
        request = await self._take(stream, "AppPublish")
        known = [app for app in self.account.apps.values() if app.id == request.app_id]
        app = known[0] if known else self._new
        app.tags, app.functions = dict(request.tags), dict(request.function_ids)
        app.deployments += 1
        if not known:
            self.account.apps[self._environment, request.name] = app
        await stream.send_message(api_pb2.AppPublishResponse(url="https://modal.com/apps/x", deployed_at=1.0))

    async def AppHeartbeat(self, stream: Any) -> None:
        await self._take(stream, "AppHeartbeat")
        await stream.send_message(empty_pb2.Empty())

    async def AppClientDisconnect(self, stream: Any) -> None:
        await self._take(stream, "AppClientDisconnect")
        await stream.send_message(empty_pb2.Empty())

    async def AppStop(self, stream: Any) -> None:
        request = await self._take(stream, "AppStop")
        gone = [key for key, app in self.account.apps.items() if app.id == request.app_id]
        for key in gone:
            del self.account.apps[key]
        await stream.send_message(empty_pb2.Empty())

    # ---- functions

    async def FunctionPrecreate(self, stream: Any) -> None:
        request = await self._take(stream, "FunctionPrecreate")
        identity = request.existing_function_id or f"fu-{len(self.account.functions) + 1}"
        self.account.functions.setdefault(identity, api_pb2.Function())
        metadata = api_pb2.FunctionHandleMetadata(function_name=request.function_name)
        answer = api_pb2.FunctionPrecreateResponse(function_id=identity, handle_metadata=metadata)
        await stream.send_message(answer)

    async def FunctionCreate(self, stream: Any) -> None:
        request = await self._take(stream, "FunctionCreate")
        function = request.function
        self.account.functions[request.existing_function_id] = function
        url = self.account.url_of(function)
        metadata = api_pb2.FunctionHandleMetadata(
            function_name=function.function_name, web_url=url, definition_id="de-1"
        )
        data = _data(function)
        answer = api_pb2.FunctionCreateResponse(
            function_id=request.existing_function_id,
            function=function,
            function_data=data,
            handle_metadata=metadata,
        )
        await stream.send_message(answer)

    async def FunctionGet(self, stream: Any) -> None:
        request = await self._take(stream, "FunctionGet")
        app = self._published(request.environment_name, request.app_name)
        if request.object_tag not in app.functions:
            raise GRPCError(Status.NOT_FOUND, f"no function {request.object_tag}")
        identity = app.functions[request.object_tag]
        function = self.account.functions[identity]
        metadata = api_pb2.FunctionHandleMetadata(
            function_name=function.function_name, web_url=self.account.url_of(function)
        )
        answer = api_pb2.FunctionGetResponse(
            function_id=identity, handle_metadata=metadata, function=_data(function)
        )
        await stream.send_message(answer)

    async def FunctionGetSchedulingParams(self, stream: Any) -> None:
        request = await self._take(stream, "FunctionGetSchedulingParams")
        settings = self.account.functions[request.function_id].autoscaler_settings
        configuration = api_pb2.AutoscalerConfiguration(settings=settings)
        answer = api_pb2.FunctionGetSchedulingParamsResponse(autoscaler_configuration=configuration)
        await stream.send_message(answer)

    # ---- what a function needs

    async def ImageGetOrCreate(self, stream: Any) -> None:
        request = await self._take(stream, "ImageGetOrCreate")
        self.account.images.append(request.image)
        answer = api_pb2.ImageGetOrCreateResponse(
            image_id=f"im-{len(self.account.images)}",
            result=api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_SUCCESS),
        )
        await stream.send_message(answer)

    async def MountGetOrCreate(self, stream: Any) -> None:
        request = await self._take(stream, "MountGetOrCreate")
        for each in request.files:
            self.account.files.setdefault(each.filename, b"")
        await stream.send_message(api_pb2.MountGetOrCreateResponse(mount_id="mo-1"))

    async def MountBatchedCheckExistence(self, stream: Any) -> None:
        request = await self._take(stream, "MountBatchedCheckExistence")
        missing = [each for each in request.sha256_hex_hashes if each not in self.account.files]
        await stream.send_message(
            api_pb2.MountBatchedCheckExistenceResponse(missing_sha256_hex_hashes=missing)
        )

    async def MountPutFile(self, stream: Any) -> None:
        request = await self._take(stream, "MountPutFile")
        self.account.files[request.sha256_hex] = request.data
        await stream.send_message(api_pb2.MountPutFileResponse(exists=True))

    async def SecretGetOrCreate(self, stream: Any) -> None:
        request = await self._take(stream, "SecretGetOrCreate")
        keys = self.account.secrets.get(request.deployment_name)
        if keys is None:
            raise GRPCError(Status.NOT_FOUND, f"no secret {request.deployment_name}")
        missing = set(request.required_keys) - keys
        if missing:
            raise GRPCError(Status.FAILED_PRECONDITION, f"the secret lacks {sorted(missing)}")
        known = api_pb2.SecretMetadata(name=request.deployment_name, keys=sorted(keys))
        await stream.send_message(
            api_pb2.SecretGetOrCreateResponse(secret_id=f"st-{request.deployment_name}", metadata=known)
        )

    async def VolumeGetOrCreate(self, stream: Any) -> None:
        request = await self._take(stream, "VolumeGetOrCreate")
        key = (request.environment_name, request.deployment_name)
        create = request.object_creation_type == api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING
        if key not in self.account.volumes and not create:
            raise GRPCError(Status.NOT_FOUND, f"no volume {request.deployment_name}")
        identity = self.account.volumes.setdefault(key, f"vo-{len(self.account.volumes) + 1}")
        await stream.send_message(api_pb2.VolumeGetOrCreateResponse(volume_id=identity))

    async def VolumeDelete(self, stream: Any) -> None:
        request = await self._take(stream, "VolumeDelete")
        volumes = self.account.volumes
        self.account.volumes = {key: each for key, each in volumes.items() if each != request.volume_id}
        await stream.send_message(empty_pb2.Empty())

    _environment = ""
    _new = App("ap-0", "")

    def _by_id(self, identity: str) -> App:
        for app in self.account.apps.values():
            if app.id == identity:
                return app
        raise GRPCError(Status.NOT_FOUND, f"no app {identity}")

    def _published(self, environment: str, name: str) -> App:
        found = self.account.apps.get((environment, name))
        if found is None:
            raise GRPCError(Status.NOT_FOUND, f"no app {name}")
        return found


def _data(function: api_pb2.Function) -> api_pb2.FunctionData:
    found = api_pb2.FunctionData()
    found.ranked_functions.add(rank=0, function=function)
    return found


def _unimplemented(name: str) -> Any:
    async def answer(self: Servicer, stream: Any) -> None:
        await self._take(stream, name)
        raise GRPCError(Status.UNIMPLEMENTED, f"{name} is not part of this stand-in")

    return answer


for _name in sorted(ModalClientBase.__abstractmethods__):
    if _name not in Servicer.__dict__:
        setattr(Servicer, _name, _unimplemented(_name))
Servicer.__abstractmethods__ = frozenset()


@contextlib.contextmanager
def serving(account: Account) -> Iterator[str]:
    """The address, while it runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    started, address = threading.Event(), list[str]()

    async def start() -> Server:
        server = Server([Servicer(account)])
        await server.start("127.0.0.1", 0)
        port = server._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        address.append(f"http://127.0.0.1:{port}")
        started.set()
        return server

    def run() -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(start())
        loop.run_forever()
        server.close()
        loop.run_until_complete(server.wait_closed())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(20)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
