"""What an option or the engine refuses, before any search.

Trap: a refusal names the options that can, and that list is derived from their data, never written down.
"""

from __future__ import annotations

from servingstack import measured
from servingstack.args import ServingStackArgs
from servingstack.engines import token_container
from servingstack.engines.limits import CAST, DTYPES
from servingstack.engines.registry import Tuning
from servingstack.errors import InvalidInput, Violation
from servingstack.targets import Capabilities, all_capabilities

from .demand import Demand


def option_of(args: ServingStackArgs) -> Capabilities:
    """The option to plan for. Raises `InvalidInput` where what was asked is not among what it can do."""
    every = all_capabilities()
    wanted = [can for can in every if args.target.option in ("auto", can.option)]
    able = [can for can in wanted if not _option_violations(args, can, every)]
    if not able:
        raise InvalidInput(_option_violations(args, wanted[0], every))
    return able[0]


def _others(names: list[str]) -> str:
    return f"Options that can: {', '.join(names)}." if names else "No option of this release can."


def _option_violations(
    args: ServingStackArgs, can: Capabilities, every: tuple[Capabilities, ...]
) -> list[Violation]:
    found: list[Violation] = []
    if args.exposure not in can.exposures:
        names = [other.option for other in every if args.exposure in other.exposures]
        allowed = f"{', '.join(can.exposures)} for option {can.option}"
        fix = f"{_others(names)} Put your own ingress before the Service."
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
    timeout = args.request_timeout
    if can.longest_request_s is not None and timeout is not None:
        longest = can.longest_request_s
        if timeout.total_seconds() > longest:
            names = [
                other.option
                for other in every
                if other.longest_request_s is None or other.longest_request_s >= timeout.total_seconds()
            ]
            found.append(Violation("request_timeout", str(timeout), f"at most {longest}s", _others(names)))
    return found


def check_engine(demand: Demand) -> None:
    """Relations between the engine's settings. Raises `InvalidInput`."""
    engine = demand.engine
    found = list(demand.kind.violations(demand.args)) + _step_violations(demand, engine)
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
