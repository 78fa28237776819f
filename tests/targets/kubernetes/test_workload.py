"""The engine's Deployment: arguments, resources, probes, volumes, and how it is stopped and rolled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sample import DOCUMENT, GIB, sample_plan
from tests.targets.kubernetes.bodies import (
    PLANS,
    arguments,
    by_role,
    engine,
    fixed_plan,
    max_plan,
    pods,
    volume_plan,
)

from servingstack.plan import Flag, ServingPlan
from servingstack.planner import plan as make_plan
from servingstack.targets.kubernetes.parts import literal
from servingstack.targets.kubernetes.workload import argument, pod_template, pre_stop_s

every_plan = pytest.mark.parametrize("make", PLANS.values(), ids=PLANS.keys())


def test_an_autoscaled_deployment_has_no_replica_count_at_all_f059() -> None:
    """F059: a second owner of spec.replicas is a conflict at the next apply."""
    assert "replicas" not in by_role(sample_plan())["deployment"]["spec"]
    assert "replicas" not in by_role(max_plan())["deployment"]["spec"]


def test_a_fixed_deployment_has_its_replica_count_and_no_scaler_f059() -> None:
    deployment = by_role(fixed_plan())["deployment"]
    assert deployment["spec"]["replicas"] == 2
    assert deployment["metadata"]["annotations"] == {"pulumi.com/patchForce": "true"}
    assert "scaler" not in by_role(fixed_plan())


def test_gpus_are_what_the_engine_is_told_to_use_f015_f105() -> None:
    """F015: eight GPUs reserved, one used. F105: DCGM names pods only where GPUs are in the limits."""
    for tensor, pipeline in ((1, 1), (2, 1), (4, 2)):
        change = {"tensor_parallel_size": tensor, "pipeline_parallel_size": pipeline}
        plan = sample_plan(architecture=change)
        assert engine(plan)["resources"]["limits"]["nvidia.com/gpu"] == str(tensor * pipeline)
        assert arguments(plan)["tensor-parallel-size"] == str(tensor)
        assert arguments(plan)["pipeline-parallel-size"] == str(pipeline)
        assert "nvidia.com/gpu" not in engine(plan)["resources"]["requests"]


@every_plan
def test_each_argument_is_one_flag_with_its_value_f014(make) -> None:
    for part in engine(make())["args"]:
        assert part.startswith("--")
        assert " " not in part.partition("=")[0]


def test_a_json_value_stays_one_element_f013() -> None:
    assert (
        argument(Flag(name="x", value='{"image": 2, "note": "a > b"}')) == '--x={"image": 2, "note": "a > b"}'
    )
    assert argument(Flag(name="enable-x")) == "--enable-x"


@every_plan
def test_probes_service_and_engine_agree_on_one_port_f006_f133(make) -> None:
    """F006: a probe on another port, or none. F133: a list of models answers long before the engine does."""
    plan = make()
    container = engine(plan)
    port = int(arguments(plan)["port"])
    assert container["ports"][0]["containerPort"] == port
    assert by_role(plan)["engine-service"]["spec"]["ports"][0]["targetPort"] == port
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": port, "scheme": "HTTP"}
        assert "tcpSocket" not in container[probe]


@every_plan
def test_the_startup_probe_waits_for_as_long_as_a_start_may_take_and_little_longer(make) -> None:
    """Also where every try hangs: the kubelet's bound is failures x time-out."""
    plan = make()
    probe = engine(plan)["startupProbe"]
    settings = json.loads(by_role(plan)["warm-up"]["data"]["warm_up.json"])
    assert settings["startup_s"] == plan.timeouts.startup_s
    assert plan.timeouts.startup_s < probe["failureThreshold"] * probe["timeoutSeconds"]
    assert probe["failureThreshold"] * probe["timeoutSeconds"] < plan.timeouts.startup_s + 30


def test_the_warm_up_script_is_mounted_where_the_probe_looks() -> None:
    plan = sample_plan()
    command = engine(plan)["startupProbe"]["exec"]["command"]
    files = by_role(plan)["warm-up"]["data"]
    mounts = {mount["name"]: mount["mountPath"] for mount in engine(plan)["volumeMounts"]}
    assert command[1:] == [f"{mounts['scripts']}/{name}" for name in ("warm_up.py", "warm_up.json")]
    assert set(files) == {"warm_up.py", "warm_up.json"}


def test_a_changed_script_is_a_changed_pod() -> None:
    warm_up = sample_plan().container.warm_up.model_copy(update={"requests": 9})
    assert pod_template(sample_plan()) != pod_template(sample_plan(container={"warm_up": warm_up}))


def test_the_pod_mounts_the_script_that_is_there() -> None:
    found = by_role(sample_plan())
    (volume,) = [
        each
        for each in found["deployment"]["spec"]["template"]["spec"]["volumes"]
        if each["name"] == "scripts"
    ]
    assert volume["configMap"]["name"] == found["warm-up"]["metadata"]["name"]


@every_plan
def test_all_of_the_engines_caches_are_in_a_writable_mount_f009_f010(make) -> None:
    """F009: caches under `/`. F010: the hub's cache mounted read-only."""
    container = engine(make())
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly", False)]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    caches = ("HOME", "HF_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
              "XDG_CACHE_HOME", "XDG_CONFIG_HOME")  # fmt: skip
    for name in caches:
        assert any(f"{environment[name]}/".startswith(f"{path}/") for path in writable), name
    assert {"/tmp", "/dev/shm"} <= set(writable)
    assert by_role(make())["deployment"]["spec"]["template"]["spec"]["securityContext"]["fsGroup"] > 0


def test_weights_of_ones_own_are_mounted_read_only_and_the_hub_is_not_asked_f010() -> None:
    plan = volume_plan()
    mounts = {mount["name"]: mount for mount in engine(plan)["volumeMounts"]}
    assert mounts["model"]["readOnly"] is True
    assert engine(plan)["command"][-1].startswith(mounts["model"]["mountPath"])
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in engine(plan)["env"]
    assert mounts["cache"]["mountPath"] != mounts["model"]["mountPath"]


def test_a_weights_cache_is_a_claim_that_replicas_write_to_f010() -> None:
    found = by_role(max_plan())
    volumes = {each["name"]: each for each in found["deployment"]["spec"]["template"]["spec"]["volumes"]}
    assert volumes["cache"]["persistentVolumeClaim"] == {"claimName": found["weights"]["metadata"]["name"]}
    assert found["weights"]["spec"]["storageClassName"] == "fast"
    size = found["weights"]["spec"]["resources"]["requests"]["storage"]
    assert size == "87Gi"  # as planned
    assert "weights" not in by_role(sample_plan())


def test_the_planned_volume_holds_the_weights_as_stored_and_the_scratch() -> None:
    target = {"option": "kubernetes", "kubernetes": {"weights_storage_class": "fast"}}
    made = make_plan(DOCUMENT | {"target": target})
    assert made.placement is not None
    least = 2 * made.architecture.weight_bytes + made.architecture.disk_bytes
    assert made.placement.weights_volume_bytes >= least > 0
    without = make_plan(DOCUMENT).placement
    assert without is not None
    assert without.weights_volume_bytes == 0


def test_tokens_are_references_to_secrets_f011() -> None:
    """F011: a token under the wrong name, as plain text, or as the word `None`."""
    environment = {variable["name"]: variable for variable in engine(max_plan())["env"]}
    wanted = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}
    assert environment["HF_TOKEN"] == wanted
    assert "HUGGING_FACE_HUB_TOKEN" not in environment
    assert all(variable.get("value") not in ("None", "") for variable in environment.values())


def test_without_a_token_there_is_no_variable_for_it_f011() -> None:
    document = {"name": "chat", "model": {"id": "some/model"}, "target": {"option": "kubernetes"}}
    names = [variable["name"] for variable in engine(sample_plan(document))["env"]]
    assert "HF_TOKEN" not in names


def test_shared_memory_is_memory_with_a_limit() -> None:
    volumes = by_role(sample_plan())["deployment"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}} in volumes


def test_host_resources_are_the_planned_ones() -> None:
    resources = engine(sample_plan())["resources"]
    assert resources["requests"] == {"cpu": "8", "memory": "60Gi", "ephemeral-storage": "60Gi"}
    assert resources["limits"] == {"memory": "80Gi", "ephemeral-storage": "60Gi", "nvidia.com/gpu": "2"}


@pytest.mark.parametrize(("size", "text"), [(60 * GIB, "60Gi"), (GIB // 2, "512Mi"), (GIB + 1, "1025Mi")])
def test_a_size_is_never_rounded_down(size: int, text: str) -> None:
    plan = sample_plan(architecture={"memory_request_bytes": size, "memory_limit_bytes": size})
    assert engine(plan)["resources"]["limits"]["memory"] == text


def test_a_replica_leaves_the_service_before_it_is_told_to_stop() -> None:
    """The engine refuses new requests once it drains, so it waits first; both fit into the grace period."""
    plan = sample_plan()
    wait = engine(plan)["lifecycle"]["preStop"]["sleep"]["seconds"]
    spec = by_role(plan)["deployment"]["spec"]["template"]["spec"]
    assert wait == 15
    assert wait + int(arguments(plan)["shutdown-timeout"]) < spec["terminationGracePeriodSeconds"] == 90


@pytest.mark.parametrize(("grace", "drain"), [(90, 60), (62, 60), (600, 580)])
def test_the_wait_before_stopping_never_eats_into_the_drain(grace: int, drain: int) -> None:
    plan = sample_plan(timeouts={"grace_s": grace, "drain_s": drain})
    assert 1 <= pre_stop_s(plan) <= 15
    assert pre_stop_s(plan) + drain <= grace


def test_the_rollout_is_the_planned_one_and_may_take_longer_than_a_start_f077() -> None:
    plan = sample_plan()
    spec = by_role(plan)["deployment"]["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert spec["progressDeadlineSeconds"] > plan.timeouts.startup_s


def test_a_stack_that_rests_at_zero_holds_no_deployment_up_f077() -> None:
    """F077: nothing becomes ready at zero replicas, so nobody waits for it; every other stack is waited
    for."""
    annotation = {"pulumi.com/skipAwait": "true"}
    assert by_role(max_plan())["deployment"]["metadata"]["annotations"] == annotation
    assert "annotations" not in by_role(sample_plan())["deployment"]["metadata"]


@every_plan
def test_replicas_go_to_gpu_nodes_spread_and_are_not_consolidated_away_f134(make) -> None:
    """F134: Karpenter may move a replica to a cheaper node, and pays with a cold start."""
    plan: ServingPlan = make()
    template = pod_template(plan)
    assert template["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert toleration in template["spec"]["tolerations"]
    keys = [each["topologyKey"] for each in template["spec"]["topologySpreadConstraints"]]
    assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert plan.placement is not None
    assert template["spec"].get("nodeSelector", {}) == plan.placement.node_selector


def test_pods_put_up_with_the_taints_that_the_nodes_are_said_to_have() -> None:
    """AKS' own guide taints GPU nodes `sku=gpu`, which the resource's key does not match."""
    taint = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
    node = {"accelerator": "a100-80gb", "gpus": 8, "count": 4, "cpu": 90, "memory": "900Gi"}
    node |= {"tolerations": [taint]}
    made = make_plan(DOCUMENT | {"hardware": {"nodes": [node]}})
    for role in ("deployment", "prepull"):
        assert taint | {"operator": "Equal"} in pods(made)[role]["spec"]["tolerations"]
    anything = sample_plan(placement={"tolerations": [{"key": "gpu"}]})
    assert {"key": "gpu", "operator": "Exists"} in pods(anything)["placeholder"]["spec"]["tolerations"]


def test_the_pod_template_knows_nothing_of_the_deployment_around_it() -> None:
    """So that a group of pods over several nodes can use it as it is."""
    plan = sample_plan()
    assert by_role(plan)["deployment"]["spec"]["template"] == pod_template(plan)
    assert pod_template(plan) == pod_template(sample_plan(rollout={"max_surge": 1, "max_unavailable": 0}))


def test_each_replica_has_an_address_so_that_the_front_door_sees_it() -> None:
    spec = by_role(sample_plan())["engine-service"]["spec"]
    assert spec["clusterIP"] == "None"
    assert "publishNotReadyAddresses" not in spec


def _expanded(text: str, variables: dict[str, str]) -> str:
    """What the kubelet makes of it, after kubernetes v1.36 third_party/forked/golang/expansion/expand.go."""
    out, at = "", 0
    while at < len(text):
        here, rest = text[at], text[at + 1 :]
        if here != "$" or not rest:
            out, at = out + here, at + 1
        elif rest[0] == "$":
            out, at = out + "$", at + 2
        elif rest[0] == "(" and ")" in rest:
            name = rest[1 : rest.index(")")]
            out, at = out + variables.get(name, f"$({name})"), at + 1 + rest.index(")") + 1
        else:
            out, at = out + text[at : at + 2], at + 2
    return out


@given(st.text(alphabet="$()AB ", max_size=12))
def test_what_a_user_writes_reaches_the_engine_as_it_was_written(written: str) -> None:
    """Kubernetes would put a variable's value, a token's among them, where `$(HF_TOKEN)` stands."""
    assert _expanded(literal(written), {"A": "secret", "B": "$(A)"}) == written


def test_arguments_and_variables_of_the_user_are_not_expanded() -> None:
    engine_settings = {
        "kind": "vllm",
        "extra_args": ["--chat-template=a$(HF_TOKEN)b"],
        "extra_env": {"NOTE": "$(HF_TOKEN)"},
    }
    found = engine(sample_plan(DOCUMENT | {"engine": engine_settings}))
    assert "--chat-template=a$$(HF_TOKEN)b" in found["args"]
    assert {"name": "NOTE", "value": "$$(HF_TOKEN)"} in found["env"]
