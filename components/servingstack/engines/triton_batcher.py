"""Triton's settings as the planner reads them, and what a reviewer must know of a repository.

Trap: a model without a batch dimension, or with batching taken away, runs one request at a time per copy; the
plan counts it so, whatever the GPU could do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from servingstack.engines.batcher import Batcher
from servingstack.engines.triton import STORES, copies, scheme_of, settings_of, shared_memory
from servingstack.engines.triton_settings import PYTHON_BACKENDS, TritonModel
from servingstack.plan import PlanWarning

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs


def batcher(args: ServingStackArgs) -> Batcher:
    """What decides speed and memory."""
    settings = settings_of(args)
    given = args.hardware.gpus_per_replica
    gpus = 1 if given is None else given
    called = settings.called(args.model.id)
    planned = _planned(called, settings.models)
    steps = [model for model in settings.models if not model.ensemble]
    others = [model for model in steps if model is not planned]
    python = [model for model in steps if model.backend in PYTHON_BACKENDS]
    contexts = sum(copies(model, gpus, on_gpu=True) for model in python)
    index = settings.models.index(planned)
    dynamic = planned.dynamic_batching
    delay = dynamic.max_queue_delay if dynamic is not False else None
    unbatched = dynamic is False and planned.sequence_batching is None
    return Batcher(
        max_batch_size=1 if unbatched else _batch(planned),
        queue_delay_s=0.0 if unbatched else None if delay is None else delay.total_seconds(),
        copies=max(1, _per_gpu(planned, gpus)),
        contexts=1 + math.ceil(contexts / gpus),
        copy_bytes=planned.weight_bytes,
        other_bytes=sum(_per_gpu(model, gpus) * (model.weight_bytes or 0) for model in others),
        processes=1 + sum(copies(model, gpus) for model in python),
        shared_memory=shared_memory(settings, gpus),
        batch_path=f"engine.models[{index}].max_batch_size",
        delay_path=f"engine.models[{index}].dynamic_batching.max_queue_delay",
    )


def _per_gpu(model: TritonModel, gpus: int) -> int:
    return math.ceil(copies(model, gpus, on_gpu=True) / gpus)


def _planned(called: TritonModel, models: tuple[TritonModel, ...]) -> TritonModel:
    """The model whose batches are planned: the heaviest step of an ensemble, or the called one itself."""
    if not called.ensemble:
        return called
    names = {step.model_name for step in called.ensemble}
    steps = [model for model in models if model.name in names and not model.ensemble]
    return max(steps, key=lambda model: (model.weight_bytes or 0, model.backend not in PYTHON_BACKENDS))


def _batch(model: TritonModel) -> int | None:
    """The batch that is asked for, by itself or as the largest of the preferred ones."""
    if model.max_batch_size is not None:
        return max(1, model.max_batch_size)
    return model.largest_preferred if model.largest_preferred else None


def warnings(args: ServingStackArgs) -> tuple[PlanWarning, ...]:
    """A bucket's files are its own, gRPC passes by the front door, and a model that is not batched wastes a
    GPU."""
    settings, found = settings_of(args), list[PlanWarning]()
    if scheme_of(args.model.source) in STORES and settings.models:
        message = (
            "A bucket's own config.pbtxt decides. Put the planned ones there before you deploy; "
            "`plan --json` has them under container.repository_files."
        )
        found.append(PlanWarning(code="repository-config", path="model.source", message=message))
    if settings.grpc:
        message = (
            "gRPC listens inside the replica alone: it would pass by the front door's time limits, its queue "
            "and its key, so nothing outside may reach it."
        )
        found.append(PlanWarning(code="grpc-past-front-door", path="engine.grpc", message=message))
    for index, model in enumerate(settings.models):
        if model.ensemble or model.sequence_batching is not None:
            continue
        if model.dynamic_batching is False or model.max_batch_size == 0:
            path = f"engine.models[{index}].dynamic_batching"
            message = (
                f"{model.name} runs one request at a time per copy: the GPU is used at a fraction of what it "
                "can do. Give it a batch dimension and dynamic batching."
            )
            found.append(PlanWarning(code="unbatched-model", path=path, message=message))
    return tuple(found)
