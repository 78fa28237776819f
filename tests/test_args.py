"""The input refuses what it cannot mean, says all that is wrong at once, and hashes what was written."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Strict

from servingstack.args import ServingStackArgs
from servingstack.errors import InvalidInput, Violation
from servingstack.fields import WORDS
from servingstack.later import resolved
from servingstack.naming import KUBERNETES_ROLES

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


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"traffic": {"requests_per_second": True}}, "traffic.requests_per_second"),
        ({"traffic": {"requests_per_second": "8"}}, "traffic.requests_per_second"),
        ({"traffic": {"input_tokens": True}}, "traffic.input_tokens"),
        ({"traffic": {"input_tokens": "8"}}, "traffic.input_tokens"),
        ({"traffic": {"input_tokens": 8.5}}, "traffic.input_tokens"),
        ({"model": {"id": "x", "gated": "1"}}, "model.gated"),
        ({"model": {"id": "x", "gated": 1}}, "model.gated"),
        ({"warm": True}, "warm"),
        ({"hardware": {"prices": {"l4": "1"}}}, "hardware.prices.l4"),
        ({"engine": {"kind": "vllm", "max_num_seqs": "8"}}, "engine.max_num_seqs"),
        ({"engine": {"kind": "vllm", "enable_prefix_caching": 1}}, "engine.enable_prefix_caching"),
    ],
)
def test_a_boolean_or_a_text_is_no_number_and_a_number_no_boolean(changed: dict[str, Any], path: str) -> None:
    assert path in violations(**changed)


def test_no_number_or_boolean_of_the_input_is_read_leniently() -> None:
    """Every field, those to come included: a text or a boolean is refused where a number is meant."""
    for model in _models(ServingStackArgs):
        for name, field in model.model_fields.items():
            for lenient in _numbers_in(field.annotation, field.metadata):
                raise AssertionError(
                    f"{model.__name__}.{name}: {lenient.__name__} without Whole, Number or Flag"
                )


def test_whole_floats_are_integers_as_pulumis_wire_brings_them() -> None:
    args = ServingStackArgs.parse(
        MINIMAL | {"traffic": {"input_tokens": 3.0, "requests_per_second": 2}, "warm": 1.0}
    )
    assert (args.traffic.input_tokens, args.warm) == (3, 1)
    assert isinstance(args.traffic.input_tokens, int)
    assert args.traffic.requests_per_second == 2


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"traffic": {"requests_per_second": 1e308}}, "traffic.requests_per_second"),
        ({"traffic": {"requests_per_second": 1_000_000}}, "traffic.requests_per_second"),
        ({"traffic": {"concurrent_users": 1e12}}, "traffic.concurrent_users"),
        ({"traffic": {"output_tokens_per_second": 1e12}}, "traffic.output_tokens_per_second"),
        ({"traffic": {"peak_requests_per_second": 1e12}}, "traffic.peak_requests_per_second"),
        ({"traffic": {"output_tokens": 10**12}}, "traffic.output_tokens"),
        ({"hardware": {"gpus_per_replica": 1_000_000_000}}, "hardware.gpus_per_replica"),
        ({"hardware": {"max_gpus": 10**12}}, "hardware.max_gpus"),
        ({"engine": {"kind": "vllm", "tensor_parallel_size": 10**9}}, "engine.tensor_parallel_size"),
        ({"scaling": {"max_replicas": 10**9}}, "scaling.max_replicas"),
        ({"scaling": {"queue_depth": 10**9}}, "scaling.queue_depth"),
        ({"warm": 10**9}, "warm"),
        ({"warm": -1}, "warm"),
        ({"hardware": {"prices": {"l4": -1}}}, "hardware.prices.l4"),
    ],
)
def test_a_number_beyond_what_can_be_built_is_refused(changed: dict[str, Any], path: str) -> None:
    assert path in violations(**changed)


_LONG = "a" * 64


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"labels": {"a": _LONG}}, "labels.a"),
        ({"labels": {"a": "b c"}}, "labels.a"),
        ({"labels": {_LONG: "a"}}, f"labels.{_LONG}"),
        ({"labels": {"app.kubernetes.io/name": "a"}}, "labels"),
        ({"observability": {"alerts": {"labels": {"a-b": "c"}}}}, "observability.alerts.labels.a-b"),
        ({"observability": {"alerts": {"labels": {"__a": "c"}}}}, "observability.alerts.labels.__a"),
        ({"hardware": {"nodes": [{"selector": {"a": "b c"}}]}}, "hardware.nodes[0].selector.a"),
        (
            {"hardware": {"nodes": [{"tolerations": [{"key": "a b"}]}]}},
            "hardware.nodes[0].tolerations[0].key",
        ),
        ({"model": {"id": "x", "token_secret": {"name": "A_b"}}}, "model.token_secret.name"),
        ({"api_key_secret": {"name": "a", "key": "a/b"}}, "api_key_secret.key"),
        (
            {"target": {"kubernetes": {"monitoring_namespace": "a.b"}}},
            "target.kubernetes.monitoring_namespace",
        ),
        ({"target": {"kubernetes": {"ingress_namespace": "A"}}}, "target.kubernetes.ingress_namespace"),
        (
            {"target": {"kubernetes": {"weights_storage_class": "a b"}}},
            "target.kubernetes.weights_storage_class",
        ),
        ({"target": {"kubernetes": {"prometheus_auth": "A"}}}, "target.kubernetes.prometheus_auth"),
        ({"target": {"kubernetes": {"topology_key": "a b"}}}, "target.kubernetes.topology_key"),
        ({"target": {"kubernetes": {"monitor_labels": {"a": _LONG}}}}, "target.kubernetes.monitor_labels.a"),
    ],
)
def test_a_name_that_the_api_server_refuses_is_refused_before(changed: dict[str, Any], path: str) -> None:
    assert any(found == path or found.startswith(f"{path}.") for found in violations(**changed))


@pytest.mark.parametrize(
    "model",
    [
        {"id": "--trust-remote-code"},
        {"id": "a/b\nc"},
        {"id": "$(HF_TOKEN)"},
        {"id": "a/b/c"},
        {"id": "../a"},
        {"id": "x", "source": "pvc://claim/../../etc"},
        {"id": "x", "source": "pvc://claim/$(HF_TOKEN)"},
        {"id": "x", "source": "pvc://claim/a b"},
        {"id": "x", "revision": "-a"},
    ],
)
def test_a_model_is_named_by_what_cannot_be_read_as_anything_else(model: dict[str, Any]) -> None:
    assert [path for path in violations(model=model) if path.startswith("model.")]


@pytest.mark.parametrize("source", ["hf", "pvc://weights", "pvc://weights/", "pvc://weights/a/b-1.0_x"])
def test_weights_come_from_the_hub_or_a_path_on_a_claim(source: str) -> None:
    assert ServingStackArgs.parse(MINIMAL | {"model": {"id": "x", "source": source}}).model.source == source


@pytest.mark.parametrize("namespace", ["kube-system", "kube-x", "default"])
def test_a_namespace_of_the_clusters_own_is_not_made_restricted(namespace: str) -> None:
    place = {"option": "kubernetes", "kubernetes": {"namespace": namespace}}
    assert "create_namespace" in violations(target=place)["target.kubernetes"].fix
    place["kubernetes"] = {"namespace": namespace, "create_namespace": False}
    assert ServingStackArgs.parse(MINIMAL | {"target": place})


@pytest.mark.parametrize("field", ["prometheus", "grafana"])
@pytest.mark.parametrize("user", ["admin:hunter2", "admin", ":hunter2"])
def test_an_address_with_a_credential_is_refused_and_not_repeated(field: str, user: str) -> None:
    place = {"kubernetes": {field: f"http://{user}@prom:9090"}}
    found = violations(target=place)[f"target.kubernetes.{field}"]
    assert "hunter2" not in str(found)
    assert "credential" in found.allowed or "user or password" in found.allowed


@pytest.mark.parametrize("role", KUBERNETES_ROLES)
def test_no_stack_is_called_as_an_object_of_another_is(role: str) -> None:
    assert "of the same name" in violations(name=f"chat-{role}")["name"].allowed
    assert ServingStackArgs.parse(MINIMAL | {"name": f"{role}-chat"})


_TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": {"kind": "vllm", "extra_env": {"A": _TOKEN}}},
        {"engine": {"kind": "vllm", "extra_args": [f"--api-key={_TOKEN}"]}},
        {"overrides": {"deployment": {"metadata": {"annotations": {"a": _TOKEN}}}}},
        {"overrides": {"deployment": {_TOKEN: 1}}},
        {"model": {"id": "x", "token_secret": {"name": _TOKEN}}},
        {"labels": {"a": {"secure": "v1:abc"}}},
    ],
)
def test_python_refuses_a_credential_in_plain_text_as_a_document_does(changed: dict[str, Any]) -> None:
    found = violations(**changed)
    assert any("plain text" in item.allowed for item in found.values())
    assert _TOKEN not in "\n".join(map(str, found.values()))


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": {"kind": "vllm", "extra_args": ["--api-key=hunter2pw"]}},
        {"engine": {"kind": "vllm", "extra_args": ["--api-key", "hunter2pw"]}},
        {"engine": {"kind": "sglang", "extra_args": ["--admin-api-key=hunter2pw"]}},
        {"observability": {"alerts": {"runbook_base_url": "https://wiki.example/runbooks?token=hunter2pw"}}},
    ],
)
def test_what_a_flag_or_a_query_says_to_be_a_secret_is_refused_and_not_repeated(
    changed: dict[str, Any],
) -> None:
    """However short it is, and of no known form."""
    found = violations(**changed)
    assert found
    assert "hunter2pw" not in "\n".join(map(str, found.values()))


def test_typed_args_are_searched_for_credentials_too() -> None:
    args = ServingStackArgs.model_validate(MINIMAL | {"overrides": {"door": {"a": _TOKEN}}})
    with pytest.raises(InvalidInput, match="plain text"):
        ServingStackArgs.parse(args)


@pytest.mark.parametrize("field", ["name", "labels", "warm", "request_timeout"])
def test_an_output_is_named_and_never_printed(field: str) -> None:
    class Output:
        def __str__(self) -> str:
            return "Calling __str__ on an Output[T] is not supported."

    found = violations(**{field: Output()})[field]
    assert "plain" in found.allowed
    assert "__str__" not in str(found)


@pytest.mark.parametrize("document", [None, [1], "abc", 5, {1: 2}])
def test_what_is_no_object_is_refused_as_invalid_input(document: Any) -> None:
    with pytest.raises(InvalidInput):
        ServingStackArgs.parse(document)


@pytest.mark.parametrize(
    ("changed", "path", "words"),
    [
        (
            {"scaling": {"min_replicas": 0, "scale_to_zero_after": "1ms"}},
            "scaling.scale_to_zero_after",
            "at least 1s",
        ),
        ({"slo": {"tpot_p95": "50ms"}, "traffic": {"output_tokens": 1}}, "(document)", "no slo.tpot_p95"),
        ({"stream_timeout": "30d"}, "(document)", "at most 24h"),
    ],
)
def test_what_could_never_be_kept_is_refused(changed: dict[str, Any], path: str, words: str) -> None:
    assert words in violations(**changed)[path].allowed


def test_mappings_cannot_be_changed_from_either_side_so_the_key_stays() -> None:
    overrides = {"door": {"metadata": {"annotations": {"a": "b"}}}}
    args = ServingStackArgs.parse(MINIMAL | {"labels": {"a": "b"}, "overrides": overrides})
    before = args.key()
    overrides["door"]["metadata"]["annotations"]["a"] = "c"
    assert args.key() == before
    assert args.labels is not None
    with pytest.raises(TypeError, match="cannot be changed"):
        args.labels["c"] = "d"  # type: ignore[index]
    with pytest.raises(TypeError, match="cannot be changed"):
        args.overrides["door"]["metadata"].clear()  # type: ignore[index]
    assert args.model_copy(deep=True).key() == pickle.loads(pickle.dumps(args)).key() == before


def _models(model: type[BaseModel]) -> list[type[BaseModel]]:
    """The model and all below it, those that are loaded later included."""
    fields = map(resolved, model.model_fields.values())
    inner = [found for field in fields for found in _models_in(field.annotation)]
    return [model, *(deep for each in inner for deep in _models(each))]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [found for inner in get_args(annotation) for found in _models_in(inner)]


def _numbers_in(annotation: Any, metadata: Sequence[Any]) -> list[type]:
    """Number types that no metadata guards, however deep."""
    if annotation in (int, float, bool):
        guarded = any(isinstance(item, Strict | BeforeValidator) for item in metadata)
        return [] if guarded else [annotation]
    if hasattr(annotation, "__metadata__"):
        return _numbers_in(annotation.__origin__, [*metadata, *annotation.__metadata__])
    return [found for inner in get_args(annotation) for found in _numbers_in(inner, metadata)]


def test_warm_replicas_are_not_negative() -> None:
    assert "warm" in violations(warm=-5)


def test_every_number_of_the_input_has_a_lower_and_an_upper_bound() -> None:
    """Fields to come included: a number without bounds ends in a plan without sense, or in an overflow."""
    for model in _models(ServingStackArgs):
        for name, field in model.model_fields.items():
            for bounds in _bounds_of_numbers(field.annotation, field.metadata):
                assert bounds & {"ge", "gt"}, f"{model.__name__}.{name} has no lower bound"
                assert bounds & {"le", "lt"}, f"{model.__name__}.{name} has no upper bound"


def _bounds_of_numbers(annotation: Any, metadata: Sequence[Any]) -> list[set[str]]:
    """Names of the bounds on each number type in an annotation, however deep."""
    if annotation in (int, float):
        kinds = ("ge", "gt", "le", "lt")
        return [{kind for kind in kinds for item in metadata if getattr(item, kind, None) is not None}]
    if hasattr(annotation, "__metadata__"):
        inner = [each for item in annotation.__metadata__ for each in getattr(item, "metadata", [item])]
        return _bounds_of_numbers(annotation.__origin__, [*metadata, *inner])
    return [found for each in get_args(annotation) for found in _bounds_of_numbers(each, metadata)]


def test_a_hold_needs_scale_to_zero_and_a_timeout_a_second() -> None:
    assert "scale_to_zero_after" in violations(scaling={"hold": "2m"})["scaling"].allowed
    assert "at least 1s" in violations(request_timeout="400ms")["request_timeout"].allowed


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        (0.99, "mean 99?"),
        (0.9995, "mean 99.95?"),
        (49.9, "Correct"),
        (1, "Correct"),
        (0, "Correct"),
        (100, "Corr"),
    ],
)
def test_an_availability_written_as_a_fraction_is_no_promise_of_one_percent(given: float, fix: str) -> None:
    found = violations(slo={"availability": given})["slo.availability"]
    assert found.allowed == "a percentage from 50 to below 100"
    assert fix in found.fix
    assert ServingStackArgs.parse(MINIMAL | {"slo": {"availability": 50}}).slo.availability == 50


@pytest.mark.parametrize("given", ["99.9", True, None, float("nan")])
def test_an_availability_is_a_number(given: object) -> None:
    assert "slo.availability" in violations(slo={"availability": given})


@pytest.mark.parametrize(
    ("engine", "given", "fix"),
    [
        ({"tensor_parallel_size": 2}, None, "Add `kind: vllm`"),
        ({}, None, "Add `kind: vllm`"),
        ({"kind": "tgi"}, "tgi", "Use one of these"),
        ({"kind": "vlm"}, "vlm", "Did you mean `vllm`?"),
        ({"kind": 5}, 5, "Use one of these"),
    ],
)
def test_an_engine_without_its_kind_is_told_the_kinds(engine: object, given: object, fix: str) -> None:
    found = violations(engine=engine)
    assert set(found) == {"engine.kind"}
    assert found["engine.kind"].value == given
    assert found["engine.kind"].allowed == "one of auto, vllm, sglang, triton, torchserve"
    assert fix in found["engine.kind"].fix


@pytest.mark.parametrize(
    ("changed", "path", "allowed", "fix"),
    [
        ({"model": "some/id"}, "model", "an object with id, source", "Write `model: {id: some/id}`."),
        (
            {"target": "kubernetes"},
            "target",
            "an object with option",
            "Write `target: {option: kubernetes}`.",
        ),
        ({"traffic": 5}, "traffic", "an object with kind", "Write `traffic: {requests_per_second: 5}`."),
        ({"slo": []}, "slo", "an object with ttft_p50", "Write `ttft_p50: ...`"),
        ({"engine": "vllm"}, "engine", "an object with kind", "Write `engine: {kind: vllm}`."),
        ({"api_key_secret": "x"}, "api_key_secret", "an object with name, key", "{name: NAME, key: KEY}"),
        ({"hardware": {"accelerators": "l4"}}, "hardware.accelerators", "a list", "Write `[l4]`."),
        ({"hardware": {"nodes": ["l4"]}}, "hardware.nodes[0]", "an object", "Write `- {accelerator: l4}`."),
        ({"labels": ["a"]}, "labels", "an object", "Write `key: ...`"),
        ({"labels": {"a": 5}}, "labels.a", "a text", "Put it in quotes."),
        (
            {"traffic": {"requests_per_second": "8"}},
            "traffic.requests_per_second",
            "a number",
            "without quotes",
        ),
        ({"traffic": {"input_tokens": 8.5}}, "traffic.input_tokens", "a whole number", "Round it."),
        ({"traffic": {"input_tokens": 0}}, "traffic.input_tokens", "at least 1", "Raise it."),
        ({"hardware": {"accelerators": []}}, "hardware.accelerators", "at least 1 in the list", "Add one"),
        ({"model": {"id": "x" * 300}}, "model.id", "at most 200 characters", "Shorten it."),
        ({"model": {"id": "a/b/c"}}, "model.id", "`name` or `owner/name`", "Correct"),
        ({"name": "Chat"}, "name", "at most 40 lower case letters", "Correct"),
    ],
)
def test_an_error_speaks_of_the_document_and_not_of_the_library_that_checks_it(
    changed: dict[str, Any], path: str, allowed: str, fix: str
) -> None:
    found = violations(**changed)[path]
    assert found.allowed.startswith(allowed) or allowed in found.allowed
    assert fix in found.fix
    for jargon in ("instance of", "dictionary", "tuple", "pattern", "String should", "discriminator"):
        assert jargon not in str(found)


def test_every_pattern_of_the_input_has_words() -> None:
    """Fields to come included: a regular expression is no error message."""
    assert _patterns(ServingStackArgs.model_json_schema()) - _WRITTEN_WITH_A_UNIT <= WORDS.keys()


_WRITTEN_WITH_A_UNIT = {r"^(\d+(\.\d+)?(us|ms|s|m|h|d))+$", r"^\d+(\.\d+)?\s*([KMGTPkmgtp]i?[Bb]?|[Bb])$"}


def _patterns(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {found for inner in schema for found in _patterns(inner)}
    if not isinstance(schema, dict):
        return set()
    own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set[str]()
    return own | set(schema.get("patternProperties", {})) | _patterns(list(schema.values()))


@pytest.mark.parametrize(
    "changed",
    [
        {"api_key_secret": "hunter2!"},
        {"api_key_secret": ["hunter2!"]},
        {"api_key_secret": {"name": "hunter2!"}},
        {"api_key_secret": {"name": "a", "key": "hunter2!"}},
        {"api_key_secret": {"name": "a", "value": "hunter2!"}},
        {"api_key": "hunter2!"},
        {"model": {"id": "x", "token_secret": "hunter2!"}},
        {"model": {"id": "x", "token": "hunter2!"}},
        {"model": {"id": "x", "token_secret": {"name": "hunter2!"}}},
    ],
)
def test_what_stands_in_the_place_of_a_secret_is_never_repeated_however_short(
    changed: dict[str, Any],
) -> None:
    found = violations(**changed)
    assert "hunter2" not in "\n".join(map(str, found.values()))
    assert "[secret]" in {item.value for item in found.values()}


def test_a_number_of_tokens_is_no_secret() -> None:
    assert violations(traffic={"input_tokens": -1})["traffic.input_tokens"].value == -1
