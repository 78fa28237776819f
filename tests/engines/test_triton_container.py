"""Triton's container: where the repository comes from, what is open, what /dev/shm needs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engines.triton_documents import document, model

from servingstack.engines import facts
from servingstack.engines.triton_release import UPSTREAM, VLLM
from servingstack.errors import InvalidInput
from servingstack.plan import Architecture, Container
from servingstack.planner import plan

MIB = 2**20


def _flags(container: Container) -> dict[str, str | None]:
    return {flag.name: flag.value for flag in container.flags}


def _refusals(asked: dict[str, Any]) -> str:
    with pytest.raises(InvalidInput) as caught:
        plan(asked)
    return str(caught.value)


def test_every_flag_is_one_of_the_pinned_release() -> None:
    known = facts.flags("triton", "26.08")
    asked = document(
        model(response_cache=True, instance_group=[{"priority": 1}]),
        engine={"grpc": True, "backend_config": {"python": {"stub-timeout-seconds": "60"}}},
    )
    flags = _flags(plan(asked).container)
    assert set(flags) <= set(known)
    for name, value in flags.items():
        assert (value is None) == (known[name].kind == "switch"), name
        assert not known[name].choices or value in known[name].choices


def test_models_are_loaded_once_and_nobody_can_change_them() -> None:
    container = plan(document(model())).container
    assert _flags(container)["model-control-mode"] == "none"
    assert _flags(container)["allow-client-shm"] == "false"
    assert "disable-auto-complete-config" in _flags(container)
    assert not [path for path in container.public_paths if "repository" in path or "logging" in path]


def test_clients_reach_inference_and_not_the_steps_of_an_ensemble() -> None:
    paths = plan(document(model(), model("other"))).container.public_paths
    assert {"/v2/models/classifier/infer", "/v2/models/other/infer", "/v2/health/ready"} <= set(paths)


def test_three_ports_and_metrics_on_their_own() -> None:
    container = plan(document(model(), engine={"grpc": True})).container
    assert (container.port, container.grpc_port, container.metrics_port) == (8000, 8001, 8002)
    flags = _flags(container)
    assert (flags["http-port"], flags["grpc-port"], flags["metrics-port"]) == ("8000", "8001", "8002")
    assert _flags(plan(document(model())).container)["allow-grpc"] == "false"


def test_shared_memory_holds_every_python_copy_twice_and_counts_in_the_limit_f019() -> None:
    def architecture(backend: str, count: int) -> Architecture:
        group = [{"count": count, "kind": "KIND_CPU"}]
        steps = [model(name, backend=backend, instance_group=group) for name in ("one", "two", "three")]
        return plan(document(model(), *steps)).architecture

    assert architecture("python", 2).shared_memory_bytes >= 2 * 64 * MIB * 6
    many, none = architecture("python", 12), architecture("onnxruntime", 12)
    assert many.shared_memory_bytes == 2 * 64 * MIB * 36
    grown = many.shared_memory_bytes - none.shared_memory_bytes
    assert many.memory_limit_bytes - none.memory_limit_bytes >= grown


def test_the_model_that_requests_call_runs_on_the_gpu_f018() -> None:
    assert "KIND_GPU" in _refusals(document(model(instance_group=[{"kind": "KIND_CPU"}])))


@pytest.mark.parametrize("source", ["s3://bucket/triton", "gs://bucket", "as://account/container/triton"])
def test_a_bucket_is_named_and_the_files_for_it_are_rendered(source: str) -> None:
    found = plan(document(model(), model={"source": source}))
    assert _flags(found.container)["model-repository"] == source
    assert set(found.container.repository_files) == {"classifier/config.pbtxt"}
    assert not found.container.files
    assert "repository-config" in {warning.code for warning in found.warnings}


def test_credentials_of_a_bucket_are_references() -> None:
    def container(source: str) -> Container:
        return plan(document(model(), model={"source": source}, engine={"storage_secret": "store"})).container

    s3 = {variable.name: variable for variable in container("s3://bucket/triton").env}
    assert s3["AWS_SECRET_ACCESS_KEY"].secret_name == "store"
    assert s3["AWS_SECRET_ACCESS_KEY"].value is None
    azure = {variable.name: variable for variable in container("as://account/box").env}
    assert azure["AZURE_STORAGE_ACCOUNT"].value == "account"
    assert azure["AZURE_STORAGE_KEY"].secret_key == "AZURE_STORAGE_KEY"
    google = container("gs://bucket")
    assert google.secret_files[0].secret_name == "store"
    variables = {variable.name: variable.value for variable in google.env}
    assert variables["GOOGLE_APPLICATION_CREDENTIALS"] == google.secret_files[0].path


def test_versions_of_a_volume_lie_beside_the_rendered_configuration() -> None:
    container = plan(document(model(version=3))).container
    assert container.volume_mounts == {"triton/classifier/3": "/models/classifier/3"}
    assert list(container.files) == ["/models/classifier/config.pbtxt"]
    assert _flags(container)["model-repository"] == "/models"


def test_a_small_model_can_be_given_as_files() -> None:
    files = {"1/model.py": "class TritonPythonModel: ...\n"}
    asked = document(model(backend="python", files=files), model={"source": "files"})
    container = plan(asked).container
    assert container.files["/models/classifier/1/model.py"] == files["1/model.py"]
    assert "files" in _refusals(document(model(), model={"source": "files"}))


def test_a_repository_with_its_own_configuration_is_taken_as_it_is() -> None:
    """`auto` too: vLLM could load nothing from there."""
    asked = document(model={"source": "s3://bucket/triton", "id": "acme/ranker"}, engine={"kind": "auto"})
    del asked["engine"]["models"]
    found = plan(asked)
    assert found.architecture.engine == "triton"
    assert not found.container.repository_files
    assert "disable-auto-complete-config" not in _flags(found.container)
    assert "/v2/models/ranker/infer" in found.container.public_paths


def test_the_warm_up_is_a_request_that_the_model_takes() -> None:
    warm_up = plan(document(model(max_batch_size=8))).container.warm_up
    assert warm_up.path == "/v2/models/classifier/infer"
    (sent,) = warm_up.body["inputs"]
    assert (sent["datatype"], sent["shape"], len(sent["data"])) == ("BYTES", [1, 1], 1)
    assert warm_up.requests >= 3


def test_what_has_no_json_form_is_warmed_by_its_health_alone() -> None:
    half = {"name": "X", "data_type": "TYPE_FP16", "dims": [4]}
    assert plan(document(model(input=[half]))).container.warm_up.requests == 0


def test_images_are_pinned_and_backends_are_in_them() -> None:
    assert plan(document(model())).container.image == UPSTREAM.reference
    assert "@sha256:" in VLLM.reference
    wrong = _refusals(document(model(backend="tensorrtllm")))
    assert "engine.image" in wrong


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("--model-repository=/x", "model.source"),
        ("--http-port=1", "planned ports"),
        ("--model-control-mode=poll", "once"),
        ("--log-verboze=1", "log-verbose"),
    ],
)
def test_flags_that_the_plan_holds_are_refused(argument: str, told: str) -> None:
    assert told in _refusals(document(model(), engine={"extra_args": [argument]}))


def test_a_free_flag_is_passed_on() -> None:
    flags = _flags(plan(document(model(), engine={"extra_args": ["--log-verbose=1"]})).container)
    assert flags["log-verbose"] == "1"


def test_an_engine_says_which_tasks_it_serves_and_who_serves_the_others() -> None:
    wrong = _refusals(document(model(), model={"task": "generate"}))
    assert "vllm" in wrong
    assert "sglang" in wrong
