"""The input refuses what it cannot mean, says all that is wrong at once, and hashes what was written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servingstack.args import ServingStackArgs
from servingstack.errors import InvalidInput, Violation

MINIMAL: dict[str, Any] = {
    "name": "chat",
    "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
    "target": {"option": "kubernetes"},
}


def violations(**changed: Any) -> dict[str, Violation]:
    """The violations of the minimal document with some fields changed, by path."""
    with pytest.raises(InvalidInput) as caught:
        ServingStackArgs.parse(MINIMAL | changed)
    return {item.path: item for item in caught.value.violations}


def key(**changed: Any) -> str:
    return ServingStackArgs.parse(MINIMAL | changed).key()


def test_a_name_a_model_and_a_target_are_enough() -> None:
    args = ServingStackArgs.parse(MINIMAL)
    assert args.slo.availability == 99.9
    assert args.exposure == "private"


def test_all_violations_are_told_at_once_each_with_path_value_allowed_and_fix() -> None:
    found = violations(
        slo={"ttft_p95": 500, "availability": 100},
        traffic={"kind": "bach", "input_tokens": 0},
        hardware={"accelerators": ["a100", "h101"], "nodes": [{"acelerator": "l4"}]},
        exposure="publik",
    )
    assert {
        "slo.ttft_p95",
        "slo.availability",
        "traffic.kind",
        "traffic.input_tokens",
        "hardware.accelerators[1]",
        "hardware.nodes[0].acelerator",
        "exposure",
    } <= found.keys()
    assert found["slo.ttft_p95"].value == 500
    assert "a duration with a unit" in found["slo.ttft_p95"].allowed
    assert all(item.allowed and item.fix for item in found.values())


@pytest.mark.parametrize(
    ("changed", "path", "meant"),
    [
        ({"trafic": {}}, "trafic", "traffic"),
        ({"slo": {"tfft_p95": "1s"}}, "slo.tfft_p95", "ttft_p95"),
        ({"target": {"option": "kubernets"}}, "target.option", "kubernetes"),
        ({"model": {"id": "x", "presicion": "fp8"}}, "model.presicion", "precision"),
        ({"hardware": {"accelerators": ["l4x"]}}, "hardware.accelerators[0]", "l4"),
        ({"hardware": {"nodes": [{"acelerator": "l4"}]}}, "hardware.nodes[0].acelerator", "accelerator"),
        ({"engine": {"kind": "vllm", "max_num_seq": 1}}, "engine.max_num_seq", "max_num_seqs"),
        ({"target": {"kubernetes": {"name_space": "a"}}}, "target.kubernetes.name_space", "namespace"),
    ],
)
def test_a_misspelling_names_what_was_probably_meant(changed: dict[str, Any], path: str, meant: str) -> None:
    assert f"Did you mean `{meant}`" in violations(**changed)[path].fix


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"request_timeout": 30}, "request_timeout"),
        ({"slo": {"tpot_p95": 50}}, "slo.tpot_p95"),
        ({"traffic": {"ramp": 5}}, "traffic.ramp"),
        ({"scaling": {"scale_in_delay": "300"}}, "scaling.scale_in_delay"),
        ({"hardware": {"memory_request": 64}}, "hardware.memory_request"),
        ({"model": {"id": "x", "weight_bytes": 16000000000}}, "model.weight_bytes"),
    ],
)
def test_bare_numbers_are_refused_for_durations_and_sizes(changed: dict[str, Any], path: str) -> None:
    assert "unit" in violations(**changed)[path].allowed


@pytest.mark.parametrize(
    ("changed", "path", "words"),
    [
        ({"slo": {"ttft_p50": "2s", "ttft_p95": "1s"}}, "slo", "ttft_p50 at most ttft_p95"),
        ({"traffic": {"requests_per_second": 9, "peak_requests_per_second": 8}}, "traffic", "at least 9"),
        ({"traffic": {"requests_per_second": 1, "concurrent_users": 8}}, "traffic", "one rate of"),
        ({"traffic": {"input_tokens": 10, "shared_prefix_tokens": 10}}, "traffic", "below input_tokens"),
        ({"traffic": {"deadline": "1h"}}, "traffic", "only with kind: batch"),
        ({"scaling": {"min_replicas": 3, "max_replicas": 2}}, "scaling", "at most max_replicas (2)"),
        ({"scaling": {"min_replicas": 0}}, "scaling", "both or neither"),
        ({"scaling": {"scale_to_zero_after": "10m"}}, "scaling", "both or neither"),
        ({"scaling": {"scale_in_delay": "61m"}}, "scaling", "at most 1h"),
        (
            {"hardware": {"memory_request": "2Gi", "memory_limit": "1Gi"}},
            "hardware",
            "at least memory_request",
        ),
        ({"request_timeout": "30s", "stream_timeout": "20s"}, "(document)", "at least request_timeout"),
        ({"traffic": {"kind": "batch"}, "slo": {"ttft_p95": "1s"}}, "(document)", "no latency objective"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(
    changed: dict[str, Any], path: str, words: str
) -> None:
    assert words in violations(**changed)[path].allowed


def test_a_value_that_fits_no_member_of_a_union_is_one_violation_at_its_own_path() -> None:
    found = violations(warm="yes", engine={"kind": "vllm", "max_num_seqs": 0})
    assert set(found) == {"warm", "engine.max_num_seqs"}
    assert "integer" in found["warm"].allowed
    assert "'auto'" in found["warm"].allowed


@pytest.mark.parametrize("name", ["Chat", "-a", "a-", "a_b", "a" * 41, "", "1a", 5, None, ["a"]])
def test_a_name_that_no_service_can_have_is_refused(name: object) -> None:
    assert "name" in violations(name=name)


@pytest.mark.parametrize("name", ["vllm", "vllm-chat"])
def test_a_service_called_vllm_would_set_the_engines_own_variable_so_the_name_is_refused(name: str) -> None:
    assert "VLLM_PORT" in violations(name=name)["name"].allowed


@pytest.mark.parametrize("value", [float("inf"), float("nan"), float("-inf")])
def test_a_number_that_is_none_is_refused(value: float) -> None:
    assert "traffic.requests_per_second" in violations(traffic={"requests_per_second": value})


@pytest.mark.parametrize(
    "changed",
    [
        {"model": {"id": "x", "token_secret": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"}},
        {"model": {"id": "x", "tokn": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"}},
        {"labels": ["hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"]},
        {"api_key_secret": {"nme": "sk-abcdefghijklmnopqrstuvwxyz"}},
    ],
)
def test_an_error_never_repeats_what_looks_like_a_credential(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        ServingStackArgs.parse(MINIMAL | changed)
    assert "abcdefghij" not in str(caught.value)
    assert "[secret]" in str(caught.value)


def test_the_key_leaves_out_what_nobody_set_so_a_new_default_does_not_change_it() -> None:
    assert (
        key() == "a53a00a53da2e95b"
    )  # of the three fields alone; it must not move with a new optional field
    assert key(traffic={"ramp": "5m"}) != key()


def test_the_key_is_the_same_for_every_spelling_of_the_same_input() -> None:
    assert key(hardware={"accelerators": ["A100", "H100"]}) == key(
        hardware={"accelerators": ["a100-80gb", "h100-80gb"]}
    )
    assert key(request_timeout="60s") == key(request_timeout="1m")
    assert key(model={"id": "x", "parameters": "8B"}) == key(model={"parameters": 8e9, "id": "x"})
    assert key(traffic={"requests_per_second": 8}) == key(traffic={"requests_per_second": 8.0})


def test_the_key_tells_close_values_apart() -> None:
    assert key(model={"id": "x", "weight_bytes": "1000000000B"}) != key(
        model={"id": "x", "weight_bytes": "1000000001B"}
    )
    assert key(slo={"ttft_p95": "500ms"}) != key(slo={"ttft_p95": "501ms"})


@given(st.permutations([*MINIMAL.items(), ("slo", {"ttft_p95": "1s", "tpot_p95": "50ms"}), ("warm", 1)]))
def test_the_key_does_not_depend_on_the_order_of_the_fields(items: list[tuple[str, Any]]) -> None:
    reordered = {
        name: dict(reversed(value.items())) if isinstance(value, dict) else value for name, value in items
    }
    assert ServingStackArgs.parse(reordered).key() == ServingStackArgs.parse(dict(items)).key()


def test_args_as_written_are_read_back_with_the_same_key() -> None:
    args = ServingStackArgs.parse(
        MINIMAL
        | {
            "slo": {"ttft_p95": "1234567us"},
            "hardware": {"memory_request": "1500000001B", "accelerators": ["l4"]},
            "observability": {"alerts": False},
        }
    )
    again = ServingStackArgs.parse(args.model_dump(mode="json", exclude_unset=True))
    assert again == args
    assert again.key() == args.key()


def test_alerts_are_turned_off_by_false() -> None:
    assert ServingStackArgs.parse(MINIMAL | {"observability": {"alerts": False}}).observability.alerts is None
    assert ServingStackArgs.parse(MINIMAL).observability.alerts is not None


def test_args_cannot_be_changed_after_they_were_checked() -> None:
    args = ServingStackArgs.parse(MINIMAL)
    with pytest.raises(ValueError, match="frozen"):
        args.name = "other"  # type: ignore[misc]
