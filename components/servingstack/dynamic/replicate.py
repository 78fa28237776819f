"""A deployment on Replicate: a version of a model that exists, on hardware, between a few instances and more.

Traps:
- A deployment can only be deleted after it was offline and unused for 15 minutes: it is set to no instance
  first, and then asked for until it goes.
- Its model cannot be changed, only the version, so a name belongs to one model: the plan hashes it in.
- There are no labels to know one's own by. A deployment of that name is only taken for ours where it is what
  a creation of ours that was interrupted would have left, or with `adopt`.
"""

from __future__ import annotations

import os
import time
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
from .calls import Refused, Unknown, call
from .modal import plain
from .secrets import Failed, guarded

TOKENS = {"token": "REPLICATE_API_TOKEN replicate:token"}
ADDRESS = "https://api.replicate.com"
"""`REPLICATE_API_BASE_URL` replaces it, as in Replicate's own client."""
CHANGEABLE = ("version", "hardware", "min_instances", "max_instances")
"""What an update takes (deployments.update)."""
_REPLACES = ("owner", "name", "model")
_KNOWN_LATER = ("deployed", "release", "warm_up_answer")
_ENDED = ("succeeded", "failed", "canceled", "aborted")


class ReplicateDeploymentProvider(ResourceProvider):
    """The one class that a state refers to. Never renamed, never moved, and no attribute."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:
        _config.append(req)

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """From the state alone: needs no token."""
        return difference(olds, news)

    @guarded
    def create(self, props: dict[str, Any]) -> CreateResult:
        found = _made(props)
        return CreateResult(f"{props['owner']}/{props['name']}", _outputs(props, found))

    @guarded
    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(_outputs(news, _changed(news, _get(news))))

    @guarded
    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        found = _get(props)
        return ReadResult(None, {}) if found is None else ReadResult(id_, {**props, **_seen(found)})

    @guarded
    def delete(self, _id: str, props: dict[str, Any]) -> None:
        _removed(props)


class ReplicateDeploymentResource(Resource, module="replicate", name="Deployment"):
    """The dynamic resource. `props`: see `servingstack.targets.replicate.bodies`."""

    deployed: pulumi.Output[dict[str, Any]]
    release: pulumi.Output[int]
    warm_up_answer: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(ReplicateDeploymentProvider(), name, {**props, **dict.fromkeys(_KNOWN_LATER)}, opts)


_config: list[ConfigureRequest] = []


def difference(olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
    """What a deployment would change: planned values against the last planned, and against what is there."""
    names = [name for name in news if name not in _KNOWN_LATER and not name.startswith("__")]
    changed = [name for name in names if plain(news[name]) != plain(olds.get(name))]
    there = plain(olds.get("deployed")) or {}
    drifted = any(there.get(name) != plain(news.get(name)) for name in CHANGEABLE)
    replaces = [name for name in _REPLACES if name in changed]
    return DiffResult(changes=bool(changed) or drifted, replaces=replaces, delete_before_replace=False)


def _token() -> str:
    found = secrets.read(TOKENS, _config[-1] if _config else None)
    if "token" not in found:
        raise Failed(
            "no token for Replicate: set REPLICATE_API_TOKEN, or the stack's secret config replicate:token"
        )
    return found["token"]


def _url(path: str) -> str:
    return f"{os.environ.get('REPLICATE_API_BASE_URL', ADDRESS).rstrip('/')}/v1{path}"


def _path(props: dict[str, Any]) -> str:
    return f"/deployments/{props['owner']}/{props['name']}"


def _get(props: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return call("GET", _url(_path(props)), _token())
    except Refused as refusal:
        if refusal.status == 404:
            return None
        raise


def _state(found: dict[str, Any]) -> dict[str, Any]:
    """What is deployed, as an update would say it."""
    release = found["current_release"]
    return {"version": release["version"], **{k: release["configuration"][k] for k in CHANGEABLE[1:]}}


def _seen(found: dict[str, Any]) -> dict[str, Any]:
    return {"deployed": _state(found), "release": found["current_release"]["number"]}


def _wanted(props: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(props[name]) for name in CHANGEABLE}


def _made(props: dict[str, Any]) -> dict[str, Any]:
    """Created, or taken over where it is ours already."""
    found = _get(props)
    if found is not None:
        return _taken(props, found)
    known = [each["sku"] for each in call("GET", _url("/hardware"), _token())]
    if props["hardware"] not in known:
        raise Failed(f"hardware {props['hardware']!r} is not one that Replicate has now: {', '.join(known)}")
    body = {"name": props["name"], "model": props["model"], **_wanted(props)}
    try:
        return call("POST", _url("/deployments"), _token(), body)
    except Unknown as unknown:  # it may be there: a second one of that name cannot be made, so look
        found = _get(props)
        if found is None:
            raise Failed(str(unknown)) from None
        return _taken(props, found)


def _taken(props: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    model = found["current_release"]["model"]
    if model != props["model"]:
        raise Failed(f"{props['owner']}/{props['name']} is there already, and of the model {model}")
    if _state(found) == _wanted(props):
        return found
    if not props.get("adopt"):
        raise Failed(
            f"{props['owner']}/{props['name']} is there already, as {_state(found)}: choose another name, or "
            "set target.replicate.adopt to take it over"
        )
    return _changed(props, found)


def _changed(props: dict[str, Any], found: dict[str, Any] | None) -> dict[str, Any]:
    """Updated by what differs alone: each update makes a release. Created anew where it is gone."""
    if found is None:
        return _made(props)
    there = _state(found)
    body = {name: value for name, value in _wanted(props).items() if value != there[name]}
    return call("PATCH", _url(_path(props)), _token(), body) if body else found


def _removed(props: dict[str, Any]) -> None:
    """Taken offline, then deleted once Replicate lets it go."""
    if _get(props) is None:
        return
    call("PATCH", _url(_path(props)), _token(), {"min_instances": 0, "max_instances": 0})
    deadline = time.monotonic() + float(props["delete_wait_s"])
    while True:
        try:
            call("DELETE", _url(_path(props)), _token())
        except Refused as refusal:
            if refusal.status == 404:
                return
            if refusal.status in (401, 403) or time.monotonic() >= deadline:
                raise Failed(
                    f"{refusal}. It has no instance any more and costs nothing; it goes once it was "
                    "offline and unused for 15 minutes: destroy again then"
                ) from None
            time.sleep(float(props["poll_s"]))
        else:
            return


def _outputs(props: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in props.items() if name not in _KNOWN_LATER}
    return {**given, **_seen(found), "warm_up_answer": _warmed(props)}


def _warmed(props: dict[str, Any]) -> str:
    """One prediction, until it has ended: then an instance is up and the version works."""
    call_ = props.get("warm_up")
    if call_ is None:
        return "not called: no input was given, or no instance is kept"
    token = _token()
    made = call("POST", _url(f"{_path(props)}/predictions"), token, {"input": call_["input"]})
    deadline = time.monotonic() + float(call_["timeout_s"])
    while made["status"] not in _ENDED:
        if time.monotonic() >= deadline:
            raise Failed(f"no instance has answered within {call_['timeout_s']:g} s: {made['status']}")
        time.sleep(float(props["poll_s"]))
        made = call("GET", _url(f"/predictions/{made['id']}"), token)
    if made["status"] != "succeeded":
        raise Failed(f"the warm-up's prediction {made['status']}: {made.get('error')}")
    return "succeeded"
