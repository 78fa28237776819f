"""config.pbtxt: Triton's own protobuf reads it, and it keeps the server's documented rules.

The rules are written here a second time, in the server's words (core, src/model_config_utils.cc), over the
parsed message: what the library renders is judged by neither its own writer nor its own checks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines.triton_documents import SCORES, TEXT, document, model
from tritonclient.grpc import model_config_pb2 as pb

from servingstack.errors import Infeasible, InvalidInput
from servingstack.planner import plan

EXAMPLE = Path(__file__).parents[2] / "examples" / "triton-classifier"


def _configs(asked: dict[str, Any]) -> dict[str, Any]:
    container = plan(asked).container
    files = {**container.repository_files, **container.files}
    texts = {path: text for path, text in files.items() if path.endswith("config.pbtxt")}
    return {path.split("/")[-2]: text_format.Parse(text, pb.ModelConfig()) for path, text in texts.items()}


def _refusals(asked: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        plan(asked)
    found: dict[str, str] = {}
    for item in caught.value.violations:
        found[item.path] = f"{found.get(item.path, '')} {item.value} | {item.allowed} | {item.fix}"
    return found


# ---- the classic example ----------------------------------------------------------------------------------


def _classic() -> Any:
    """The classic configuration, field by field, in the protobuf itself."""
    wanted = pb.ModelConfig(name="text_classifier", backend="python", max_batch_size=64)
    wanted.input.add(name="TEXT", data_type=pb.TYPE_STRING, dims=[-1])
    wanted.output.add(name="SCORES", data_type=pb.TYPE_FP32, dims=[10])
    wanted.dynamic_batching.preferred_batch_size.extend([16, 32, 64])
    wanted.dynamic_batching.max_queue_delay_microseconds = 5000
    wanted.instance_group.add(count=2, kind=pb.ModelInstanceGroup.KIND_GPU)
    return wanted


def test_the_classic_example_is_the_classic_configuration() -> None:
    asked = yaml.safe_load((EXAMPLE / "stack.yaml").read_text(encoding="utf-8"))
    assert _configs(asked)["text_classifier"] == _classic()


def test_the_repository_beside_it_holds_that_configuration() -> None:
    path = EXAMPLE / "model_repository" / "text_classifier" / "config.pbtxt"
    assert text_format.Parse(path.read_text(encoding="utf-8"), pb.ModelConfig()) == _classic()


# ---- field notes ------------------------------------------------------------------------------------------


def test_a_preferred_size_above_the_largest_batch_names_both_f016() -> None:
    batching = {"preferred_batch_size": [2, 128]}
    found = _refusals(document(model(max_batch_size=64, dynamic_batching=batching)))
    text = found["engine.models[0].dynamic_batching.preferred_batch_size"]
    assert "128" in text
    assert "64" in text


def test_batching_is_written_with_the_batch_it_is_checked_against_f016() -> None:
    config = _configs(document(model(dynamic_batching={"preferred_batch_size": [2]})))["classifier"]
    assert config.max_batch_size >= 2
    assert list(config.dynamic_batching.preferred_batch_size) == [2]


def test_preferred_sizes_alone_set_the_largest_batch_f016() -> None:
    config = _configs(document(model(dynamic_batching={"preferred_batch_size": [4, 12]})))["classifier"]
    assert config.max_batch_size == 12
    with pytest.raises(Infeasible, match="100000"):
        plan(document(model(dynamic_batching={"preferred_batch_size": [100_000]})))


@pytest.mark.parametrize("change", [{"max_batch_size": 0}, {"dynamic_batching": False}])
def test_without_batches_there_is_no_batching_f016(change: dict[str, Any]) -> None:
    config = _configs(document(model(**change)))["classifier"]
    assert not config.HasField("dynamic_batching")


def test_gpu_numbers_are_those_that_the_replica_sees_f018() -> None:
    group = {"instance_group": [{"gpus": [0, 1]}]}
    found = _refusals(document(model(**group)))
    assert "its own 1 GPU" in found["engine.models[0].instance_group[0].gpus"]
    hardware = {"accelerators": ["l4"], "gpus_per_replica": 2}
    config = _configs(document(model(**group), hardware=hardware))["classifier"]
    assert list(config.instance_group[0].gpus) == [0, 1]


def test_gpus_are_left_out_by_default_f018() -> None:
    (group,) = _configs(document(model()))["classifier"].instance_group
    assert group.kind == pb.ModelInstanceGroup.KIND_GPU
    assert group.count == 1
    assert not group.gpus


def test_copies_are_counted_per_gpu_in_the_memory_f018() -> None:
    group = {"instance_group": [{"count": 3}]}
    asked = document(
        model(weight_bytes="1GiB", **group), hardware={"accelerators": ["l4"], "gpus_per_replica": 2}
    )
    found = plan(asked).architecture
    assert found.memory_per_gpu.weights == 3 * 2**30
    assert found.gpus_per_replica == 2


def test_the_root_of_the_repository_is_asked_for_f021() -> None:
    found = _refusals(document(model(), model={"source": "s3://bucket/triton/classifier"}))
    assert "holds the models' directories" in found["model.source"]


def test_the_name_is_the_directory_f021() -> None:
    files = plan(document(model())).container.files
    assert text_format.Parse(files["/models/classifier/config.pbtxt"], pb.ModelConfig()).name == "classifier"


def test_small_files_lie_in_a_numbered_version_f021() -> None:
    with pytest.raises(InvalidInput) as caught:
        plan(document(model(files={"model.py": ""}), model={"source": "files"}))
    assert "1/model.py" in str(caught.value)


# ---- rules over arbitrary repositories --------------------------------------------------------------------

SIZES = st.integers(1, 512)
POLICY = st.fixed_dictionaries(
    {"timeout_action": st.sampled_from(["REJECT", "DELAY"]), "max_queue_size": st.integers(0, 100)},
    optional={"default_timeout": st.sampled_from(["10ms", "2s"]), "allow_timeout_override": st.booleans()},
)
DYNAMIC = st.fixed_dictionaries(
    {},
    optional={
        "preferred_batch_size": st.lists(SIZES, max_size=3),
        "max_queue_delay": st.sampled_from(["0ms", "100us", "5ms"]),
        "preserve_ordering": st.booleans(),
        "priority_levels": st.integers(0, 3),
        "default_priority_level": st.integers(0, 3),
        "default_queue_policy": POLICY,
        "priority_queue_policy": st.dictionaries(st.integers(1, 3), POLICY, max_size=2),
    },
)
GROUP = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["KIND_GPU", "KIND_CPU", "KIND_MODEL"]),
        "count": st.integers(1, 3),
        "gpus": st.lists(st.integers(0, 2), max_size=2, unique=True),
        "priority": st.integers(1, 3),
        "resources": st.just([{"name": "R1", "count": 2, "shared": True}]),
    },
)
SEQUENCE = st.fixed_dictionaries(
    {"strategy": st.sampled_from(["direct", "oldest"])},
    optional={
        "max_sequence_idle": st.just("5s"),
        "control_input": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["START", "END", "ID"]),
                    "kind": st.sampled_from(["START", "READY", "END", "CORRID"]),
                    "data_type": st.sampled_from(["int32", "fp32", "bool", "uint64", "string"]),
                }
            ),
            max_size=3,
        ),
        "preferred_batch_size": st.lists(SIZES, max_size=2),
        "max_queue_delay": st.just("1ms"),
    },
)
MODEL = st.fixed_dictionaries(
    {},
    optional={
        "backend": st.sampled_from(["python", "onnxruntime", "tensorrt", "pytorch"]),
        "max_batch_size": st.integers(0, 128),
        "dynamic_batching": st.one_of(st.just(False), DYNAMIC),
        "sequence_batching": SEQUENCE,
        "instance_group": st.lists(GROUP, min_size=1, max_size=2),
        "model_warmup": st.just([{"batch_size": 2, "data": "random"}]),
        "response_cache": st.booleans(),
        "decoupled": st.booleans(),
        "version": st.integers(1, 3),
        "parameters": st.just({"EXECUTION_ENV_PATH": "/models/env.tar.gz"}),
        "latency_edges": st.just(["5ms", "50ms"]),
    },
)


def _broken_rules(config: Any, gpus: int) -> list[str]:
    """The server's rules, in its own words, over its own message."""
    rules = {
        "must specify one or more instance groups": bool(config.instance_group),
        "response cache does not support decoupled": not (
            config.model_transaction_policy.decoupled and config.response_cache.enable
        ),
        **_dynamic_rules(config),
        **_sequence_rules(config),
    }
    for group in config.instance_group:
        on_gpu = group.kind == pb.ModelInstanceGroup.KIND_GPU
        rules |= {
            "kind specifies one or more GPUs": on_gpu or not group.gpus,
            "invalid or unsupported gpu id": all(0 <= number < gpus for number in group.gpus),
        }
    return [rule for rule, kept in rules.items() if not kept]


def _dynamic_rules(config: Any) -> dict[str, bool]:
    if not config.HasField("dynamic_batching"):
        return {}
    batching = config.dynamic_batching
    levels = batching.priority_levels
    policies = [batching.default_queue_policy, *batching.priority_queue_policy.values()]
    delays = any(each.default_timeout_microseconds and each.timeout_action for each in policies)
    sizes = batching.preferred_batch_size
    return {
        "preferred size must be positive and <= max batch size": all(
            0 < size <= config.max_batch_size for size in sizes
        ),
        "default priority level must be in range": not levels
        or 1 <= batching.default_priority_level <= levels,
        "priority queue policy must have priority level in range": all(
            1 <= level <= levels for level in batching.priority_queue_policy
        ),
        "one level and no DELAY when preserve_ordering": not batching.preserve_ordering
        or not (levels > 1 or delays),
    }


def _sequence_rules(config: Any) -> dict[str, bool]:
    if not config.HasField("sequence_batching"):
        return {}
    sequence = config.sequence_batching
    names = [control.name for control in sequence.control_input]
    kinds = [each.kind for control in sequence.control_input for each in control.control]
    return {
        "response cache does not support the sequence batching scheduler": not config.response_cache.enable,
        "control tensor specified for multiple kinds": len(set(names)) == len(names),
        "sequence batching specifies multiple of a kind": len(set(kinds)) == len(kinds),
        "sequence batching preferred batch size must be <= max batch size": all(
            0 < size <= config.max_batch_size for size in sequence.oldest.preferred_batch_size
        ),
    }


def _config_or_refusal(asked: dict[str, Any]) -> Any:
    """The configuration, or the paths that were refused."""
    try:
        return _configs(asked)["classifier"]
    except InvalidInput as refused:
        return [item.path for item in refused.violations]


@settings(max_examples=120, deadline=None)
@given(fields=MODEL, gpus=st.integers(1, 2))
def test_what_is_not_refused_keeps_every_rule_of_the_server(fields: dict[str, Any], gpus: int) -> None:
    asked = document(model(**fields), hardware={"accelerators": ["l4"], "gpus_per_replica": gpus})
    config = _config_or_refusal(asked)
    if isinstance(config, list):
        assert all(path.startswith("engine.models[0]") for path in config)
        return
    assert _broken_rules(config, gpus) == []
    assert config.name == "classifier"
    assert text_format.Parse(text_format.MessageToString(config), pb.ModelConfig()) == config


# ---- ensembles, priorities, warm-up, limits ---------------------------------------------------------------


def _chain(**changes: Any) -> list[dict[str, Any]]:
    ids = {"name": "IDS", "data_type": "TYPE_INT64", "dims": [128]}
    tokens = model("tokens", backend="python", output=[ids])
    network = model("network", input=[ids])
    steps = [
        {"model_name": "tokens", "input_map": {"TEXT": "TEXT"}, "output_map": {"IDS": "ids"}},
        {"model_name": "network", "input_map": {"IDS": "ids"}, "output_map": {"SCORES": "SCORES"}},
    ]
    chain = {"name": "chain", "input": [TEXT], "output": [SCORES], "ensemble": steps, **changes}
    return [chain, tokens, network]


def test_an_ensemble_is_a_platform_with_steps_and_no_groups() -> None:
    configs = _configs(document(*_chain()))
    chain = configs["chain"]
    assert chain.platform == "ensemble"
    assert [step.model_name for step in chain.ensemble_scheduling.step] == ["tokens", "network"]
    assert not chain.instance_group
    assert configs["network"].HasField("dynamic_batching")


def test_a_chain_that_does_not_fit_together_is_refused() -> None:
    steps = [{"model_name": "network", "input_map": {"WORDS": "nowhere"}, "output_map": {"SCORES": "x"}}]
    found = _refusals(document(*_chain(ensemble=steps)))
    assert "tensors of network" in found["engine.models[0].ensemble[0].input_map"]
    assert "nowhere" in found["engine.models[0].ensemble"]
    assert "SCORES" in found["engine.models[0].output"]
    assert "TEXT" in found["engine.models[0].input"]


def test_every_part_of_a_configuration_is_rendered() -> None:
    fields: dict[str, Any] = {
        "backend": "tensorrt",
        "max_batch_size": 8,
        "cc_model_filenames": {"8.9": "l4.plan"},
        "response_cache": True,
        "model_warmup": [{"batch_size": 8, "count": 2, "data": "random"}],
        "optimization": {"cuda": {"graphs": True}},
        "instance_group": [
            {"count": 2, "profile": ["0"], "priority": 2, "resources": [{"name": "R", "count": 4}]}
        ],
        "dynamic_batching": {
            "priority_levels": 2,
            "default_priority_level": 2,
            "default_queue_policy": {"default_timeout": "2s", "max_queue_size": 64},
            "priority_queue_policy": {1: {"timeout_action": "DELAY", "default_timeout": "500ms"}},
        },
    }
    ids = {"name": "IDS", "data_type": "TYPE_INT32", "dims": [-1]}
    asked = document(model(**fields, input=[ids]), engine={"rate_limit_resources": {"R": 8}})
    config = _configs(asked)["classifier"]
    assert config.cc_model_filenames["8.9"] == "l4.plan"
    assert config.response_cache.enable
    assert config.optimization.cuda.graphs
    assert config.model_warmup[0].inputs["IDS"].random_data
    assert list(config.model_warmup[0].inputs["IDS"].dims) == [1]
    assert config.instance_group[0].rate_limiter.resources[0].count == 4
    policy = config.dynamic_batching.priority_queue_policy[1]
    assert (policy.timeout_action, policy.default_timeout_microseconds) == (1, 500_000)
    assert config.dynamic_batching.default_queue_policy.default_timeout_microseconds == 2_000_000
    flags = [(flag.name, flag.value) for flag in plan(asked).container.flags]
    assert ("rate-limit", "execution_count") in flags
    assert ("rate-limit-resource", "R:8") in flags
    assert ("cache-config", f"local,size={256 * 2**20}") in flags


def test_a_field_that_triton_does_not_know_is_named() -> None:
    found = _refusals(document(model(optimization={"cudda": {}})))
    assert "cudda" in found["engine.models.classifier"]


def test_the_delay_and_the_sizes_follow_the_objective() -> None:
    def batching(objective: str) -> Any:
        asked = document(model(), slo={"latency_p95": objective})
        return _configs(asked)["classifier"]

    tight, loose = batching("25ms"), batching("500ms")
    assert tight.max_batch_size <= loose.max_batch_size
    assert tight.dynamic_batching.max_queue_delay_microseconds < 25_000 / 2
    assert (
        tight.dynamic_batching.max_queue_delay_microseconds
        <= loose.dynamic_batching.max_queue_delay_microseconds
    )
    sizes = list(loose.dynamic_batching.preferred_batch_size)
    assert sizes == sorted(sizes)
    assert sizes[-1] == loose.max_batch_size


def test_an_objective_is_an_edge_of_the_histogram() -> None:
    config = _configs(document(model(), slo={"latency_p95": "37ms"}))["classifier"]
    (control,) = config.model_metrics.metric_control
    assert control.metric_identifier.family == "nv_inference_first_response_histogram_ms"
    assert 37.0 in list(control.histogram_options.buckets)


def test_the_backends_of_language_models_batch_in_flight_and_answer_piece_by_piece() -> None:
    """Beside the planned model: each needs an image of its own, so one is named."""
    image = "nvcr.io/nvidia/tritonserver:26.08-trtllm-python-py3@sha256:" + "b" * 64
    language = [{"name": name, "backend": name, "max_batch_size": 8} for name in ("vllm", "tensorrtllm")]
    configs = _configs(document(model(), *language, engine={"image": image}))
    for name in ("vllm", "tensorrtllm"):
        assert configs[name].model_transaction_policy.decoupled
        assert not configs[name].HasField("dynamic_batching")
    assert configs["vllm"].instance_group[0].kind == pb.ModelInstanceGroup.KIND_MODEL
