"""`ServingStack` under mocks: the whole graph, its options, what it says, what it refuses, and that no secret
shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from pulumi.runtime import settings
from tests.recorder import UNKNOWN, Run, is_secret, record, strings
from tests.sample import DOCUMENT, sample_plan

from servingstack import (
    InvalidInput,
    KubernetesExisting,
    KubernetesServing,
    ServingPlan,
    ServingStack,
    ServingStackArgs,
    lock,
)
from servingstack.planner import plan as make_plan
from servingstack.targets.kubernetes.manifests import manifests

STACK = "servingstack:index:ServingStack"
SERVING = "servingstack:kubernetes:KubernetesServing"
SECRET = "kind: Config # token: eyJhbGciOi-not-a-real-one"


def _run(
    document: Any = None, *, preview: bool = False, config: dict[str, str] | None = None, **more: Any
) -> Run:
    """One stack from a document; by default the sample plan as its lock."""
    more = {"lock": sample_plan()} | more
    given = DOCUMENT if document is None else document
    return record(lambda: ServingStack("chat", given, **more) and None, preview=preview, config=config)


def _kubeconfig() -> dict[str, Any]:
    return {"kubeconfig": pulumi.Output.secret(SECRET)}


# ---- the graph
# --------------------------------------------------------------------------------------------------


def test_every_object_of_the_plan_is_registered_as_it_was_rendered() -> None:
    run = _run()
    for each in manifests(sample_plan()):
        inputs = run.named(f"chat-kubernetes-{each.role}").inputs
        assert json.loads(json.dumps(inputs)) == json.loads(json.dumps(each.body)), each.role


def test_every_child_has_its_parent_and_a_name_of_its_role_f073() -> None:
    """F073: name, parent and type are a resource's identity; a change of any of them replaces it."""
    run = _run()
    (stack,), (serving,) = run.of_type(STACK), run.of_type(SERVING)
    assert (stack.name, serving.name, serving.parent) == ("chat", "chat-kubernetes", stack.urn)
    for each in run.resources:
        if each.type not in (STACK, SERVING):
            assert each.parent == serving.urn
            assert each.name.startswith("chat-kubernetes-")


def test_urns_are_the_ones_of_earlier_releases_f073(golden: Callable[[str, str], None]) -> None:
    golden("urns.txt", "\n".join(sorted(each.urn for each in _run().resources)) + "\n")


def test_a_preview_with_unknowns_has_the_same_resources_as_a_deployment_f075() -> None:
    """F075: a resource made inside an apply is missing from the preview, and from every policy check."""

    def urns(preview: bool) -> set[str]:
        return {each.urn for each in _run(preview=preview, existing=_kubeconfig()).resources}

    assert urns(True) == urns(False)
    assert len(urns(True)) > 20


def test_two_runs_register_the_same() -> None:
    one, other = _run(), _run()
    by_urn = {each.urn: each for each in one.resources}
    assert by_urn == {each.urn: each for each in other.resources}


def test_no_text_holds_an_output_that_was_printed_f071() -> None:
    """F071: an f-string over an Output is a sentence about Outputs, and only a warning."""
    run = _run(existing=_kubeconfig())
    for text in strings([[each.inputs for each in run.resources], run.outputs]):
        assert "Calling __str__" not in text
        assert "Output[" not in text


def test_what_pods_need_is_there_before_them() -> None:
    run = _run()

    def needs(role: str) -> set[str]:
        waits_for = run.named(f"chat-kubernetes-{role}").depends_on
        return {urn.rsplit("chat-kubernetes-", 1)[-1] for urn in waits_for}

    everyone = {"namespace", "network-deny", "service-account"}
    assert needs("deployment") == everyone | {"network-engine", "warm-up"}
    assert needs("door") == everyone | {"network-door", "door-config"}
    assert needs("placeholder") == everyone | {"priority"}
    assert needs("scaler") == {
        "namespace"
    }  # else replicas would wait for the first one before they are asked for


def test_an_autoscaled_count_is_ignored_and_absent_f059() -> None:
    deployment = _run().named("chat-kubernetes-deployment")
    assert deployment.ignore_changes == ("spec.replicas",)
    assert "replicas" not in deployment.inputs["spec"]


def test_a_fixed_count_is_ours_f059() -> None:
    fixed = sample_plan(scaling={"autoscaled": False, "max_replicas": 2})
    deployment = _run(lock=fixed).named("chat-kubernetes-deployment")
    assert deployment.ignore_changes == ()
    assert deployment.inputs["spec"]["replicas"] == 2


def test_pulumi_waits_longer_than_the_rollout_may_take_f077() -> None:
    """F077: ten minutes, and the model was still loading. Each step of a rollout may take the whole
    deadline."""
    plan = sample_plan()
    waits = _run().named("chat-kubernetes-deployment").custom_timeouts
    steps = plan.scaling.max_replicas
    for operation in ("create", "update"):
        assert int(waits[operation].removesuffix("s")) > steps * plan.rollout.progress_deadline_s
    assert plan.rollout.progress_deadline_s > plan.timeouts.startup_s
    assert int(waits["delete"].removesuffix("s")) > plan.timeouts.grace_s


def test_the_namespace_stays_when_the_stack_goes_since_others_keep_things_in_it() -> None:
    run = _run()
    assert [each.name for each in run.resources if each.retain_on_delete] == ["chat-kubernetes-namespace"]


def test_overrides_reach_the_child_of_their_role() -> None:
    change = {"deployment": {"metadata": {"annotations": {"team.example.com/owner": "ml"}}}}
    inputs = _run(lock=sample_plan(overrides=change)).named("chat-kubernetes-deployment").inputs
    assert inputs["metadata"]["annotations"] == {"team.example.com/owner": "ml"}


def test_the_options_component_is_usable_alone_with_a_plan() -> None:
    run = record(lambda: KubernetesServing("own", sample_plan()) and None)
    assert run.named("own-deployment").parent == run.named("own").urn
    assert run.outputs_of(SERVING)["endpoint"]["url"] == "http://chat.serving.svc:8080"


def _as_a_run(program: Callable[[], None]) -> Run:
    """With a stack resource at the root, which the engine's own runs have and mocks alone have not."""

    def inside() -> None:
        root = pulumi.ComponentResource("pulumi:pulumi:Stack", "program")
        settings.set_root_resource(root)
        try:
            program()
        finally:
            settings.set_root_resource(None)  # pyright: ignore[reportArgumentType]

    return record(inside)


def _two(second: str, **more: Any) -> Callable[[], None]:
    def program() -> None:
        ServingStack("one", DOCUMENT, lock=sample_plan())
        other = DOCUMENT | {"name": second}
        ServingStack("two", other, lock=sample_plan(other), **more)

    return program


def test_two_components_of_one_program_cannot_be_the_same_stack() -> None:
    """Their logical names differ, so nothing else would notice until the second deployment takes over."""
    with pytest.raises(pulumi.RunError, match=r"(?s)name: got 'chat'.*component 'one' has it"):
        _as_a_run(_two("chat"))
    assert len(_as_a_run(_two("other")).of_type(STACK)) == 2
    assert len(_as_a_run(_two("other")).of_type(STACK)) == 2, "another run claims anew"


def test_two_stacks_of_one_name_may_be_on_two_clusters() -> None:
    found = _as_a_run(_two("chat", existing=KubernetesExisting(context="eu")))
    assert len(found.of_type(STACK)) == 2


def test_two_stacks_of_one_program_meet_nowhere_but_in_their_namespace() -> None:
    other = DOCUMENT | {"name": "other"}

    def program() -> None:
        ServingStack("chat", DOCUMENT, lock=sample_plan())
        ServingStack("other", other, lock=sample_plan(other))

    run = record(program)
    objects = [
        (each.inputs["kind"], each.inputs["metadata"].get("namespace"), each.inputs["metadata"]["name"])
        for each in run.resources
        if "kind" in each.inputs
    ]
    shared = {item for item in objects if objects.count(item) > 1}
    assert shared == {("Namespace", None, "serving")}
    one, two = (each.inputs for each in run.resources if each.inputs.get("kind") == "Namespace")
    assert one == two  # each applies the same, so that neither takes anything from the other


# ---- what a reviewer sees
# -----------------------------------------------------------------------------------


def test_the_components_inputs_are_the_decision_so_that_a_preview_shows_it() -> None:
    (stack,) = _run(preview=True).of_type(STACK)
    shown = {name: value for name, value in sample_plan().summary().items() if value is not None}
    assert stack.inputs == shown
    assert stack.inputs["gpu"] == "a100-80gb"


def test_outputs_say_how_to_call_it_what_it_costs_and_all_that_was_decided() -> None:
    outputs = _run().outputs_of(STACK)
    assert set(outputs) == {"endpoint", "dashboard_url", "hourly_cost", "plan"}
    assert outputs["endpoint"]["url"] == "http://chat.serving.svc:8080"
    assert set(outputs["endpoint"]) == {"url", "protocol", "auth", "invoke_example", "timeout"}
    assert outputs["dashboard_url"].startswith("/d/chat-")
    assert outputs["hourly_cost"] == 8
    assert ServingPlan.model_validate(outputs["plan"]) == sample_plan()


def test_a_stack_is_planned_from_yaml_and_from_python_alike() -> None:
    """From `require_object`, from typed args, and with the name left to the component."""
    nameless = {key: value for key, value in DOCUMENT.items() if key != "name"}
    runs = [_run(given, lock=None) for given in (DOCUMENT, ServingStackArgs.parse(DOCUMENT), nameless)]
    plans = [run.outputs_of(STACK)["plan"] for run in runs]
    assert plans[0] == plans[1] == plans[2]
    assert ServingPlan.model_validate(plans[0]) == make_plan(DOCUMENT)


# ---- secrets
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [SECRET, None], ids=["plain", "secret"])
def test_a_kubeconfig_travels_as_a_secret_and_is_nowhere_else_f011(given: str | None) -> None:
    """F011: a credential in the clear. A plain one is made secret."""

    def program() -> None:
        existing = {"kubeconfig": given} if given is not None else _kubeconfig()
        ServingStack("chat", DOCUMENT, lock=sample_plan(), existing=existing)

    run = record(program)
    provider = run.named("chat-kubernetes-cluster")
    assert is_secret(provider.inputs["kubeconfig"])
    assert run.text.count(SECRET) == 1
    assert not any(SECRET in message for message in run.messages)
    assert all(
        "chat-kubernetes-cluster" in each.provider
        for each in run.resources
        if "kubernetes:" in each.type[:11]
    )


def test_without_a_cluster_of_its_own_no_provider_is_made() -> None:
    assert not _run().of_type("pulumi:providers:kubernetes")


def test_a_provider_in_the_options_is_handed_down() -> None:
    def program() -> None:
        import pulumi_kubernetes

        provider = pulumi_kubernetes.Provider("mine", kubeconfig="x")
        ServingStack("chat", DOCUMENT, pulumi.ResourceOptions(providers=[provider]), lock=sample_plan())

    run = record(program)
    assert "::mine::" in run.named("chat-kubernetes-deployment").provider


def test_existing_shows_names_and_no_values() -> None:
    assert repr(KubernetesExisting(kubeconfig=SECRET)) == "KubernetesExisting(kubeconfig=...)"


def test_an_unknown_field_of_existing_is_told_f011() -> None:
    with pytest.raises(pulumi.RunError, match=r"existing\.kubeconfg: .* Did you mean `kubeconfig`\?"):
        _run(existing={"kubeconfg": "x"})


def test_the_only_tokens_are_references_to_secrets_f011() -> None:
    text = _run().text
    assert '"secretKeyRef": {"' in text
    assert "hf_" not in text


# ---- refusals
# -----------------------------------------------------------------------------------------------


def test_a_name_that_is_an_output_is_refused_at_once_f071() -> None:
    with pytest.raises(TypeError, match="plain string, not Output"):
        record(lambda: ServingStack(pulumi.Output.from_input("chat"), DOCUMENT) and None)  # pyright: ignore


def test_an_output_among_decisions_is_refused_f075() -> None:
    with pytest.raises(pulumi.RunError, match=r"model\.id"):
        record(
            lambda: (
                ServingStack("chat", DOCUMENT | {"model": {"id": pulumi.Output.from_input("some/model")}})
                and None
            )
        )


def test_wrong_input_is_told_as_text_with_every_violation() -> None:
    with pytest.raises(pulumi.RunError) as caught:
        _run(DOCUMENT | {"trafic": {}, "warm": -3.5}, lock=None)
    text = str(caught.value)
    assert text.startswith("chat: 2 problems in the input:")
    assert "Did you mean `traffic`?" in text
    assert "Traceback" not in text


def test_what_no_plan_meets_is_told_with_its_limit() -> None:
    with pytest.raises(pulumi.RunError, match="chat: no plan meets this: "):
        _run(DOCUMENT | {"hardware": {"max_hourly_cost": 0.01}}, lock=None)


def test_refused_overrides_stop_before_anything_is_registered_below() -> None:
    plan = sample_plan(overrides={"deployment": {"spec": {"replicas": 9}}})
    with pytest.raises(
        pulumi.RunError, match=r"overrides\.deployment\.spec\.replicas.*scaling\.min_replicas"
    ):
        _run(lock=plan)


GATED = {key: value for key, value in DOCUMENT.items() if key != "model"} | {
    "model": {"id": "meta-llama/Meta-Llama-3-8B-Instruct"}
}


def test_a_gated_model_without_a_token_is_a_warning_in_a_preview_f011() -> None:
    run = _run(GATED, lock=None, preview=True)
    assert any(message.startswith("warning: model.token_secret:") for message in run.messages)


def test_a_gated_model_without_a_token_is_an_error_in_a_deployment_f011() -> None:
    with pytest.raises(pulumi.RunError, match=r"model\.token_secret: .* is gated"):
        _run(GATED, lock=None)


# ---- the lock
# -----------------------------------------------------------------------------------------------


def _locked(**changes: Any) -> lock.LockFile:
    return lock.make({"chat": sample_plan(**changes)})


@pytest.mark.parametrize("form", ["file", "plan", "file's content", "plan's content"])
def test_a_matching_lock_is_deployed_as_it_stands(form: str) -> None:
    """The sample is not what the planner would say, so a fresh plan would show."""
    given: Any = {
        "file": _locked(),
        "plan": sample_plan(),
        "file's content": json.loads(lock.dumps(_locked())),
        "plan's content": sample_plan().model_dump(mode="json"),
    }[form]
    run = _run(lock=given)
    assert ServingPlan.model_validate(run.outputs_of(STACK)["plan"]) == sample_plan() != make_plan(DOCUMENT)
    assert run.messages == []


def test_without_a_lock_it_is_planned_anew_and_says_so() -> None:
    run = _run(lock=None)
    assert any("no locked plan; planned anew" in message for message in run.messages)


def test_a_stale_lock_is_told_with_what_changed_and_planned_anew() -> None:
    changed = DOCUMENT | {"request_timeout": "45s"}
    run = _run(changed, lock=_locked(), preview=True)
    (message,) = [message for message in run.messages if "stale" in message]
    assert "timeouts.request_s: 30 => 45" in message
    assert run.outputs_of(STACK)["plan"]["timeouts"]["request_s"] == 45


REQUIRED = {"servingstack:require_lock": "true"}


@pytest.mark.parametrize("given", [None, _locked()], ids=["absent", "stale"])
def test_a_required_lock_stops_a_deployment_and_not_a_preview(given: Any) -> None:
    changed = DOCUMENT | {"request_timeout": "45s"}
    with pytest.raises(pulumi.RunError, match="require_lock is on"):
        _run(changed, lock=given, config=REQUIRED)
    assert _run(changed, lock=given, config=REQUIRED, preview=True).of_type(STACK)
    assert _run(lock=_locked(), config=REQUIRED).of_type(STACK)


def test_a_lock_of_an_older_release_is_deployed_and_says_where_a_fresh_plan_would_differ() -> None:
    run = _run(lock=sample_plan().model_copy(update={"library_version": "0.0.9"}))
    (message,) = run.messages
    assert "deploying the locked plan; a fresh one would differ: " in message


def test_a_lock_with_what_this_release_does_not_know_is_refused() -> None:
    content = json.loads(lock.dumps(_locked()))
    entry = content["stacks"]["chat"]
    entry["plan"]["from_the_future"] = 1
    entry["plan_hash"] = lock.content_hash(entry["plan"])
    entry["plan_hash"] = lock.content_hash(entry["plan"])
    with pytest.raises(pulumi.RunError, match="from_the_future"):
        _run(lock=content)


def test_unknown_is_what_it_is_in_pulumis_own_wire_format() -> None:
    """The recorder's marker is the SDK's, or `preview` tests would look for nothing."""
    from pulumi.runtime import rpc

    assert rpc.UNKNOWN == UNKNOWN


def test_invalid_input_is_what_the_core_raises() -> None:
    with pytest.raises(InvalidInput):
        ServingStackArgs.parse({})


@pytest.mark.parametrize(
    "given", [{"name": "chat"}, {"stacks": {"chat": {"key": "x"}}}], ids=["plan", "file"]
)
def test_a_lock_that_is_none_is_refused_with_what_is_wrong(given: Any) -> None:
    with pytest.raises(pulumi.RunError, match=r"(?s)chat: .*  lock: "):
        _run(lock=given)


@pytest.mark.parametrize(
    ("document", "more"),
    [
        (None, {}),
        ([1], {}),
        ("abc", {}),
        (DOCUMENT, {"lock": "path"}),
        (DOCUMENT, {"lock": {"foo": 1}}),
        (DOCUMENT, {"existing": {5: "x"}}),
        (DOCUMENT, {"existing": "kubeconfig"}),
        (DOCUMENT, {"existing": [1]}),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_as_wrong_input(document: Any, more: dict[str, Any]) -> None:
    with pytest.raises(pulumi.RunError, match="in the input"):
        record(lambda: ServingStack("chat", document, **({"lock": sample_plan()} | more)) and None)
