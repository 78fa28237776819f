"""Stack files of every shape become the same args; what is wrong in any of them is told at once."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servingstack import documents
from servingstack.args import ServingStackArgs
from servingstack.documents import ConfigValue, Document, StackOutput, merge, parse_text
from servingstack.errors import Infeasible, InvalidInput, Violation
from servingstack.handed_on import EXISTING
from servingstack.planner import plan
from servingstack.targets import REGISTRY

NEWLINE = "\n"
TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
CHAT = "name: chat\nmodel: {id: meta-llama/Llama-3.1-8B-Instruct}\ntarget: {option: kubernetes}\n"


def refused(text: str) -> dict[str, Violation]:
    with pytest.raises(InvalidInput) as caught:
        parse_text(text, "file.yaml")
    assert TOKEN not in str(caught.value)
    return {item.path: item for item in caught.value.violations}


def accepted(text: str) -> Document:
    return parse_text(text, "file.yaml")


def test_the_three_shapes_of_a_file_say_the_same() -> None:
    one = accepted(CHAT)
    listed = accepted(f"stacks: [{{{CHAT.strip().replace(NEWLINE, ', ')}}}]")
    environment = accepted(
        "encryptionsalt: v1:abc\nconfig:\n  aws:region: eu-west-1\n"
        "  servingstack:defaults:\n    target: {option: kubernetes}\n"
        "  servingstack:stacks:\n  - name: chat\n    model: {id: meta-llama/Llama-3.1-8B-Instruct}\n"
    )
    keys = {document.stacks[0].args.key() for document in (one, listed, environment)}
    assert len(keys) == 1
    assert one.single
    assert not listed.single


def test_defaults_merge_deeply_lists_replace_and_null_resets() -> None:
    document = accepted(
        """
        defaults:
          model: {id: Qwen/Qwen2.5-7B-Instruct, max_model_len: 4096}
          target: {option: kubernetes}
          slo: {ttft_p95: 1s, tpot_p95: 50ms}
          hardware: {accelerators: [a100, h100], max_gpus: 8}
          observability: {alerts: {labels: {team: ml}}}
        stacks:
        - name: a
          slo: {ttft_p95: 500ms}
          hardware: {accelerators: [l4]}
        - name: b
          slo: null
          hardware: {max_gpus: null}
          observability: {alerts: null}
          model: {max_model_len: 8192}
        """
    )
    a, b = (entry.args for entry in document.stacks)
    assert a.slo.ttft_p95 is not None
    assert a.slo.ttft_p95.total_seconds() == 0.5
    assert a.slo.tpot_p95 is not None
    assert a.hardware.accelerators == ("l4",)
    assert a.hardware.max_gpus == 8
    assert b.slo.tpot_p95 is None
    assert b.hardware.max_gpus is None
    assert b.hardware.accelerators == ("a100-80gb", "h100-80gb")
    assert b.model.max_model_len == 8192
    assert b.observability.alerts is not None
    assert b.observability.alerts.labels is None


def test_a_field_reset_by_null_leaves_the_key_as_if_it_had_never_been_set() -> None:
    with_null = accepted(CHAT + "scaling: {scale_to_zero_after: null}\nwarm: null\n")
    never = accepted(CHAT + "scaling: {}\n")
    assert with_null.stacks[0].args.key() == never.stacks[0].args.key()


def test_null_resets_in_defaults_and_for_what_exists_too() -> None:
    document = accepted(
        f"defaults: {{slo: null, existing: null}}\nstacks: [{{{CHAT.strip().replace(NEWLINE, ', ')}}}]"
    )
    assert document.stacks[0].args.key() == accepted(CHAT).stacks[0].args.key()
    assert accepted(CHAT + "existing: null\n").stacks[0].existing == {}


def test_a_null_inside_a_models_own_config_is_a_value() -> None:
    merged = merge({}, {"model": {"config": {"sliding_window": None}}, "warm": None})
    assert merged == {"model": {"config": {"sliding_window": None}}}


def test_another_engine_replaces_the_default_one_with_its_settings() -> None:
    base = {"engine": {"kind": "vllm", "max_num_seqs": 8}}
    assert merge(base, {"engine": {"kind": "auto"}}) == {"engine": {"kind": "auto"}}
    assert merge(base, {"engine": {"max_num_seqs": 4}}) == {"engine": {"kind": "vllm", "max_num_seqs": 4}}


def test_all_violations_of_all_stacks_are_told_at_once_with_the_place_that_holds_the_value() -> None:
    found = refused(
        """
        defaults: {target: {option: kubernetes}, slo: {tpot_p95: 50}, name: x}
        stacks:
        - {name: a, model: {id: x}, traffic: {kind: bach}}
        - {name: b, model: {id: x}, slo: {ttft_p95: 500}}
        - {name: a, modle: {id: x}}
        - 5
        """
    )
    assert set(found) == {
        "defaults.name",
        "defaults.slo.tpot_p95",
        "stacks[0].traffic.kind",
        "stacks[1].slo.ttft_p95",
        "stacks[2].model",
        "stacks[2].modle",
        "stacks[2].name",
        "stacks[3]",
    }
    assert found["stacks[2].modle"].fix == "Did you mean `model`?"


def test_a_file_of_one_stack_has_paths_without_a_list() -> None:
    assert set(refused(CHAT + "slo: {ttft_p95: 500}\n")) == {"slo.ttft_p95"}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("config:\n  servingstack:stacks:\n  - secure: v1:abc\n", "stacks[0]"),
        ("config:\n  servingstack:stacks:\n    secure: v1:abc\n", "stacks"),
        (
            "config:\n  servingstack:stacks:\n  - name: a\n    existing: {kubeconfig: {secure: v1:abc}}\n",
            "stacks[0].existing.kubeconfig",
        ),
        (
            "config:\n  servingstack:defaults: {labels: {a: {secure: x}}}\n  servingstack:stacks: []\n",
            "defaults.labels.a",
        ),
    ],
)
def test_a_secure_value_inside_an_object_is_refused_because_pulumi_would_hand_it_out_in_plain_text(
    text: str, path: str
) -> None:
    violation = refused(text)[path]
    assert "plain text" in violation.allowed
    assert "{config: KEY}" in violation.fix


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (f"existing: {{api_token: {TOKEN}}}", "existing.api_token"),
        (
            "existing: {kubeconfig: 'users: [{user: {client-key-data: abc}}]'}",
            "existing.kubeconfig",
        ),
        (f"labels: {{owner: {TOKEN}}}", "labels.owner"),
        (f"overrides: {{deployment: {{metadata: {{annotations: {{t: {TOKEN}}}}}}}}}", None),
    ],
)
def test_a_credential_in_plain_text_is_refused_and_not_repeated(line: str, path: str | None) -> None:
    found = refused(CHAT + line + "\n")
    violation = next(item for at, item in found.items() if path is None or at.endswith(path))
    assert violation.value == "[secret]"
    assert "plain text" in violation.allowed


def test_what_exists_is_split_off_and_never_reaches_the_args() -> None:
    document = accepted(
        CHAT + "existing: {kubeconfig: {config: kubeconfig}, context: {stack: org/net/prod, output: name}}\n"
    )
    entry = document.stacks[0]
    assert entry.existing == {
        "kubeconfig": ConfigValue("kubeconfig"),
        "context": StackOutput("org/net/prod", "name"),
    }
    assert entry.args.key() == accepted(CHAT).stacks[0].args.key()


@pytest.mark.parametrize(
    "value", ["{config: 5}", "{config: a, output: b}", "{stack: a}", "{}", "{other: 1}", "5"]
)
def test_a_reference_that_is_half_written_is_refused(value: str) -> None:
    assert "existing.context" in refused(CHAT + f"existing: {{context: {value}}}\n")


def test_the_fields_of_existing_are_the_options_own_and_a_misspelling_is_named() -> None:
    assert set(REGISTRY) <= set(EXISTING)
    for option, entry in REGISTRY.items():
        module = import_module(f"{entry.package}.existing")
        (kind,) = [found for name, found in vars(module).items() if name.endswith("Existing")]
        assert list(EXISTING[option]) == [field.name for field in fields(kind)]
    assert (
        refused(CHAT + "existing: {kubecofig: a}\n")["existing.kubecofig"].fix == "Did you mean `kubeconfig`?"
    )


def test_platforms_are_refused_and_kubernetes_needs_none() -> None:
    assert (
        "needs none"
        in refused("platforms: {main: {}}\nstacks:\n- {name: a, model: {id: x}, target: {}}\n")[
            "platforms"
        ].allowed
    )


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("name: a\nname: b\n", "file.yaml line 2", "second time (first in line 1)"),
        ("model:\n  id: a\n  id: b\n", "file.yaml line 3", "`id`"),
        ("name: [a\n", "file.yaml line 2", "expected"),
        ("a: 1\n---\nb: 2\n", "file.yaml line 2", "another document"),
        ("\tname: a\n", "file.yaml line 1", "cannot start any token"),
        (
            "name: !!python/object:os.system a\n",
            "file.yaml line 1",
            "could not determine a constructor",
        ),
    ],
)
def test_bad_yaml_names_the_line(text: str, where: str, words: str) -> None:
    assert words in refused(text)[where].fix


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "name: [a\n",
            "file.yaml line 2: not YAML: expected ',' or ']', but got '<stream end>'. Correct this",
        ),
        ("\tname: a\n", "cannot start any token. Indent with spaces, not with tabs."),
        ("name: a\nname: b\n", "file.yaml line 2: not YAML: the key `name` a second time"),
        ("name: \x00", "file.yaml: not YAML: unacceptable character"),
        ("a: &x [*x]", "file.yaml: "),
    ],
)
def test_a_text_that_is_not_yaml_is_not_called_nothing(text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_text(text, "file.yaml")
    assert told in str(caught.value)
    assert "got nothing" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("5", "file.yaml: got 5;"),
        ("- a", "file.yaml: got 'a list';"),
        (f"stack: {{}}\nstacks:\n- {{{CHAT.strip().replace(NEWLINE, ', ')}}}", "stack: got 'an object';"),
        (CHAT + "existing: {kubecofig: hunter2}", "existing.kubecofig: got 'a text';"),
    ],
)
def test_what_was_given_is_told_by_its_kind(text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_text(text, "file.yaml")
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "5", "- a", "a: &x [*x]", "{1: 2}", "name: \x00", "a: !!binary aGk=", "? [a]\n: b"]
)
def test_what_is_no_document_is_refused_without_a_traceback(text: str) -> None:
    assert refused(text)


def test_yaml_is_read_as_pulumi_reads_it_where_no_is_a_text_and_1e6_a_number() -> None:
    args = (
        accepted(
            "name: 'no'\nmodel: {id: no}\ntarget: {}\n"
            "traffic: {requests_per_second: 1e1}\n"
            "labels: {country: no}\nobservability: {alerts: {labels: {at: 1:30}}}\n"
        )
        .stacks[0]
        .args
    )
    assert args.model.id == "no"
    assert args.traffic.requests_per_second == 10
    assert args.labels == {"country": "no"}
    assert args.observability.alerts is not None
    assert args.observability.alerts.labels == {"at": "1:30"}


def test_anchors_and_merge_keys_work_as_in_any_yaml_file() -> None:
    document = accepted(
        "stacks:\n- &a {name: a, model: {id: x}, target: {option: kubernetes}}\n- {<<: *a, name: b}\n"
    )
    assert [entry.args.name for entry in document.stacks] == ["a", "b"]


def test_a_misspelt_config_key_is_named_and_a_key_of_ones_own_is_left_alone() -> None:
    stacks = "  servingstack:stacks:\n  - {name: a, model: {id: x}, target: {}}\n"
    assert accepted(
        f"config:\n{stacks}  servingstack:kubeconfig: {{secure: v1:x}}\n  other:stack: 1\n"
    ).stacks
    found = refused(f"config:\n{stacks}  servingstack:default: {{}}\n")
    assert found["servingstack:default"].fix == "Did you mean `servingstack:defaults`?"


@pytest.mark.parametrize(
    ("value", "needed"), [("true", True), ("'true'", True), ("false", False), ("'false'", False)]
)
def test_require_lock_is_read_as_written_by_hand_or_by_pulumi_config_set(value: str, needed: bool) -> None:
    stacks = "[{name: a, model: {id: x}, target: {}}]"
    text = f"config: {{servingstack:require_lock: {value}, servingstack:stacks: {stacks}}}"
    assert accepted(text).require_lock is needed


def test_an_esc_environment_is_named_as_not_resolved() -> None:
    text = "environment: [a/b]\nconfig:\n  servingstack:stacks: [{name: a, model: {id: x}, target: {}}]\n"
    assert "not resolved" in accepted(text).notes[0]


def test_a_file_that_cannot_be_read_is_invalid_input(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(InvalidInput, match="a readable YAML file"):
            documents.read(path)
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9\n")
    with pytest.raises(InvalidInput, match="UTF-8"):
        documents.read(tmp_path / "latin.yaml")


_WORDS = [
    "1s",
    "8B",
    "l4",
    "h100",
    "vllm",
    "kubernetes",
    "auto",
    "1Gi",
    "batch",
    "bf16",
    "Qwen/Qwen2.5-7B-Instruct",
]
_FIELDS = [
    "existing",
    "id",
    "kind",
    "ttft_p95",
    "nodes",
    "option",
    "config",
    "secure",
    "requests_per_second",
    "input_tokens",
    "min_replicas",
    "accelerators",
    "stack",
    "output",
]
_numbers = st.integers() | st.floats()
_scalars = st.none() | st.booleans() | _numbers | st.text(max_size=8) | st.sampled_from([*_WORDS, TOKEN])
_names = st.sampled_from([*ServingStackArgs.model_fields, *_FIELDS])
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_names | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)


# The first text of a fresh clone makes Hypothesis' table of Unicode, which takes seconds on a busy machine.
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(_names, _values, max_size=5), st.sampled_from(["one", "stacks", "config"]))
def test_no_document_makes_anything_but_a_plan_or_a_refusal(own: dict[str, Any], shape: str) -> None:
    base = yaml.safe_load(CHAT)
    document: dict[str, Any] = base | own
    if shape != "one":
        document = {"stacks": [base, document], "defaults": own}
    if shape == "config":
        document = {"config": {f"servingstack:{key}": value for key, value in document.items()}}
    try:
        for entry in parse_text(yaml.safe_dump(document, allow_unicode=True), "file.yaml").stacks:
            plan(entry.args)
    except (InvalidInput, Infeasible) as error:
        told = str(error)
    else:
        told = ""
    assert TOKEN not in told


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"\n #?,%@`~1.\t", max_size=40))
def test_no_text_makes_anything_but_a_document_or_a_refusal(text: str) -> None:
    try:
        parse_text(text, "file.yaml")
    except InvalidInput:
        return
