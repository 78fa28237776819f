"""What a plan on SageMaker decides, and what is refused before anything is created."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.targets.aws.sagemaker.documents import CASES, DEFAULTS, MAX, QUEUED, document
from tests.targets.plans import codes, refused

from servingstack import catalog
from servingstack.engines import facts as engine_facts
from servingstack.engines.vendor_images import vendor_image
from servingstack.errors import Infeasible, InvalidInput
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets.aws.sagemaker import facts, fleet
from servingstack.targets.aws.sagemaker.section import SageMakerSection

GB = 1e9


def section(found: ServingPlan) -> SageMakerSection:
    assert found.sagemaker is not None
    return found.sagemaker


def own(**settings: Any) -> dict[str, Any]:
    return {"sagemaker": settings}


@pytest.mark.parametrize(("name", "given"), [("defaults", DEFAULTS), ("max", MAX), ("queued", QUEUED)])
def test_the_plan_is_the_golden_one(
    name: str, given: dict[str, Any], golden: Callable[[str, str], None]
) -> None:
    shown = plan(given).model_dump(mode="json", exclude={"container", "library_version", "args_key"})
    del shown["sagemaker"]["environment"]["SERVING_LIMITS"]
    mine = {key: value for key, value in shown.items() if value is not None}
    golden(f"plans/aws/sagemaker-{name}.json", json.dumps(mine, indent=1, sort_keys=True) + "\n")


def test_the_least_input_gives_warm_instances_that_answer_within_the_services_minute() -> None:
    found = plan(DEFAULTS)
    assert section(found).mode == "real-time"
    assert found.scaling.min_replicas >= 1
    assert found.timeouts.request_s <= facts.INVOCATION_S
    assert found.timeouts.stream_s <= facts.STREAM_S
    assert found.timeouts.kind == "set"
    assert found.front_door is None
    assert found.architecture.instance_type is not None
    assert found.architecture.instance_type.startswith("ml.")


def test_the_plan_says_what_a_client_must_set_itself() -> None:
    """A client library's own time-out and its retries come before the server's."""
    found = plan(document(request_timeout="40s"))
    client = section(found).client
    assert found.timeouts.request_s < client.read_timeout_s
    assert client.max_attempts == 2
    (said,) = [each for each in found.assumed if each.path == "client"]
    assert f"{client.read_timeout_s}s" in str(said.value)


def test_a_container_drains_before_it_is_killed() -> None:
    """F007, and the service's own thirty seconds."""
    for given, _ in CASES.values():
        limits = plan(given).timeouts
        assert limits.drain_s < limits.grace_s == facts.STOP_S


def test_the_cost_is_that_of_hosting_instances() -> None:
    found = plan(DEFAULTS)
    row = catalog.price("aws", str(found.architecture.instance_type), "us-east-1")
    assert row is not None
    assert found.cost.hourly_usd == pytest.approx(found.scaling.min_replicas * row.usd_per_hour, rel=1e-4)
    bare = catalog.price("aws", str(found.architecture.instance_type).removeprefix("ml."), "us-east-1")
    assert bare is not None
    assert row.usd_per_hour > bare.usd_per_hour, "hosting costs more than the machine"


def test_start_and_download_are_given_the_time_that_the_weights_need() -> None:
    """F037: with the service's defaults a large model never comes into service."""
    small = section(plan(document(model={"source": "s3://acme-models/qwen"})))
    large = section(
        plan(
            document(
                model={"id": "meta-llama/Llama-3.1-70B-Instruct", "source": "s3://acme-models/llama"},
                hardware={"accelerators": ["h100-80gb"]},
            )
        )
    )
    low, high = facts.TIMEOUT_S
    for chosen in (small, large):
        assert low <= chosen.download_timeout_s <= high
        assert low <= chosen.startup_timeout_s <= high
    assert large.download_timeout_s > small.download_timeout_s
    assert large.deployment.timeout_s >= large.download_timeout_s + large.startup_timeout_s


def test_a_hub_model_is_not_waited_for_as_model_data() -> None:
    """The engine downloads it, so its time is the start's."""
    hub, bucket = plan(DEFAULTS), plan(document(model={"source": "s3://acme-models/qwen"}))
    assert section(hub).model_data is None
    assert section(hub).download_timeout_s == facts.TIMEOUT_S[0]
    assert section(hub).startup_timeout_s >= section(bucket).startup_timeout_s
    assert section(bucket).model_data == "s3://acme-models/qwen"


def test_a_bucket_closes_the_network_and_the_hub_opens_it() -> None:
    hub, bucket = plan(DEFAULTS), plan(document(model={"source": "s3://acme-models/qwen"}))
    assert not section(hub).network_isolation
    assert section(bucket).network_isolation
    assert "weights-from-the-hub" in codes(hub)
    assert "weights-from-the-hub" not in codes(bucket)
    opened = document(model={"source": "s3://b/x"}, target=own(network_isolation=False))
    assert not section(plan(opened)).network_isolation


def test_the_engine_reads_the_model_from_where_the_service_puts_it() -> None:
    found = plan(document(model={"source": "s3://acme-models/qwen"}))
    environment = section(found).environment
    assert environment["SM_VLLM_MODEL"] == facts.MODEL_DIRECTORY == found.architecture.weights_directory
    assert environment["SM_VLLM_SERVED_MODEL_NAME"] == DEFAULTS["model"]["id"]
    hub = section(plan(DEFAULTS)).environment
    assert hub["SM_VLLM_MODEL"] == DEFAULTS["model"]["id"]


@pytest.mark.parametrize("name", CASES)
def test_every_variable_is_a_flag_of_the_images_own_release(name: str) -> None:
    """F035: a variable that the image's release does not know is ignored or ends the container."""
    found = plan(CASES[name][0])
    row = vendor_image(found.architecture.engine, "sagemaker")
    assert row is not None
    known = engine_facts.flags(found.architecture.engine, row.version)
    told = {key for key in section(found).environment if key.startswith(row.prefix)}
    flags = {key.removeprefix(row.prefix).lower().replace("_", "-") for key in told}
    assert flags
    assert flags - {"model"} <= set(known), "the model is the command's one argument, by this variable"
    assert not {"SM_VLLM_HOST", "SM_VLLM_PORT"} & set(told), "the image's own start script sets them"


@pytest.mark.parametrize("name", CASES)
def test_no_variable_is_longer_or_more_than_the_service_takes_and_none_is_a_secret(name: str) -> None:
    environment = section(plan(CASES[name][0])).environment
    assert len(environment) <= facts.MOST_VARIABLES
    assert max(map(len, environment.values())) <= facts.LONGEST_VARIABLE
    assert not [key for key in environment if "TOKEN" in key.upper().split("_") or "API_KEY" in key.upper()]


def test_caches_go_to_the_instances_own_disk() -> None:
    """The root of the container is small; /tmp is the disk."""
    found = plan(DEFAULTS)
    homes = {key: text for key, text in section(found).environment.items() if "/" in text and "HOME" in key}
    assert homes
    assert all(text.startswith("/tmp/") for text in homes.values())


def test_warm_up_is_inside_the_container_and_the_plan_says_so() -> None:
    """No request comes before /ping answers 200, and it does so only after the warm-up."""
    found = plan(DEFAULTS)
    limits = json.loads(section(found).environment["SERVING_LIMITS"])
    assert limits["warm_up"]["requests"] == found.container.warm_up.requests > 0
    assert limits["request_s"] == found.timeouts.request_s
    (said,) = [each for each in found.assumed if each.path == "warm-up"]
    assert "/ping" in said.why


def test_one_instance_has_no_steps_and_more_have_a_canary() -> None:
    scaled = {"min_replicas": 1, "max_replicas": 4}
    one = section(plan(document(scaling=scaled, hardware={"accelerators": ["l40s"]})))
    four = section(plan(document(scaling={"min_replicas": 4, "max_replicas": 8})))
    assert (one.deployment.kind, one.deployment.step_percent) == ("all-at-once", 100)
    assert (four.deployment.kind, four.deployment.step_percent) == ("canary", 25)


def test_a_whole_second_fleet_is_in_the_quota_and_in_the_surge_cost() -> None:
    found = plan(document(scaling={"min_replicas": 2, "max_replicas": 5}))
    assert section(found).quota == f"{found.architecture.instance_type} for endpoint usage: 10"
    (warning,) = [each for each in found.warnings if each.code == "quota"]
    assert section(found).quota in warning.message
    rolling = plan(document(scaling={"min_replicas": 2, "max_replicas": 5}, target=own(deployment="rolling")))
    assert section(rolling).quota.endswith(": 8")


def test_a_deployment_is_taken_back_on_errors_and_on_time() -> None:
    found = plan(MAX)
    moved = section(found).deployment
    assert moved.rollback_alarms == ("assistant-rollback-errors", "assistant-rollback-latency")
    assert 0 < moved.rollback_error_share < 1
    promised = {each.id: each.threshold_ms for each in found.monitoring.objectives}
    tightest = promised["latency_p95"]
    assert tightest is not None
    assert tightest / 1000 < moved.rollback_latency_s <= found.timeouts.request_s


LARGE = document(
    model={"id": "meta-llama/Llama-3.1-70B-Instruct", "source": "s3://acme-models/llama"},
    hardware={"accelerators": ["h100-80gb"], "max_gpus": 640},
    scaling={"min_replicas": 10, "max_replicas": 20},
)
"""Whose deployment in ten steps would take longer than the service lets any."""


def least_seconds(found: ServingPlan) -> float:
    """What a rolling deployment takes when each start takes as long as planned, and each watch."""
    chosen, cold = section(found), found.scaling.cold_start
    steps = -(-100 // chosen.deployment.step_percent)
    return steps * (cold.total_s + chosen.deployment.bake_s)


def test_a_rolling_deployment_has_steps_wide_enough_to_end_within_eight_hours() -> None:
    """The service ends it there and takes it back: one that cannot be met would never be deployed."""
    for bake in (10, 30):
        found = plan(document(LARGE, target=own(deployment="rolling", bake_minutes=bake)))
        moved = section(found).deployment
        assert 10 < moved.step_percent <= 50
        assert least_seconds(found) < moved.timeout_s <= facts.EXECUTION_S[1]
        starts = section(found).download_timeout_s + section(found).startup_timeout_s + moved.bake_s
        assert -(-100 // moved.step_percent) * starts < moved.timeout_s, "each limit of a start fits into it"
    small = document(target=own(deployment="rolling"), scaling={"min_replicas": 10, "max_replicas": 20})
    assert section(plan(small)).deployment.step_percent == 10


def test_a_deployment_that_takes_too_long_even_in_two_steps_is_refused() -> None:
    slowest = 2 * 420 + 2 * facts.TIMEOUT_S[1]
    with pytest.raises(InvalidInput) as caught:
        fleet._step(10, slowest, 60)
    (said,) = caught.value.violations
    assert said.path == "target.sagemaker.bake_minutes"
    (most,) = {int(each) for each in re.findall(r"Set (\d+) or less", said.fix)}
    assert fleet._step(10, slowest, most) == fleet.MOST_STEP
    with pytest.raises(InvalidInput):
        fleet._step(10, slowest, most + 1)


@pytest.mark.parametrize("name", CASES)
def test_a_deployment_that_is_as_fast_as_planned_is_not_taken_back(name: str) -> None:
    """An alarm below the plan's own expectation takes every deployment back at the peak."""
    found = plan(CASES[name][0])
    assert section(found).deployment.rollback_latency_s > found.expected.latency_p95_ms.value / 1000
    assert section(found).deployment.rollback_latency_s < found.timeouts.request_s, "else it could never fire"


def test_a_median_that_was_promised_is_not_held_against_the_slowest_requests() -> None:
    found = plan(document(slo={"latency_p50": "15s", "ttft_p95": None, "tpot_p95": None}))
    assert section(found).deployment.rollback_latency_s > found.expected.latency_p95_ms.value / 1000


def test_names_of_what_cannot_change_follow_their_content() -> None:
    """F030: a fixed name collides with what is to be replaced."""
    first = plan(DEFAULTS)
    again = plan(document(labels={"team": "ml"}, slo={"availability": 99.5}))
    assert again.names == first.names
    other_model = plan(document(model={"id": "mistralai/Mistral-7B-Instruct-v0.3"}))
    assert other_model.names["model"] != first.names["model"]
    assert other_model.names["config"] != first.names["config"]
    assert other_model.names["endpoint"] == first.names["endpoint"]
    bigger = plan(document(hardware={"accelerators": ["l40s"], "gpus_per_replica": 1}))
    assert bigger.names["config"] != first.names["config"]
    assert bigger.names["endpoint"] == first.names["endpoint"]


def test_the_mode_is_in_the_endpoints_name_because_no_endpoint_can_change_it() -> None:
    """Another mode is another endpoint, and what belongs to it (its log group) goes with its name."""
    online, queued = plan(DEFAULTS), plan(document(target=own(mode="asynchronous")))
    assert online.names["endpoint"] == "chat"
    assert queued.names["endpoint"] == "chat-async"
    assert queued.names["log_group"] == "/aws/sagemaker/Endpoints/chat-async"
    longest = plan(document(name="a" * 40, target=own(mode="asynchronous")))
    assert len(longest.names["endpoint"]) <= facts.NAME_LENGTH


def test_the_number_of_instances_is_in_no_name_where_the_scaler_owns_it() -> None:
    """F029: a redeployment must not set the fleet back to where it started."""
    two = plan(document(scaling={"min_replicas": 2, "max_replicas": 6}))
    three = plan(document(scaling={"min_replicas": 3, "max_replicas": 6}))
    assert two.names["config"] == three.names["config"]
    fixed = [plan(document(scaling={"min_replicas": n, "max_replicas": n})) for n in (2, 3)]
    assert fixed[0].names["config"] != fixed[1].names["config"], "without a scaler the plan owns it"


def test_the_longest_name_fits_everywhere() -> None:
    found = plan(document(name="a" * 40))
    limits = {
        "endpoint": facts.NAME_LENGTH,
        "model": facts.NAME_LENGTH,
        "config": facts.NAME_LENGTH,
        "role": facts.ROLE_NAME_LENGTH,
        "bucket": 36,
        "data_bucket": 36,
        "topic": 255,
        "dashboard": 255,
    }
    for role, most in limits.items():
        assert len(found.names[role]) <= most, role
    assert set(refused(document(name="a" * 41))) == {"name"}


def test_two_regions_of_one_account_share_no_role_and_no_dashboard() -> None:
    """Both belong to the account, not to a region."""
    here, there = plan(DEFAULTS), plan(document(target={"region": "us-west-2"}))
    for role in ("role", "dashboard"):
        assert here.names[role] != there.names[role]


def test_zero_instances_need_the_asynchronous_mode() -> None:
    """F033: a variant that names a model keeps an instance, whatever the scaler is told."""
    said = refused(document(scaling={"min_replicas": 0, "scale_to_zero_after": "10m"}))
    assert "mode: asynchronous" in said["scaling.min_replicas"]
    found = plan(QUEUED)
    assert found.scaling.min_replicas == 0
    queue = section(found).asynchronous
    assert queue is not None
    assert queue.wakes_from_zero
    assert section(found).initial_instances == 1, "a configuration starts with one; the scaler takes it away"


def test_an_asynchronous_request_has_the_services_own_limits() -> None:
    found = plan(QUEUED)
    queue = section(found).asynchronous
    assert queue is not None
    assert found.scaling.hold_s is None, "nobody holds a request: it waits in the backlog"
    assert "scaling.hold" not in {each.path for each in found.assumed}
    assert found.timeouts.queue_s == 7200
    assert queue.invocation_timeout_s == 600
    assert queue.time_to_live_s == 7200
    assert "InvocationTimeoutSeconds" in found.timeouts.enforced_by
    tracked = section(found).tracking
    assert tracked is not None
    assert tracked.metric == "ApproximateBacklogSizePerInstance"


def test_a_deadline_outlives_the_start_of_the_first_instance() -> None:
    """Without an instance a request with a shorter one would expire, each time."""
    said = refused(document(QUEUED, traffic={"deadline": "1m"}))
    (needed,) = {int(each) for each in re.findall(r"at least (\d+)s", said["traffic.deadline"])}
    cold = plan(QUEUED).scaling.cold_start.total_s
    assert cold + 60 < needed < cold + 300, "the start, and what it takes to see that one is needed"
    kept = plan(document(QUEUED, traffic={"deadline": f"{needed}s"}))
    assert section(kept).asynchronous is not None
    warm = document(
        QUEUED, traffic={"deadline": "1m"}, scaling={"min_replicas": 1, "scale_to_zero_after": None}
    )
    assert plan(warm).timeouts.queue_s == 60


REFUSALS: dict[str, tuple[dict[str, Any], str, str]] = {
    "another cloud's machine": (
        document(hardware={"instance_type": "a2-highgpu-1g"}), "hardware.instance_type", "",
    ),
    "a machine of EC2": (document(hardware={"instance_type": "g6.xlarge"}), "hardware.instance_type", "ml."),
    "a GPU the region has none of": (
        document(target={"region": "eu-west-1"}, hardware={"accelerators": ["h100-80gb"]}),
        "hardware.accelerators", "",
    ),
    "another cloud's region": (document(target={"region": "europe-west4"}), "target.region", ""),
    "a region without the service's prices": (
        document(target={"region": "sa-east-1"}), "target.region", "us-east-1",
    ),
    "spot": (document(hardware={"spot": "only"}), "hardware.spot", ""),
    "a name too long": (document(name="x" * 41), "name", "40"),
    "a name with dots": (document(name="a.b"), "name", ""),
    "a longer request": (document(request_timeout="2m"), "request_timeout", "asynchronous"),
    "a request as long as the service's own limit": (
        document(request_timeout="60s"), "request_timeout", "55s",
    ),
    "more labels than tags": (
        document(labels={f"label-{n}": "x" for n in range(47)}), "labels", "at most 46",
    ),
    "a longer stream": (document(stream_timeout="20m"), "stream_timeout", "480s"),
    "a token": (
        document(model={"token_secret": {"name": "hf", "key": "token"}}), "model.token_secret", "s3://",
    ),
    "a gated model from the hub": (
        document(model={"id": "meta-llama/Meta-Llama-3-8B-Instruct"}), "model.source", "s3://",
    ),
    "a key": (document(api_key_secret={"name": "k"}), "api_key_secret", "IAM"),
    "isolation from the hub": (
        document(target=own(network_isolation=True)), "target.sagemaker.network_isolation", "s3://",
    ),
    "a key of the hub's weights": (
        document(target=own(weights_key=True)), "target.sagemaker.weights_key", "hf",
    ),
    "rights of another's role": (
        document(model={"source": "s3://b/x"}, target=own(weights_key=True, own_role=True)),
        "target.sagemaker.weights_key", "own_role",
    ),
    "a revision of a bucket": (
        document(model={"source": "s3://b/x", "revision": "abc"}), "model.revision", "path",
    ),
    "another cloud's bucket": (
        document(model={"source": "gs://b/x"}, engine={"kind": "vllm"}), "model.source", "s3://",
    ),
    "rolling with one": (
        document(
            target=own(deployment="rolling"), scaling={"min_replicas": 1, "max_replicas": 4},
            hardware={"accelerators": ["l40s"]},
        ),
        "target.sagemaker.deployment", "min_replicas: 2",
    ),
    "addresses for another's topic": (
        document(target=own(own_topic=True, notify_emails=["a@b.example"])),
        "target.sagemaker.notify_emails", "own_topic",
    ),
    "addresses without alerts": (
        document(target=own(notify_emails=["a@b.example"]), observability={"alerts": False}),
        "target.sagemaker.notify_emails", "alerts",
    ),
    "one address twice": (
        document(target=own(notify_emails=["a@b.example", "a@b.example"])),
        "target.sagemaker.notify_emails", "once",
    ),
    "no address": (document(target=own(notify_emails=["nobody"])), "target.sagemaker.notify_emails[0]", ""),
    "a latency of a queue": (
        document(QUEUED, traffic={"kind": "online", "deadline": None}, slo={"latency_p95": "5s"}),
        "slo.latency_p95", "asynchronous",
    ),
    "a stream into a bucket": (document(QUEUED, stream_timeout="5m"), "stream_timeout", "bucket"),
    "captured data of a queue": (
        document(QUEUED, target=own(data_capture_percent=5)), "target.sagemaker.data_capture_percent", "0",
    ),
    "a deadline beyond the queue's": (
        document(QUEUED, traffic={"deadline": "12h"}), "traffic.deadline", "6h",
    ),
    "an engine without an image": (document(engine={"kind": "sglang"}), "engine.kind", "vllm"),
    "an image of the public registry": (
        document(engine={"kind": "vllm", "image": "vllm/vllm-openai:v0.30.0@sha256:" + "a" * 64}),
        "engine.image", "private registry",
    ),
    "an image of another region": (
        document(
            engine={
                "kind": "vllm",
                "image": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/vllm:1@sha256:" + "a" * 64,
            }
        ),
        "engine.image", "us-east-1",
    ),
    "a flag of another release": (
        document(engine={"kind": "vllm", "extra_args": ["--no-such-flag"]}), "engine.extra_args", "",
    ),
    "a variable too long": (
        document(engine={"kind": "vllm", "extra_env": {"LONG": "x" * 1025}}), "engine.extra_env.LONG", "1024",
    ),
    "too many variables": (
        document(engine={"kind": "vllm", "extra_env": {f"V{n}": "x" for n in range(101)}}),
        "engine.extra_env", "100",
    ),
    "a public endpoint": (document(exposure="public"), "exposure", ""),
    "an unknown setting": (document(target=own(subnets=["a"])), "target.sagemaker.subnets", ""),
    "settings of another option": (
        document(target={"kubernetes": {"namespace": "x"}}), "target.kubernetes", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSALS)
def test_what_the_service_would_refuse_is_refused_when_planning(what: str) -> None:
    given, path, fix = REFUSALS[what]
    with pytest.raises((InvalidInput, Infeasible)) as caught:
        plan(given)
    if isinstance(caught.value, InvalidInput):
        found = {each.path: f"{each.allowed} {each.fix}" for each in caught.value.violations}
        assert path in found, found
        assert fix in found[path]
    else:
        assert fix in str(caught.value)


def test_everything_wrong_is_said_at_once() -> None:
    said = refused(document(request_timeout="2m", stream_timeout="20m", api_key_secret={"name": "k"}))
    assert set(said) == {"request_timeout", "stream_timeout", "api_key_secret"}


def test_weights_that_take_more_than_an_hour_would_never_be_in_service() -> None:
    with pytest.raises(Infeasible, match="SageMaker waits 3600 s"):
        plan(document(model={"id": "deepseek-ai/DeepSeek-V3"}, hardware={"accelerators": ["h200"]}))
