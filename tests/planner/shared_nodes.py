"""Documents with nodes whose GPUs are cut or shared, for the tests of parts of GPUs."""

from __future__ import annotations

from typing import Any

from servingstack.args import ServingStackArgs
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.planner.packing import Entry

from .build import document

SMALL = "Qwen/Qwen2.5-1.5B-Instruct"


def node(accelerator: str = "a100-80gb", /, **parts: Any) -> dict[str, Any]:
    """One node with one GPU, of four that there can be."""
    found = {"accelerator": accelerator, "gpus": 1, "count": 4, "cpu": 60, "memory": "400Gi"}
    return {**found, "hourly_price": 4.0, **parts}


def cut(mig: dict[str, int], /, **parts: Any) -> dict[str, Any]:
    return node(mig=mig, **parts)


def shared(accelerator: str = "l4", /, turns: int = 4, **parts: Any) -> dict[str, Any]:
    return node(accelerator, sharing={"time_slices": turns, "renamed": True}, **parts)


def on_nodes(*nodes: dict[str, Any], model: Any = SMALL, **parts: Any) -> dict[str, Any]:
    """A document whose cluster has such nodes."""
    hardware = {"nodes": list(nodes), **parts.pop("hardware", {})}
    return document(model, hardware=hardware, **parts)


def entries(*documents: dict[str, Any]) -> list[Entry]:
    """An environment of these stacks, planned."""
    parsed = [ServingStackArgs.parse(each) for each in documents]
    return [Entry(f"stacks[{index}]", args, plan(args)) for index, args in enumerate(parsed)]


def on_gpu(found: ServingPlan) -> int:
    """What a replica is planned to take of its GPU's memory, bytes."""
    memory = found.architecture.memory_per_gpu
    return memory.weights + memory.kv_cache + memory.overhead + memory.adapters
