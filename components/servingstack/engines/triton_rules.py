"""Triton's own rules of a model configuration, checked before anything is created.

Each rule is the server's (core 73aad7c3, src/model_config_utils.cc: ValidateModelConfig,
ValidateInstanceGroup, ValidateEnsembleSchedulingConfig, ValidateIOShape; its documentation where named), so
that what passes here loads.

Trap: GPU numbers are those the container sees, from 0, whatever the node calls them; and `count` is per
listed GPU, so memory is needed for count x GPUs copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from servingstack.errors import Violation

from .triton_settings import TritonModel, TritonSettings
from .triton_tensors import DynamicBatching, QueuePolicy


def repository_violations(settings: TritonSettings, gpus: int) -> list[Violation]:
    """Everything that the server would refuse, for a replica of so many GPUs."""
    found: list[Violation] = []
    names = [model.name for model in settings.models]
    for index, model in enumerate(settings.models):
        path = f"engine.models[{index}]"
        if names.count(model.name) > 1:
            found.append(
                Violation(f"{path}.name", model.name, "a name of its own in the repository", "Rename it.")
            )
        found += _scheduling(path, model)
        found += _tensors(path, model)
        found += _groups(path, model, gpus)
        found += _dynamic(path, model)
        found += _sequence(path, model)
        found += _ensemble(path, model, settings)
    return found


def _scheduling(path: str, model: TritonModel) -> Iterator[Violation]:
    if (model.backend is None) != bool(model.ensemble):
        allowed = "a backend, or the steps of an ensemble, and not both"
        yield Violation(f"{path}.backend", model.backend, allowed, "Name what runs the model.")
    if model.ensemble and model.model_warmup:
        fix = "Warm the models of its steps."
        yield Violation(f"{path}.model_warmup", "set", "none for an ensemble", fix)
    if model.ensemble and model.optimization:
        yield Violation(f"{path}.optimization", "set", "none for an ensemble", "Set it on the steps.")
    if model.sequence_batching is not None and model.response_cache:
        fix = "Remove one; the server refuses both together."
        yield Violation(f"{path}.response_cache", True, "false with sequence_batching", fix)
    if model.decoupled and model.response_cache:
        yield Violation(f"{path}.response_cache", True, "false for a decoupled model", "Remove one.")
    if model.cc_model_filenames and model.backend != "tensorrt":
        allowed = "set for tensorrt alone"
        yield Violation(f"{path}.cc_model_filenames", "set", allowed, "Use default_model_filename.")
    edges = model.latency_edges or ()
    if any(low >= high for low, high in pairwise(edges)):
        yield Violation(f"{path}.latency_edges", "unsorted", "edges that rise", "Sort them.")


def _tensors(path: str, model: TritonModel) -> Iterator[Violation]:
    for kind, tensors in (("input", model.input), ("output", model.output)):
        names = [tensor.name for tensor in tensors]
        for index, tensor in enumerate(tensors):
            if any(size < 1 and size != -1 for size in tensor.dims):
                allowed = "sizes of 1 or more, or -1 for one that varies"
                where = f"{path}.{kind}[{index}].dims"
                yield Violation(where, list(tensor.dims), allowed, "Leave the batch dimension out.")
            if names.count(tensor.name) > 1:
                yield Violation(
                    f"{path}.{kind}[{index}].name", tensor.name, "a name of its own", "Rename it."
                )
    if model.backend not in ("vllm", "tensorrtllm") and not (model.input and model.output):
        fix = "List its tensors with data_type and dims; the plan switches Triton's own guessing off."
        yield Violation(f"{path}.input", "none", "inputs and outputs", fix)


def _groups(path: str, model: TritonModel, gpus: int) -> Iterator[Violation]:
    groups = model.instance_group or ()
    if model.ensemble and groups:
        fix = "Set it on the models of its steps."
        yield Violation(f"{path}.instance_group", "set", "none for an ensemble", fix)
    if model.backend == "vllm" and any(group.kind != "KIND_MODEL" for group in groups):
        fix = "Leave it out: the backend places itself."
        yield Violation(f"{path}.instance_group", "set", "KIND_MODEL for the vllm backend", fix)
    for index, group in enumerate(groups):
        where = f"{path}.instance_group[{index}]"
        if group.gpus and group.kind != "KIND_GPU":
            yield Violation(f"{where}.gpus", list(group.gpus), f"none with {group.kind}", "Remove it.")
        wrong = [number for number in group.gpus if not 0 <= number < gpus]
        if wrong:
            allowed = (
                f"numbers from 0 to {gpus - 1}: a replica sees its own {gpus} GPU{'s' * (gpus > 1)} alone"
            )
            fix = "Leave gpus out for all of them, or raise hardware.gpus_per_replica."
            yield Violation(f"{where}.gpus", list(group.gpus), allowed, fix)
        if group.profile and model.backend != "tensorrt":
            yield Violation(f"{where}.profile", "set", "set for tensorrt alone", "Remove it.")
        if any(not name.isdigit() for name in group.profile):
            yield Violation(f"{where}.profile", list(group.profile), "numbers as strings", 'Use `"0"`.')


def _dynamic(path: str, model: TritonModel) -> Iterator[Violation]:
    batching = model.dynamic_batching
    if batching is False:
        return
    where = f"{path}.dynamic_batching"
    given = "dynamic_batching" in model.model_fields_set
    if given and model.sequence_batching is not None:
        yield Violation(where, "set", "none beside sequence_batching", "Remove one of them.")
    if given and model.ensemble:
        yield Violation(where, "set", "none for an ensemble", "Set it on the models of its steps.")
    if given and model.max_batch_size == 0:
        allowed = "only with max_batch_size of 1 or more"
        fix = "Raise max_batch_size, or set dynamic_batching: false."
        yield Violation(where, "set", allowed, fix)
    yield from _sizes(where, batching.preferred_batch_size or (), model.max_batch_size)
    yield from _priorities(where, batching)


def _sizes(where: str, sizes: tuple[int, ...], most: int | None) -> Iterator[Violation]:
    low = [size for size in sizes if size < 1]
    if low:
        yield Violation(f"{where}.preferred_batch_size", low, "sizes of 1 or more", "Remove them.")
    high = [size for size in sizes if most is not None and size > most]
    if high:
        allowed = f"at most max_batch_size of this model, {most}"
        fix = f"Raise max_batch_size to {max(high)}, or remove {', '.join(map(str, high))}."
        yield Violation(f"{where}.preferred_batch_size", list(sizes), allowed, fix)


def _priorities(where: str, batching: DynamicBatching) -> Iterator[Violation]:
    levels, chosen = batching.priority_levels, batching.default_priority_level
    if levels and not 1 <= chosen <= levels:
        allowed = f"1 to {levels}, the number of priority_levels"
        yield Violation(f"{where}.default_priority_level", chosen, allowed, "Name one of them.")
    if not levels and (chosen or batching.priority_queue_policy):
        fix = "Set priority_levels, or remove what names a priority."
        yield Violation(f"{where}.priority_levels", 0, "1 or more where priorities are named", fix)
    for level in batching.priority_queue_policy:
        if levels and int(level) > levels:
            name = f"{where}.priority_queue_policy.{level}"
            yield Violation(name, level, f"a priority from 1 to {levels}", "Correct it.")
    if not batching.preserve_ordering:
        return
    if levels > 1:
        allowed = "at most 1 with preserve_ordering"
        yield Violation(f"{where}.priority_levels", levels, allowed, "Remove one of them.")
    policies = [batching.default_queue_policy, *batching.priority_queue_policy.values()]
    if any(_delays(policy) for policy in policies):
        allowed = "REJECT with preserve_ordering"
        yield Violation(f"{where}.default_queue_policy.timeout_action", "DELAY", allowed, "Use REJECT.")


def _delays(policy: QueuePolicy | None) -> bool:
    return policy is not None and policy.default_timeout is not None and policy.timeout_action == "DELAY"


def _sequence(path: str, model: TritonModel) -> Iterator[Violation]:
    batching = model.sequence_batching
    if batching is None:
        return
    where = f"{path}.sequence_batching"
    kinds = [control.kind for control in batching.control_input]
    names = [control.name for control in batching.control_input]
    if len(set(kinds)) < len(kinds) or len(set(names)) < len(names):
        allowed = "each kind and each name at most once"
        yield Violation(f"{where}.control_input", kinds, allowed, "Remove the repetition.")
    for control in batching.control_input:
        boolean = ("int32", "fp32", "bool")
        fitting = ("uint64", "int64", "uint32", "int32", "string") if control.kind == "CORRID" else boolean
        if control.data_type not in fitting:
            allowed = f"one of {', '.join(fitting)} for {control.kind}"
            yield Violation(
                f"{where}.control_input.{control.name}", control.data_type, allowed, "Correct it."
            )
    yield from _sizes(where, batching.preferred_batch_size, model.max_batch_size)
    if batching.strategy == "direct" and (batching.preferred_batch_size or batching.max_candidate_sequences):
        fix = "Use strategy: oldest, or remove them."
        allowed = "no preferred_batch_size and no max_candidate_sequences"
        yield Violation(f"{where}.strategy", "direct", allowed, fix)
    if batching.strategy == "oldest" and batching.minimum_slot_utilization is not None:
        yield Violation(f"{where}.minimum_slot_utilization", "set", "set for direct alone", "Remove it.")


def _ensemble(path: str, model: TritonModel, settings: TritonSettings) -> Iterator[Violation]:
    known = {other.name: other for other in settings.models if other is not model}
    made = {tensor.name for tensor in model.input}
    used: set[str] = set()
    for index, step in enumerate(model.ensemble):
        where = f"{path}.ensemble[{index}]"
        other = known.get(step.model_name)
        if other is None:
            allowed = f"another model of the repository: {', '.join(known) or 'there is none'}"
            yield Violation(f"{where}.model_name", step.model_name, allowed, "Correct it, or add the model.")
        else:
            yield from _step_tensors(where, other, list(step.input_map), list(step.output_map))
        again = made & set(step.output_map.values())
        if again:
            fix = "Give each its own name."
            yield Violation(f"{where}.output_map", sorted(again), "tensors that no other step makes", fix)
        used |= set(step.input_map.values())
        made |= set(step.output_map.values())
    if not model.ensemble:
        return
    outputs = {tensor.name for tensor in model.output}
    yield from _unmet(path, sorted(used - made), "ensemble", "tensors that the inputs or a step make")
    yield from _unmet(path, sorted(outputs - made), "output", "outputs that a step makes")
    idle = sorted({tensor.name for tensor in model.input} - used)
    yield from _unmet(path, idle, "input", "inputs that a step uses")


def _step_tensors(where: str, other: TritonModel, takes: list[str], gives: list[str]) -> Iterator[Violation]:
    inputs = {tensor.name: tensor.optional for tensor in other.input}
    outputs = {tensor.name for tensor in other.output}
    wrong = [name for name in takes if inputs and name not in inputs]
    wrong += [name for name in gives if outputs and name not in outputs]
    if wrong:
        allowed = f"tensors of {other.name}: {', '.join([*inputs, *sorted(outputs)])}"
        yield Violation(f"{where}.input_map", wrong, allowed, "Correct the names.")
    missing = [name for name, optional in inputs.items() if not optional and name not in takes]
    if missing:
        allowed = f"every input of {other.name}"
        yield Violation(f"{where}.input_map", takes, allowed, f"Map {', '.join(missing)} too.")


def _unmet(path: str, names: list[str], field: str, allowed: str) -> Iterator[Violation]:
    if names:
        yield Violation(f"{path}.{field}", names, allowed, "Correct the maps of the steps.")
