"""Short ways to make documents and candidates for the planner's tests."""

from __future__ import annotations

import dataclasses
from typing import Any

from servingstack import catalog
from servingstack.catalog import GIB, Gpu, Model
from servingstack.planner.load import Replica
from servingstack.planner.memory import (
    GPU_MEMORY_UTILIZATION,
    Footprint,
    Share,
    default_step_tokens,
    footprint,
    weights_total,
)
from servingstack.planner.performance import Speed, Wiring, speed
from servingstack.planner.precision import Served, served_on

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


def document(model: str = LLAMA_8B, /, **parts: Any) -> dict[str, Any]:
    """A document with `model.id`; further parts by name, `model` merged."""
    found: dict[str, Any] = {"name": "chat", "target": {"option": "kubernetes"}, **parts}
    found["model"] = {"id": model, **parts.get("model", {})}
    return found


def known(name: str) -> Model:
    found = catalog.model(name)
    assert found is not None, name
    return found


def on(gpu: Gpu, model: Model, precision: str | None = None) -> Served:
    found = served_on(gpu, model, model.precision if precision is None else precision)
    assert isinstance(found, Served), found
    return found


def filled(
    model: Model, gpu: Gpu, *, tp: int = 1, precision: str | None = None, step_tokens: int | None = None
) -> Footprint:
    """One GPU's memory with the planner's own settings."""
    tokens = default_step_tokens(gpu) if step_tokens is None else step_tokens
    served = on(gpu, model, precision)
    share = Share(
        tp=tp,
        pp=1,
        kv_bytes=2,
        utilization=GPU_MEMORY_UTILIZATION,
        step_tokens=tokens,
        weights=weights_total(model, served, 1.0),
    )
    return footprint(model, gpu, served, share)


def paced(model: Model, gpu: Gpu, *, tp: int = 1, precision: str | None = None) -> Speed:
    """Times of a model on a GPU."""
    served = on(gpu, model, precision)
    weights = weights_total(model, served, 1.0)
    return speed(model, gpu, served, Wiring(tp, 1, weights, 2, gpu.link_bytes_per_s, gpu.interconnect))


def replica(pace: Speed, gpu: Gpu, *, prompt: int, answer: int, places: int) -> Replica:
    """A replica with that traffic."""
    tokens = default_step_tokens(gpu)
    return Replica(
        speed=pace,
        input_tokens=prompt,
        cached_tokens=0,
        output_tokens=answer,
        step_tokens=tokens,
        places=places,
        prefill_s=pace.prefill(prompt, 0, tokens),
        work_s=pace.prefill_work(prompt, 0),
    )


def resized(gpu: Gpu, cuda_gib: float) -> Gpu:
    """A GPU that CUDA sees with so much memory."""
    size = round(cuda_gib * GIB)
    return dataclasses.replace(gpu, cuda_bytes=size, memory_bytes=round(size * 1.01))
