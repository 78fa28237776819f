"""Inputs with a Triton repository, for tests."""

from __future__ import annotations

from typing import Any

TEXT = {"name": "TEXT", "data_type": "TYPE_STRING", "dims": [-1]}
SCORES = {"name": "SCORES", "data_type": "TYPE_FP32", "dims": [10]}


def model(name: str = "classifier", **fields: Any) -> dict[str, Any]:
    """One model of the repository."""
    return {"name": name, "backend": "onnxruntime", "input": [TEXT], "output": [SCORES], **fields}


def document(*models: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """A document; `model` and `engine` parts are merged."""
    base: dict[str, Any] = {
        "name": "classifier",
        "target": {"option": "kubernetes"},
        "traffic": {"requests_per_second": 100, "input_tokens": 128},
        "hardware": {"accelerators": ["l4"]},
        **parts,
    }
    base["model"] = {
        "id": "classifier",
        "task": "classify",
        "parameters": "66M",
        "source": "pvc://models/triton",
        **parts.get("model", {}),
    }
    base["engine"] = {"kind": "triton", "models": list(models), **parts.get("engine", {})}
    return base
