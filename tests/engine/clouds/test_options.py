"""Each option's whole stack on the real engine: made, changed, scaled by others, broken midway, and gone."""

from __future__ import annotations

import re

import pulumi
import pytest
from tests.engine.clouds.cases import CASES, WITHOUT_A_CASE, Case, Change, Document, Secret, merged
from tests.engine.clouds.cloud import Thing
from tests.engine.clouds.conftest import Account, MakeAccount
from tests.engine.clouds.stack import CloudStack

from servingstack import ServingStack
from servingstack.targets import REGISTRY


class Deployed:
    """One or more stacks of one option in one program; their documents may change between two updates."""

    def __init__(self, account: Account, case: Case, name: str) -> None:
        self.cloud, self.case = account.cloud, case
        self.documents = [case.document]
        self.component = str(case.document["name"])
        self.aliases: list[pulumi.Alias] = []
        self._existing, self.secret = case.existing(account.cloud)
        self.seeded = account.cloud.things()
        self.stack: CloudStack = account.open("options", name, self.program, case.config)

    def program(self) -> None:
        existing = {
            name: pulumi.Output.secret(value.value) if isinstance(value, Secret) else value
            for name, value in self._existing.items()
        }
        first, *others = self.documents
        options = pulumi.ResourceOptions(aliases=self.aliases)
        stack = ServingStack(self.component, first, options, existing=existing)
        for other in others:
            ServingStack(other["name"], other, existing=existing)
        pulumi.export("endpoint", stack.endpoint)
        pulumi.export("dashboard", stack.dashboard_url)

    def change(self, document: Document) -> None:
        self.documents[0] = merged(self.documents[0], document)

    def role(self, name: str) -> str:
        """The end of a resource's logical name: what it is in the stack. A hash of its content is no part of
        that."""
        end = name.removeprefix(f"{self.component}-{self.documents[0]['target']['option']}-")
        return re.sub(r"-[0-9a-f]{10}$", "", end)

    def roles(self, verb: str) -> list[str]:
        """Of all that was created, updated or deleted, in order."""
        return [self.role(name) for _, _, name in self.cloud.done(verb)]

    def left(self) -> list[str]:
        return [thing.id for thing in self.cloud.things() if thing not in self.seeded]

    def serving(self) -> Thing:
        return self.cloud.one(self.case.serves)


@pytest.fixture(params=CASES)
def deployed(request: pytest.FixtureRequest, account: MakeAccount) -> Deployed:
    case = CASES[request.param]
    name = f"{request.param}-{request.node.originalname.removeprefix('test_')[:24]}".replace("_", "-")
    return Deployed(account(case.account), case, name)


def test_every_option_that_rents_from_a_cloud_has_its_case() -> None:
    assert set(REGISTRY) - WITHOUT_A_CASE == set(CASES)


def test_a_stack_is_made_in_order_keeps_still_and_leaves_nothing(deployed: Deployed) -> None:
    foreseen = deployed.stack.preview()
    assert deployed.cloud.log == [], "a preview touches nothing"
    assert set(foreseen) == {"create"}
    deployed.stack.up()
    assert deployed.stack.counts == foreseen
    made = deployed.roles("create")
    for first, second in deployed.case.order:
        assert made.index(first) < made.index(second)
    assert {each.outcome for each in deployed.cloud.log} == {"done"}
    assert min(each.timeout_s for each in deployed.cloud.log if each.token == deployed.case.serves) > 600
    assert deployed.stack.outputs()["endpoint"]["url"].startswith("https://")
    assert deployed.stack.preview(expect_no_changes=True) == {}

    _what_others_change_is_seen_and_put_back(deployed)

    said, state = "".join(deployed.stack.said), deployed.stack.state_text()
    assert any(deployed.secret in str(thing.inputs) for thing in deployed.cloud.things()), "it was handed on"
    assert deployed.secret not in said
    assert deployed.secret not in state
    assert "deprecated" not in said

    deployed.stack.destroy()
    gone = deployed.roles("delete")
    for first, second in deployed.case.order:
        assert gone.index(second) < gone.index(first)
    assert deployed.left() == []


def _what_others_change_is_seen_and_put_back(deployed: Deployed) -> None:
    token, name, value = deployed.case.drifts
    thing = deployed.cloud.one(token)
    ours = thing.inputs[name]
    thing.inputs[name] = value
    assert deployed.stack.refresh() == {"update": 1}
    assert [operation for operation, _ in deployed.stack.up()] == ["update"]
    assert thing.inputs[name] == ours


def test_each_change_replaces_what_cannot_change_before_the_old_goes_and_never_what_serves(
    deployed: Deployed,
) -> None:
    deployed.stack.up()
    serving = deployed.serving()
    serving.live |= deployed.case.scaled
    for number, change in enumerate(deployed.case.changes):
        deployed.change(change.document)
        deployed.cloud.log.clear()
        foreseen = deployed.stack.preview() if number == 0 else None  # one stands for all: it takes a second
        _deployed_in_order(deployed, change)
        assert foreseen is None or foreseen == deployed.stack.counts, change.what
        assert deployed.serving() is serving, change.what
        assert not [each for each in deployed.cloud.log if each.verb == "delete" and each.id == serving.id]
        assert serving.live == {**serving.live, **deployed.case.scaled}, "what was scaled stays as it is"
    assert deployed.stack.preview() == {}


_ANEW = ("create", "delete")
"""What cannot be changed and has its content in its logical name: another content is another resource."""


def _deployed_in_order(deployed: Deployed, change: Change) -> None:
    steps = deployed.stack.up()
    done = [(operation, deployed.role(name)) for operation, name in steps]
    created, deleted = ({role for operation, role in done if operation == verb} for verb in _ANEW)
    anew = created & deleted
    replaced = {role for operation, role in done if operation == "replace"}
    assert replaced | anew == {*change.replaces, *change.away}, change.what
    assert {("update", role) for role in change.updates} <= set(done), change.what
    for role in change.replaces:
        comes, goes = _ANEW if role in anew else ("create-replacement", "delete-replaced")
        assert done.index((comes, role)) < done.index((goes, role)), change.what
        for served in change.updates:
            assert done.index((comes, role)) < done.index(("update", served))
            assert done.index(("update", served)) < done.index((goes, role))
    for role in change.away:
        gone, back = done.index(("delete-replaced", role)), done.index(("create-replacement", role))
        assert gone < back, change.what
        assert all(gone < done.index(("update", served)) for served in change.updates), change.what


def test_what_breaks_midway_is_completed_by_the_next_update_or_taken_back(deployed: Deployed) -> None:
    hit = deployed.case.hit
    deployed.cloud.throttle("create", hit, 2)
    deployed.cloud.fail("create", hit, "no capacity")
    assert "no capacity" in deployed.stack.failing_up()
    tried = [each.outcome for each in deployed.cloud.log if each.token == hit]
    assert tried == ["ThrottlingException", "ThrottlingException", "InternalFailure"]
    assert deployed.stack.pending() == []
    before = deployed.roles("create")
    assert before
    deployed.cloud.log.clear()
    deployed.stack.up()
    assert not set(before) & set(deployed.roles("create")), "nothing is made twice"
    assert deployed.roles("delete") == []

    was = deployed.documents[0]
    deployed.change(deployed.case.changes[0].document)
    deployed.cloud.fail("update", deployed.case.serves, "no capacity")
    assert "no capacity" in deployed.stack.failing_up()
    deployed.documents[0] = was
    deployed.stack.up()
    assert deployed.stack.preview() == {}, "what had been made for the change is gone again"


@pytest.mark.parametrize(
    "option", [name for name, case in CASES.items() if any(c.away for c in case.changes)]
)
def test_what_went_for_a_change_that_fails_comes_back(option: str, account: MakeAccount) -> None:
    """Completed or taken back: in between nobody scales, and that must not stay so."""
    case = CASES[option]
    deployed = Deployed(account(case.account), case, f"{option}-comes-back")
    deployed.stack.up()
    kinds = sorted(thing.token for thing in deployed.cloud.things())
    (change,) = [each for each in case.changes if each.away]
    was = deployed.documents[0]
    deployed.change(change.document)
    deployed.cloud.fail("update", case.serves, "no capacity")
    assert "no capacity" in deployed.stack.failing_up()
    assert sorted(thing.token for thing in deployed.cloud.things()) != kinds
    deployed.documents[0] = was
    deployed.stack.up()
    assert sorted(thing.token for thing in deployed.cloud.things()) == kinds
    assert deployed.stack.preview() == {}


def test_a_component_that_is_renamed_with_an_alias_keeps_everything_and_another_goes_alone(
    deployed: Deployed,
) -> None:
    """Two stacks in one account and program; the second is taken out again while the first is renamed."""
    deployed.documents.append(merged(deployed.case.document, {"name": "drafts"}))
    deployed.stack.up()
    ids = {thing.id for thing in deployed.cloud.things()}
    deployed.documents.pop()
    deployed.aliases, deployed.component = [pulumi.Alias(name=deployed.component)], "assistant"
    deployed.cloud.log.clear()
    deployed.stack.up()
    assert {verb for verb, _, _ in deployed.cloud.done()} == {"delete"}
    assert all(name.startswith("drafts-") for _, _, name in deployed.cloud.done())
    kept = {thing.id for thing in deployed.cloud.things()}
    assert kept < ids
    assert deployed.serving().id in kept


def test_another_mode_of_sagemaker_is_another_endpoint_that_comes_before_the_old_one_goes(
    account: MakeAccount,
) -> None:
    """The service refuses to take the queue from an endpoint, or to give it one."""
    case = CASES["sagemaker"]
    deployed = Deployed(account(case.account), case, "sagemaker-mode")
    deployed.change({"slo": {"ttft_p95": None, "tpot_p95": None}})
    deployed.stack.up()
    for mode in ("asynchronous", "real-time"):
        deployed.cloud.log.clear()
        deployed.change({"target": {"sagemaker": {"mode": mode}}})
        done = [(operation, deployed.role(name)) for operation, name in deployed.stack.up()]
        assert done.index(("create-replacement", "endpoint")) < done.index(("delete-replaced", "endpoint"))
        name = deployed.serving().inputs["endpointName"]
        assert name.endswith("-async") == (mode == "asynchronous")
        assert deployed.stack.preview() == {}
    deployed.stack.destroy()
    left = {
        thing.token.rpartition(":")[2] for thing in deployed.cloud.things() if thing not in deployed.seeded
    }
    assert "Bucket" in left, "what users wrote stays"
    assert {"BucketPolicy", "BucketPublicAccessBlock", "BucketLifecycleConfiguration"} < left, (
        "and stays closed"
    )
    assert len(left) == len(deployed.left()) == 5, "and nothing else does"
