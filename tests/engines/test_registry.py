"""Every engine against every option, from the registries alone."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from tests.engines.triton_documents import document, model

from servingstack.args import ServingStackArgs
from servingstack.engines import sglang
from servingstack.engines.registry import ENGINES, kind_of
from servingstack.errors import InvalidInput
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets import all_capabilities
from servingstack.targets.kubernetes.manifests import manifests
from servingstack.targets.kubernetes.workload import pre_stop_s

IMAGE = "registry.example.com/serve:0.12.0-gpu@sha256:" + "a" * 64
DIGITS = {"name": "X", "data_type": "TYPE_FP32", "dims": [4]}
ASKED: dict[str, dict[str, Any]] = {
    "vllm": {"model": {"id": "Qwen/Qwen2.5-7B-Instruct"}, "engine": {"kind": "vllm"}},
    "sglang": {"model": {"id": "Qwen/Qwen2.5-7B-Instruct"}, "engine": {"kind": "sglang"}},
    "triton": document(model(input=[DIGITS])),
    "torchserve": {
        "model": {"id": "digits", "task": "classify", "parameters": "66M", "source": "pvc://models/archives"},
        "traffic": {"input_tokens": 128},
        "engine": {"kind": "torchserve", "image": IMAGE, "archive": "digits.mar", "warm_up": {"data": [0]}},
    },
}
CAN = {can.option: can for can in all_capabilities() if not can.published}
REFUSED = {(kind, "sagemaker") for kind in ("sglang", "triton", "torchserve")}
"""AWS builds no image of them that takes its variables for flags."""
PAIRS = [(kind, option) for kind in ENGINES for option in CAN if (kind, option) not in REFUSED]
SETTINGS: dict[str, dict[str, Any]] = {
    # Cloud Run pulls from few registries by itself.
    "cloud-run": {"cloud_run": {"image_repository": "europe-docker.pkg.dev/project/mirror"}},
    "container-apps": {"container_apps": {"subnet": True, "storage_account": "models"}},
}
SMALL = {"id": "Qwen/Qwen2.5-1.5B-Instruct"}
"""Fits the disk that a replica of any service has."""


def _asked(kind: str, option: str) -> dict[str, Any]:
    """With whole-request engines' models where the option brings them from."""
    asked = {"name": "served", **ASKED[kind], "target": {"option": option}}
    if option == "kubernetes":
        return asked | {"hardware": {"accelerators": ["l4"]}}
    # Cloud Run's L4s have a driver on which not every engine's image runs.
    asked["hardware"] = {"accelerators": ["rtx-pro-6000"]} if option == "cloud-run" else {}
    if ENGINES[kind].batcher is None:
        asked["model"] = SMALL
    else:
        scheme = next(iter(CAN[option].directories))
        asked["model"] = {**asked["model"], "source": f"{scheme}://models/archives"}
        asked["target"] = {"option": option, **SETTINGS.get(option, {})}
    return asked


def _planned(kind: str, option: str) -> ServingPlan:
    return plan(_asked(kind, option))


@pytest.mark.parametrize(("kind", "option"), sorted(REFUSED))
def test_an_engine_without_an_image_for_a_service_is_refused_with_what_serves(kind: str, option: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        _planned(kind, option)
    found = next(each for each in caught.value.violations if each.path == "engine.kind")
    assert "vllm" in found.allowed
    assert "kubernetes" in found.fix


@pytest.mark.parametrize(("kind", "option"), [pair for pair in PAIRS if pair[1] != "kubernetes"])
def test_a_volume_that_an_option_cannot_mount_is_refused_with_the_options_that_can(
    kind: str, option: str
) -> None:
    asked = _asked(kind, option)
    asked["model"] = {**asked["model"], "source": "pvc://models/archives"}
    asked["target"].pop("container_apps", None)  # whose account goes with a share
    with pytest.raises(InvalidInput) as caught:
        plan(asked)
    found = next(each for each in caught.value.violations if each.path == "model.source")
    assert "kubernetes" in found.fix
    for scheme in CAN[option].directories:
        assert f"{scheme}://" in found.allowed


@pytest.mark.parametrize(("kind", "option"), PAIRS)
def test_an_engine_runs_on_every_option_whose_tasks_it_serves(kind: str, option: str) -> None:
    found = _planned(kind, option)
    assert found.architecture.engine == kind
    assert found.architecture.task in ENGINES[kind].tasks
    # A vendor's tags never move, and their digests differ by region.
    assert CAN[option].image_family != "upstream" or "@sha256:" in found.container.image
    assert found.container.warm_up.requests > 0
    assert found.container.health_path in found.container.public_paths
    assert found.batching.kind == ("continuous" if ENGINES[kind].batcher is None else "dynamic")
    watched = {signal.id for signal in found.monitoring.signals}
    missing = {each.signal for each in found.monitoring.unavailable}
    assert watched | missing >= {"queue_depth", "error_rate", "gpu_memory"}
    assert "error_rate" in watched


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_its_manifests_pass_the_strict_schema(kind: str, version: str) -> None:
    for each in manifests(_planned(kind, "kubernetes")):
        if "." not in each.api_version or each.api_version.endswith(".k8s.io/v1"):
            kubernetes_validate.validate(each.body, version, strict=True)


@pytest.mark.parametrize("kind", ENGINES)
def test_ports_meet_from_the_flag_to_the_monitor(kind: str) -> None:
    found = _planned(kind, "kubernetes")
    bodies = {each.role: each.body for each in manifests(found)}
    (container,) = bodies["deployment"]["spec"]["template"]["spec"]["containers"]
    open_ports = {row["containerPort"] for row in container["ports"]}
    metrics = found.container.metrics_port
    assert open_ports == {found.container.port} | (set() if metrics is None else {metrics})
    assert container["readinessProbe"]["httpGet"]["port"] == found.container.port
    service = {row["name"]: row["targetPort"] for row in bodies["engine-service"]["spec"]["ports"]}
    scraped = bodies["engine-monitor"]["spec"]["endpoints"][0]["port"]
    assert service[scraped] == (found.container.port if metrics is None else metrics)
    let_in = {row["port"] for rule in bodies["network-engine"]["spec"]["ingress"] for row in rule["ports"]}
    assert let_in == open_ports


@pytest.mark.parametrize("kind", ENGINES)
def test_a_stopping_replica_is_not_killed_before_drain_and_stop_are_over(kind: str) -> None:
    """The kubelet counts the wait before SIGTERM into the grace period."""
    found = _planned(kind, "kubernetes")
    left = found.timeouts.grace_s - pre_stop_s(found)
    assert left >= found.timeouts.drain_s + ENGINES[kind].stop_s
    assert pre_stop_s(found) >= 15, "the Service's endpoints are told first"


def test_sglang_says_how_long_its_schedulers_may_take_to_end() -> None:
    assert ENGINES["sglang"].stop_s == sglang.STOP_S > 0


@pytest.mark.parametrize("kind", ENGINES)
def test_every_file_is_mounted_where_the_engine_looks(kind: str) -> None:
    found = _planned(kind, "kubernetes")
    bodies = {each.role: each.body for each in manifests(found)}
    (container,) = bodies["deployment"]["spec"]["template"]["spec"]["containers"]
    mounts = {row["mountPath"]: row for row in container["volumeMounts"]}
    for path, text in found.container.files.items():
        assert bodies["warm-up"]["data"][mounts[path]["subPath"]] == text
    for below, path in found.container.volume_mounts.items():
        assert mounts[path] == {"name": "model", "mountPath": path, "subPath": below, "readOnly": True}


def test_auto_takes_what_can_load_the_model() -> None:
    def kind(**fields: Any) -> str:
        return kind_of(
            ServingStackArgs.parse({"name": "a", "target": {}, "model": {"id": "acme/model", **fields}})
        )

    assert kind() == "vllm"
    assert kind(task="generate", source="pvc://weights") == "vllm"
    assert kind(task="classify", source="s3://bucket/models") == "triton"
    assert kind(task="other", source="pvc://models/triton") == "triton"


def test_torchserve_is_warned_of_wherever_it_is_asked_for() -> None:
    assert any("TorchServe" in warning.message for warning in _planned("torchserve", "kubernetes").warnings)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_task_that_an_engine_has_not_is_refused_with_engines_that_have_it(kind: str) -> None:
    missing = {"generate", "embed", "classify", "other"} - set(ENGINES[kind].tasks)
    for task in missing:
        asked = ASKED[kind] | {"model": ASKED[kind]["model"] | {"task": task}}
        with pytest.raises(InvalidInput) as caught:
            plan({"name": "served", **asked, "target": {"option": "kubernetes"}})
        assert any(task in engine.tasks and other in str(caught.value) for other, engine in ENGINES.items())
