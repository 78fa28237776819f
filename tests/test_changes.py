"""A change in words shows what differs: never two sides that look the same, never noise."""

from __future__ import annotations

import json

from servingstack.changes import Change, changes, decision_changes, summarised

ARGS = ["--served-model-name=meta-llama/Meta-Llama-3-8B-Instruct", "--max-model-len=4096", "--enable-x"]


def words(before: object, after: object) -> list[str]:
    return [line for change in changes(before, after, "x") for line in change.lines()]


def test_a_list_of_arguments_shows_the_ones_that_changed_came_and_went() -> None:
    after = [ARGS[0], "--max-model-len=8192", "--seed=1"]
    assert words(ARGS, after) == [
        "x: --max-model-len=4096 => --max-model-len=8192",
        "x: - --enable-x",
        "x: + --seed=1",
    ]


def test_long_texts_are_shown_where_they_part() -> None:
    (line,) = words("a" * 200 + " old tail", "a" * 200 + " new tail")
    assert line == f"x: ...{'a' * 19} old tail => ...{'a' * 19} new tail"


def test_texts_that_part_nowhere_but_in_their_length_do_not_look_the_same() -> None:
    (line,) = words("a" * 200, "a" * 300)
    before, after = line.removeprefix("x: ").split(" => ")
    assert before != after


def test_json_in_a_text_is_compared_by_path_and_panels_by_title() -> None:
    panels = [{"title": f"P{number}", "targets": [{"expr": "up"}]} for number in range(9)]
    after = [panel | {"targets": [{"expr": "down"}]} for panel in panels]
    one = [*panels[:3], after[3], *panels[4:]]
    assert words(json.dumps({"panels": panels}), json.dumps({"panels": one})) == [
        "x: panels[P3].targets[0].expr: up => down"
    ]
    (line,) = words(json.dumps({"panels": panels}), json.dumps({"panels": after}))
    assert line.startswith("x: 9 panels changed: panels[P0].targets[0].expr, ")


def test_many_rules_are_counted_and_named() -> None:
    old = {"rules": [{"alert": f"A{number}", "expr": "a"} for number in range(20)]}
    new = {"rules": [{"alert": f"A{number}", "expr": "b"} for number in range(20)]}
    (line,) = summarised(tuple(changes(old, new)))
    assert line.startswith("20 expressions changed: rules[A0].expr, ")
    assert line.endswith("and 8 more")


def test_rules_that_share_names_are_counted_by_name() -> None:
    old = [{"record": "r", "expr": "1"}, {"record": "r", "expr": "2"}]
    new = [*old[:1], {"record": "r", "expr": "3"}, {"record": "s", "expr": "4"}]
    assert words(old, new) == ["x: 1 changed: r", "x: 1 added: s"]


def test_of_a_long_file_only_lines_that_differ_are_shown_and_only_a_few() -> None:
    old = [f"line {number}" for number in range(100)]
    assert words("\n".join(old), "\n".join([*old[:50], "other", *old[51:]])) == ["x: line 50 => other"]
    lines = words("\n".join(old), "\n".join(f"new {line}" for line in old))
    assert lines[0] == "x: 100 lines differ"
    assert lines[1].strip() == "line 0 => new line 0"
    assert lines[-1].strip() == "... and 94 more lines"
    assert len(lines) == 8


def test_objects_are_matched_by_name_so_one_that_is_inserted_is_one_change() -> None:
    old = [{"name": "a", "value": 1}, {"name": "b", "value": 2}]
    new = [{"name": "new", "value": 0}, {"name": "a", "value": 1}, {"name": "b", "value": 3}]
    found = list(changes(old, new, "x"))
    assert found == [Change("x[new]", None, new[0]), Change("x[b].value", 2, 3)]
    (swapped,) = changes(old, old[::-1], "x")
    assert swapped.path == "x (order)"


def test_the_fourth_digit_of_an_estimate_is_noise_and_that_of_a_promise_is_none() -> None:
    def found(path: str, before: float, after: float) -> tuple[Change, ...]:
        return decision_changes({path: before}, {path: after})

    assert found("ttft_ms", 210.02, 210.04) == ()
    assert found("ttft_ms", 210.0, 212.0) != ()
    assert found("threshold_ms", 1500.0, 1501.0) != ()
    assert found("percent", 99.91, 99.94) != ()
    (close,) = found("percent", 99.99999991, 99.99999992)
    before, after = str(close).removeprefix("percent: ").split(" => ")
    assert before != after
