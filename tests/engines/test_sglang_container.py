"""The container of a replica: its command line, environment, paths and warm-up; the contract is vLLM's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from servingstack.args import ServingStackArgs
from servingstack.engines import facts
from servingstack.engines.sglang import (
    STOP_S,
    SglangSettings,
    container,
    mem_fraction_static,
    violations,
)
from servingstack.engines.sglang_extra import MANAGED_FLAGS, REFUSED_FLAGS
from servingstack.engines.sglang_limits import UPSTREAM, VERSION
from servingstack.engines.vllm import VllmSettings
from servingstack.plan import Architecture, Batching, Container, Flag, MemoryBar, Timeouts

KNOWN = facts.flags("sglang", VERSION)
GIB = 1024**3
MEMORY = MemoryBar(total=80 * GIB, weights=16 * GIB, kv_cache=50 * GIB, overhead=6 * GIB, reserved=8 * GIB)


def described(
    engine: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    secret: dict[str, str] | None = None,
    batching: dict[str, Any] | None = None,
    **architecture: Any,
) -> Container:
    document: dict[str, Any] = {"name": "chat", "model": {"id": "x/y", **(model or {})}, "target": {}}
    if secret is not None:
        document["api_key_secret"] = secret
    args = ServingStackArgs.parse(document).model_copy(
        update={"engine": SglangSettings.model_validate({"kind": "sglang", **(engine or {})})}
    )
    decided: dict[str, Any] = {
        "option": "somewhere", "cloud": None, "region": None, "model": "x/y", "task": "generate",
        "engine": "sglang", "engine_version": VERSION, "accelerator": "a100-80gb",
        "accelerator_form": "sxm", "instance_type": None, "gpus_per_replica": 2, "gpus_per_node": 8,
        "tensor_parallel_size": 2, "pipeline_parallel_size": 1, "precision": "bf16", "dtype": "bfloat16",
        "kv_cache_dtype": "auto", "max_model_len": 8192, "gpu_memory_utilization": 0.9,
        "kv_cache_tokens": 100_000, "weight_bytes": 16 * GIB, "memory_per_gpu": MEMORY, "cpu_request": 8,
        "memory_request_bytes": GIB, "memory_limit_bytes": GIB, "shared_memory_bytes": GIB,
        "disk_bytes": GIB, "why": "",
    }  # fmt: skip
    batch: dict[str, Any] = {
        "kind": "continuous", "max_num_seqs": 64, "max_num_batched_tokens": 8192, "queue_delay_ms": 0,
        "prefix_caching": True, "chunked_prefill": True, "curve": (), "limited_by": "ttft_p95",
    }  # fmt: skip
    timeouts = Timeouts(
        request_s=30, stream_s=600, queue_s=10, enforced_by="", startup_s=900, drain_s=60, grace_s=90
    )
    return container(
        args, Architecture(**{**decided, **architecture}), Batching(**{**batch, **(batching or {})}), timeouts
    )


def flag(found: Container, name: str) -> str | None:
    return next(item.value for item in found.flags if item.name == name)


def names(found: Container) -> list[str]:
    return [item.name for item in found.flags]


def env(found: Container, name: str) -> str | None:
    return next((item.value for item in found.env if item.name == name), None)


def accepted(found: Flag) -> bool:
    """Whether the release's own parser takes this flag with this value."""
    info = KNOWN[found.name]
    if info.kind in facts.FLAGLESS_KINDS:
        return found.value is None
    if found.value is None:
        return False
    if info.kind == "int":
        return found.value.lstrip("-").isdigit()
    if info.kind == "float":
        return 0 < float(found.value) < 1
    return not info.choices or found.value in info.choices


def test_the_command_line_is_exactly_this() -> None:
    found = described(model={"revision": "5f0b02c"})
    assert found.command == ("python3", "-m", "sglang.launch_server")
    assert [(item.name, item.value) for item in found.flags] == [
        ("model-path", "x/y"),
        ("served-model-name", "x/y"),
        ("revision", "5f0b02c"),
        ("dtype", "bfloat16"),
        ("tp-size", "2"),
        ("pp-size", "1"),
        ("context-length", "8192"),
        ("mem-fraction-static", "0.825"),
        ("kv-cache-dtype", "auto"),
        ("max-running-requests", "64"),
        ("cuda-graph-max-bs-decode", "64"),
        ("chunked-prefill-size", "8192"),
        ("max-prefill-tokens", "8192"),
        ("host", "0.0.0.0"),
        ("port", "30000"),
        ("enable-metrics", None),
        ("log-level-http", "warning"),
    ]
    assert found.image == UPSTREAM.reference
    assert (found.health_path, found.metrics_path, found.port) == ("/health", "/metrics", 30000)


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2]),
    task=st.sampled_from(["generate", "embed"]),
    kv=st.sampled_from(["auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"]),
    dtype=st.sampled_from(["bfloat16", "half", "float"]),
    quantization=st.sampled_from([None, "fp8"]),
    caching=st.booleans(),
    chunked=st.booleans(),
    remote=st.booleans(),
    load_format=st.sampled_from([None, "safetensors", "runai_streamer"]),
    sequences=st.integers(1, 4096),
)
def test_every_flag_is_one_the_release_accepts_and_none_is_said_twice(**drawn: Any) -> None:
    found = described(
        engine={"trust_remote_code": drawn["remote"], "load_format": drawn["load_format"]},
        model={"revision": "abc"},
        batching={
            "prefix_caching": drawn["caching"],
            "chunked_prefill": drawn["chunked"],
            "max_num_seqs": drawn["sequences"],
        },
        tensor_parallel_size=drawn["tp"],
        pipeline_parallel_size=drawn["pp"],
        task=drawn["task"],
        kv_cache_dtype=drawn["kv"],
        dtype=drawn["dtype"],
        quantization=drawn["quantization"],
    )
    assert [item for item in found.flags if not accepted(item)] == []
    assert len(names(found)) == len(set(names(found)))
    assert ("is-embedding" in names(found)) == (drawn["task"] == "embed")
    assert ("disable-radix-cache" in names(found)) == (not drawn["caching"])
    assert (flag(found, "chunked-prefill-size") == "-1") == (not drawn["chunked"])
    assert int(flag(found, "cuda-graph-max-bs-decode") or 0) <= 512


class TestMemoryFractionIsNotVllms:
    def test_activations_stay_outside_the_fraction_that_vllm_counts_them_into(self) -> None:
        assert mem_fraction_static(MEMORY) == 0.825
        share = (MEMORY.weights + MEMORY.kv_cache + MEMORY.overhead) / MEMORY.total
        assert share == pytest.approx(0.9)

    @given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 60))
    def test_it_never_takes_more_than_weights_and_cache_were_given(
        self, weights: int, kv: int, rest: int
    ) -> None:
        total = weights + kv + rest
        bar = MemoryBar(total=total, weights=weights, kv_cache=kv, overhead=rest, reserved=0)
        fraction = mem_fraction_static(bar)
        assert fraction * total <= weights + kv + 1e-9
        assert fraction * total >= weights + kv - 0.001 * total - 1e-9


def test_health_answers_at_once_and_drain_and_death_are_still_seen() -> None:
    assert env(described(), "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION") == "false"
    assert "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION" in facts.environment("sglang", VERSION)
    assert STOP_S == 20


def test_f009_every_cache_is_under_the_one_writable_directory() -> None:
    found = described()
    for name in (
        "HOME", "HF_HOME", "SGLANG_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
        "CUDA_CACHE_PATH", "FLASHINFER_WORKSPACE_BASE", "XDG_CACHE_HOME",
    ):  # fmt: skip
        path = env(found, name)
        assert path is not None, name
        assert path == found.cache_path or path.startswith(found.cache_path + "/"), name
    assert "/tmp" in found.writable_paths, "the metrics of its processes meet in a temporary directory"
    assert env(found, "USER")


def test_f010_weights_on_a_volume_are_served_offline_from_a_path() -> None:
    model = {"source": "pvc://weights/llama", "revision": "abc"}
    found = described(model=model, weights_directory="/models/llama")
    assert flag(found, "model-path") == "/models/llama"
    assert found.model_path == "/models"
    assert env(found, "HF_HUB_OFFLINE") == "1"
    assert flag(found, "served-model-name") == "x/y"
    assert "revision" not in names(found)


def test_f011_secrets_are_references_and_the_api_key_is_in_no_argument() -> None:
    found = described(
        model={"token_secret": {"name": "hf-token", "key": "token"}}, secret={"name": "keys", "key": "chat"}
    )
    secrets = {v.name: (v.value, v.secret_name, v.secret_key) for v in found.env if v.secret_name}
    assert secrets == {"HF_TOKEN": (None, "hf-token", "token")}
    assert "api-key" not in names(found)


class TestExtraArguments:
    @pytest.mark.parametrize("name", sorted(MANAGED_FLAGS))
    def test_a_managed_flag_is_refused_with_the_field_to_use(self, name: str) -> None:
        with pytest.raises(ValidationError) as refused:
            SglangSettings(kind="sglang", extra_args=(f"--{name}=1",))
        assert MANAGED_FLAGS[name] in str(refused.value)

    @pytest.mark.parametrize(
        "spelling",
        [("--tensor-parallel-size", "1"), ("--model=other/model",), ("--pipeline-parallel-size=2",)],
    )
    def test_no_alias_gets_past(self, spelling: tuple[str, ...]) -> None:
        with pytest.raises(ValidationError, match="field of its own"):
            SglangSettings(kind="sglang", extra_args=spelling)

    @pytest.mark.parametrize("spelling", ["--mem-frac=0.5", "--mem_fraction_static=0.5", "-tp=2"])
    def test_no_shortened_name_gets_past_though_the_servers_parser_would_complete_it(
        self, spelling: str
    ) -> None:
        with pytest.raises(ValidationError, match="no flag of this SGLang release"):
            SglangSettings(kind="sglang", extra_args=(spelling,))

    def test_an_unknown_flag_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(ValidationError, match="Did you mean `reasoning-parser`"):
            SglangSettings(kind="sglang", extra_args=("--reasoning-parsers=qwen3",))

    def test_one_string_is_refused(self) -> None:
        with pytest.raises(ValidationError, match="one argument per element"):
            SglangSettings.model_validate({"kind": "sglang", "extra_args": "--a b"})

    def test_a_free_flag_reaches_the_container(self) -> None:
        found = described(engine={"extra_args": ["--schedule-policy", "lpm", "--reasoning-parser=qwen3"]})
        assert flag(found, "schedule-policy") == "lpm"
        assert flag(found, "reasoning-parser") == "qwen3"

    def test_every_planned_flag_is_managed(self) -> None:
        found = described(model={"revision": "abc"}, quantization="fp8", task="embed")
        assert set(names(found)) - {"log-level-http"} <= set(MANAGED_FLAGS) | set(REFUSED_FLAGS)


class TestExtraEnvironment:
    @pytest.mark.parametrize("name", ["HF_TOKEN", "MY_SERVICE_PASSWORD"])
    def test_a_secret_in_plain_text_is_refused(self, name: str) -> None:
        with pytest.raises(ValidationError, match="secret"):
            SglangSettings(kind="sglang", extra_env={name: "hf_abc"})

    def test_a_misspelt_variable_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(ValidationError, match=r"Did you mean `SGLANG_CACHE_DIR`"):
            SglangSettings(kind="sglang", extra_env={"SGLANG_CACHE_DIRS": "/x"})

    @pytest.mark.parametrize("name", ["SGLANG_PORT", "SGLANG_CACHE_DIR", "PROMETHEUS_MULTIPROC_DIR"])
    def test_what_the_plan_sets_is_refused(self, name: str) -> None:
        with pytest.raises(ValidationError, match="set by the plan"):
            SglangSettings(kind="sglang", extra_env={name: "1"})

    def test_a_known_one_reaches_the_container(self) -> None:
        assert env(described(engine={"extra_env": {"NCCL_DEBUG": "WARN"}}), "NCCL_DEBUG") == "WARN"


class TestF079TheImageIsPinned:
    @pytest.mark.parametrize("image", ["lmsysorg/sglang:latest", "lmsysorg/sglang:v0.5.20"])
    def test_an_image_without_a_digest_is_refused(self, image: str) -> None:
        with pytest.raises(ValidationError, match="digest"):
            SglangSettings(kind="sglang", image=image)

    def test_an_own_image_by_digest_is_used_and_its_release_read_from_the_tag(self) -> None:
        image = "registry.example:5000/sglang:v0.5.12@sha256:" + "b" * 64
        found = described(engine={"image": image})
        assert found.image == image
        assert SglangSettings(kind="sglang", image=image).released() == (image, "0.5.12")


@pytest.mark.parametrize("task", ["generate", "embed"])
def test_warm_up_asks_for_the_served_model_on_a_path_that_serves(task: str) -> None:
    found = described(task=task)
    assert found.warm_up.path in found.public_paths
    assert found.warm_up.body["model"] == flag(found, "served-model-name")
    assert found.warm_up.requests >= 2


def test_paths_that_change_or_stop_the_server_stay_closed() -> None:
    closed = {"/flush_cache", "/update_weights_from_disk", "/pause_generation", "/abort_request", "/metrics"}
    assert not closed & set(described().public_paths)


def test_remote_code_needs_a_revision_and_a_task_must_be_served() -> None:
    base = {"name": "chat", "target": {}}
    settings = SglangSettings(kind="sglang", trust_remote_code=True)

    def paths(model: dict[str, Any]) -> list[str]:
        args = ServingStackArgs.parse({**base, "model": model}).model_copy(update={"engine": settings})
        return [found.path for found in violations(args)]

    assert paths({"id": "x/y"}) == ["engine.trust_remote_code"]
    assert paths({"id": "x/y", "revision": "abc"}) == []
    assert paths({"id": "x/y", "revision": "abc", "task": "classify"}) == ["model.task"]


def test_settings_have_vllms_names_so_that_a_stack_changes_engine_by_its_kind() -> None:
    ours, theirs = set(SglangSettings.model_fields), set(VllmSettings.model_fields)
    assert ours == theirs
    written = SglangSettings(kind="sglang")
    decided = {k for k, v in written.model_dump().items() if v not in (None, (), {}, False)}
    assert decided == {"kind", "enable_prefix_caching", "enable_chunked_prefill"}
