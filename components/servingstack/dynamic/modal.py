"""An app on Modal, deployed by Modal's own client from a program that the plan holds.

Deploying is done again and again under one name: Modal replaces what is there, moves requests over once the
new containers are ready, and drops unchanged parts. So create and update are one step, and an interrupted one
is finished by the next. What is there is known by the app's tags: whose it is, and which program.

Traps:
- An app of that name that somebody else deployed would be replaced. It is only with `adopt`.
- Modal's autoscaler can be changed from anywhere without a deployment: it is read back, and a difference is
  drift.
- Modal runs a program by importing it, and finds its file by the module's name: each text gets a name of its
  own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pulumi
from pulumi.dynamic import (
    ConfigureRequest,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

from . import secrets
from .secrets import Failed, guarded

TOKENS = {
    "id": "MODAL_TOKEN_ID modal:token_id",
    "secret": "MODAL_TOKEN_SECRET modal:token_secret",
    "proxy_id": "MODAL_PROXY_TOKEN_ID modal:proxy_token_id",
    "proxy_secret": "MODAL_PROXY_TOKEN_SECRET modal:proxy_token_secret",
}
FUNCTION = "serve"
"""In every program."""
OWNER_TAG, PROGRAM_TAG = "servingstack", "servingstack-program"
AUTOSCALER = ("min_containers", "max_containers", "buffer_containers", "scaledown_window")
_REPLACES = ("name", "environment")
_KNOWN_LATER = ("app_id", "url", "deployed_program", "deployed_autoscaler", "warm_up_answer")
WARM_UP_POLL_S = 5.0


class ModalAppProvider(ResourceProvider):
    """The one class that a state refers to. Never renamed, never moved, and no attribute."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:
        _config.append(req)

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """From the state alone: needs no token."""
        return difference(olds, news)

    @guarded
    def create(self, props: dict[str, Any]) -> CreateResult:
        with _client() as client:
            _must_be_ours(props, client)
            return CreateResult(_identity(props), _deployed(props, client))

    @guarded
    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        with _client() as client:
            return UpdateResult(_deployed(news, client))

    @guarded
    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        with _client() as client:
            found = _observed(props, client)
        return ReadResult(None, {}) if found is None else ReadResult(id_, {**props, **found})

    @guarded
    def delete(self, _id: str, props: dict[str, Any]) -> None:
        with _client() as client:
            _stopped(props, client)


class ModalAppResource(Resource, module="modal", name="App"):
    """The dynamic resource. `props`: see `servingstack.targets.modal.bodies`."""

    app_id: pulumi.Output[str]
    url: pulumi.Output[str]
    deployed_program: pulumi.Output[str]
    deployed_autoscaler: pulumi.Output[dict[str, Any]]
    warm_up_answer: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(ModalAppProvider(), name, {**props, **dict.fromkeys(_KNOWN_LATER)}, opts)


_config: list[ConfigureRequest] = []
"""The stack's config, as the engine handed it to this process."""


def difference(olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
    """What a deployment would change: planned values against the last planned, and against what is there."""
    names = [name for name in news if name not in _KNOWN_LATER and not name.startswith("__")]
    changed = [name for name in names if plain(news[name]) != plain(olds.get(name))]
    drifted = olds.get("deployed_program") != news.get("fingerprint") or plain(
        olds.get("deployed_autoscaler")
    ) != plain(news.get("autoscaler"))
    replaces = [name for name in _REPLACES if name in changed]
    return DiffResult(changes=bool(changed) or drifted, replaces=replaces, delete_before_replace=False)


def plain(value: Any) -> Any:
    """Whole floats are integers: the engine's wire format knows floats alone."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _identity(props: dict[str, Any]) -> str:
    return f"{props.get('environment') or ''}/{props['name']}"


@contextmanager
def _client() -> Iterator[Any]:
    """Modal's client with the token of the moment, else with what Modal's own files say."""
    modal = _modal()
    tokens = secrets.read(TOKENS, _config[-1] if _config else None)
    if "id" in tokens and "secret" in tokens:
        client = modal.Client.from_credentials(tokens["id"], tokens["secret"])
    else:
        try:
            client = modal.Client.from_env()
        except modal.exception.AuthError:
            raise Failed(
                "no token for Modal: set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or the stack's secret config "
                "modal:token_id and modal:token_secret"
            ) from None
    try:
        yield client
    finally:
        client.close()


def _modal() -> ModuleType:
    try:
        import modal
        import modal.exception
    except ModuleNotFoundError:
        raise Failed("Modal's client is missing: pip install 'servingstack[modal]'") from None
    return modal


def _app(props: dict[str, Any], client: Any) -> Any:
    """The deployed app of that name; None without one."""
    modal = _modal()
    try:
        return modal.App.lookup(props["name"], client=client, environment_name=props.get("environment"))
    except modal.exception.NotFoundError:
        return None


def _must_be_ours(props: dict[str, Any], client: Any) -> None:
    """Before a first deployment: nobody else's app has the name. An interrupted one of ours has its tag."""
    found = _app(props, client)
    if found is None or props.get("adopt"):
        return
    owner = found.get_tags(client=client).get(OWNER_TAG)
    if owner != props["owner"]:
        whose = "another program's" if owner is None else f"the stack {owner!r}'s"
        raise Failed(
            f"the app {props['name']!r} is there already and {whose}: choose another name, stop it, or set "
            "target.modal.adopt to replace it"
        )


def _deployed(props: dict[str, Any], client: Any) -> dict[str, Any]:
    """Deploy the program, and say what is there then."""
    with _loaded(props["program"]) as program:
        program.app.deploy(name=props["name"], environment_name=props.get("environment"), client=client)
    found = _observed(props, client)
    if found is None:
        raise Failed(f"the app {props['name']!r} was deployed and is not there")
    answer = _warmed(props, str(found["url"]))
    return {**_inputs(props), **found, "warm_up_answer": answer}


def _inputs(props: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in props.items() if name not in _KNOWN_LATER}


@contextmanager
def _loaded(text: str) -> Iterator[ModuleType]:
    """The program as a module of its own file, gone afterwards."""
    name = f"serving_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    with tempfile.TemporaryDirectory(prefix="servingstack-") as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise Failed("the program cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # Modal looks there for the module of a function
        try:
            spec.loader.exec_module(module)
            yield module
        finally:
            sys.modules.pop(name, None)


def _observed(props: dict[str, Any], client: Any) -> dict[str, Any] | None:
    """What is there now; None without the app or its function."""
    modal = _modal()
    app = _app(props, client)
    if app is None:
        return None
    function = modal.Function.from_name(
        props["name"], FUNCTION, environment_name=props.get("environment"), client=client
    )
    try:
        url = function.get_web_url()
        settings = function.autoscaler.settings()
    except modal.exception.NotFoundError:
        return None
    return {
        "app_id": app.app_id,
        "url": url,
        "deployed_program": app.get_tags(client=client).get(PROGRAM_TAG, ""),
        "deployed_autoscaler": {name: getattr(settings, name) for name in AUTOSCALER},
    }


def _stopped(props: dict[str, Any], client: Any) -> None:
    """Stop the app, then drop its cache. Both may be gone already."""
    modal = _modal()
    app = _app(props, client)
    if app is not None:
        app.stop(client=client)
    if not props.get("keep_cache"):
        modal.Volume.objects.delete(
            props["cache_volume"],
            allow_missing=True,
            environment_name=props.get("environment"),
            client=client,
        )


def _warmed(props: dict[str, Any], url: str) -> str:
    """Call the endpoint until it answers: the first container is up before the deployment ends. Without a
    token that lets this call in, or with none kept, it is not called."""
    call = props.get("warm_up")
    if call is None:
        return "not called: no container is kept"
    tokens = secrets.read(TOKENS, _config[-1] if _config else None)
    headers: dict[str, str] = {}
    if call["proxy_auth"]:
        if "proxy_id" not in tokens or "proxy_secret" not in tokens:
            return "not called: MODAL_PROXY_TOKEN_ID and MODAL_PROXY_TOKEN_SECRET are not set"
        headers = {"Modal-Key": tokens["proxy_id"], "Modal-Secret": tokens["proxy_secret"]}
    deadline = time.monotonic() + float(call["timeout_s"])
    last = "no answer"
    while time.monotonic() < deadline:
        request = urllib.request.Request(f"{url}{call['path']}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=float(call["request_s"])) as answer:
                return f"answered {answer.status}"
        except urllib.error.HTTPError as error:
            last = f"answered {error.code}"
            if error.code in (401, 403):
                raise Failed(f"{url} {last}: the proxy token is not one of this workspace") from None
        except OSError as error:
            last = str(error)
        time.sleep(WARM_UP_POLL_S)
    raise Failed(f"{url} was not healthy within {call['timeout_s']:g} s: {last}. `modal app logs` has more.")
