"""The container of a replica: its command line, environment, paths and warm-up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servingstack.engines import facts
from servingstack.engines.vllm import VllmSettings
from servingstack.engines.vllm_extra import MANAGED_FLAGS, REFUSED_FLAGS
from servingstack.engines.vllm_limits import UPSTREAM, VERSION
from servingstack.errors import InvalidInput
from servingstack.plan import Container, Flag

KNOWN = facts.flags("vllm", VERSION)


def flag(container: Container, name: str) -> str | None:
    return next(found.value for found in container.flags if found.name == name)


def env(container: Container, name: str) -> str | None:
    return next((found.value for found in container.env if found.name == name), None)


def accepted(found: Flag) -> bool:
    """Whether the release's own parser takes this flag with this value."""
    name = found.name if found.name in KNOWN else found.name.removeprefix("no-")
    info = KNOWN[name.partition(".")[0]]
    if info.kind in facts.FLAGLESS_KINDS:
        return found.value is None and (name == found.name or info.kind == "bool")
    if found.value is None:
        return False
    if info.kind == "int":
        return found.value.isdigit()
    if info.kind == "float":
        return float(found.value) >= 0
    return not info.choices or found.value in info.choices


def test_the_classic_deployments_command_line_is_exactly_this(describe: Any) -> None:
    found = describe(args={"model": {"id": "meta-llama/Meta-Llama-3-8B-Instruct", "revision": "5f0b02c"}})
    assert found.command == ("vllm", "serve", "meta-llama/Meta-Llama-3-8B-Instruct")
    assert [(item.name, item.value) for item in found.flags] == [
        ("served-model-name", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("revision", "5f0b02c"),
        ("dtype", "bfloat16"),
        ("tensor-parallel-size", "2"),
        ("pipeline-parallel-size", "1"),
        ("max-model-len", "8192"),
        ("gpu-memory-utilization", "0.9"),
        ("kv-cache-dtype", "auto"),
        ("max-num-seqs", "64"),
        ("max-num-batched-tokens", "32768"),
        ("enable-prefix-caching", None),
        ("enable-chunked-prefill", None),
        ("port", "8000"),
        ("shutdown-timeout", "60"),
        ("disable-fastapi-docs", None),
        ("disable-access-log-for-endpoints", "/health,/metrics"),
    ]
    assert found.image == UPSTREAM.reference


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    utilization=st.floats(0.2, 0.98),
    task=st.sampled_from(["generate", "embed", "classify"]),
    kv=st.sampled_from(["auto", "bfloat16", "fp8"]),
    dtype=st.sampled_from(["bfloat16", "half", "float"]),
    quantization=st.sampled_from([None, "fp8"]),
    caching=st.booleans(),
    chunked=st.booleans(),
    remote=st.booleans(),
    load_format=st.sampled_from([None, "safetensors", "runai_streamer"]),
)
def test_every_flag_is_one_the_release_accepts_and_none_is_said_twice(describe: Any, **drawn: Any) -> None:
    engine = {"kind": "vllm", "trust_remote_code": drawn["remote"], "load_format": drawn["load_format"]}
    found = describe(
        args={"engine": engine, "model": {"id": "x/y", "revision": "abc"}},
        architecture={
            "tensor_parallel_size": drawn["tp"],
            "gpu_memory_utilization": drawn["utilization"],
            "task": drawn["task"],
            "kv_cache_dtype": drawn["kv"],
            "dtype": drawn["dtype"],
            "quantization": drawn["quantization"],
        },
        batching={"prefix_caching": drawn["caching"], "chunked_prefill": drawn["chunked"]},
    )
    assert [item for item in found.flags if not accepted(item)] == []
    names = [item.name for item in found.flags]
    assert len(names) == len(set(names))
    assert flag(found, "max-model-len") == "8192"
    assert flag(found, "tensor-parallel-size") == str(drawn["tp"])


class TestF001TheVllmPortTrap:
    def test_the_port_is_a_flag_and_never_the_variable(self, describe: Any) -> None:
        found = describe()
        assert flag(found, "port") == "8000" == str(found.port)
        assert env(found, "VLLM_PORT") is None

    @pytest.mark.parametrize("name", ["VLLM_PORT", "VLLM_HOST_IP"])
    def test_the_variable_cannot_come_in_as_an_extra(self, parse: Any, name: str) -> None:
        with pytest.raises(InvalidInput, match="set by the plan"):
            parse(engine={"kind": "vllm", "extra_env": {name: "8000"}})


def test_f009_every_cache_is_under_the_one_writable_directory(describe: Any) -> None:
    found = describe()
    for name in (
        "HOME",
        "HF_HOME",
        "VLLM_CACHE_ROOT",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
    ):
        path = env(found, name)
        assert path is not None, name
        assert path == found.cache_path or path.startswith(found.cache_path + "/"), name
    assert "/tmp" in found.writable_paths
    assert env(found, "USER"), "getpass has no other name for a user id that is not in /etc/passwd"


def test_f010_weights_on_a_volume_are_served_offline_from_a_path(describe: Any) -> None:
    found = describe(
        args={"model": {"id": "x/y", "source": "pvc://weights/llama"}},
        architecture={"weights_directory": "/models/llama"},
    )
    assert found.command[-1] == "/models/llama"
    assert found.model_path == "/models"
    assert env(found, "HF_HUB_OFFLINE") == "1"
    assert env(found, "HF_HOME") == "/cache/huggingface"
    assert flag(found, "served-model-name") == "meta-llama/Meta-Llama-3-8B-Instruct"


def test_f011_secrets_are_references_and_only_then_there(describe: Any) -> None:
    model = {"id": "x/y", "token_secret": {"name": "hf-token", "key": "token"}}
    found = describe(args={"model": model, "api_key_secret": {"name": "keys", "key": "chat"}})
    secrets = {v.name: (v.value, v.secret_name, v.secret_key) for v in found.env if v.secret_name}
    assert secrets == {"HF_TOKEN": (None, "hf-token", "token"), "VLLM_API_KEY": (None, "keys", "chat")}
    plain = {v.name for v in describe().env}
    assert not plain & {"HF_TOKEN", "VLLM_API_KEY", "HUGGING_FACE_HUB_TOKEN"}


def test_f013_a_json_value_stays_one_element_of_valid_json(describe: Any) -> None:
    extra = ["--limit-mm-per-prompt", '{"image": 2}', '--hf-overrides={"rope_scaling": null}', "-O3"]
    found = describe(args={"engine": {"kind": "vllm", "extra_args": extra}})
    assert json.loads(flag(found, "limit-mm-per-prompt") or "") == {"image": 2}
    assert json.loads(flag(found, "hf-overrides") or "") == {"rope_scaling": None}
    assert flag(found, "optimization-level") == "3"
    assert not any(part in ("sh", "bash", "-c") for part in found.command)


class TestF014ExtraArgumentsAreAList:
    def test_one_string_is_refused(self, parse: Any) -> None:
        with pytest.raises(InvalidInput, match=r"engine\.extra_args.*list with one argument per element"):
            parse(engine={"kind": "vllm", "extra_args": "--a b --c d"})

    def test_several_arguments_in_one_element_are_refused(self, parse: Any) -> None:
        with pytest.raises(InvalidInput, match="several arguments in one"):
            parse(engine={"kind": "vllm", "extra_args": ["--block-size 16"]})

    def test_a_value_without_a_flag_is_refused(self, parse: Any) -> None:
        with pytest.raises(InvalidInput, match="follows no flag"):
            parse(engine={"kind": "vllm", "extra_args": ["--enforce-eager", "other/model"]})

    def test_an_unknown_flag_is_refused_with_the_nearest(self, parse: Any) -> None:
        with pytest.raises(InvalidInput, match="Did you mean `enable-auto-tool-choice`"):
            parse(engine={"kind": "vllm", "extra_args": ["--enable-auto-tool-choise"]})


class TestF015WhatThePlanDecidesIsNoExtra:
    @pytest.mark.parametrize("name", sorted(MANAGED_FLAGS))
    def test_a_managed_flag_is_refused_with_the_field_to_use(self, parse: Any, name: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            parse(engine={"kind": "vllm", "extra_args": [f"--{name}=1"]})
        assert MANAGED_FLAGS[name] in str(refused.value)

    @pytest.mark.parametrize(
        "spelling",
        [
            ["--tensor_parallel_size", "1"],
            ["-tp", "1"],
            ["-tp=1"],
            ["--no-enable-prefix-caching"],
            ["--pipeline-parallel-size=2"],
            ["-pp=2"],
            ["-q", "awq"],
        ],
    )
    def test_no_spelling_gets_past(self, parse: Any, spelling: list[str]) -> None:
        with pytest.raises(InvalidInput, match="field of its own"):
            parse(engine={"kind": "vllm", "extra_args": spelling})

    def test_every_planned_flag_is_managed(self, describe: Any) -> None:
        model = {"id": "x/y", "revision": "abc"}
        found = describe(args={"model": model}, architecture={"quantization": "fp8"})
        own = {"disable-fastapi-docs", "disable-access-log-for-endpoints"}
        planned = {item.name for item in found.flags} - own
        assert planned <= set(MANAGED_FLAGS) | set(REFUSED_FLAGS)


class TestExtraEnvironment:
    @pytest.mark.parametrize("name", ["HF_TOKEN", "VLLM_API_KEY", "MY_SERVICE_PASSWORD"])
    def test_a_secret_in_plain_text_is_refused(self, parse: Any, name: str) -> None:
        with pytest.raises(InvalidInput, match="secret"):
            parse(engine={"kind": "vllm", "extra_env": {name: "hf_abc"}})

    def test_a_misspelt_variable_is_refused_with_the_nearest(self, parse: Any) -> None:
        with pytest.raises(InvalidInput, match="Did you mean `VLLM_LOGGING_LEVEL`"):
            parse(engine={"kind": "vllm", "extra_env": {"VLLM_LOGING_LEVEL": "DEBUG"}})

    def test_a_known_one_reaches_the_container(self, describe: Any) -> None:
        found = describe(args={"engine": {"kind": "vllm", "extra_env": {"NCCL_DEBUG": "WARN"}}})
        assert env(found, "NCCL_DEBUG") == "WARN"


class TestF079TheImageIsPinned:
    @pytest.mark.parametrize(
        "image", ["vllm/vllm-openai:latest", "vllm/vllm-openai", "vllm/vllm-openai:v0.30.0"]
    )
    def test_an_image_without_a_digest_is_refused(self, parse: Any, image: str) -> None:
        with pytest.raises(InvalidInput, match=r"engine\.image.*digest"):
            parse(engine={"kind": "vllm", "image": image})

    def test_an_own_image_by_digest_is_used(self, describe: Any) -> None:
        image = "registry.example:5000/vllm:v0.30.0@sha256:" + "b" * 64
        found = describe(args={"engine": {"kind": "vllm", "image": image}})
        assert found.image == image


def test_f131_a_t4_serves_awq_in_half_without_forcing_the_method(describe: Any) -> None:
    found = describe(architecture={"precision": "awq", "dtype": "half"})
    assert flag(found, "dtype") == "half"
    assert "quantization" not in {item.name for item in found.flags}


def test_f133_health_is_asked_at_the_engine_not_at_the_model_list(describe: Any) -> None:
    found = describe()
    assert found.health_path == "/health"
    assert found.metrics_path == "/metrics"


def test_batching_is_said_either_way_so_that_a_new_default_changes_nothing(describe: Any) -> None:
    found = describe(batching={"prefix_caching": False, "chunked_prefill": False})
    names = {item.name for item in found.flags}
    assert {"no-enable-prefix-caching", "no-enable-chunked-prefill"} <= names


def test_a_stopping_replica_drains_as_long_as_planned(describe: Any) -> None:
    assert flag(describe(), "shutdown-timeout") == "60", "0, the default, aborts what is in flight"


@pytest.mark.parametrize("task", ["generate", "embed", "classify"])
def test_warm_up_asks_for_the_served_model_on_a_path_that_serves(describe: Any, task: str) -> None:
    found = describe(architecture={"task": task})
    assert found.warm_up.path in found.public_paths
    assert found.warm_up.body["model"] == flag(found, "served-model-name")
    assert found.warm_up.requests >= 2


def test_paths_that_the_api_key_does_not_guard_stay_closed(describe: Any) -> None:
    found = describe()
    closed = {"/invocations", "/tokenize", "/pooling", "/metrics", "/docs", "/load"}
    assert not closed & set(found.public_paths)


def test_remote_code_needs_a_revision(parse: Any) -> None:
    from servingstack.engines.vllm import violations

    engine = {"kind": "vllm", "trust_remote_code": True}
    [found] = violations(parse(engine=engine))
    assert found.path == "engine.trust_remote_code"
    assert violations(parse(engine=engine, model={"id": "x/y", "revision": "abc"})) == []
    assert violations(parse()) == []


def test_settings_left_out_are_undecided_but_the_two_that_are_always_on() -> None:
    written = VllmSettings(kind="vllm")
    decided = {k for k, v in written.model_dump().items() if v not in (None, (), {}, False)}
    assert decided == {"kind", "enable_prefix_caching", "enable_chunked_prefill"}
    assert written.model_dump(exclude_unset=True) == {"kind": "vllm"}
