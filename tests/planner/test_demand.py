"""Defaults, assumptions and models: what nobody gave is listed, what cannot be known is refused."""

from __future__ import annotations

from typing import Any

import pytest

from servingstack.args import ServingStackArgs
from servingstack.errors import InvalidInput
from servingstack.planner import plan
from servingstack.planner.demand import resolve
from servingstack.targets import capabilities

from .build import LLAMA_8B, document


def _assumed(**parts: Any) -> dict[str, str]:
    return {row.path: row.value for row in plan(document(LLAMA_8B, **parts)).assumed}


def _violations(doc: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        plan(doc)
    return {violation.path: violation.allowed for violation in refused.value.violations}


def test_every_default_is_listed_with_its_reason() -> None:
    found = plan(document(LLAMA_8B))
    paths = {row.path for row in found.assumed}
    assert paths >= {
        "engine.kind", "engine.tensor_parallel_size", "engine.gpu_memory_utilization", "engine.max_num_seqs",
        "engine.max_num_batched_tokens", "model.max_model_len", "model.precision", "model.revision",
        "traffic.requests_per_second", "traffic.peak_requests_per_second", "traffic.input_tokens",
        "traffic.output_tokens", "traffic.ramp", "request_timeout", "stream_timeout", "hardware.accelerators",
        "hardware.nodes", "hardware.prices", "hardware.memory_request", "hardware.cpu_request", "warm",
        "scaling.min_replicas", "scaling.max_replicas", "scaling.queue_depth", "scaling.scale_in_delay",
        "rollout.surge", "slo.availability", "exposure",
    }  # fmt: skip
    assert all(row.why and row.value for row in found.assumed)


def test_what_was_given_is_not_assumed() -> None:
    given = _assumed(
        model={"max_model_len": 4096, "precision": "bf16"},
        traffic={
            "requests_per_second": 1, "peak_requests_per_second": 2, "input_tokens": 100,
            "output_tokens": 50, "ramp": "1m",
        },
        request_timeout="20s",
        stream_timeout="200s",
        exposure="private",
        slo={"availability": 99},
    )  # fmt: skip
    for path in (
        "model.max_model_len", "model.precision", "traffic.requests_per_second", "traffic.input_tokens",
        "traffic.ramp", "request_timeout", "stream_timeout", "exposure", "slo.availability",
    ):  # fmt: skip
        assert path not in given


@pytest.mark.parametrize(("tokens", "length"), [((1024, 256), 4096), ((100, 20), 256), ((3000, 1000), 8192)])
def test_the_default_length_holds_the_traffic_twice(tokens: tuple[int, int], length: int) -> None:
    doc = document(LLAMA_8B, traffic={"input_tokens": tokens[0], "output_tokens": tokens[1]})
    assert resolve(ServingStackArgs.parse(doc), capabilities("kubernetes")).max_model_len == length


def test_the_default_length_stays_within_the_model() -> None:
    doc = document(
        "meta-llama/Meta-Llama-3-8B-Instruct", traffic={"input_tokens": 6000, "output_tokens": 500}
    )
    assert resolve(ServingStackArgs.parse(doc), capabilities("kubernetes")).max_model_len == 8192


def test_lengths_that_contradict_each_other_are_invalid() -> None:
    found = _violations(document("meta-llama/Meta-Llama-3-8B-Instruct", model={"max_model_len": 16_384}))
    assert "8192" in found["model.max_model_len"]
    assert "model.max_model_len" in _violations(document(LLAMA_8B, model={"max_model_len": 512}))
    long = document("meta-llama/Meta-Llama-3-8B-Instruct", traffic={"input_tokens": 9000})
    assert "traffic.input_tokens" in _violations(long)


def test_an_unknown_model_names_all_three_ways_and_what_is_close() -> None:
    with pytest.raises(InvalidInput) as refused:
        plan(document("meta-llama/Llama-3.1-8B-Instructt"))
    (violation,) = refused.value.violations
    assert "model.config" in violation.allowed
    assert "model.parameters" in violation.allowed
    assert "meta-llama/Llama-3.1-8B-Instruct" in violation.fix


def test_a_config_sizes_a_model_outside_the_catalog() -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 32,
        "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "vocab_size": 128256, "max_position_embeddings": 131072,
    }  # fmt: skip
    found = plan(document("me/mine", model={"config": config}))
    known = plan(document(LLAMA_8B))
    assert found.architecture.weight_bytes == known.architecture.weight_bytes
    assert found.scaling == known.scaling


def test_f115_a_hybrid_cache_cannot_be_sized_and_says_so() -> None:
    assert "cannot" in _violations(document("Qwen/Qwen3.5-27B"))["model.id"]


def test_the_stored_size_can_be_given() -> None:
    found = plan(document(LLAMA_8B, model={"weight_bytes": "20GB"}))
    assert found.architecture.weight_bytes == pytest.approx(20e9, rel=0.001)


@pytest.mark.parametrize("task", ["embed", "classify"])
def test_pooling_models_are_planned_without_a_cache(task: str) -> None:
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "num_hidden_layers": 24, "hidden_size": 1024,
        "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 30522,
        "max_position_embeddings": 512,
    }  # fmt: skip
    found = plan(document("me/bert", model={"config": config, "task": task}, traffic={"input_tokens": 200}))
    assert found.architecture.task == task
    assert found.architecture.kv_cache_tokens == 0
    assert found.expected.tpot_p95_ms.value == 0
    assert ("runner", "pooling") in {(flag.name, flag.value) for flag in found.container.flags}


def test_a_task_that_an_engine_does_not_serve_is_refused_with_its_own_tasks() -> None:
    asked = document(LLAMA_8B, model={"task": "other"}, engine={"kind": "vllm"})
    allowed = _violations(asked)["model.task"]
    assert "vllm" in allowed
    assert "embed" in allowed


def test_a_peak_below_the_mean_in_tokens_is_invalid() -> None:
    traffic = {"output_tokens_per_second": 2560, "output_tokens": 256, "peak_requests_per_second": 5}
    assert (
        "at least the mean, 10"
        in _violations(document(LLAMA_8B, traffic=traffic))["traffic.peak_requests_per_second"]
    )


def test_a_step_must_hold_each_sequence() -> None:
    engine = {"kind": "vllm", "max_num_seqs": 512, "max_num_batched_tokens": 256}
    assert "engine.max_num_batched_tokens" in _violations(document(LLAMA_8B, engine=engine))


def test_without_chunks_a_step_holds_a_whole_prompt() -> None:
    engine = {"kind": "vllm", "enable_chunked_prefill": False}
    found = plan(document(LLAMA_8B, engine=engine))
    assert found.batching.max_num_batched_tokens >= found.architecture.max_model_len
    short = engine | {"max_num_batched_tokens": 1024}
    assert "engine.max_num_batched_tokens" in _violations(document(LLAMA_8B, engine=short))


def test_a_cached_prefix_lowers_what_a_request_costs() -> None:
    l4 = {"accelerators": ["l4"]}
    cold = plan(document(LLAMA_8B, hardware=l4, traffic={"requests_per_second": 8}))
    warm = plan(
        document(LLAMA_8B, hardware=l4, traffic={"requests_per_second": 8, "shared_prefix_tokens": 900})
    )
    assert warm.expected.ttft_p50_ms.value < cold.expected.ttft_p50_ms.value
    assert warm.cost.hourly_usd <= cold.cost.hourly_usd


def test_planning_imports_no_pulumi_and_reads_no_clock() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from servingstack.planner import plan;"
        "plan({'name': 'chat', 'model': {'id': 'Qwen/Qwen3-8B'}, 'target': {}});"
        "sys.exit('pulumi' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("asked", [{}, {"request_timeout": "60s"}])
def test_a_stream_lasts_no_shorter_than_a_request_whether_that_was_given_or_not(
    asked: dict[str, str],
) -> None:
    allowed = _violations(document(LLAMA_8B, stream_timeout="20s", **asked))["stream_timeout"]
    assert f"at least request_timeout, {asked.get('request_timeout', '30s')}" in allowed


BERT = {
    "architectures": ["BertModel"], "model_type": "bert", "num_hidden_layers": 24, "hidden_size": 1024,
    "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 30522, "max_position_embeddings": 512,
}  # fmt: skip


def test_an_embedding_has_no_price_and_no_rate_per_output_token() -> None:
    model = {"config": BERT, "task": "embed"}
    found = plan(document("me/bert", model=model, traffic={"input_tokens": 200}))
    assert found.cost.per_million_output_tokens_usd is None
    rate = {"input_tokens": 200, "output_tokens_per_second": 100}
    refused = _violations(document("me/bert", model=model, traffic=rate))
    assert "generates no tokens" in refused["traffic.output_tokens_per_second"]


def test_prometheus_is_looked_for_where_monitoring_is() -> None:
    def placed(**cluster: str) -> str:
        found = plan(document(target={"option": "kubernetes", "kubernetes": cluster})).placement
        assert found is not None
        return found.prometheus

    assert placed() == "http://prometheus-operated.monitoring.svc:9090"
    assert placed(monitoring_namespace="obs") == "http://prometheus-operated.obs.svc:9090"
    assert placed(monitoring_namespace="obs", prometheus="http://thanos:9090") == "http://thanos:9090"


def test_an_own_image_of_an_unknown_release_has_no_version() -> None:
    image = "registry.example/vllm@sha256:" + "c" * 64
    found = plan(document(engine={"kind": "vllm", "image": image}))
    assert found.architecture.engine_version is None
    assert found.summary()["engine"] == "vllm of an own image"
    kv = next(signal.query for signal in found.monitoring.signals if signal.id == "kv_cache_usage")
    assert "gpu_cache_usage_perc" in kv  # the old name is asked for too
