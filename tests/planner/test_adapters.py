"""LoRA adapters: one plan for all of them, with room on the GPU and time in the estimate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servingstack.errors import Infeasible, InvalidInput
from servingstack.planner import plan
from servingstack.planner.adapters import BYTES, Room
from servingstack.targets import REGISTRY

from .build import LLAMA_8B, document, known

HARDWARE = {"accelerators": ["l4"], "gpus_per_replica": 1}
TRAFFIC = {"requests_per_second": 0.2}


def adapters(count: int, rank: int = 16) -> list[dict[str, Any]]:
    return [{"name": f"team-{index}", "source": f"acme/lora-{index}", "rank": rank} for index in range(count)]


def served(count: int, rank: int = 16, /, **parts: Any) -> dict[str, Any]:
    model = {"adapters": adapters(count, rank), "precision": "bf16"}
    return document(LLAMA_8B, model=model, hardware=HARDWARE, traffic=TRAFFIC, **parts)


def _paths(doc: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        plan(doc)
    return {item.path: str(item) for item in caught.value.violations}


def test_an_adapter_of_all_linear_layers_is_as_large_as_peft_counts_it() -> None:
    """PEFT's print_trainable_parameters for Llama 3 8B, rank 16, all linear layers, as many public notebooks
    show it: 41,943,040 trainable parameters. The embedding and the output matrix come on top."""
    model = known(LLAMA_8B)
    linear = Room(1, 16, 1).stored_bytes(model) / BYTES - 16 * 2 * (model.hidden + model.vocab)
    assert linear == 41_943_040


def test_many_adapters_are_one_plan_whose_replicas_serve_them_all() -> None:
    found = plan(served(4))
    assert [each.name for each in found.architecture.adapters] == [f"team-{index}" for index in range(4)]
    assert (found.architecture.max_loras, found.architecture.max_lora_rank) == (4, 16)
    assert found.architecture.memory_per_gpu.adapters > 4 * 16 * 40_000_000 * BYTES / 16
    assert any(row.path == "engine.max_loras" for row in found.assumed)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(1, 12), st.sampled_from([8, 16, 64, 128]))
def test_what_adapters_take_is_taken_from_the_cache_and_never_from_nowhere(count: int, rank: int) -> None:
    bare = plan(served(0)).architecture
    try:
        found = plan(served(count, rank)).architecture
    except Infeasible:
        return
    assert found.accelerator == bare.accelerator
    memory = found.memory_per_gpu
    assert memory.adapters > 0
    assert (
        memory.weights + memory.kv_cache + memory.overhead + memory.adapters + memory.reserved <= memory.total
    )
    assert found.kv_cache_tokens < bare.kv_cache_tokens


def test_fewer_places_than_adapters_take_less_of_the_gpu() -> None:
    every = plan(served(8, 32))
    few = plan(served(8, 32, engine={"kind": "vllm", "max_loras": 2}))
    assert few.architecture.max_loras == 2
    assert few.architecture.memory_per_gpu.adapters < every.architecture.memory_per_gpu.adapters / 3
    assert few.architecture.memory_request_bytes >= every.architecture.memory_request_bytes, (
        "the host keeps all"
    )


def test_a_rank_is_rounded_up_to_one_the_engine_sets_room_aside_for() -> None:
    assert plan(served(1, 20)).architecture.max_lora_rank == 32
    sglang = {"engine": {"kind": "sglang"}}
    assert plan(served(1, 20, **sglang)).architecture.max_lora_rank == 20


def test_adapters_that_do_not_fit_are_refused_with_gib() -> None:
    with pytest.raises(Infeasible, match="LoRA adapters") as caught:
        plan(served(60, 64))
    changes = [nearest.change for nearest in caught.value.nearest]
    assert any(change.startswith("engine.max_loras: ") for change in changes), changes


def test_adapters_slow_every_step_and_say_on_what_evidence() -> None:
    bare, found = plan(served(0)), plan(served(2))
    ratio = found.expected.tpot_p50_ms.value / bare.expected.tpot_p50_ms.value
    assert 1.2 < ratio < 1.6
    assert "LoRA" in found.expected.tpot_p50_ms.source


def test_an_adapter_takes_less_than_its_share_where_the_model_is_split() -> None:
    """The input side of a layer is not split: on four GPUs each holds more than a quarter."""
    room, model = Room(4, 16, 4), known(LLAMA_8B)
    one, four = room.gpu_bytes(model, (1, 1), 0), room.gpu_bytes(model, (4, 1), 0)
    assert one / 4 < four < one


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "the model's own name": (
        document(LLAMA_8B, model={"adapters": [{"name": LLAMA_8B, "source": "a/b", "rank": 8}]}),
        "model", "taken",
    ),
    "a name twice": (
        document(LLAMA_8B, model={"adapters": [*adapters(1), *adapters(1)]}), "model", "team-0",
    ),
    "a revision of a volume": (
        document(
            LLAMA_8B,
            model={"adapters": [{"name": "a", "source": "pvc://claim/a", "rank": 8, "revision": "abc"}]},
        ),
        "model", "volume",
    ),
    "a rank beyond the engine's": (
        document(LLAMA_8B, model={"adapters": adapters(1, 600)}), "model.adapters[0].rank", "512",
    ),
    "no rank": (
        document(LLAMA_8B, model={"adapters": [{"name": "a", "source": "me/a"}]}),
        "model.adapters[0].rank", "",
    ),
    "a bucket": (
        document(LLAMA_8B, model={"adapters": [{"name": "a", "source": "s3://b/a", "rank": 8}]}),
        "model.adapters[0].source", "pvc://",
    ),
    "an embedder": (
        document("BAAI/bge-m3", model={"adapters": adapters(1)}), "model.adapters", "task embed",
    ),
    "latent attention": (
        document("deepseek-ai/DeepSeek-V3", model={"adapters": adapters(1)}), "model.adapters", "latent",
    ),
    "more places than adapters": (
        served(2, engine={"kind": "vllm", "max_loras": 3}), "engine.max_loras", "at most 2",
    ),
    "places without adapters": (
        document(LLAMA_8B, engine={"kind": "vllm", "max_loras": 3}), "engine.max_loras", "left out",
    ),
    "a flag that has a field": (
        served(1, engine={"kind": "vllm", "extra_args": ["--enable-lora"]}),
        "engine.extra_args", "model.adapters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_adapters_are_refused_with_path_and_what_to_do(name: str) -> None:
    doc, path, said = REFUSED[name]
    found = _paths(doc)
    assert path in found, found
    assert said in found[path]


@pytest.mark.parametrize("option", [name for name in REGISTRY if name != "kubernetes"])
def test_what_takes_a_cluster_is_refused_elsewhere_naming_who_can(option: str) -> None:
    doc = document(LLAMA_8B, model={"adapters": adapters(1)}, colocate="small", target={"option": option})
    found = _paths(doc)
    for path in ("model.adapters", "colocate"):
        assert f"option {option}" in found[path]
        assert "kubernetes" in found[path]
