"""Weights in a bucket that is mounted are read file by file."""

from __future__ import annotations

from typing import Any

import pytest

from servingstack.engines import facts
from servingstack.engines.registry import ENGINES
from servingstack.engines.sglang_limits import VERSION as SGLANG
from servingstack.engines.vllm_limits import VERSION as VLLM
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.planner.host import WHOLE_FILE_BYTES


def planned(engine: dict[str, Any] | None = None, source: str = "gs://models/qwen") -> ServingPlan:
    return plan(
        {
            "name": "chat",
            "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "source": source, "max_model_len": 4096},
            "target": {"option": "cloud-run"},
            "hardware": {"accelerators": ["rtx-pro-6000"]},
            "engine": {"kind": "vllm"} if engine is None else engine,
        }
    )


def flags(found: ServingPlan) -> dict[str, str | None]:
    return {flag.name: flag.value for flag in found.container.flags}


@pytest.mark.parametrize(("kind", "version"), [("vllm", VLLM), ("sglang", SGLANG)])
def test_the_flags_are_those_of_the_pinned_release(kind: str, version: str) -> None:
    known = facts.flags(kind, version)
    for flag in ENGINES[kind].whole_files:
        assert flag.name in known
        assert flag.value is None or flag.value in known[flag.name].choices


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_a_mounted_bucket_is_read_file_by_file_and_the_hubs_own_download_is_not(kind: str) -> None:
    names = {flag.name for flag in ENGINES[kind].whole_files}
    assert names <= flags(planned({"kind": kind})).keys()
    assert not names & flags(planned({"kind": kind}, "hf")).keys()


def test_a_loader_that_the_user_chose_reads_in_its_own_way() -> None:
    assert "safetensors-load-strategy" not in flags(
        planned({"kind": "vllm", "load_format": "runai_streamer"})
    )
    own = planned({"kind": "vllm", "extra_args": ["--safetensors-load-strategy=lazy"]})
    assert flags(own)["safetensors-load-strategy"] == "lazy"


def test_a_file_that_is_read_whole_has_its_room_in_memory() -> None:
    whole = planned().architecture.memory_request_bytes
    mapped = planned({"kind": "vllm", "load_format": "fastsafetensors"}).architecture.memory_request_bytes
    assert 0 < whole - mapped <= WHOLE_FILE_BYTES
