"""The engine and the control plane are the real ones, of the pinned versions, and leave nothing behind."""

import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest
from tests.engine.conftest import InlineStack

import toolchain
from local_cluster import COMPONENTS, Cluster, ClusterError

PINNED = {tool.name: tool for tool in toolchain.TOOLS}

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe"},
    "spec": {"containers": [{"name": "main", "image": "registry.example/none"}]},
}


def _until(ready: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ready():
            return True
        time.sleep(0.2)
    return False


def _deployment(name: str, gpus: int, product: str, replicas: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "registry.example/none",
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
    }
    spec = {
        "initContainers": [{"name": "first", "image": "registry.example/none"}],
        "containers": [container],
        "nodeSelector": {"nvidia.com/gpu.product": product},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.replace("_", "-")[:60].strip("-")
    cluster.kubectl("create", "namespace", name)
    assert _until(lambda: "default" in cluster.kubectl("get", "serviceaccounts", "-n", name, "-o", "name"))
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def test_engine_is_the_pinned_version(engine_env: dict[str, str]) -> None:
    said = subprocess.run(["pulumi", "version"], env=engine_env, capture_output=True, text=True, check=True)
    assert said.stdout.strip().removeprefix("v") == PINNED["pulumi"].bare_version


def test_provider_is_the_one_that_the_python_sdk_asks_for() -> None:
    """Another version would not be found offline: the engine looks for exactly the SDK's."""
    assert PINNED["pulumi-resource-kubernetes"].bare_version == importlib.metadata.version(
        "pulumi-kubernetes"
    )


def test_api_server_is_the_pinned_version(cluster: Cluster) -> None:
    served = json.loads(cluster.kubectl("version", "-o", "json"))["serverVersion"]
    assert served["gitVersion"] == PINNED["kube-apiserver"].version


def test_a_second_resolution_is_instant() -> None:
    started = time.monotonic()
    toolchain.resolve(["engine", "cluster"])
    assert time.monotonic() - started < 0.1


def test_without_go_the_error_says_what_to_do(tmp_path: Path) -> None:
    """An empty cache, no PATH and no network: nothing can be had, and the message names tool and remedy."""
    program = (
        "import toolchain; toolchain._from_download = lambda tool: False; raise SystemExit(toolchain.main())"
    )
    tools = str(Path(toolchain.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", program, "--group", "engine"],
        env={"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": tools},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pulumi v3.274.1: not on PATH" in done.stderr
    assert "Install Go" in done.stderr


def test_up_again_changes_nothing(cluster: Cluster) -> None:
    before = cluster.status()
    started = time.monotonic()
    assert cluster.up() == cluster.kubeconfig
    assert time.monotonic() - started < 2
    assert cluster.status() == before
    assert all(before.values())


def test_a_killed_component_comes_back(cluster: Cluster) -> None:
    scheduler = cluster.status()["kube-scheduler"]
    assert scheduler is not None
    os.kill(scheduler, 9)
    assert _until(lambda: cluster.status()["kube-scheduler"] is None)
    cluster.up()
    assert cluster.status()["kube-scheduler"] not in (None, scheduler)


def test_nodes_report_gpus_as_the_real_ones_do(cluster: Cluster) -> None:
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    gpus = {
        (
            node["metadata"]["labels"].get("nvidia.com/gpu.product"),
            node["status"]["allocatable"].get("nvidia.com/gpu"),
        )
        for node in nodes
    }
    assert gpus == {(None, None), ("NVIDIA-L4", "4"), ("NVIDIA-A100-SXM4-80GB", "8")}
    assert len({node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes}) == 2
    for node in nodes:
        ready = [each for each in node["status"]["conditions"] if each["type"] == "Ready"]
        assert [each["status"] for each in ready] == ["True"]


@pytest.mark.parametrize(
    "kind",
    [
        "scaledobjects.keda.sh",
        "servicemonitors.monitoring.coreos.com",
        "prometheusrules.monitoring.coreos.com",
        "leaderworkersets.leaderworkerset.x-k8s.io",
    ],
)
def test_add_ons_definitions_are_served(cluster: Cluster, kind: str) -> None:
    assert "No resources found" not in cluster.kubectl("explain", kind)


def test_restricted_namespace_refuses_a_privileged_pod(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    privileged = json.loads(json.dumps(POD))
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with pytest.raises(ClusterError, match='violates PodSecurity "restricted'):
        cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(privileged))


def test_a_misspelt_field_is_refused(cluster: Cluster, namespace: str) -> None:
    misspelt = {**POD, "spec": {**POD["spec"], "nodeSelectors": {"a": "b"}}}
    with pytest.raises(ClusterError, match=r'unknown field "spec.nodeSelectors"'):
        cluster.kubectl("create", "-n", namespace, "--validate=strict", "-f", "-", stdin=json.dumps(misspelt))


def test_a_gpu_pod_without_toleration_stays_pending(cluster: Cluster, namespace: str) -> None:
    pod = json.loads(json.dumps(POD))
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(pod))
    message = "{.status.conditions[?(@.type=='PodScheduled')].message}"

    def refused() -> bool:
        return "untolerated taint" in cluster.kubectl(
            "get", "pod", "probe", "-n", namespace, "-o", f"jsonpath={message}"
        )

    assert _until(refused)


def test_a_two_gpu_deployment_becomes_ready(cluster: Cluster, namespace: str) -> None:
    wanted = json.dumps(_deployment("two", gpus=2, product="NVIDIA-L4", replicas=3))
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=wanted)
    cluster.kubectl("rollout", "status", "deployment/two", "-n", namespace, "--timeout=60s")


def test_placeholder_pods_give_way_to_serving_ones(cluster: Cluster, namespace: str) -> None:
    """Warm standby: low-priority pods hold the GPUs until a replica needs them, by real preemption."""
    low = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "placeholder"},
        "value": -10,
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(low))
    holder = _deployment("holder", gpus=8, product="NVIDIA-A100-SXM4-80GB", replicas=2)
    holder["spec"]["template"]["spec"]["priorityClassName"] = "placeholder"
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(holder))
    cluster.kubectl("rollout", "status", "deployment/holder", "-n", namespace, "--timeout=60s")
    serving = _deployment("serving", gpus=8, product="NVIDIA-A100-SXM4-80GB")
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(serving))
    cluster.kubectl("rollout", "status", "deployment/serving", "-n", namespace, "--timeout=60s")
    left = cluster.kubectl(
        "get", "deployment", "holder", "-n", namespace, "-o", "jsonpath={.status.readyReplicas}"
    )
    assert left == "1"


def test_a_claim_is_bound(cluster: Cluster, namespace: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "weights"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "100Gi"}}},
    }
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(claim))
    cluster.kubectl(
        "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/weights", "-n", namespace, "--timeout=30s"
    )


def test_the_engine_makes_keeps_and_removes(cluster: Cluster, inline_stack: InlineStack) -> None:
    """Previewed, upped, previewed without changes, destroyed."""

    def program() -> None:
        wanted = pulumi.Config("probe").require_object("names")
        for name in wanted:
            k8s.core.v1.Namespace(name, metadata={"name": name})
        pulumi.export("count", len(wanted))

    stack = inline_stack("probe", "test", program, {"probe:names": ["probe-a", "probe-b"]})
    assert stack.preview().change_summary == {"create": 3}
    result = stack.up()
    assert "warning" not in result.stdout
    assert result.outputs["count"].value == 2
    assert "probe-a" in cluster.kubectl("get", "namespaces", "-o", "name")
    assert stack.preview(expect_no_changes=True).change_summary == {"same": 3}
    stack.destroy()
    assert "probe-a" not in cluster.kubectl("get", "namespaces", "-o", "name")


def test_down_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    other = Cluster(tmp_path)
    other.up()
    started = other.status()
    assert all(started[name] for name in COMPONENTS)
    # A crash: one component is gone without `down`, its pid file is stale.
    os.kill(started["kwok"] or 0, 9)
    other.down()
    assert not other.home.exists()
    for pid in started.values():
        assert str(tmp_path) not in _command_line(pid)
    other.down()


def test_a_stale_pid_of_a_stranger_is_left_alone(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        other = Cluster(tmp_path)
        (other.home / "pids").mkdir(parents=True)
        (other.home / "pids" / "etcd.pid").write_text(str(stranger.pid))
        assert other.status()["etcd"] is None
        other.down()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def _command_line(pid: int | None) -> str:
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_bytes().decode(errors="replace") if path.exists() else ""
