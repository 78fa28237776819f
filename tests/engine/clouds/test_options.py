"""Each option's whole stack on the real engine: made, changed, scaled by others, broken midway, and gone."""

from __future__ import annotations

import pulumi
import pytest
from tests.engine.clouds.cases import CASES, Case, Change, Document, Secret, merged
from tests.engine.clouds.conftest import LEFT_OPEN, Account, MakeAccount
from tests.engine.clouds.stack import CloudStack

from servingstack import ServingStack
from servingstack.targets import REGISTRY

pytestmark = LEFT_OPEN
ON_A_CLUSTER = {"kubernetes"}


class Deployed:
    """A stack of one option, whose document may change between two updates."""

    def __init__(self, account: Account, case: Case, name: str, document: Document | None = None) -> None:
        self.cloud, self.case = account.cloud, case
        self.document = case.document if document is None else document
        self.component = self.document["name"]
        self.aliases: list[pulumi.Alias] = []
        self._existing, self.secret = case.existing(account.cloud)
        self.seeded = account.cloud.things()
        self.stack: CloudStack = account.open("options", name, self.program, case.config)

    def program(self) -> None:
        existing = {
            name: pulumi.Output.secret(value.value) if isinstance(value, Secret) else value
            for name, value in self._existing.items()
        }
        stack = ServingStack(
            self.component,
            self.document,
            pulumi.ResourceOptions(aliases=self.aliases),
            existing=existing,
        )
        pulumi.export("endpoint", stack.endpoint)
        pulumi.export("dashboard", stack.dashboard_url)

    def role(self, name: str) -> str:
        """The end of a resource's logical name: what it is in the stack."""
        option = self.document["target"]["option"]
        return name.removeprefix(f"{self.component}-{option}-")

    def made(self) -> list[str]:
        return [self.role(name) for _, _, name in self.cloud.done("create")]

    def gone(self) -> list[str]:
        return [self.role(name) for _, _, name in self.cloud.done("delete")]

    def left(self) -> list[str]:
        return [thing.id for thing in self.cloud.things() if thing not in self.seeded]


@pytest.fixture(params=CASES)
def deployed(request: pytest.FixtureRequest, account: MakeAccount) -> Deployed:
    case = CASES[request.param]
    name = f"{request.param}-{request.node.originalname.removeprefix('test_')[:24]}".replace("_", "-")
    return Deployed(account(case.account), case, name)


def test_every_option_that_rents_from_a_cloud_has_its_case() -> None:
    assert set(REGISTRY) - ON_A_CLUSTER == set(CASES)


def test_a_stack_is_made_in_order_keeps_still_and_leaves_nothing(deployed: Deployed) -> None:
    foreseen = deployed.stack.preview()
    assert deployed.cloud.log == [], "a preview touches nothing"
    assert set(foreseen) == {"create"}
    deployed.stack.up()
    assert deployed.stack.counts == foreseen
    made = deployed.made()
    for first, second in deployed.case.order:
        assert made.index(first) < made.index(second)
    assert {each.outcome for each in deployed.cloud.log} == {"done"}
    assert deployed.stack.outputs()["endpoint"]["url"].startswith("https://")
    assert deployed.stack.preview(expect_no_changes=True) == {}

    _what_others_change_is_seen_and_put_back(deployed)

    said, state = "".join(deployed.stack.said), deployed.stack.state_text()
    assert any(deployed.secret in str(thing.inputs) for thing in deployed.cloud.things()), "it was handed on"
    assert deployed.secret not in said
    assert deployed.secret not in state
    assert "deprecated" not in said

    deployed.stack.destroy()
    gone = deployed.gone()
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
    (serving,) = deployed.cloud.things(deployed.case.serves)
    for change in deployed.case.changes:
        deployed.document = merged(deployed.document, change.document)
        deployed.cloud.log.clear()
        if change.refused:
            assert change.refused in deployed.stack.failing_up(), change.what
        else:
            _deployed_as_foreseen(deployed, change)
        assert deployed.cloud.things(deployed.case.serves) == [serving], change.what
        assert not [each for each in deployed.cloud.log if each.verb == "delete" and each.id == serving.id]


def _deployed_as_foreseen(deployed: Deployed, change: Change) -> None:
    foreseen = deployed.stack.preview()
    steps = deployed.stack.up()
    assert deployed.stack.counts == foreseen, change.what
    done = [(operation, deployed.role(name)) for operation, name in steps]
    assert {role for operation, role in done if operation == "replace"} == set(change.replaces), change.what
    assert {("update", role) for role in change.updates} <= set(done), change.what
    for role in change.replaces:
        assert done.index(("create-replacement", role)) < done.index(("delete-replaced", role)), change.what
        for served in change.updates:
            assert done.index(("create-replacement", role)) < done.index(("update", served))
            assert done.index(("update", served)) < done.index(("delete-replaced", role))
    assert deployed.stack.preview(expect_no_changes=True) == {}, change.what


def test_an_update_that_breaks_midway_is_completed_by_the_next(deployed: Deployed) -> None:
    hit = deployed.case.hit
    deployed.cloud.throttle("create", hit, 2)
    deployed.cloud.fail("create", hit, "no capacity")
    assert "no capacity" in deployed.stack.failing_up()
    tried = [each.outcome for each in deployed.cloud.log if each.token == hit]
    assert tried == ["ThrottlingException", "ThrottlingException", "InternalFailure"]
    assert deployed.stack.pending() == []
    before = deployed.made()
    assert before
    deployed.cloud.log.clear()
    deployed.stack.up()
    assert not set(before) & set(deployed.made()), "nothing is made twice"
    assert deployed.gone() == []
    assert deployed.stack.preview(expect_no_changes=True) == {}


def test_a_component_that_is_renamed_with_an_alias_keeps_everything(deployed: Deployed) -> None:
    deployed.stack.up()
    deployed.aliases = [pulumi.Alias(name=deployed.component)]
    deployed.component = "assistant"
    assert deployed.stack.preview(expect_no_changes=True) == {}


@pytest.mark.parametrize("option", CASES)
def test_two_stacks_of_one_account_touch_nothing_of_each_other(option: str, account: MakeAccount) -> None:
    case, shared = CASES[option], account(CASES[option].account)
    first = Deployed(shared, case, f"{option}-first")
    first.stack.up()
    kept = {thing.id for thing in shared.cloud.things()}
    second = Deployed(shared, case, f"{option}-second", merged(case.document, {"name": "drafts"}))
    second.stack.up()
    second.stack.destroy()
    assert {thing.id for thing in shared.cloud.things()} - {each.id for each in second.seeded} <= kept
    assert kept <= {thing.id for thing in shared.cloud.things()}
    assert first.stack.refresh() == {}
