"""The printed plan answers, in order: what, why, on what, how it scales, what it promises, what it costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.sample import sample_plan

from servingstack.cli.plan_text import console, plan_view, usd
from servingstack.plan import Alternative, Assumption, PlanWarning, ServingPlan


def rendered(plan: ServingPlan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    console().print(plan_view(plan))
    return "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())


def full_plan() -> ServingPlan:
    """The sample with the parts that a plan may lack."""
    return sample_plan(
        warnings=(PlanWarning(code="pin-it", path="model.revision", message="The branch [main] may move."),),
    ).model_copy(
        update={
            "alternatives": (
                Alternative(
                    option="kubernetes", accelerator="h100-80gb", instance_type=None, gpus_per_replica=1,
                    tensor_parallel_size=1, precision="bf16", replicas=2, hourly_usd=13.76,
                    lost_because="costs more",
                ),
                Alternative(
                    option="kubernetes", accelerator="t4", instance_type="g4dn.xlarge", gpus_per_replica=1,
                    tensor_parallel_size=1, precision="fp16", replicas=None, hourly_usd=None,
                    lost_because="too small",
                ),
            ),
            "assumed": (Assumption(path="warm", value="1", why="from ramp and cold start"),),
        }
    )  # fmt: skip


def test_the_whole_plan_is_printed_as_reviewed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    text = rendered(full_plan(), capsys, monkeypatch)
    golden("cli/plan.txt", text)
    headings = [
        "chat: meta-llama/Meta-Llama-3-8B-Instruct",
        "Architecture",
        "Memory of each GPU",
        "Batching",
        "Scaling",
        "Timeouts",
        "Objectives",
        "Expected at the peak",
        "Cost",
        "Alternatives, and why they lost",
        "Warnings",
        "Assumed, because nobody said",
    ]
    places = [text.index(f"{heading}") for heading in headings]
    assert places == sorted(places)
    assert "<- chosen" in text
    assert "2 x a100-80gb (sxm) a replica" in text
    assert "at 12 waiting requests a replica" in text
    assert "30 s, enforced by front door" in text
    assert "$5,840 (730 h at the minimum), of it $2,920 to stay warm" in text
    assert "147 to 294" in text  # the band of TTFT p50
    assert "too small" in text
    assert "The branch [main] may move. (pin-it)" in text  # brackets are text, not markup


def test_every_memory_part_shows_its_share_and_the_bar_is_never_wider_than_the_gpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = rendered(sample_plan(), capsys, monkeypatch)
    bar = next(line for line in text.splitlines() if line.startswith("  [#"))
    assert bar.index("]") == 51
    for words in ("# weights", "KV cache", "overhead", "reserved"):
        assert words in text


def test_scale_to_zero_says_how_long_requests_are_held(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = sample_plan(scaling={"min_replicas": 0, "scale_to_zero_after_s": 600, "hold_s": 240})
    assert "after 600 s idle, holding requests for up to 240 s" in rendered(plan, capsys, monkeypatch)


def test_small_money_keeps_its_cents() -> None:
    assert [usd(value) for value in (0.526, 999.9, 1000, 80358.4)] == [
        "$0.53",
        "$999.90",
        "$1,000",
        "$80,358",
    ]


def test_fixed_replicas_are_one_number_and_scale_on_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = {"autoscaled": False, "min_replicas": 4, "max_replicas": 4}
    text = rendered(sample_plan(scaling=fixed), capsys, monkeypatch)
    assert "4 replicas, fixed" in text
    assert not [word for word in ("4 to 4", "scales on", "because", "scale in") if word in text]


def test_a_source_that_all_estimates_share_is_named_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = rendered(sample_plan(), capsys, monkeypatch)
    assert text[text.index("Expected at the peak") : text.index("Cost")].count("sample") == 1


def test_a_model_that_generates_no_tokens_has_no_rows_about_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = rendered(sample_plan(batching={"kind": "dynamic"}), capsys, monkeypatch)
    assert "latency ms" in text
    table = text[text.index("Expected at the peak") : text.index("Cost")]
    shown = text[: text.index("Timeouts")] + table
    assert not [word for word in ("TPOT", "TTFT", "tokens/s", "KV cache") if word in shown]
