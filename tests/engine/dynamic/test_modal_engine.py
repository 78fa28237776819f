"""One app's life on the real engine, with Modal's real client against a stand-in for its control plane:
created, unchanged, changed, changed by somebody else, interrupted, refused, gone.

Trap: the dynamic provider runs in a process of its own. What it wrote is seen in the account, what it kept in
the state, and a token in neither.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from grpclib import Status
from modal_proto import api_pb2
from tests.engine.clouds.stack import CloudStack, kill_engine
from tests.engine.dynamic.conftest import Open
from tests.engine.dynamic.modal_server import Account, App
from tests.targets.modal.documents import DEFAULTS, document

from servingstack.component import ServingStack
from servingstack.planner import plan
from servingstack.targets.modal.program import fingerprint

ModalAccount = tuple[Account, str]


class Deployed:
    """A stack whose document may change between two updates."""

    def __init__(self, open_stack: Open, account: ModalAccount, name: str, tmp_path: Path) -> None:
        self.account, url = account
        self.document: dict[str, Any] = DEFAULTS
        self.environment = {
            "MODAL_SERVER_URL": url,
            "MODAL_TOKEN_ID": self.account.token[0],
            "MODAL_TOKEN_SECRET": self.account.token[1],
            "MODAL_CONFIG_PATH": str(tmp_path / "no-modal.toml"),
        }
        self.stack: CloudStack = open_stack(name, self.program, self.environment)

    def program(self) -> None:
        ServingStack("chat", self.document)

    @property
    def app(self) -> App:
        return self.account.apps["", "chat"]


@pytest.fixture
def deployed(
    open_stack: Open, modal_account: ModalAccount, request: pytest.FixtureRequest, tmp_path: Path
) -> Deployed:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-")
    return Deployed(open_stack, modal_account, name, tmp_path)


APP = "chat-modal-app"


def test_an_app_from_nothing_to_nothing(deployed: Deployed) -> None:
    account = deployed.account
    account.token = ("ak-0123456789", "as-0123456789-a-secret")

    assert deployed.stack.preview() == {"create": 4}
    assert account.calls == {}, "a preview asks nobody, and needs no token"

    account.token = (deployed.environment["MODAL_TOKEN_ID"], deployed.environment["MODAL_TOKEN_SECRET"])
    assert ("create", APP) in deployed.stack.up()
    planned = plan(deployed.document)
    function = account.function()
    assert function.resources.gpu_config.gpu_type == planned.architecture.instance_type.split(":")[0]
    assert function.timeout_secs == planned.timeouts.request_s
    assert deployed.app.tags == {"servingstack": "chat", "servingstack-program": fingerprint(planned)}
    assert ("", "chat-cache") in account.volumes
    outputs = deployed.stack.resources()[APP]["outputs"]
    assert outputs["url"] == "https://acme--chat.modal.run"

    calls = account.calls.copy()
    assert deployed.stack.preview() == {}, "nothing changed, so nothing may be done"
    assert account.calls == calls

    deployed.document = document(request_timeout="45s")
    assert deployed.stack.preview() == {"update": 2}, "the app and the summary of the plan"
    deployed.stack.up()
    assert account.function().timeout_secs == 45
    assert deployed.app.deployments == 2
    assert deployed.stack.preview() == {}

    deployed.stack.destroy()
    assert account.apps == {}
    assert account.volumes == {}


def test_what_somebody_else_changed_is_seen_and_set_right(deployed: Deployed) -> None:
    deployed.stack.up()
    function = deployed.account.function()
    function.autoscaler_settings.min_containers = 0
    assert deployed.stack.refresh() == {"update": 1}
    assert deployed.stack.preview()["update"] == 1
    deployed.stack.up()
    assert deployed.account.function().autoscaler_settings.min_containers == 1

    deployed.app.tags["servingstack-program"] = "another"
    deployed.stack.refresh()
    deployed.stack.up()
    assert deployed.app.tags["servingstack-program"] == fingerprint(plan(deployed.document))

    deployed.account.apps.clear()
    assert deployed.stack.refresh() == {"delete": 1}
    assert ("create", APP) in deployed.stack.up()
    assert deployed.app.deployments == 1
    deployed.stack.destroy()


def test_a_creation_that_was_interrupted_is_finished_by_the_next(deployed: Deployed) -> None:
    """The app is there and the state does not know: it has this stack's tag, so it is the same one."""
    account = deployed.account
    account.faults["FunctionGet"] = [Status.PERMISSION_DENIED]
    said = deployed.stack.failing_up()
    assert "FunctionGet is out of order" in said
    assert deployed.app.deployments == 1
    assert APP not in deployed.stack.resources()

    deployed.stack.up()
    assert len(account.apps) == 1
    assert deployed.stack.preview() == {}
    deployed.stack.destroy()
    assert account.apps == {}


def test_an_engine_that_dies_while_it_creates_leaves_nothing_double(deployed: Deployed) -> None:
    """Killed once the app was published and before anything was recorded."""
    deployed.account.before["FunctionGet"] = kill_engine
    with pytest.raises(Exception, match="code: -9"):
        deployed.stack.up()
    assert deployed.app.deployments == 1
    assert deployed.stack.pending() == [APP]
    deployed.stack.cancel()
    deployed.stack.up()
    assert len(deployed.account.apps) == 1
    assert deployed.stack.preview() == {}
    deployed.stack.destroy()
    assert deployed.account.apps == {}


def test_an_app_of_another_program_is_only_taken_over_on_purpose(deployed: Deployed) -> None:
    account = deployed.account
    account.apps["", "chat"] = App("ap-0000000000000000000009", "chat", {"team": "other"})
    said = deployed.stack.failing_up()
    assert "the app 'chat' is there already and another program's" in said
    assert account.apps["", "chat"].deployments == 0

    account.apps["", "chat"].tags = {"servingstack": "talk"}
    assert "the stack 'talk''s" in deployed.stack.failing_up()

    deployed.document = document(target={"modal": {"adopt": True}})
    deployed.stack.up()
    assert deployed.app.id == "ap-0000000000000000000009"
    deployed.stack.destroy()


def test_a_short_outage_is_waited_for_and_a_long_one_is_said(deployed: Deployed) -> None:
    account = deployed.account
    account.faults["AppPublish"] = [Status.UNAVAILABLE, Status.UNAVAILABLE]
    deployed.stack.up()
    assert deployed.app.deployments == 1
    account.faults["AppPublish"] = [Status.UNAVAILABLE] * 20
    deployed.document = document(request_timeout="45s")
    assert "AppPublish is out of order" in deployed.stack.failing_up()
    account.faults.clear()
    deployed.stack.up()
    assert account.function().timeout_secs == 45
    deployed.stack.destroy()


def test_a_token_is_in_no_state_no_output_and_no_error(deployed: Deployed) -> None:
    identity, secret = "ak-AAAAAAAAAAAAAAAA", "as-BBBBBBBBBBBBBBBB"
    deployed.account.token = (identity, secret)
    wrong = deployed.stack.failing_up()
    assert "AuthError: Token validation failed" in wrong
    for text in (wrong, deployed.stack.state_text(), "".join(deployed.stack.said)):
        assert deployed.environment["MODAL_TOKEN_SECRET"] not in text

    deployed.account.token = (
        deployed.environment["MODAL_TOKEN_ID"],
        deployed.environment["MODAL_TOKEN_SECRET"],
    )
    deployed.stack.up()
    state = deployed.stack.state_text()
    assert APP in state
    provider = deployed.stack.resources()[APP]["inputs"]["__provider"]
    kept = base64.b64decode(provider)
    assert b"servingstack.dynamic.modal" in kept
    assert b"ModalAppProvider" in kept
    assert len(kept) < 200, "a reference, no code"
    for text in (state, "".join(deployed.stack.said), kept.decode("latin-1")):
        assert deployed.environment["MODAL_TOKEN_SECRET"] not in text
    deployed.stack.destroy()


def test_the_class_that_a_state_refers_to_stays_where_it_is() -> None:
    """What states hold since the first release. If this fails, nobody can delete what they deployed."""
    from pulumi.dynamic.dynamic import serialize_provider

    from servingstack.dynamic.modal import ModalAppProvider

    kept = "gASVNgAAAAAAAACMGnNlcnZpbmdzdGFjay5keW5hbWljLm1vZGFslIwQTW9kYWxBcHBQcm92aWRlcpSTlCmBlC4="
    assert serialize_provider(ModalAppProvider()) == kept


@contextmanager
def _answering() -> Iterator[tuple[str, list[str]]]:
    """A deployed function that is up, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_a_plan_deploys_to_an_environment_with_secrets_and_a_volume(deployed: Deployed) -> None:
    from tests.targets.modal.documents import MAX

    account = deployed.account
    deployed.document = MAX
    said = deployed.stack.failing_up()
    assert "no secret" in said, "one that is missing stops a deployment, whichever is looked up first"
    account.secrets |= {"hf-token": {"HF_TOKEN"}, "chat-key": {"API_KEY"}}
    account.secrets["registry"] = {"REGISTRY_USERNAME", "REGISTRY_PASSWORD"}
    account.volumes["prod", "weights"] = "vo-weights"
    with _answering() as (url, asked):
        account.endpoint = url
        deployed.stack.up()
    assert asked == ["/health"], "a container that is kept is called until it answers"
    assert deployed.stack.resources()["chat-modal-app"]["outputs"]["warm_up_answer"] == "answered 200"
    function = account.functions[account.apps["prod", "chat-eu"].functions["serve"]]
    assert function.webhook_config.requires_proxy_auth is False
    assert list(function.scheduler_placement.regions) == ["eu-west"]
    mounts = {each.mount_path: each for each in function.volume_mounts}
    assert mounts["/models"].read_only
    assert set(function.secret_ids) == {"st-chat-key"}, (
        "weights from a volume need no hub's token, and the registry's secret is the image's alone"
    )
    assert isinstance(function, api_pb2.Function)
    deployed.stack.destroy()
    assert set(account.volumes) == {("prod", "weights"), ("prod", "chat-eu-cache")}, "the cache is kept"
