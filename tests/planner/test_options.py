"""Which option `auto` takes, and what is said of those that it does not."""

from __future__ import annotations

from typing import Any

import pytest

from servingstack.errors import Infeasible, InvalidInput
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets import all_capabilities

QWEN = {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096}
LLAMA_70B = {"id": "meta-llama/Llama-3.1-70B-Instruct", "max_model_len": 4096}
TRAFFIC = {"requests_per_second": 2, "peak_requests_per_second": 4, "input_tokens": 512, "output_tokens": 128}
NODE = {"accelerator": "l4", "gpus": 4, "count": 8, "cpu": 40, "memory": "160Gi", "hourly_price": 4.0}


def _plan(model: dict[str, Any] = QWEN, **parts: Any) -> ServingPlan:
    return plan({"name": "chat", "model": model, "traffic": TRAFFIC, **parts})


def _lost(found: ServingPlan) -> dict[str, str]:
    own = found.architecture.option
    return {row.option: row.lost_because for row in found.alternatives if row.option != own}


@pytest.mark.parametrize(("cloud", "option"), [("aws", "sagemaker"), ("gcp", "cloud-run")])
def test_a_cloud_s_own_service_comes_before_a_cluster_that_one_must_bring(cloud: str, option: str) -> None:
    found = _plan(target={"cloud": cloud})
    assert found.architecture.option == option
    assert found.placement is None
    assert "cluster-to-bring" not in {warning.code for warning in found.warnings}


def test_over_all_clouds_the_cheapest_wins_and_each_loser_has_its_reason() -> None:
    found = _plan(target={"cloud": "auto"})
    options = [can.option for can in all_capabilities() if can.cloud in ("aws", "gcp", "azure")]
    assert {found.architecture.option, *_lost(found)} == set(options)
    named = {}
    for option in options:
        try:
            named[option] = _plan(target={"option": option})
        except (InvalidInput, Infeasible) as refusal:
            named[option] = refusal
    plans = {option: each for option, each in named.items() if isinstance(each, ServingPlan)}
    assert len(plans) >= 2
    assert found.cost == plans[found.architecture.option].cost, "named or chosen, it is the same plan"
    for option, reason in _lost(found).items():
        assert ("/h at the mean against $" in reason) == (option in plans), reason


def test_what_no_service_of_the_cloud_can_is_planned_for_a_cluster_and_said_so() -> None:
    found = _plan(LLAMA_70B, target={"cloud": "gcp"})
    assert found.architecture.option == "kubernetes"
    assert found.architecture.cloud == "gcp"
    assert "rtx-pro-6000" in _lost(found)["cloud-run"]
    (warning,) = [each for each in found.warnings if each.code == "cluster-to-bring"]
    assert "cloud-run" in warning.message


def test_nodes_that_are_described_are_a_cluster_s() -> None:
    assert _plan(target={"cloud": "aws"}, hardware={"nodes": [NODE]}).architecture.option == "kubernetes"


def test_without_a_cloud_it_is_a_cluster_as_ever() -> None:
    found = _plan(target={})
    assert found.architecture.option == "kubernetes"
    assert _lost(found) == {}


def test_a_demand_that_nobody_meets_is_refused_with_every_option_s_own_limit() -> None:
    with pytest.raises(Infeasible) as refused:
        _plan(LLAMA_70B, target={"cloud": "gcp"}, slo={"ttft_p95": "1ms"})
    assert [text for text in refused.value.considered if text.startswith("option cloud-run: ")]


def test_an_input_that_is_wrong_everywhere_is_an_invalid_one() -> None:
    with pytest.raises(InvalidInput) as refused:
        _plan(target={"cloud": "aws"}, engine={"kind": "vllm", "tensor_parallel_size": 3})
    assert [each.path for each in refused.value.violations] == ["engine.tensor_parallel_size"]


def test_a_time_limit_is_repeated_as_it_is_written() -> None:
    with pytest.raises(InvalidInput) as refused:
        _plan(target={"option": "container-apps"}, request_timeout="5m")
    (found,) = [each for each in refused.value.violations if each.path == "request_timeout"]
    assert found.value == "5m"


def test_another_cloud_s_option_and_another_option_s_settings_are_refused_together() -> None:
    with pytest.raises(InvalidInput) as refused:
        _plan(target={"option": "cloud-run", "cloud": "aws", "sagemaker": {}, "kubernetes": {}})
    paths = {each.path for each in refused.value.violations}
    assert {"target.cloud", "target.sagemaker", "target.kubernetes"} <= paths


@pytest.mark.parametrize(
    ("target", "source", "reads"),
    [
        ({"option": "kubernetes"}, "s3://bucket/weights", "pvc://..."),
        ({"option": "cloud-run"}, "s3://bucket/weights", "gs://..."),
        ({"option": "sagemaker"}, "gs://bucket/weights", "s3://..."),
    ],
)
@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-7B-Instruct", "BAAI/bge-m3"])
def test_a_bucket_of_a_model_of_weights_is_never_taken_for_a_repository_of_another_engine(
    target: dict[str, str], source: str, reads: str, model: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        _plan({"id": model, "source": source}, target=target)
    (found,) = refused.value.violations
    assert found.path == "model.source"
    assert reads in found.allowed
    assert "engine.kind: triton" in found.fix


def test_an_automatic_choice_never_changes_what_a_bucket_holds() -> None:
    with pytest.raises(InvalidInput, match=r"model\.source"):
        _plan(QWEN | {"source": "s3://bucket/weights"}, target={"cloud": "aws"}, stream_timeout="15m")


@pytest.mark.parametrize("option", ["kubernetes", "sagemaker", "cloud-run", "container-apps"])
def test_overrides_that_the_resources_do_not_take_are_refused_without_an_sdk(option: str) -> None:
    asked = {"target": {"option": option}, "overrides": {"no-such-role": {"a": 1}}}
    with pytest.raises(InvalidInput) as refused:
        _plan({"id": "BAAI/bge-m3"}, **asked | {"traffic": {"requests_per_second": 1}})
    assert [each.path for each in refused.value.violations] == ["overrides.no-such-role"]


def test_an_automatic_choice_takes_the_settings_of_the_option_it_takes_and_names_the_others() -> None:
    target = {"cloud": "auto", "cloud_run": {}, "sagemaker": {}, "kubernetes": {}}
    found = _plan(target=target)
    unused = {w.path for w in found.warnings if w.code == "settings-not-used"}
    chosen = f"target.{found.architecture.option.replace('-', '_')}"
    assert unused == {f"target.{name}" for name in target if name != "cloud"} - {chosen}


def test_where_every_option_refuses_the_input_each_says_why() -> None:
    with pytest.raises(InvalidInput) as refused:
        _plan(QWEN | {"source": "s3://bucket/weights"}, target={"cloud": "aws"}, stream_timeout="15m")
    found = {
        (each.path, option)
        for each in refused.value.violations
        for option in ("sagemaker", "kubernetes")
        if f"option {option}" in each.allowed
    }
    assert {("stream_timeout", "sagemaker"), ("model.source", "kubernetes")} <= found


def _assumed(found: ServingPlan, path: str) -> str:
    (why,) = [each.why for each in found.assumed if each.path == path]
    return why


def test_why_an_option_was_taken_is_the_true_reason() -> None:
    why = {
        "nothing": _assumed(_plan(target={}), "target.option"),
        "nodes": _assumed(_plan(target={"cloud": "aws"}, hardware={"nodes": [NODE]}), "target.option"),
        "cloud": _assumed(_plan(target={"cloud": "aws"}), "target.option"),
        "refused": _assumed(_plan(LLAMA_70B, target={"cloud": "gcp"}), "target.option"),
    }
    assert why["nothing"].startswith("no cloud was named")
    assert why["nodes"].startswith("nodes are described")
    assert why["cloud"] == "the cheapest option that can"
    assert why["refused"].startswith("no service of the cloud can")


@pytest.mark.parametrize("option", ["modal", "replicate"])
def test_a_vendor_beside_the_clouds_asks_for_no_cloud_at_all(option: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        _plan(target={"option": option, "cloud": "aws"})
    (told,) = [each for each in refused.value.violations if each.path == "target.cloud"]
    assert told.fix == "Leave target.cloud out, or use another option."


def test_nodes_are_only_asked_for_where_they_are_read() -> None:
    fixes = {}
    for option in ("modal", "kubernetes"):
        with pytest.raises(InvalidInput) as refused:
            _plan(
                target={"option": option},
                hardware={
                    "accelerators": ["a10g" if option == "kubernetes" else "v100-16gb"],
                    "nodes": [NODE] if option == "kubernetes" else None,
                },
            )
        (fixes[option],) = [e.fix for e in refused.value.violations if e.path == "hardware.accelerators"]
    assert "nodes" not in fixes["modal"]
    assert "nodes" in fixes["kubernetes"]


def test_the_arithmetic_of_a_threshold_says_what_cuts_it() -> None:
    cut = _plan(target={"option": "kubernetes"}, engine={"kind": "vllm", "max_num_seqs": 1}).scaling
    assert "more than a full batch of 1, so 1 waiting per replica" in cut.threshold_arithmetic
    busy = _plan(target={"option": "modal"}).scaling.threshold_arithmetic
    assert "in flight, limited by" in busy


@pytest.mark.parametrize(("option", "delay", "period"), [("modal", True, False), ("sagemaker", False, True)])
def test_a_plan_scales_in_as_its_option_does(option: str, delay: bool, period: bool) -> None:
    scaling = _plan(target={"option": option}).scaling
    assert (scaling.scale_in_delay_s > 0, scaling.scale_in_period_s > 0) == (delay, period)


def test_a_stream_that_ends_with_the_request_is_assumed_so() -> None:
    found = _plan(target={"option": "modal"})
    (row,) = [each for each in found.assumed if each.path == "stream_timeout"]
    assert row.value == f"{found.timeouts.request_s}s" == f"{found.timeouts.stream_s}s"
