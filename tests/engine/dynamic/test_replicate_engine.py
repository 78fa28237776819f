"""One deployment's life on the real engine, against a stand-in with the shapes of Replicate's own document:
created, unchanged, changed, changed by somebody else, interrupted, refused, gone.

Trap: Replicate lets a deployment go only after 15 minutes. Here it refuses twice, and the pause between two
tries is short.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pulumi import automation
from tests.engine.clouds.stack import CloudStack
from tests.engine.dynamic.conftest import Open
from tests.engine.dynamic.replicate_server import Account
from tests.targets.replicate.documents import DEFAULTS, MAX, document

from servingstack.dynamic.replicate import ReplicateDeploymentResource
from servingstack.planner import plan
from servingstack.targets.replicate.bodies import deployment

NAME = "draw-replicate-deployment"
FAST = {"poll_s": 0.05, "delete_wait_s": 20.0}


class Deployed:
    """A plan's deployment whose document may change between two updates."""

    def __init__(self, open_stack: Open, account: tuple[Account, str], name: str) -> None:
        self.account, url = account
        self.document: dict[str, Any] = DEFAULTS
        self.waits = FAST
        self.environment = {"REPLICATE_API_BASE_URL": url, "REPLICATE_API_TOKEN": self.account.token}
        self.stack: CloudStack = open_stack(name, self.program, self.environment)

    def program(self) -> None:
        ReplicateDeploymentResource(NAME, deployment(plan(self.document)) | self.waits)

    @property
    def name(self) -> str:
        return plan(self.document).names["deployment"]

    @property
    def writes(self) -> list[str]:
        return [method for method, _ in self.account.calls if method != "GET"]


@pytest.fixture
def deployed(
    open_stack: Open, replicate_account: tuple[Account, str], request: pytest.FixtureRequest
) -> Deployed:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-")
    return Deployed(open_stack, replicate_account, name)


def test_a_deployment_from_nothing_to_nothing(deployed: Deployed) -> None:
    account = deployed.account
    assert deployed.stack.preview() == {"create": 2}
    assert account.calls == [], "a preview asks nobody, and needs no token"

    deployed.stack.up()
    release = account.release(deployed.name)
    assert release["model"] == "stability-ai/sdxl"
    assert release["configuration"] == {"hardware": "gpu-l40s", "min_instances": 1, "max_instances": 3}
    calls = len(account.calls)
    assert deployed.stack.preview() == {}
    assert len(account.calls) == calls

    deployed.document = document(scaling={"max_replicas": 5})
    assert deployed.stack.preview() == {"update": 1}
    deployed.stack.up()
    assert account.bodies[-1] == {"max_instances": 5}, "only what differs: each update makes a release"
    assert account.release(deployed.name)["number"] == 2
    assert deployed.stack.preview() == {}

    deployed.stack.destroy()
    assert account.bodies[-1] == {"min_instances": 0, "max_instances": 0}, "offline first"
    assert account.deployments == {}
    assert deployed.writes.count("DELETE") == 3, "asked again until it was unused for long enough"


def test_another_model_is_another_deployment_made_before_the_old_one_goes(deployed: Deployed) -> None:
    deployed.stack.up()
    first = deployed.name
    deployed.account.unused_after = 0
    deployed.document = document(model={"id": "acme/other"})
    steps = [operation for operation, _ in deployed.stack.up()]
    assert steps == ["create-replacement", "replace", "delete-replaced"]
    assert list(deployed.account.deployments) == [deployed.name]
    assert deployed.name != first
    deployed.stack.destroy()


def test_what_somebody_else_changed_is_seen_and_set_right(deployed: Deployed) -> None:
    deployed.stack.up()
    deployed.account.release(deployed.name)["configuration"]["min_instances"] = 0
    assert deployed.stack.refresh() == {"update": 1}
    deployed.stack.up()
    assert deployed.account.bodies[-1] == {"min_instances": 1}

    deployed.account.deployments.clear()
    assert deployed.stack.refresh() == {"delete": 1}
    deployed.stack.up()
    assert list(deployed.account.deployments) == [deployed.name]
    deployed.account.unused_after = 0
    deployed.stack.destroy()


def test_a_creation_whose_answer_was_lost_makes_no_second_one(deployed: Deployed) -> None:
    deployed.account.faults["POST"] = [599]
    deployed.stack.up()
    assert deployed.writes == ["POST"]
    assert deployed.stack.preview() == {}
    deployed.account.unused_after = 0
    deployed.stack.destroy()


def test_a_creation_that_was_never_recorded_is_found_by_the_next(deployed: Deployed) -> None:
    """Made, then the warm-up failed and nothing was recorded."""
    deployed.document = document(target={"replicate": {"warm_up_input": {"prompt": "hi"}}})
    deployed.account.predictions["p1"] = ["failed"]
    assert "the warm-up's prediction failed" in deployed.stack.failing_up()
    assert NAME not in deployed.stack.resources()
    deployed.stack.up()
    assert len(deployed.account.bodies) == 1, "created once"
    assert deployed.stack.resources()[NAME]["outputs"]["warm_up_answer"] == "succeeded"
    deployed.account.unused_after = 0
    deployed.stack.destroy()


def test_a_deployment_of_somebody_else_is_only_taken_over_on_purpose(deployed: Deployed) -> None:
    deployed.stack.up()
    account = deployed.account
    account.release(deployed.name)["configuration"]["hardware"] = "gpu-t4"
    theirs = dict(account.deployments)
    account.unused_after = 0
    deployed.stack.destroy()
    account.deployments = theirs

    assert "is there already" in deployed.stack.failing_up()
    deployed.document = document(target={"replicate": {"adopt": True}})
    deployed.stack.up()
    assert account.release(deployed.name)["configuration"]["hardware"] == "gpu-l40s"
    account.release(deployed.name)["model"] = "acme/other"
    account.deployments = dict(account.deployments)
    deployed.stack.destroy()


def test_a_busy_service_is_asked_again_and_a_dead_one_is_said(deployed: Deployed) -> None:
    deployed.account.faults = {"GET": [429, 500], "POST": [503]}
    deployed.stack.up()
    assert list(deployed.account.deployments) == [deployed.name]
    deployed.document = document(scaling={"max_replicas": 5})
    deployed.account.faults = {"PATCH": [422]}
    assert "422 out of order" in deployed.stack.failing_up()
    deployed.stack.up()
    deployed.account.unused_after = 0
    deployed.stack.destroy()


def test_hardware_that_is_gone_is_refused_with_what_there_is(deployed: Deployed) -> None:
    def program() -> None:
        ReplicateDeploymentResource(NAME, deployment(plan(deployed.document)) | {"hardware": "gpu-a40-large"})

    stack = deployed.stack
    stack._stack.workspace.program = program
    assert "hardware 'gpu-a40-large' is not one that Replicate has now: cpu, gpu-t4" in stack.failing_up()
    assert deployed.account.deployments == {}


def test_a_deletion_that_takes_too_long_says_what_to_do(deployed: Deployed) -> None:
    deployed.waits = {"poll_s": 0.05, "delete_wait_s": 0.2}
    deployed.stack.up()
    deployed.account.unused_after = 1000
    with pytest.raises(Exception, match="destroy again then"):
        deployed.stack.destroy()
    assert deployed.account.release(deployed.name)["configuration"]["max_instances"] == 0
    deployed.account.unused_after = 0
    deployed.stack.destroy()


def test_a_token_is_in_no_state_no_output_and_no_error(deployed: Deployed) -> None:
    token = deployed.environment["REPLICATE_API_TOKEN"]
    deployed.account.token = "r8_another"
    wrong = deployed.stack.failing_up()
    assert "401 Unauthenticated" in wrong
    deployed.account.token = token
    deployed.stack.up()
    state = deployed.stack.state_text()
    kept = base64.b64decode(deployed.stack.resources()[NAME]["inputs"]["__provider"])
    assert b"ReplicateDeploymentProvider" in kept
    assert len(kept) < 200, "a reference, no code"
    for text in (wrong, state, "".join(deployed.stack.said), kept.decode("latin-1")):
        assert token not in text
    deployed.account.unused_after = 0
    deployed.stack.destroy()


def test_a_token_may_be_a_secret_of_the_stacks_config_and_stays_one(deployed: Deployed) -> None:
    token = "r8_only-in-the-config"
    deployed.account.token = token
    del deployed.environment["REPLICATE_API_TOKEN"]
    deployed.stack._engine.env.pop("REPLICATE_API_TOKEN")
    deployed.stack._stack.workspace.env_vars.pop("REPLICATE_API_TOKEN", None)
    assert "no token for Replicate: set REPLICATE_API_TOKEN" in deployed.stack.failing_up()
    deployed.stack._stack.set_config("replicate:token", automation.ConfigValue(token, secret=True))
    deployed.stack.up()
    assert deployed.account.release(deployed.name)["number"] == 1
    for text in (deployed.stack.state_text(), "".join(deployed.stack.said)):
        assert token not in text
    deployed.account.unused_after = 0
    deployed.stack.destroy()


def test_the_class_that_a_state_refers_to_stays_where_it_is() -> None:
    """What states hold since the first release. If this fails, nobody can delete what they deployed."""
    from pulumi.dynamic.dynamic import serialize_provider

    from servingstack.dynamic.replicate import ReplicateDeploymentProvider

    kept = (
        "gASVRQAAAAAAAACMHnNlcnZpbmdzdGFjay5keW5hbWljLnJlcGxpY2F0ZZSMG1JlcGxpY2F0"
        "ZURlcGxveW1lbnRQcm92aWRlcpSTlCmBlC4="
    )
    assert serialize_provider(ReplicateDeploymentProvider()) == kept


def test_a_plan_that_sets_everything_deploys(deployed: Deployed) -> None:
    deployed.document = MAX
    deployed.stack.up()
    assert deployed.account.release(deployed.name)["configuration"]["hardware"] == "gpu-a100-large"
    deployed.account.unused_after = 0
    deployed.stack.destroy()
