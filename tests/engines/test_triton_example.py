"""The example's model.py, run against a stub of the backend's utilities that behaves as its documentation
says."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2 as pb

REPOSITORY = Path(__file__).parents[2] / "examples" / "triton-classifier" / "model_repository"


class Tensor:
    def __init__(self, name: str, array: Any) -> None:
        self._name, self._array = name, array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        return self._array


class InferenceRequest:
    def __init__(self, **tensors: Any) -> None:
        self.tensors = tensors


class InferenceResponse:
    def __init__(self, output_tensors: list[Tensor]) -> None:
        self.tensors = output_tensors


def _utilities() -> types.ModuleType:
    """`triton_python_backend_utils`: these five, as python_backend's src/resources has them."""
    stub = types.ModuleType("triton_python_backend_utils")
    kinds = {"TYPE_FP32": np.float32, "TYPE_STRING": np.object_}
    stub.Tensor = Tensor  # type: ignore[attr-defined]
    stub.InferenceResponse = InferenceResponse  # type: ignore[attr-defined]
    stub.get_input_tensor_by_name = lambda request, name: Tensor(  # type: ignore[attr-defined]
        name, request.tensors[name]
    )
    stub.get_output_config_by_name = lambda config, name: next(  # type: ignore[attr-defined]
        (row for row in config["output"] if row["name"] == name), None
    )
    stub.triton_string_to_numpy = kinds.__getitem__  # type: ignore[attr-defined]
    return stub


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", _utilities())
    path = REPOSITORY / "text_classifier" / "1" / "model.py"
    spec = importlib.util.spec_from_file_location("triton_example_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (REPOSITORY / "text_classifier" / "config.pbtxt").read_text(encoding="utf-8")
    config = json_format.MessageToDict(
        text_format.Parse(text, pb.ModelConfig()), preserving_proto_field_name=True
    )
    found = module.TritonPythonModel()
    found.initialize(
        {
            "model_config": json.dumps(config),
            "model_instance_kind": "CPU",
            "model_instance_device_id": "0",
            "model_repository": str(REPOSITORY / "text_classifier"),
            "model_version": "1",
            "model_name": "text_classifier",
        }
    )
    return found


def _request(*texts: str) -> InferenceRequest:
    return InferenceRequest(TEXT=np.array([[text.encode()] for text in texts], dtype=np.object_))


def test_each_request_gets_its_own_rows_in_order(model: Any) -> None:
    answers = model.execute([_request("a good day"), _request("two", "three words here"), _request("")])
    shapes = [answer.tensors[0].as_numpy().shape for answer in answers]
    assert shapes == [(1, 10), (2, 10), (1, 10)]
    together = np.concatenate([answer.tensors[0].as_numpy() for answer in answers])
    alone = np.concatenate(
        [model.execute([_request(text)])[0].tensors[0].as_numpy() for text in ("a good day", "two")]
    )
    np.testing.assert_allclose(together[:2], alone, rtol=1e-6)


def test_scores_are_what_the_configuration_promises(model: Any) -> None:
    (answer,) = model.execute([_request(*[f"text {number}" for number in range(64)])])
    (tensor,) = answer.tensors
    scores = tensor.as_numpy()
    assert tensor.name() == "SCORES"
    assert scores.dtype == np.float32
    assert scores.shape == (64, 10)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, rtol=1e-5)
    assert (scores >= 0).all()


def test_the_warm_up_of_the_plan_is_a_request_that_it_answers(model: Any) -> None:
    from servingstack.planner import plan

    asked = yaml.safe_load((REPOSITORY.parent / "stack.yaml").read_text(encoding="utf-8"))
    (sent,) = plan(asked).container.warm_up.body["inputs"]
    rows = np.array(sent["data"], dtype=np.object_).reshape(sent["shape"])
    encoded = np.vectorize(str.encode, otypes=[np.object_])(rows)
    (answer,) = model.execute([InferenceRequest(TEXT=encoded)])
    assert answer.tensors[0].as_numpy().shape == (1, 10)
    model.finalize()
