"""What the plan says is what the front door's files say; that HAProxy does it: test_front_door_live.py."""

from __future__ import annotations

import json
import re

import pytest
from tests.sample import DOCUMENT, sample_plan
from tests.targets.kubernetes.bodies import pods

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import door, front_door

WITH_KEY = {"api_key_secret_name": "chat-key", "api_key_secret_key": "token"}
ZERO = {"min_replicas": 0, "scale_to_zero_after_s": 600, "hold_s": 240}


def section(plan: ServingPlan, head: str) -> list[str]:
    """The lines of one section, without comments."""
    config = front_door.haproxy_config(plan)
    (text,) = [part for part in config.split("\n\n") if part.splitlines()[0] == head]
    return [line.strip() for line in text.splitlines()[1:] if not line.strip().startswith("#")]


def test_every_time_limit_of_the_plan_is_in_the_configuration() -> None:
    plan = sample_plan(timeouts={"request_s": 17, "queue_s": 4, "stream_s": 333, "drain_s": 77})
    defaults = section(plan, "defaults")
    assert "timeout server 17s" in defaults
    assert "timeout queue 4s" in defaults
    assert "local STREAM_S = 333\n" in front_door.hold_lua(plan)
    assert "local REQUEST_S = 17\n" in front_door.hold_lua(plan)
    assert "hard-stop-after 77s" in section(plan, "global")


def test_a_late_replica_is_a_504_and_not_the_clients_fault() -> None:
    times = dict(re.findall(r"timeout (client|server) (\d+)s", front_door.haproxy_config(sample_plan())))
    assert int(times["client"]) > int(times["server"])


def test_limits_are_divided_by_the_doors_and_rounded_up() -> None:
    plan = sample_plan(front_door={"replicas": 3, "max_concurrent": 100, "max_queue": 10})
    assert any(" maxconn 34 " in line for line in section(plan, "backend engine"))
    assert any("queue(engine) ge 4 }" in line for line in section(plan, "frontend serving"))
    tiny = sample_plan(front_door={"replicas": 3, "max_concurrent": 1, "max_queue": 1})
    assert any(" maxconn 1 " in line for line in section(tiny, "backend engine"))


@pytest.mark.parametrize(("maximum", "surge", "slots"), [(4, 0, 6), (4, 2, 8), (1, 1, 4)])
def test_there_is_a_slot_for_every_replica_there_can_be(maximum: int, surge: int, slots: int) -> None:
    plan = sample_plan(scaling={"min_replicas": 1, "max_replicas": maximum, "surge_replicas": surge})
    (template,) = [line for line in section(plan, "backend engine") if line.startswith("server-template")]
    assert template == f"server-template engine 1-{slots} chat-engine.serving.svc.cluster.local:8000"


def test_the_clusters_own_domain_is_used() -> None:
    plan = sample_plan(front_door={"cluster_domain": "k8s.example.org"})
    assert front_door.engine_host(plan) == "chat-engine.serving.svc.k8s.example.org"


def test_only_the_engines_public_paths_are_open_and_health_never_reaches_a_replica() -> None:
    plan = sample_plan()
    (rule,) = [line for line in section(plan, "frontend serving") if "deny_status 404" in line]
    listed = set(re.findall(r"\{ path (.*) \}", rule)[0].split())
    assert listed == set(plan.container.public_paths) - {"/health"}
    assert "monitor-uri /health" in section(plan, "frontend serving")


def test_the_key_is_named_and_nowhere_written() -> None:
    plan = sample_plan(front_door=WITH_KEY)
    (variable,) = door.container(plan)["env"]
    assert variable == {
        "name": front_door.API_KEY_ENV,
        "valueFrom": {"secretKeyRef": {"name": "chat-key", "key": "token"}},
    }
    assert "chat-key" not in front_door.haproxy_config(plan)
    assert any("secure_memcmp" in line for line in section(plan, "frontend serving"))
    assert door.container(sample_plan())["env"] == []
    assert "deny_status 401" not in front_door.haproxy_config(sample_plan())


def test_the_key_is_asked_for_before_anything_is_told() -> None:
    statuses = re.findall(
        r"deny_status (\d+)", "\n".join(section(sample_plan(front_door=WITH_KEY), "frontend serving"))
    )
    assert statuses[0] == "401"


def test_requests_are_held_only_where_the_plan_scales_to_zero() -> None:
    assert not any("lua.hold" in line for line in section(sample_plan(), "backend engine"))
    plan = sample_plan(scaling=ZERO)
    assert "http-request lua.hold" in section(plan, "backend engine")
    assert "local HOLD_S = 240\n" in front_door.hold_lua(plan)
    assert any("lua.held ge 32 }" in line for line in section(plan, "frontend serving"))


def test_health_on_the_serving_port_fails_without_a_replica_unless_requests_are_held() -> None:
    assert any(line.startswith("monitor fail") for line in section(sample_plan(), "frontend serving"))
    assert not any(
        line.startswith("monitor fail") for line in section(sample_plan(scaling=ZERO), "frontend serving")
    )


def test_every_refusal_is_json_and_429_and_503_say_when_to_come_back() -> None:
    errors = [line for line in section(sample_plan(), "defaults") if line.startswith("http-error")]
    found = {line.split()[2]: line for line in errors}
    denied = set(
        re.findall(r"deny_status (\d+)", front_door.haproxy_config(sample_plan(front_door=WITH_KEY)))
    )
    assert denied | {"408", "500", "502", "503", "504"} <= set(found)
    for status, line in found.items():
        body = json.loads(line.split("'")[1])
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert ("retry-after" in line) == (status in ("429", "503"))


def test_only_what_was_never_sent_is_tried_again() -> None:
    assert [line for line in section(sample_plan(), "defaults") if line.startswith("retry-on")] == [
        "retry-on conn-failure"
    ]


def test_a_held_request_outlives_a_door_that_stops() -> None:
    plan = sample_plan(scaling=ZERO, timeouts={"request_s": 30, "drain_s": 60})
    assert "hard-stop-after 270s" in section(plan, "global")
    assert door.termination_grace_s(plan) > 270 + door.PRESTOP_S
    assert "hard-stop-after 60s" in section(sample_plan(timeouts={"request_s": 30, "drain_s": 60}), "global")


def test_the_container_passes_pod_security_restricted() -> None:
    pod = pods(sample_plan())["door"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == front_door.USER_ID > 0
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"] is True
    assert all(port["containerPort"] > 1024 for port in container["ports"])


def test_the_doors_size_is_the_planned_one() -> None:
    """What a locked plan says is deployed, whatever a later release would compute."""
    size = {"slots": 9, "max_connections": 777, "memory_bytes": 99 * 1024**2, "drain_s": 88}
    plan = sample_plan()
    assert plan.front_door is not None
    plan = plan.model_copy(update={"front_door": plan.front_door.model_copy(update=size)})
    config = front_door.haproxy_config(plan)
    assert "server-template engine 1-9 " in config
    assert "maxconn 777\n" in config
    assert "hard-stop-after 88s" in config
    assert door.termination_grace_s(plan) == 88 + door.PRESTOP_S + 5
    resources = door.container(plan)["resources"]
    assert resources["limits"]["memory"] == resources["requests"]["memory"] == "99Mi"
    assert "cpu" not in resources["limits"]


def test_memory_grows_with_the_connections() -> None:
    small, large = (sample_plan(front_door={"max_concurrent": most}).front_door for most in (96, 2048))
    assert small is not None
    assert large is not None
    assert large.memory_bytes > small.memory_bytes
    assert large.max_connections > small.max_connections


def test_readiness_asks_the_door_and_not_for_a_replica() -> None:
    container = door.container(sample_plan())
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] == front_door.READY_PATH
        assert ports[container[probe]["httpGet"]["port"]] == 8404
    assert container["readinessProbe"]["initialDelaySeconds"] >= 2


def test_the_image_is_pinned_by_digest() -> None:
    assert re.fullmatch(r"haproxy:\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", front_door.IMAGE)


def test_a_plan_without_a_door_is_told_so() -> None:
    plan = sample_plan(DOCUMENT).model_copy(update={"front_door": None})
    with pytest.raises(ValueError, match="no front door"):
        front_door.haproxy_config(plan)
