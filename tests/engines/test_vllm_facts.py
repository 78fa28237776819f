"""The facts are those of the pinned release, and what the code says of it agrees with them."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from servingstack.engines import facts
from servingstack.engines.vllm_limits import LIMITS, PRECISIONS, VERSION


def test_the_release_logs_no_requests_unless_asked() -> None:
    known = facts.flags("vllm", VERSION)
    assert "enable-log-requests" in known
    assert "disable-log-requests" not in known, "the flag of older releases would stop the server at start"


def test_flags_know_their_kind() -> None:
    known = facts.flags("vllm", VERSION)
    assert known["enable-prefix-caching"].kind == "bool"
    assert known["tensor-parallel-size"].kind == "int"
    assert "fp8" in known["kv-cache-dtype"].choices
    assert known["limit-mm-per-prompt"].kind == "json"
    assert known["max-model-len"].kind == "int"


@pytest.mark.parametrize(
    ("precision", "method"),
    [
        ("fp8", "fp8"),
        ("awq", "auto_awq"),
        ("int8", "CompressedTensorsW8A8Int8"),
        ("w4a16", "CompressedTensorsWNA16"),
        ("mxfp4", "mxfp4"),
        ("nvfp4", "modelopt_fp4"),
    ],
)
def test_minimum_capabilities_are_the_releases_own(precision: str, method: str) -> None:
    path = resources.files("servingstack.engines").joinpath("data", f"vllm-{VERSION}.quantization.json")
    row = json.loads(path.read_text(encoding="utf-8"))["methods"][method]
    major, minor = PRECISIONS[precision].minimum
    assert major * 10 + minor == row["min_capability"], row["source"]
    assert row["source"].rpartition("/")[2].partition(":")[0] in PRECISIONS[precision].source


class TestF131PrecisionByGpu:
    """A table of (precision, GPU), applied before anything is deployed.

    The note gives 8.0 for compressed-tensors w4a16; the pinned release says 7.5 (wNa16.py:96), and is
    followed."""

    V100, T4, A100, L4, H100 = (7, 0), (7, 5), (8, 0), (8, 9), (9, 0)

    def test_awq_on_a_v100_is_refused(self) -> None:
        refusal = LIMITS.precision_refusal("awq", self.V100)
        assert refusal is not None
        assert "7.5" in refusal

    def test_bf16_on_a_t4_is_refused_and_awq_runs_in_half(self) -> None:
        assert LIMITS.precision_refusal("bf16", self.T4) is not None
        assert LIMITS.precision_refusal("awq", self.T4) is None
        assert LIMITS.activation_dtype("awq", self.T4) == "half"

    def test_awq_is_never_forced(self) -> None:
        assert LIMITS.quantization_method("awq", "awq") is None
        assert LIMITS.activation_dtype("awq", self.A100) == "bfloat16"

    def test_full_precision_becomes_fp8_while_loading_and_nothing_else(self) -> None:
        assert LIMITS.quantization_method("fp8", "bf16") == "fp8"
        assert LIMITS.quantization_method("fp16", "bf16") is None
        with pytest.raises(ValueError, match="stored as awq"):
            LIMITS.quantization_method("awq", "bf16")

    def test_an_fp8_cache_needs_native_fp8(self) -> None:
        assert LIMITS.kv_cache_refusal("fp8", self.A100) is not None
        assert LIMITS.kv_cache_refusal("fp8", self.L4) is None
        assert LIMITS.kv_cache_refusal("auto", self.T4) is None

    def test_what_left_the_release_is_refused_by_name(self) -> None:
        refusal = LIMITS.precision_refusal("bnb4", self.H100)
        assert refusal is not None
        assert "bnb4" in refusal
        assert "bitsandbytes" not in facts.known_values("vllm", VERSION, "quantization")
