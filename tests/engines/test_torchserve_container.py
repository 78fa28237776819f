"""TorchServe's container and files: what is open, what is closed, how a batch forms, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.engines.conftest import architecture, args, batching, timeouts

from servingstack.args import ServingStackArgs
from servingstack.engines import facts, torchserve, torchserve_config
from servingstack.engines.torchserve import VERSION, TorchServeSettings
from servingstack.errors import Infeasible
from servingstack.plan import Container, ServingPlan
from servingstack.planner import plan

EXAMPLE = Path(__file__).parents[2] / "examples" / "torchserve-classifier"
IMAGE = "pytorch/torchserve:0.12.0-gpu@sha256:" + "ab" * 32
MODEL = {"id": "classifier", "source": "pvc://models/store", "task": "classify", "parameters": "17M"}
KNOWN = json.loads(
    (Path(facts.__file__).parent / "data" / f"torchserve-{VERSION}.flags.json").read_text(encoding="utf-8")
)


def settings(**changes: Any) -> TorchServeSettings:
    fields = {"kind": "torchserve", "image": IMAGE, "archive": "classifier.mar", "warm_up": {"text": "a"}}
    return TorchServeSettings.model_validate({**fields, **changes})


def asked(engine: Mapping[str, Any] | None = None, **changes: Any) -> ServingStackArgs:
    document = args(**{"model": MODEL, **changes})
    return document.model_copy(update={"engine": settings(**(engine or {}))})


def described(engine: Mapping[str, Any] | None = None, **parts: dict[str, Any]) -> Container:
    return torchserve.container(
        asked(engine),
        architecture(**{"gpus_per_replica": 1, "task": "classify", **parts.get("architecture", {})}),
        batching(**{"kind": "dynamic", "max_num_seqs": 32, "queue_delay_ms": 5, **parts.get("batching", {})}),
        timeouts(),
    )


def properties(found: Container) -> dict[str, str]:
    text = found.files["/etc/torchserve/config.properties"]
    return dict(line.split("=", 1) for line in text.splitlines())


def numbers(found: Container) -> dict[str, Any]:
    return json.loads(properties(found)["models"])["classifier"]["1.0"]


def test_the_command_line_is_one_that_the_release_takes() -> None:
    found = described()
    assert found.command[:2] == ("sh", "-c")
    assert found.command[3] == "torchserve"
    for flag in found.flags:
        kind = KNOWN["flags"][f"--{flag.name}"]["kind"]
        assert (flag.value is None) == (kind == "switch"), flag.name
    assert not {"disable-token-auth", "enable-model-api"} & {flag.name for flag in found.flags}


def test_every_property_is_one_of_the_releases_own() -> None:
    assert set(properties(described())) <= set(KNOWN["properties"])
    assert set(numbers(described())) <= set(KNOWN["model_properties"])


class TestF025Addresses:
    def test_inference_and_metrics_are_reachable_from_other_pods_and_management_is_not(self) -> None:
        found = properties(described())
        assert found["inference_address"] == "http://0.0.0.0:8080"
        assert found["metrics_address"] == "http://0.0.0.0:8082"
        assert found["management_address"] == "http://127.0.0.1:8081"
        assert found["grpc_inference_address"] == found["grpc_management_address"] == "127.0.0.1"

    def test_the_containers_ports_are_those_of_the_configuration(self) -> None:
        found = described()
        assert properties(found)["inference_address"].endswith(f":{found.port}")
        assert properties(found)["metrics_address"].endswith(f":{found.metrics_port}")
        assert found.grpc_port is None


class TestF024RuntimeRegistration:
    def test_models_are_named_at_startup_and_none_can_be_registered_later(self) -> None:
        found = properties(described())
        assert found["load_models"] == "classifier=classifier.mar"
        assert found["enable_model_api"] == "false"

    def test_no_address_is_allowed_to_load_from(self) -> None:
        allowed = properties(described())["allowed_urls"]
        assert allowed == "(?!)"
        assert "file" not in allowed
        assert "http" not in allowed

    def test_no_variable_can_open_what_the_file_closes(self) -> None:
        assert properties(described())["enable_envvars_config"] == "false"

    def test_clients_may_predict_and_nothing_else(self) -> None:
        assert described().public_paths == ("/predictions/classifier", "/ping")


class TestF026Workers:
    def test_the_least_and_the_most_workers_are_said_and_alike(self) -> None:
        found = described({"workers": 2}, architecture={"gpus_per_replica": 2})
        assert numbers(found)["minWorkers"] == numbers(found)["maxWorkers"] == 4
        assert properties(found)["default_workers_per_model"] == "4"

    def test_a_5_gb_model_runs_twice_on_a_t4_and_not_three_times(self) -> None:
        """Each worker is a process with the weights and a CUDA context of its own."""
        document = {
            "name": "classifier",
            "target": {"option": "kubernetes"},
            "model": {**MODEL, "parameters": "2.5B", "weight_bytes": "5GB"},
            "traffic": {"input_tokens": 16, "requests_per_second": 1},
            "hardware": {"accelerators": ["t4"]},
        }

        def planned(workers: int) -> ServingPlan:
            engine = settings(workers=workers).model_dump(exclude_unset=True)
            return plan({**document, "engine": engine})

        assert planned(2).batching.kind == "dynamic"
        with pytest.raises(Infeasible) as caught:
            planned(3)
        assert "3 copies of the weights take 14.0" in str(caught.value)
        assert "CUDA contexts 4.2" in str(caught.value)


def test_the_numbers_are_the_planners_unless_given() -> None:
    planned = numbers(described())
    assert planned == {
        "defaultVersion": True,
        "marName": "classifier.mar",
        "minWorkers": 1,
        "maxWorkers": 1,
        "batchSize": 32,
        "maxBatchDelay": 5,
        "responseTimeout": 30,
        "startupTimeout": 900,
    }
    given_ = {"batch_size": 8, "max_batch_delay": "20ms", "response_timeout": "2s", "startup_timeout": "90s"}
    found = numbers(described(given_))
    assert (found["batchSize"], found["maxBatchDelay"]) == (8, 20)
    assert (found["responseTimeout"], found["startupTimeout"]) == (2, 90)


def test_a_delay_of_zero_is_never_written_since_it_means_a_hundred_milliseconds() -> None:
    assert numbers(described(batching={"queue_delay_ms": 0}))["maxBatchDelay"] == 1
    assert numbers(described(batching={"queue_delay_ms": 0.2}))["maxBatchDelay"] == 1
    with pytest.raises(ValidationError, match="at least 1ms"):
        settings(max_batch_delay="500us")


def test_a_part_of_a_second_is_rounded_up() -> None:
    assert numbers(described({"response_timeout": "1500ms"}))["responseTimeout"] == 2


def test_the_queue_holds_two_batches_for_each_worker() -> None:
    assert properties(described())["job_queue_size"] == "100"
    assert properties(described({"batch_size": 64, "workers": 2}))["job_queue_size"] == "256"


def test_the_body_limit_is_the_front_doors() -> None:
    from servingstack.plan import FrontDoor

    assert FrontDoor.model_fields["max_body_bytes"].default == torchserve_config.MAX_BODY_BYTES
    assert properties(described())["max_request_size"] == str(16 * 1024 * 1024)


def test_metrics_are_in_prometheus_mode_and_system_metrics_are_left_to_the_exporters() -> None:
    found = properties(described())
    assert found["metrics_mode"] == "prometheus"
    assert found["disable_system_metrics"] == "true"


def test_logs_go_to_the_console_alone() -> None:
    root = ElementTree.fromstring(described().files["/etc/torchserve/log4j2.xml"])
    assert [item.tag for item in root.findall("./Appenders/*")] == ["Console"]
    assert {item.attrib["ref"] for item in root.iter("AppenderRef")} == {"STDOUT"}


def test_the_warm_up_reaches_every_worker_by_the_handlers_own_body() -> None:
    found = described({"workers": 2, "warm_up": {"text": "hello"}})
    assert found.warm_up.body == {"text": "hello"}
    assert found.warm_up.requests == 6
    assert found.warm_up.path in found.public_paths


def test_a_stopping_replica_goes_on_for_the_whole_drain() -> None:
    assert 'trap "sleep 60; exit 0" TERM' in described().command[2]


def test_all_that_is_written_lies_where_writing_is_allowed() -> None:
    found = described()
    env = {variable.name: variable.value for variable in found.env}
    for name in ("TEMP", "LOG_LOCATION", "METRICS_LOCATION", "HOME", "TORCH_HOME"):
        assert str(env[name]).startswith((*found.writable_paths, found.cache_path)), name
    assert found.model_path == "/models"
    assert properties(found)["model_store"] == "/models/store"


def test_a_store_may_be_a_whole_volume() -> None:
    whole = asked(model={**MODEL, "source": "pvc://models"})
    found = torchserve.container(whole, architecture(gpus_per_replica=1), batching(), timeouts())
    assert properties(found)["model_store"] == "/models"


def test_the_examples_model_config_is_what_its_plan_renders() -> None:
    document = yaml.safe_load((EXAMPLE / "stack.yaml").read_text(encoding="utf-8"))
    engine = TorchServeSettings.model_validate(document.pop("engine"))
    parsed = ServingStackArgs.parse(document).model_copy(update={"engine": engine})
    assert torchserve.violations(parsed) == []
    served = torchserve.served(parsed, architecture(gpus_per_replica=1), batching(), timeouts())
    rendered = torchserve_config.model_config(served)
    assert (EXAMPLE / "model-config.yaml").read_text(encoding="utf-8") == rendered
    assert yaml.safe_load(rendered) == served.numbers()


class TestRefusals:
    def test_a_repository_of_the_hub_is_no_store(self) -> None:
        (found,) = torchserve.violations(asked(model={**MODEL, "source": "hf"}))
        assert found.value == "hf"
        assert found.path == "model.source"
        assert "pvc://" in found.fix

    @pytest.mark.parametrize("task", [None, "generate"])
    def test_a_model_that_generates_is_served_by_another_engine(self, task: str | None) -> None:
        (found,) = torchserve.violations(asked(model={**MODEL, "task": task}))
        assert found.path == "model.task"
        assert "vllm" in found.fix

    def test_a_delay_beyond_the_request_timeout_is_refused(self) -> None:
        (found,) = torchserve.violations(asked({"max_batch_delay": "10s"}, request_timeout="5s"))
        assert found.path == "engine.max_batch_delay"
        assert torchserve.violations(asked({"max_batch_delay": "10ms"}, request_timeout="5s")) == []

    @pytest.mark.parametrize("image", ["pytorch/torchserve:latest-gpu", "pytorch/torchserve:0.12.0-gpu", ""])
    def test_an_image_without_a_digest_is_refused_with_how_to_get_one(self, image: str) -> None:
        with pytest.raises(ValidationError, match="imagetools inspect"):
            settings(image=image)

    @pytest.mark.parametrize(
        "archive", ["classifier", "../classifier.mar", "a/b.mar", "a,b.mar", "a=b.mar", "http://x/a.mar"]
    )
    def test_an_archive_is_a_file_of_the_store(self, archive: str) -> None:
        with pytest.raises(ValidationError):
            settings(archive=archive)

    @pytest.mark.parametrize("name", ["TS_ENABLE_MODEL_API", "TEMP", "API_TOKEN", "1A"])
    def test_a_variable_of_the_plan_or_with_a_secret_is_refused(self, name: str) -> None:
        with pytest.raises(ValidationError):
            settings(extra_env={name: "x"})
        assert settings(extra_env={"OMP_NUM_THREADS": "1"}).extra_env == {"OMP_NUM_THREADS": "1"}


def test_the_plan_is_warned_that_nobody_maintains_this_engine() -> None:
    (found,) = torchserve.warnings(asked())
    assert found.code == "engine-unmaintained"
    assert "no security patches" in found.message
    assert torchserve.warnings(args()) == ()


def test_it_is_never_chosen_by_itself() -> None:
    with pytest.raises(TypeError, match="never chosen"):
        torchserve.container(args(), architecture(), batching(), timeouts())


def test_an_images_tag_tells_its_release() -> None:
    assert torchserve.engine_image(settings()) == (IMAGE, "0.12.0")
    assert torchserve.engine_image(settings(image="own/ts@sha256:" + "0" * 64))[1] is None


@given(
    st.integers(1, 512),
    st.timedeltas(timedelta(milliseconds=1), timedelta(seconds=20)),
    st.integers(1, 8),
    st.integers(1, 8),
)
def test_the_file_holds_one_property_a_line_and_json_that_reads_back(
    batch: int, delay: timedelta, workers: int, gpus: int
) -> None:
    found = described(
        {"batch_size": batch, "max_batch_delay": delay, "workers": workers},
        architecture={"gpus_per_replica": gpus},
    )
    model = numbers(found)
    assert model["batchSize"] == batch
    assert model["maxBatchDelay"] >= 1
    assert model["minWorkers"] == model["maxWorkers"] == workers * gpus
    assert int(properties(found)["job_queue_size"]) >= 2 * batch * workers * gpus
    assert all(value for value in properties(found).values())
