"""What an option or the engine refuses, before any search.

Trap: a refusal names the options that can, and that list is derived from their data, never written down.
"""

from __future__ import annotations

from collections.abc import Iterator

from servingstack import measured
from servingstack.args import ServingStackArgs
from servingstack.engines import token_container
from servingstack.engines.limits import CAST, DTYPES
from servingstack.engines.registry import ENGINES, Tuning
from servingstack.errors import InvalidInput, Violation
from servingstack.targets import REGISTRY, Capabilities, all_capabilities
from servingstack.units import format_duration

from .demand import Demand
from .hardware import CLOUDS


def _others(names: list[str]) -> str:
    return f"Options that can: {', '.join(names)}." if names else "No option of this release can."


def option_violations(args: ServingStackArgs, can: Capabilities) -> list[Violation]:
    """What was asked and is not among what an option can do."""
    every = all_capabilities()
    found = [*_foreign(args, can)]
    if args.exposure not in can.exposures:
        names = [other.option for other in every if args.exposure in other.exposures]
        allowed = f"{', '.join(can.exposures)} for option {can.option}"
        fix = _others(names) + (" Put your own ingress before the Service." if can.on_kubernetes else "")
        found.append(Violation("exposure", args.exposure, allowed, fix))
    if args.hardware.spot != "never" and not can.spot:
        names = [other.option for other in every if other.spot]
        allowed = f"never for option {can.option}, which does not choose its nodes' capacity"
        fix = f"{_others(names)} Give spot nodes a taint, and keep stacks with an SLO off them."
        found.append(Violation("hardware.spot", args.hardware.spot, allowed, fix))
    if args.scaling.scale_to_zero_after is not None and not can.scale_to_zero:
        names = [other.option for other in every if other.scale_to_zero]
        found.append(
            Violation("scaling.scale_to_zero_after", "set", f"unset for {can.option}", _others(names))
        )
    found += _cluster_only(args, can)
    if can.surge == "fleet" and args.rollout.surge is not None:
        allowed = f"left out for option {can.option}, which always starts a new version beside the old one"
        found.append(Violation("rollout.surge", args.rollout.surge, allowed, "Remove it."))
    timeout = args.request_timeout
    if can.longest_request_s is not None and timeout is not None:
        longest = can.longest_request_s
        if timeout.total_seconds() > longest:
            names = [
                other.option
                for other in every
                if other.longest_request_s is None or other.longest_request_s >= timeout.total_seconds()
            ]
            found.append(
                Violation("request_timeout", format_duration(timeout), f"at most {longest}s", _others(names))
            )
    return found


def _cluster_only(args: ServingStackArgs, can: Capabilities) -> Iterator[Violation]:
    """What takes a cluster's own scheduler, its volumes and first containers, or its front door."""
    if can.on_kubernetes:
        return
    names = [other.option for other in all_capabilities() if other.on_kubernetes]
    allowed = f"left out for option {can.option}"
    if args.target.overflow is not None:
        why = f"{allowed}, before whose replicas no front door of the stack stands"
        yield Violation("target.overflow", args.target.overflow.option, why, _others(names))
    if args.colocate is not None:
        yield Violation("colocate", args.colocate, f"{allowed}, whose replicas share no GPU", _others(names))
    if args.model.adapters:
        named = ", ".join(each.name for each in args.model.adapters)
        yield Violation("model.adapters", named, f"{allowed}, which cannot fetch them first", _others(names))


def _foreign(args: ServingStackArgs, can: Capabilities) -> Iterator[Violation]:
    """Settings of another option, another cloud, a source that nobody would fetch."""
    if can.cloud is not None and args.target.cloud not in (None, "auto", can.cloud):
        if can.cloud in CLOUDS:
            allowed, fix = (
                f"{can.cloud} for option {can.option}",
                f"Use cloud: {can.cloud}, or another option.",
            )
        else:
            allowed = f"left out for option {can.option}, which is of no cloud"
            fix = "Leave target.cloud out, or use another option."
        yield Violation("target.cloud", args.target.cloud, allowed, fix)
    if args.target.option == "auto":
        return  # settings wait for the option that they are of; the plan says which were not used
    for option, entry in REGISTRY.items():
        name = entry.settings
        if name is not None and option != can.option and name in args.target.model_fields_set:
            allowed = f"left out for option {can.option}"
            fix = f"Remove it, or use option: {option}."
            yield Violation(f"target.{name}", "given", allowed, fix)
    if not can.on_kubernetes and "kubernetes" in args.target.model_fields_set:
        fix = "Remove it, or use option: kubernetes."
        yield Violation("target.kubernetes", "given", f"left out for option {can.option}", fix)


def _source_violations(demand: Demand) -> Iterator[Violation]:
    """A source that neither the engine reads by itself nor the option brings into the container."""
    source, can, reads = demand.args.model.source, demand.can, demand.kind.reads
    scheme = source.partition("://")[0]
    if scheme in reads or demand.weights_directory is not None:
        return
    able = [other.option for other in all_capabilities() if scheme in other.directories]
    schemes = dict.fromkeys((*reads, *can.directories))
    known = [each if each in ("hf", "files") else f"{each}://..." for each in schemes]
    allowed = f"{', '.join(known)} for {demand.kind.kind} on option {can.option}"
    fix = f"{_others(able)} Or bring the weights another way."
    if demand.args.engine.kind == "auto" and scheme in ENGINES["triton"].reads:
        fix += " Set engine.kind: triton where it holds a model repository of Triton's."
    yield Violation("model.source", source, allowed, fix)


def check_engine(demand: Demand) -> None:
    """Relations between the engine's settings. Raises `InvalidInput`."""
    engine = demand.engine
    found = [*demand.kind.violations(demand.args), *_step_violations(demand, engine)]
    if not any(each.path == "model.source" for each in found):  # the engine's own reason says more
        found += _source_violations(demand)
    if demand.args.measured is not None:
        hardware = demand.args.hardware
        known = hardware.accelerators if hardware.nodes is None else {n.accelerator for n in hardware.nodes}
        found += measured.violations(demand.args.measured, demand.args.model.id, known)
    asked = demand.args.model.precision
    cast = None if engine.dtype is None else CAST.get(DTYPES.get(engine.dtype, ""))
    if asked in CAST.values() and cast not in (None, asked):
        allowed = f"the type of model.precision {asked}, to which the weights are cast"
        found.append(Violation("engine.dtype", engine.dtype, allowed, "Set one of the two alone."))
    if demand.batcher is None and demand.max_model_len < token_container.SHORTEST_CONTEXT:
        allowed = f"at least {token_container.SHORTEST_CONTEXT}, which the warm-up's own request takes"
        found.append(Violation("model.max_model_len", demand.max_model_len, allowed, "Raise it."))
    if found:
        raise InvalidInput(found)


def _step_violations(demand: Demand, engine: Tuning) -> list[Violation]:
    """vLLM's own checks (SchedulerConfig): a step holds each sequence, and a whole prompt where none is
    cut."""
    tokens, sequences = engine.max_num_batched_tokens, engine.max_num_seqs
    if tokens is None:
        return []
    found: list[Violation] = []
    path = "engine.max_num_batched_tokens"
    if sequences is not None and tokens < sequences:
        found.append(
            Violation(path, tokens, f"at least max_num_seqs, {sequences}", "Raise it, or lower max_num_seqs.")
        )
    if not engine.enable_chunked_prefill and tokens < demand.max_model_len:
        fix = "Raise it, or leave chunked prefill on."
        found.append(
            Violation(path, tokens, f"at least max_model_len, {demand.max_model_len}, without chunks", fix)
        )
    return found
