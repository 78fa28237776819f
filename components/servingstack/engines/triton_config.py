"""A model's `config.pbtxt`, rendered through Triton's own protobuf.

`config_message` builds the configuration as plain data in the protobuf's field names; `render` parses that
into `inference.ModelConfig` and prints its text form, so a misspelt field or value cannot leave this module.

Trap: `dynamic_batching` is written only into a file that also says `max_batch_size`: the server checks one
against the other within the file, and its `--backend-config=default-max-batch-size` does not count there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

from servingstack.errors import InvalidInput, Violation

from .triton_settings import DEFAULT_EDGES_MS, TritonModel
from .triton_tensors import InstanceGroup, QueuePolicy, SequenceBatching, SequenceControl

FIRST_RESPONSE = "nv_inference_first_response_histogram_ms"
_CONTROL_FIELDS = {"int32": "int32_false_true", "fp32": "fp32_false_true", "bool": "bool_false_true"}
_KINDS = {kind: f"CONTROL_SEQUENCE_{kind}" for kind in ("START", "READY", "END", "CORRID")}
Message = dict[str, Any]


@dataclass(frozen=True)
class Decided:
    """What the planner decided for a model."""

    max_batch_size: int
    queue_delay: timedelta
    edges_ms: tuple[float, ...]
    """Of the latency histogram."""


def preferred_sizes(most: int) -> tuple[int, ...]:
    """A quarter, a half and all of the largest batch: with a partly filled batch at hand, the server sends
    the largest of these at once and lets only smaller ones wait (docs/user_guide/batcher.md, delayed
    batching)."""
    return tuple(sorted({size for size in (most // 4, most // 2, most) if size > 1}))


def microseconds(value: timedelta) -> int:
    """Whole microseconds."""
    return value // timedelta(microseconds=1)


def config_message(model: TritonModel, decided: Decided) -> Message:
    """The configuration as plain data, in the protobuf's own field names."""
    most = max(decided.max_batch_size, model.largest_preferred)
    most = most if model.max_batch_size is None else model.max_batch_size
    message: Message = {"name": model.name, "max_batch_size": most}
    message |= {"platform": "ensemble"} if model.ensemble else {"backend": model.backend}
    for kind, tensors in (("input", model.input), ("output", model.output)):
        if tensors:
            message[kind] = [_without_defaults(tensor.model_dump(mode="json")) for tensor in tensors]
    message |= _scheduler(model, most, decided)
    if not model.ensemble:
        groups = model.instance_group or (default_group(model),)
        message["instance_group"] = [_group(group) for group in groups]
    if model.version != 1:
        message["version_policy"] = {"specific": {"versions": [model.version]}}
    message |= _extras(model)
    if decided.edges_ms != DEFAULT_EDGES_MS:
        edges = {"buckets": list(decided.edges_ms)}
        control = {"metric_identifier": {"family": FIRST_RESPONSE}, "histogram_options": edges}
        message["model_metrics"] = {"metric_control": [control]}
    return message


def default_group(model: TritonModel) -> InstanceGroup:
    """One copy on every GPU; the vllm backend places itself (its samples/model_repository say KIND_MODEL)."""
    return InstanceGroup(kind="KIND_MODEL" if model.backend == "vllm" else "KIND_GPU")


def _without_defaults(fields: Message) -> Message:
    return {name: value for name, value in fields.items() if value not in (False, None)}


def _scheduler(model: TritonModel, most: int, decided: Decided) -> Message:
    if model.ensemble:
        steps = [step.model_dump(mode="json") for step in model.ensemble]
        return {"ensemble_scheduling": {"step": steps}}
    if model.sequence_batching is not None:
        return {"sequence_batching": _sequence(model.sequence_batching, most)}
    batching = model.dynamic_batching
    if batching is False or most < 1 or model.backend in ("vllm", "tensorrtllm"):
        return {}  # those batch in flight, by themselves
    sizes = batching.preferred_batch_size
    delay = decided.queue_delay if batching.max_queue_delay is None else batching.max_queue_delay
    found: Message = {"max_queue_delay_microseconds": microseconds(delay)}
    if wanted := preferred_sizes(most) if sizes is None else sizes:
        found["preferred_batch_size"] = list(wanted)
    if batching.preserve_ordering:
        found["preserve_ordering"] = True
    if batching.priority_levels:
        found["priority_levels"] = batching.priority_levels
        found["default_priority_level"] = batching.default_priority_level
    if batching.default_queue_policy is not None:
        found["default_queue_policy"] = _policy(batching.default_queue_policy)
    if batching.priority_queue_policy:
        rows = batching.priority_queue_policy.items()
        found["priority_queue_policy"] = {level: _policy(policy) for level, policy in rows}
    return {"dynamic_batching": found}


def _policy(policy: QueuePolicy) -> Message:
    timeout = policy.default_timeout
    return {
        "timeout_action": policy.timeout_action,
        "default_timeout_microseconds": 0 if timeout is None else microseconds(timeout),
        "allow_timeout_override": policy.allow_timeout_override,
        "max_queue_size": policy.max_queue_size,
    }


def _sequence(batching: SequenceBatching, most: int) -> Message:
    found: Message = {}
    if batching.max_sequence_idle is not None:
        found["max_sequence_idle_microseconds"] = microseconds(batching.max_sequence_idle)
    if batching.control_input:
        found["control_input"] = [_control(control) for control in batching.control_input]
    if batching.state:
        found["state"] = [state.model_dump(mode="json") for state in batching.state]
    delay = batching.max_queue_delay
    waits: Message = {} if delay is None else {"max_queue_delay_microseconds": microseconds(delay)}
    if batching.strategy == "direct":
        if batching.minimum_slot_utilization is not None:
            waits["minimum_slot_utilization"] = batching.minimum_slot_utilization
        return found | {"direct": waits}
    candidates = batching.max_candidate_sequences
    waits["max_candidate_sequences"] = 2 * max(1, most) if candidates is None else candidates
    if batching.preferred_batch_size:
        waits["preferred_batch_size"] = list(batching.preferred_batch_size)
    return found | {"oldest": waits}


def _control(control: SequenceControl) -> Message:
    kind: Message = {"kind": _KINDS[control.kind]}
    if control.kind == "CORRID":
        kind["data_type"] = f"TYPE_{control.data_type.upper()}"
    else:
        kind[_CONTROL_FIELDS[control.data_type]] = [0, 1] if control.data_type != "bool" else [False, True]
    return {"name": control.name, "control": [kind]}


def _group(group: InstanceGroup) -> Message:
    found: Message = {"count": group.count, "kind": group.kind}
    if group.gpus:
        found["gpus"] = list(group.gpus)
    if group.profile:
        found["profile"] = list(group.profile)
    limiter: Message = {}
    if group.resources:
        rows = [{"name": row.name, "count": row.count, "global": row.shared} for row in group.resources]
        limiter["resources"] = [_without_defaults(row) for row in rows]
    if group.priority is not None:
        limiter["priority"] = group.priority
    return found | ({"rate_limiter": limiter} if limiter else {})


def _extras(model: TritonModel) -> Message:
    found: Message = {}
    if model.model_warmup:
        found["model_warmup"] = _warmups(model)
    if model.response_cache:
        found["response_cache"] = {"enable": True}
    if model.decoupled or model.backend in ("vllm", "tensorrtllm"):
        found["model_transaction_policy"] = {"decoupled": True}
    if model.default_model_filename is not None:
        found["default_model_filename"] = model.default_model_filename
    if model.cc_model_filenames:
        found["cc_model_filenames"] = dict(model.cc_model_filenames)
    if model.parameters:
        found["parameters"] = {key: {"string_value": value} for key, value in model.parameters.items()}
    if model.optimization:
        found["optimization"] = dict(model.optimization)
    return found


def _warmups(model: TritonModel) -> list[Message]:
    found: list[Message] = []
    for index, wanted in enumerate(model.model_warmup):
        inputs: Message = {}
        for tensor in model.input:
            shape = wanted.dims.get(tensor.name, tuple(max(size, 1) for size in tensor.dims))
            content = "zero_data" if tensor.data_type == "TYPE_STRING" else f"{wanted.data}_data"
            inputs[tensor.name] = {"data_type": tensor.data_type, "dims": list(shape), content: True}
        name = f"warm-up-{index}"
        found.append({"name": name, "batch_size": wanted.batch_size, "count": wanted.count, "inputs": inputs})
    return found


def parsed(message: Message) -> Any:
    """The data as `inference.ModelConfig`. Raises `InvalidInput` for a field or value that Triton does not
    know, or where the extra `triton` is not installed."""
    try:
        config = import_module("tritonclient.grpc.model_config_pb2").ModelConfig()
    except ImportError:
        fix = "pip install 'servingstack[triton]'"
        raise InvalidInput(
            [Violation("engine.kind", "triton", "triton only with the extra `triton`", fix)]
        ) from None
    json_format = import_module("google.protobuf.json_format")
    try:
        return json_format.ParseDict(message, config)
    except json_format.ParseError as error:
        path = f"engine.models.{message['name']}"
        allowed = "fields and values of Triton's ModelConfig"
        raise InvalidInput(
            [Violation(path, str(error), allowed, "Correct the field that is named.")]
        ) from None


def render(message: Message) -> str:
    """The text of `config.pbtxt`."""
    text: str = import_module("google.protobuf.text_format").MessageToString(parsed(message))
    return text
