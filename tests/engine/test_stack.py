"""One stack's life on the real engine and the real API server: strictly valid, admitted, deployed, unchanged,
changed, scaled by somebody else, and gone.

Trap: the simulated kubelets run nothing, so probes, images and drains are not tested here; admission,
defaults, scheduling and field ownership are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import automation
from tests.engine.conftest import InlineStack
from tests.targets.kubernetes.bodies import PLANS, planned, pods

from local_cluster import Cluster, ClusterError
from local_engine import LocalEngine
from servingstack import ServingStack
from servingstack.planner import plan
from servingstack.targets.kubernetes.manifests import manifests

MARKER = "marker-that-must-not-be-in-any-state"
NODES = [
    {
        "accelerator": "l4",
        "gpus": 4,
        "count": 2,
        "cpu": 47,
        "memory": "172Gi",
        "selector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
    },
    {
        "accelerator": "a100-80gb",
        "form": "sxm",
        "gpus": 8,
        "count": 2,
        "cpu": 95,
        "memory": "1036Gi",
        "selector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
    },
]


def document(namespace: str, **changes: Any) -> dict[str, Any]:
    """A small model on the nodes of the local cluster."""
    return {
        "name": "chat",
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 8192},
        "target": {"option": "kubernetes", "kubernetes": {"namespace": namespace}},
        "slo": {"ttft_p95": "2s", "tpot_p95": "80ms"},
        "traffic": {"requests_per_second": 1, "input_tokens": 512, "output_tokens": 128},
        "hardware": {"nodes": NODES},
        "scaling": {"min_replicas": 2, "max_replicas": 4},
    } | changes


class Deployed:
    """A stack whose document may change between two updates."""

    def __init__(self, cluster: Cluster, make: InlineStack, name: str) -> None:
        self.cluster = cluster
        self.namespace = name
        self.document = document(name)
        self.kubeconfig = cluster.kubeconfig.read_text() + f"\n# {MARKER}\n"
        self.stack = make("engine-suite", name, self.program)

    def program(self) -> None:
        stack = ServingStack(
            "chat", self.document, existing={"kubeconfig": pulumi.Output.secret(self.kubeconfig)}
        )
        pulumi.export("endpoint", stack.endpoint)
        pulumi.export("plan", stack.plan)

    def up(self) -> automation.UpResult:
        return self.stack.up(on_output=lambda _: None)

    def changes(self) -> dict[str, int]:
        """What a preview would do; what stays the same and what is only looked up is no change."""
        summary = self.stack.preview().change_summary
        return _without_reads({str(operation): count for operation, count in summary.items()})

    def steps(self) -> list[tuple[str, str]]:
        """Name and operation of everything that an update did, in order."""
        done: list[tuple[str, str]] = []

        def keep(event: automation.events.EngineEvent) -> None:
            if event.res_outputs_event is not None:
                step = event.res_outputs_event.metadata
                done.append((step.urn.rsplit("::", 1)[-1], step.op.value))

        self.stack.up(on_event=keep)
        return done

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return json.loads(self.cluster.kubectl("get", kind, name, "-n", self.namespace, "-o", "json"))

    def kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl(*arguments, "-n", self.namespace)


def _without_reads(operations: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in operations.items() if name not in ("same", "read")}


@pytest.fixture
def deployed(
    cluster: Cluster, inline_stack: InlineStack, request: pytest.FixtureRequest
) -> Iterator[Deployed]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-")
    own = Deployed(cluster, inline_stack, name)
    try:
        yield own
    finally:
        own.stack.destroy()
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def _until(ready: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ready():
            return True
        time.sleep(0.2)
    return False


# ---- what the API server says of each object
# ------------------------------------------------------------------


@pytest.fixture(scope="module")
def restricted(cluster: Cluster) -> str:
    """The namespace that the plans of the unit tests name, made from the manifest itself."""
    (namespace,) = [each for each in manifests(PLANS["defaults"]()) if each.role == "namespace"]
    _make_namespace(cluster, namespace.body)
    return namespace.name


def _make_namespace(cluster: Cluster, body: dict[str, Any]) -> None:
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(body))
    name = body["metadata"]["name"]
    assert _until(lambda: "default" in cluster.kubectl("get", "serviceaccounts", "-n", name, "-o", "name"))


def _applied_dry(cluster: Cluster, body: dict[str, Any]) -> str:
    options = ("--server-side", "--dry-run=server", "--validate=strict")
    return cluster.kubectl("apply", *options, "-f", "-", stdin=json.dumps(body))


RENDERED = {name: make() for name, make in PLANS.items()} | planned()


@pytest.mark.parametrize("name", RENDERED)
def test_the_api_server_takes_every_object_strictly(cluster: Cluster, restricted: str, name: str) -> None:
    """Unknown and doubled fields are errors, custom resources included."""
    found = manifests(RENDERED[name])
    for body in [each.body for each in found if each.role == "namespace"]:
        _make_namespace(cluster, body)
    for each in found:
        assert "serverside-applied" in _applied_dry(cluster, each.body)


def test_the_api_server_refuses_what_is_misspelt(cluster: Cluster, restricted: str) -> None:
    (scaler,) = [each.body for each in manifests(PLANS["defaults"]()) if each.role == "scaler"]
    wrong = scaler | {"spec": scaler["spec"] | {"minReplicasCount": 1}}
    with pytest.raises(ClusterError, match="minReplicasCount"):
        _applied_dry(cluster, wrong)


@pytest.mark.parametrize("name", PLANS)
def test_pod_security_restricted_admits_every_pod(cluster: Cluster, restricted: str, name: str) -> None:
    """Workloads only warn, pods are refused: so each template is sent as a pod."""
    plan_ = PLANS[name]()
    needed = [each.body for each in manifests(plan_) if each.kind in ("PriorityClass", "ServiceAccount")]
    for body in needed:
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(body))
    for role, template in pods(plan_).items():
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        pod["metadata"] = template["metadata"] | {"name": f"probe-{role}", "namespace": restricted}
        assert "created" in cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


def test_pod_security_refuses_a_pod_with_privileges(cluster: Cluster, restricted: str) -> None:
    template = pods(PLANS["defaults"]())["deployment"]
    spec = template["spec"] | {"hostNetwork": True}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bad", "namespace": restricted},
        "spec": spec,
    }
    with pytest.raises(ClusterError, match="violates PodSecurity"):
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


# ---- a stack's life
# ------------------------------------------------------------------------------------------


def test_a_stack_from_nothing_to_nothing(deployed: Deployed, engine: LocalEngine) -> None:
    planned = plan(deployed.document)

    previewed = deployed.changes()
    assert set(previewed) == {"create"}
    assert "NotFound" in _failure(lambda: deployed.get("namespace", deployed.namespace))

    result = deployed.up()
    assert _without_reads(dict(result.summary.resource_changes or {})) == previewed
    assert result.outputs["endpoint"].value["url"] == f"http://chat.{deployed.namespace}.svc:8080"
    engines = deployed.get("deployment", "chat-engine")
    assert engines["status"]["readyReplicas"] >= 1
    _runs_where_it_was_planned(deployed, planned)

    assert deployed.changes() == {}, "nothing changed, so nothing may be done"

    # The lists of a server-side apply belong to us; what Kubernetes or a user adds beside them does not.
    deployed.kubectl("annotate", "deployment", "chat-engine", "somebody=else")
    assert deployed.changes() == {}

    deployed.document |= {"request_timeout": "45s"}
    changed = deployed.changes()
    assert changed["replace"] == 1, "only the front door's files are another object"
    steps = deployed.steps()
    door = [name for name, _ in steps].index("chat-kubernetes-door")
    files = [operation for name, operation in steps[:door] if name == "chat-kubernetes-door-config"]
    assert "create-replacement" in files, "new files are there before the pods that mount them"
    assert "delete-replaced" not in files, "and the old ones stay for those that are left"
    mounted = deployed.get("deployment", "chat-door")["spec"]["template"]["spec"]["volumes"][0]["configMap"][
        "name"
    ]
    assert "timeout server 45s" in deployed.get("configmap", mounted)["data"]["haproxy.cfg"]
    assert deployed.changes() == {}

    state = "".join(path.read_text() for path in _state_files(engine))
    assert "chat-kubernetes-cluster" in state
    assert MARKER not in state

    deployed.stack.destroy()
    left = deployed.kubectl("get", "all,configmaps,networkpolicies,scaledobjects,pdb", "-o", "name").split()
    assert _until(lambda: not deployed.kubectl("get", "pods", "-o", "name"))
    assert [name for name in left if "chat" in name and not name.startswith("pod/")] == []
    assert deployed.get("namespace", deployed.namespace)["status"]["phase"] == "Active"


def _failure(call: Callable[[], Any]) -> str:
    with pytest.raises(ClusterError) as caught:
        call()
    return str(caught.value)


def _state_files(engine: LocalEngine) -> list[Path]:
    backend = Path(engine.env["PULUMI_BACKEND_URL"].removeprefix("file://"))
    return [path for path in backend.rglob("*.json*") if path.is_file()]


def _runs_where_it_was_planned(deployed: Deployed, planned: Any) -> None:
    listed = json.loads(
        deployed.kubectl("get", "pods", "-l", "app.kubernetes.io/component=vllm", "-o", "json")
    )
    gpus = {"l4": "NVIDIA-L4", "a100-80gb": "NVIDIA-A100-SXM4-80GB"}
    wanted = gpus[planned.architecture.accelerator]
    for pod in listed["items"]:
        node = json.loads(deployed.cluster.kubectl("get", "node", pod["spec"]["nodeName"], "-o", "json"))
        assert "nvidia.com/gpu" in node["status"]["capacity"]
        if planned.placement.node_selector:
            assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == wanted
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        assert limits["nvidia.com/gpu"] == str(planned.architecture.gpus_per_replica)


def test_what_the_autoscaler_set_stays_f059(deployed: Deployed) -> None:
    """F059: the count is another's; an update of other fields neither conflicts with it nor resets it."""
    deployed.up()
    deployed.kubectl("scale", "deployment", "chat-engine", "--replicas=3")
    assert _until(lambda: deployed.get("deployment", "chat-engine")["status"].get("readyReplicas") == 3)
    assert deployed.changes() == {}
    deployed.document |= {"request_timeout": "45s", "engine": {"kind": "vllm", "max_num_seqs": 8}}
    deployed.up()
    found = deployed.get("deployment", "chat-engine")
    assert found["spec"]["replicas"] == 3
    assert "--max-num-seqs=8" in found["spec"]["template"]["spec"]["containers"][0]["args"]


def test_a_fixed_count_becomes_scaled_without_a_dip_and_fixed_again_f059(deployed: Deployed) -> None:
    """Dropping `replicas` from an apply would set it back to one."""
    fixed = {"min_replicas": 2, "max_replicas": 2}
    deployed.document |= {"scaling": fixed}
    deployed.up()
    assert deployed.get("deployment", "chat-engine")["spec"]["replicas"] == 2
    deployed.document |= {"scaling": {"min_replicas": 2, "max_replicas": 4}}
    deployed.up()
    assert deployed.get("deployment", "chat-engine")["spec"]["replicas"] == 2
    assert deployed.get("scaledobject", "chat-scaler")["spec"]["maxReplicaCount"] == 4
    deployed.kubectl("scale", "deployment", "chat-engine", "--replicas=3")
    deployed.document |= {"scaling": fixed}
    deployed.up()
    assert deployed.get("deployment", "chat-engine")["spec"]["replicas"] == 2


def test_a_stack_that_rests_at_zero_does_not_block_f077(deployed: Deployed) -> None:
    """F077: nothing is ready at zero, and the update ends all the same."""
    deployed.document |= {
        "scaling": {"min_replicas": 0, "max_replicas": 2, "scale_to_zero_after": "30m"},
        "traffic": {"kind": "experiment", "requests_per_second": 0.1},
    }
    deployed.up()
    deployed.kubectl("scale", "deployment", "chat-engine", "--replicas=0")
    assert _until(lambda: not deployed.get("deployment", "chat-engine")["status"].get("readyReplicas"))
    deployed.document |= {"request_timeout": "45s"}
    started = time.monotonic()
    deployed.up()
    assert time.monotonic() - started < 60
    assert deployed.get("deployment", "chat-engine")["spec"]["replicas"] == 0


def test_two_stacks_share_a_namespace_and_one_goes_without_the_other(
    deployed: Deployed, inline_stack: InlineStack
) -> None:
    deployed.up()
    neighbour = Deployed(deployed.cluster, inline_stack, deployed.namespace)
    neighbour.document |= {"name": "other"}
    neighbour.stack = inline_stack("engine-suite", "neighbour", neighbour.program)
    neighbour.up()
    neighbour.stack.destroy()
    assert deployed.get("deployment", "chat-engine")["status"]["readyReplicas"] >= 1
    assert "NotFound" in _failure(lambda: deployed.get("deployment", "other-engine"))
    assert deployed.changes() == {}


def test_a_refused_input_is_a_clean_error_of_the_engine(deployed: Deployed) -> None:
    deployed.document |= {"trafic": {}}
    with pytest.raises(automation.CommandError) as caught:
        deployed.up()
    said = str(caught.value)
    assert "Did you mean `traffic`?" in said
    assert "Traceback" not in said
