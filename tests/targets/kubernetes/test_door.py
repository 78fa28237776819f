"""The front door's pod and Service, and what callers are told of it."""

from __future__ import annotations

import shlex

from tests.sample import sample_plan
from tests.targets.kubernetes.bodies import by_role, max_plan, pods

from servingstack.targets.kubernetes import front_door
from servingstack.targets.kubernetes.endpoint import dashboard_url, endpoint, url


def test_the_door_rolls_without_a_gap() -> None:
    spec = by_role(sample_plan())["door"]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_a_changed_configuration_is_a_changed_pod() -> None:
    one, other = pods(sample_plan())["door"], pods(sample_plan(timeouts={"request_s": 31}))["door"]
    assert one != other
    assert one == pods(sample_plan(cost={"hourly_usd": 9}))["door"]


def test_files_of_pods_never_change_under_them() -> None:
    """Other files are another object, so that old pods keep theirs while new ones start."""
    one, other = by_role(sample_plan()), by_role(sample_plan(timeouts={"request_s": 31}))
    assert one["door-config"]["immutable"] is one["warm-up"]["immutable"] is True
    assert one["door-config"]["metadata"]["name"] != other["door-config"]["metadata"]["name"]
    assert one["warm-up"]["metadata"]["name"] == other["warm-up"]["metadata"]["name"]
    assert one["dashboard"]["metadata"]["name"] == other["dashboard"]["metadata"]["name"]


def test_the_doors_files_are_mounted_where_it_reads_them() -> None:
    plan = sample_plan()
    spec = pods(plan)["door"]["spec"]
    (volume,) = spec["volumes"]
    assert volume["configMap"]["name"] == by_role(plan)["door-config"]["metadata"]["name"]
    assert by_role(plan)["door-config"]["data"] == front_door.config_files(plan)
    assert spec["containers"][0]["volumeMounts"][0]["name"] == volume["name"]


def test_a_stopping_door_has_time_for_what_it_has_taken() -> None:
    for plan in (sample_plan(), max_plan()):
        assert plan.front_door is not None
        assert pods(plan)["door"]["spec"]["terminationGracePeriodSeconds"] > plan.front_door.drain_s


def test_the_service_callers_type_has_the_stacks_own_name_and_is_inside_the_cluster() -> None:
    plan = sample_plan()
    service = by_role(plan)["service"]
    assert service["metadata"]["name"] == "chat"
    assert service["spec"]["type"] == "ClusterIP"
    ports = {port["name"]: port["targetPort"] for port in service["spec"]["ports"]}
    container = pods(plan)["door"]["spec"]["containers"][0]
    assert ports == {port["name"]: port["containerPort"] for port in container["ports"]}


def test_the_endpoint_says_how_to_call_it() -> None:
    assert endpoint(sample_plan()) == {
        "url": "http://chat.serving.svc:8080",
        "protocol": "openai",
        "auth": "none",
        "invoke_example": endpoint(sample_plan())["invoke_example"],
        "timeout": {"request_s": 30, "stream_s": 600, "wait_s": sample_plan().timeouts.queue_s},
    }


def test_the_example_is_a_command_that_a_shell_reads_as_meant() -> None:
    plan = max_plan()
    words = shlex.split(endpoint(plan)["invoke_example"])
    assert words[0] == "curl"
    assert words[-1] == f"{url(plan)}/v1/completions"
    assert "authorization: Bearer $API_KEY" in words
    assert words[words.index("--max-time") + 1] == str(endpoint(plan)["timeout"]["wait_s"] + 30)
    assert endpoint(plan)["auth"] == "bearer"


def test_a_client_of_a_stack_at_zero_waits_for_its_start_too() -> None:
    plan = sample_plan(scaling={"min_replicas": 0, "scale_to_zero_after_s": 600, "hold_s": 280})
    words = shlex.split(endpoint(plan)["invoke_example"])
    assert int(words[words.index("--max-time") + 1]) == 280 + plan.timeouts.queue_s + 30
    assert endpoint(plan)["timeout"]["wait_s"] == 280 + plan.timeouts.queue_s


def test_the_dashboard_is_named_as_far_as_it_is_known() -> None:
    assert str(dashboard_url(max_plan())).startswith("https://grafana.example.com/d/chat-")
    assert str(dashboard_url(sample_plan())).startswith("/d/chat-")
    assert dashboard_url(sample_plan(monitoring={"dashboards": False})) is None
