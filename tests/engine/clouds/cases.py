"""The options under test, as data: a stack's document, what exists already, and what each change of it must
do.

The trap: an expectation that names every resource breaks with each new alarm. So a case names what must
happen to what serves (by the resource's role, the end of its logical name); that nothing else is
replaced, that the new comes before the old goes, and that the engine's preview foresaw it all, holds for
every change and is not written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.engine.clouds import aws, azure, gcp
from tests.engine.clouds.cloud import Cloud

Json = Any
Document = dict[str, Json]


@dataclass(frozen=True)
class Secret:
    """A value that the program makes a Pulumi secret: an output belongs to one run of it."""

    value: Json


@dataclass(frozen=True)
class Change:
    """One change of the document, deployed on what the changes before it left."""

    what: str
    document: Document
    """Merged over the document so far, object by object; lists and values replace."""
    updates: tuple[str, ...]
    """Roles that must be updated in place."""
    replaces: tuple[str, ...] = ()
    """Roles that must be replaced; no other may be."""
    away: tuple[str, ...] = ()
    """Roles that must be taken away before the updates, and made again."""


@dataclass(frozen=True)
class Case:
    """One option in one account."""

    account: str
    """`aws`, `gcp` or `azure`."""
    serves: str
    """Token of what callers name: never deleted while the stack lives."""
    document: Document
    changes: tuple[Change, ...]
    order: tuple[tuple[str, str], ...]
    """Pairs of roles: the first is made before the second, and goes after it."""
    existing: Callable[[Cloud], tuple[Mapping[str, Json], str]]
    """Makes what exists already; returns the stack's `existing`, one value of it a secret, and that one's
    text."""
    config: Mapping[str, str]
    """Configuration of the provider."""
    scaled: Mapping[str, Json]
    """What an autoscaler makes of the object's live state; empty where no state of it holds a count."""
    hit: str
    """Token of what fails to be made in the tests of faults."""
    drifts: tuple[str, str, Json]
    """Token, input and value of what somebody changes behind the engine's back."""


def merged(base: Json, change: Json) -> Json:
    """Objects are merged, everything else is replaced."""
    if not (isinstance(base, dict) and isinstance(change, dict)):
        return change
    return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}


WITHOUT_A_CASE = {"kubernetes", "modal", "replicate"}
"""Options whose resources a cloud's account does not hold; their own tests run the engine."""
CHAT: Document = {
    "name": "chat",
    "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 8192},
    "slo": {"ttft_p95": "6s", "tpot_p95": "150ms"},
    "traffic": {"requests_per_second": 1, "input_tokens": 512, "output_tokens": 128},
    "scaling": {"min_replicas": 1, "max_replicas": 4},
}
ANOTHER_MODEL = {"model": {"id": "mistralai/Mistral-7B-Instruct-v0.3"}}
MORE_REPLICAS = {"scaling": {"max_replicas": 6}}


def _google(cloud: Cloud) -> tuple[Mapping[str, Json], str]:
    channel = cloud.seed(gcp.CHANNEL, type="email", displayName="on call").id
    return {"project": gcp.PROJECT, "notification_channels": Secret([channel])}, channel


def _amazon(cloud: Cloud) -> tuple[Mapping[str, Json], str]:
    key = cloud.seed(aws.KEY, description="serving").outputs["arn"]
    return {"kms_key_arn": Secret(key)}, key


def _microsoft(cloud: Cloud) -> tuple[Mapping[str, Json], str]:
    group = {"resourceGroupName": "shared", "location": azure.REGION}
    cloud.seed(azure.RESOURCE_GROUP, **group)
    on_call = cloud.seed(azure.ACTION_GROUP, actionGroupName="on-call", **group).id
    return {"action_group_id": Secret(on_call)}, on_call


CASES: dict[str, Case] = {
    "container-apps": Case(
        account="azure",
        serves=azure.APP,
        document=merged(
            CHAT,
            {
                "model": {"id": "Qwen/Qwen2.5-1.5B-Instruct"},
                "target": {
                    "option": "container-apps",
                    "region": azure.REGION,
                    "container_apps": {"own_action_group": True},
                },
                "hardware": {"accelerators": ["t4"]},
            },
        ),
        changes=(
            Change("another model", {"model": {"id": "Qwen/Qwen2.5-3B-Instruct"}}, updates=("app",)),
            Change("more replicas", MORE_REPLICAS, updates=("app",)),
            Change(
                "another GPU", {"hardware": {"accelerators": ["a100-80gb"]}}, updates=("environment", "app")
            ),
        ),
        order=(
            ("resource-group", "environment"),
            ("workspace", "environment-logs"),
            ("environment", "app"),
            ("identity", "app"),
            ("app", "app-metrics"),
        ),
        existing=_microsoft,
        config={"azure-native:subscriptionId": azure.SUBSCRIPTION},
        scaled={},
        hit=azure.APP,
        drifts=(azure.APP, "tags", {"somebody": "else"}),
    ),
    "cloud-run": Case(
        account="gcp",
        serves=gcp.SERVICE,
        document=merged(
            CHAT,
            {
                "target": {"option": "cloud-run", "region": gcp.REGION},
                "hardware": {"accelerators": ["l4"]},
            },
        ),
        changes=(
            Change("another model", ANOTHER_MODEL, updates=("service",)),
            Change("more replicas", MORE_REPLICAS, updates=("service",)),
            Change("another GPU", {"hardware": {"accelerators": ["rtx-pro-6000"]}}, updates=("service",)),
        ),
        order=(("account", "service"), ("monitored", "slo-availability")),
        existing=_google,
        config={"gcp:project": gcp.PROJECT},
        scaled={},
        hit=gcp.SERVICE,
        drifts=(gcp.SERVICE, "ingress", "INGRESS_TRAFFIC_ALL"),
    ),
    "sagemaker": Case(
        account="aws",
        serves=aws.NATIVE_ENDPOINT,
        document=merged(
            CHAT,
            {
                "target": {"option": "sagemaker", "region": aws.REGION, "sagemaker": {"kms_key": True}},
                "hardware": {"accelerators": ["a10g"]},
            },
        ),
        changes=(
            Change("another model", ANOTHER_MODEL, updates=("endpoint",), replaces=("model", "config")),
            Change("more replicas", MORE_REPLICAS, updates=("scaling-target",)),
            Change(
                "another GPU",
                {"hardware": {"accelerators": ["l4"]}},
                updates=("endpoint",),
                replaces=("model", "config"),
                away=("scaled-machine", "scaling-target", "scaling-policy"),
            ),
        ),
        order=(
            ("role", "role-policy"),
            ("role-policy", "model"),
            ("model", "config"),
            ("config", "endpoint"),
            ("endpoint", "scaling-target"),
            ("scaling-target", "scaling-policy"),
            ("rollback-errors", "endpoint"),
        ),
        existing=_amazon,
        config={"aws:region": aws.REGION},
        scaled={"instances": {"main": 3}},
        hit=aws.SCALING_TARGET,
        drifts=(aws.SCALING_TARGET, "maxCapacity", 40),
    ),
}
