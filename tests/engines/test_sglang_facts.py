"""The facts are those of the pinned release, and what the code says of it agrees with them."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from servingstack.engines import facts
from servingstack.engines.sglang_limits import (
    BUILD_CAPABILITIES,
    LIMITS,
    MIN_CAPABILITY,
    PRECISIONS,
    VERSION,
    task_refusal,
)

T4, A100, L4, H100 = (7, 5), (8, 0), (8, 9), (9, 0)


def test_flags_know_their_kind() -> None:
    known = facts.flags("sglang", VERSION)
    assert len(known) > 400
    assert known["tp-size"].kind == "int"
    assert known["tp-size"].aliases == ("--tensor-parallel-size",)
    assert known["model-path"].aliases == ("--model",)
    assert known["disable-radix-cache"].kind == "switch"
    assert known["enable-metrics"].kind == "switch"
    assert known["mem-fraction-static"].kind == "float"
    assert "fp8_e4m3" in known["kv-cache-dtype"].choices
    assert "fp8" not in known["kv-cache-dtype"].choices, "the plan's plain fp8 must be translated"
    assert known["disable-cuda-graph"].kind == "switch", "a deprecated spelling is a flag too"


def test_the_server_listens_on_the_loopback_address_and_exports_nothing_unless_told() -> None:
    path = resources.files("servingstack.engines").joinpath("data", f"sglang-{VERSION}.flags.json")
    rows = json.loads(path.read_text())["flags"]
    assert rows["--host"]["default"] == "127.0.0.1"
    assert rows["--enable-metrics"]["default"] is False


@pytest.mark.parametrize(
    ("precision", "method"),
    [
        ("fp8", "fp8"),
        ("awq", "awq_marlin"),
        ("gptq", "gptq_marlin"),
        ("int8", "CompressedTensorsW8A8Int8"),
        ("w4a16", "CompressedTensorsWNA16"),
        ("mxfp4", "mxfp4"),
        ("nvfp4", "modelopt_fp4"),
    ],
)
def test_minimum_capabilities_are_the_releases_own(precision: str, method: str) -> None:
    row = facts.quantization("sglang", VERSION)[method]
    major, minor = PRECISIONS[precision].minimum
    assert major * 10 + minor == row["min_capability"], row["source"]
    assert row["source"].rpartition("/")[2] in PRECISIONS[precision].source


def test_no_precision_is_claimed_below_what_the_image_was_built_for() -> None:
    assert BUILD_CAPABILITIES[0] == MIN_CAPABILITY
    assert all(limit.minimum >= MIN_CAPABILITY for limit in PRECISIONS.values())
    assert facts.quantization("sglang", VERSION)["awq"]["min_capability"] == 75, (
        "what the code alone would allow"
    )


class TestF131PrecisionByGpu:
    def test_a_t4_is_refused_whatever_the_precision_and_the_engine_that_serves_it_is_named(self) -> None:
        for precision in ("fp16", "awq", "fp8"):
            refusal = LIMITS.precision_refusal(precision, T4)
            assert refusal is not None
            assert "8.0" in refusal
            assert "vLLM" in refusal

    def test_fp8_is_storage_alone_before_ada(self) -> None:
        assert LIMITS.precision_refusal("fp8", A100) is None
        assert not LIMITS.runs_native("fp8", A100)
        assert LIMITS.runs_native("fp8", L4)

    def test_an_unknown_precision_lists_the_known(self) -> None:
        refusal = LIMITS.precision_refusal("int3", H100)
        assert refusal is not None
        assert "awq" in refusal

    def test_full_precision_becomes_fp8_while_loading_and_nothing_else(self) -> None:
        assert LIMITS.quantization_method("fp8", "bf16") == "fp8"
        assert LIMITS.quantization_method("fp16", "bf16") is None
        assert LIMITS.quantization_method("awq", "awq") is None, "forcing awq would keep the slow kernel"
        with pytest.raises(ValueError, match="stored as awq"):
            LIMITS.quantization_method("awq", "bf16")
        assert (
            LIMITS.quantization_method("fp8", "bf16")
            in facts.flags("sglang", VERSION)["quantization"].choices
        )

    def test_an_fp8_cache_needs_native_fp8(self) -> None:
        assert LIMITS.kv_cache_refusal("fp8_e4m3", A100) is not None
        assert LIMITS.kv_cache_refusal("fp8_e5m2", L4) is None
        assert LIMITS.kv_cache_refusal("auto", A100) is None

    def test_activations_are_a_type_that_the_release_takes(self) -> None:
        choices = facts.flags("sglang", VERSION)["dtype"].choices
        assert {LIMITS.activation_dtype(p, H100) for p in PRECISIONS} <= set(choices)
        assert LIMITS.activation_dtype("fp16", A100) == "half"


def test_a_task_that_is_not_served_names_the_engine_that_does() -> None:
    assert task_refusal("generate") is None
    assert task_refusal("embed") is None
    assert "vLLM" in (task_refusal("classify") or "")
