"""The printed plan answers, in order: what, why, on what, how it scales, what it promises, what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sample import sample_plan

from servingstack.cli.plan_text import console, plan_view, usd
from servingstack.plan import Alternative, Assumption, PlanWarning, ServingPlan
from servingstack.planner import plan
from servingstack.watched import Unavailable


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


QWEN: dict[str, Any] = {
    "name": "chat",
    "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096},
    "traffic": {"requests_per_second": 2, "input_tokens": 512, "output_tokens": 128},
}


def row(text: str, name: str) -> str:
    """The line of a section that begins with a name."""
    return next(line.strip() for line in text.splitlines() if line.startswith(f"  {name}  "))


@pytest.mark.parametrize("option", ["sagemaker", "cloud-run", "container-apps", "modal"])
def test_a_rented_machine_is_told_apart_from_what_a_replica_needs_and_has_no_pods(
    option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = {"container_apps": {"ephemeral_storage": "60GiB"}} if option == "container-apps" else {}
    found = plan(QWEN | {"target": {"option": option, **room}})
    text = rendered(found, capsys, monkeypatch)
    assert "the whole machine" in row(text, "host has")
    assert "cores" in row(text, "host needs")
    assert "placeholder pods" not in text
    assert "(limit " not in text
    paths = [each.path for each in found.assumed]
    assert not {"hardware.cpu_request", "hardware.memory_request", "hardware.memory_limit"} & set(paths)
    assert "rollout.surge" not in paths, "a service starts a whole version beside the old one"
    assert len(paths) == len(set(paths)), "each is said once"


@pytest.mark.parametrize(
    ("delay", "period", "said"),
    [
        (300, 90, "after 300 s of low load, one replica each 90 s"),
        (300, 0, "after 300 s of low load, all that are spare at once"),
        (0, 658, "while load is low, at most a step each 658 s"),
        (0, 0, None),
    ],
)
def test_scaling_in_is_printed_as_the_option_does_it_or_not_at_all(
    delay: int,
    period: int,
    said: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = sample_plan(scaling={"scale_in_delay_s": delay, "scale_in_period_s": period})
    text = rendered(found, capsys, monkeypatch)
    assert ("scale in" in text) == (said is not None)
    assert said is None or said in text


def test_answers_into_a_bucket_have_no_stream_and_no_client_that_waits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = {"option": "sagemaker", "sagemaker": {"mode": "asynchronous"}}
    scaling = {"scale_to_zero_after": "20m", "min_replicas": 0}
    found = plan(
        QWEN | {"target": target, "scaling": scaling, "traffic": QWEN["traffic"] | {"kind": "batch"}}
    )
    text = rendered(found, capsys, monkeypatch)
    times = text[text.index("Timeouts") : text.index("Expected at the peak")]
    assert not [word for word in ("stream", "client") if word in times]
    assert "requests of the backlog a replica" in text
    assert "stream_timeout" not in {each.path for each in found.assumed}


def test_options_that_were_compared_are_named_and_a_refusal_is_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dearer, _ = full_plan().alternatives
    refused = dearer.model_copy(
        update={"option": "cloud-run", "accelerator": "", "gpus_per_replica": 0, "lost_because": "no GPU"}
    )
    other = dearer.model_copy(update={"option": "sagemaker"})
    text = rendered(sample_plan().model_copy(update={"alternatives": (refused, other)}), capsys, monkeypatch)
    assert "  cloud-run cannot serve this: no GPU\n" in text
    assert "0 x" not in text
    assert row(text, "sagemaker").split()[:4] == ["sagemaker", "1", "x", "h100-80gb"]


def test_signals_that_are_missing_for_one_reason_stand_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sample_plan()
    missing = tuple(Unavailable(signal=name, reason="Not exported.") for name in ("ttft_p50", "ttft_p95"))
    watched = found.monitoring.model_copy(update={"unavailable": missing})
    text = rendered(found.model_copy(update={"monitoring": watched}), capsys, monkeypatch)
    assert "  ttft_p50, ttft_p95\n    Not exported.\n" in text
    assert text.count("Not exported.") == 1


def test_what_nothing_is_known_of_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = plan(
        {
            "name": "draw",
            "model": {"id": "stability-ai/sdxl", "revision": "0" * 64, "task": "other"},
            "target": {"option": "replicate", "replicate": {"owner": "acme"}},
            "hardware": {"instance_type": "gpu-l40s"},
            "scaling": {"min_replicas": 1, "max_replicas": 2},
        }
    )
    text = rendered(found, capsys, monkeypatch)
    assert row(text, "option").split() == ["option", "replicate"]
    assert not [word for word in ("0 B", "after 0 s", "Objectives") if word in text]
    assert {found.summary()[name] for name in ("ttft_p95_ms", "tpot_p95_ms", "max_model_len")} == {None}
