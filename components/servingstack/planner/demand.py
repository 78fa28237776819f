"""What is asked for, in plain numbers: the input with its defaults resolved, each default noted as an
assumption.

Trap: lengths are means and rates are means, but objectives are percentiles. What lies between them (queueing,
occupancy) is the planner's business, so nothing here multiplies by a safety factor.
"""

from __future__ import annotations

from dataclasses import dataclass

from servingstack import catalog
from servingstack.args import DEFAULT_RPS, PEAK_TO_MEAN, ServingStackArgs
from servingstack.catalog import Model
from servingstack.engines.batcher import Batcher
from servingstack.engines.registry import ENGINES, Engine, Tuning, engine_of, tuning
from servingstack.errors import InvalidInput, Violation
from servingstack.plan import Assumption
from servingstack.targets import Capabilities

from . import adapters
from .adapters import Room
from .model import resolve_model

DEFAULT_RAMP_S = 300.0
STREAM_FACTOR = 10
MIN_STREAM_S = 600


@dataclass(frozen=True, slots=True)
class Limit:
    """One latency objective: `kind` at quantile `q` within `seconds`."""

    kind: str
    """`ttft`, `tpot` or `latency`."""
    q: float
    seconds: float
    path: str
    """Field of the input."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Everything the search reads."""

    args: ServingStackArgs
    can: Capabilities
    """Of the option that is planned for."""
    kind: Engine
    """The engine that serves."""
    engine: Tuning
    """Its settings of token-by-token batching."""
    batcher: Batcher | None
    """What is asked of one that batches whole requests; None for one that batches token by token."""
    model: Model
    weight_scale: float
    """Weights as stated by the user over those by formula."""
    stored_bytes: int
    """Size of the repository: at the precision it holds, whatever is served."""
    task: str
    mean_rps: float
    peak_rps: float
    in_flight: float | None
    """Requests in flight at the mean, where that is what was asked; the rates then follow from the
    replica."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    ramp_s: float
    limits: tuple[Limit, ...]
    max_model_len: int
    request_timeout_s: int
    stream_timeout_s: int
    assumed: tuple[Assumption, ...]
    room: Room | None = None
    """Room that LoRA adapters need; None without any."""

    @property
    def weights_directory(self) -> str | None:
        """Directory in the container that holds the weights; None where the engine fetches them."""
        return weights_directory(self.args.model.source, self.can)

    @property
    def sequence_tokens(self) -> int:
        """Cache that a whole request holds at its end."""
        return self.input_tokens + self.output_tokens

    def limits_of(self, kind: str) -> tuple[Limit, ...]:
        """The objectives of one kind."""
        return tuple(limit for limit in self.limits if limit.kind == kind)


def weights_directory(source: str, can: Capabilities) -> str | None:
    """Where an option brings the weights of a source; None for a source that it does not bring."""
    scheme, _, rest = source.partition("://")
    found = can.directories.get(scheme)
    if found is None:
        return None
    if found.in_image:
        return f"{found.root}/{rest.strip('/')}"
    path = rest.partition("/")[2].strip("/")
    return f"{found.root}/{path}" if found.keeps_path and path else found.root


class _Notes:
    """Collects assumptions and violations while defaults are resolved."""

    def __init__(self) -> None:
        self.assumed: list[Assumption] = []
        self.violations: list[Violation] = []

    def assume(self, path: str, value: object, why: str) -> None:
        self.assumed.append(Assumption(path=path, value=str(value), why=why))


def resolve(args: ServingStackArgs, can: Capabilities) -> Demand:
    """The demand behind an input, for one option. Raises `InvalidInput` with everything that does not fit
    together."""
    notes = _Notes()
    kind, engine = engine_of(args, can.directories), tuning(args)
    if args.engine.kind == "auto":
        why = "the engine of this release" if kind.batcher is None else "what serves such a repository"
        notes.assume("engine.kind", kind.kind, why)
    sized = resolve_model(args.model, cached=kind.batcher is None)
    notes.assumed += sized.assumed
    model, task = sized.model, _task(args, sized.model.task, kind, notes)
    mean, peak, in_flight = _rates(args, notes)
    output = _output_tokens(args, task, notes)
    prompt = _input_tokens(args, model.max_context, kind, notes)
    cached = args.traffic.shared_prefix_tokens if engine.enable_prefix_caching else 0
    _check_task(args, model.task, notes)
    if args.scaling.min_replicas == 0 and args.warm not in ("auto", 0):
        fix = "Leave warm out, or keep a replica: remove scale_to_zero_after and min_replicas: 0."
        allowed = "auto or 0 with scaling.min_replicas: 0, which keeps none"
        notes.violations.append(Violation("warm", args.warm, allowed, fix))
    request_s, stream_s = _timeouts(args, notes)
    length = model.max_context
    if kind.batcher is None:
        length = _max_model_len(args, model.max_context, output, notes)
    notes.violations += adapters.violations(args, kind.kind, kind.lora, model)
    if notes.violations:
        raise InvalidInput(notes.violations)
    room = None if kind.lora is None else adapters.room_of(args, kind.lora, engine.max_loras)
    return Demand(
        args=args,
        can=can,
        kind=kind,
        engine=engine,
        batcher=None if kind.batcher is None else kind.batcher(args),
        model=model,
        weight_scale=sized.weight_scale,
        stored_bytes=round(catalog.weight_bytes(model) * sized.weight_scale),
        task=task,
        mean_rps=mean,
        peak_rps=peak,
        in_flight=in_flight,
        input_tokens=prompt,
        output_tokens=output,
        cached_tokens=cached,
        ramp_s=_ramp(args, notes),
        limits=_limits(args, request_s),
        max_model_len=length,
        request_timeout_s=request_s,
        stream_timeout_s=stream_s,
        assumed=tuple(notes.assumed),
        room=room,
    )


def _task(args: ServingStackArgs, known: str, kind: Engine, notes: _Notes) -> str:
    """What the model does. A repository of a model that is not known to do otherwise holds an `other` one."""
    task = args.model.task
    if task is None:
        task = known
        if kind.batcher is not None and known == "generate":
            task = "other"
            notes.assume("model.task", task, "a model that answers at once")
    if task not in kind.tasks:
        able = [engine.kind for engine in ENGINES.values() if task in engine.tasks]
        allowed = f"{', '.join(kind.tasks)} for engine {kind.kind}"
        fix = f"Engines that serve {task}: {', '.join(able)}."
        notes.violations.append(Violation("model.task", task, allowed, fix))
    return task


def _input_tokens(args: ServingStackArgs, longest: int, kind: Engine, notes: _Notes) -> int:
    """Mean length of a prompt; where nobody said, no longer than a model reads that answers at once."""
    asked = args.traffic.input_tokens
    if "input_tokens" in args.traffic.model_fields_set:
        return asked
    tokens = asked if kind.batcher is None else min(asked, longest)
    if args.model.flops_per_request is None:
        notes.assume("traffic.input_tokens", tokens, "default mean length of a prompt")
    return tokens


def _check_task(args: ServingStackArgs, task: str, notes: _Notes) -> None:
    rate = args.traffic.output_tokens_per_second
    if task != "generate" and rate is not None:
        fix = "Give requests_per_second or concurrent_users."
        allowed = f"left out for task {task}, which generates no tokens"
        notes.violations.append(Violation("traffic.output_tokens_per_second", rate, allowed, fix))


def _output_tokens(args: ServingStackArgs, task: str, notes: _Notes) -> int:
    if task != "generate":
        return 1  # a pooling model answers with its prefill
    if "output_tokens" not in args.traffic.model_fields_set:
        notes.assume("traffic.output_tokens", args.traffic.output_tokens, "default mean length of an answer")
    return args.traffic.output_tokens


def _rates(args: ServingStackArgs, notes: _Notes) -> tuple[float, float, float | None]:
    traffic = args.traffic
    in_flight = traffic.concurrent_users
    if traffic.requests_per_second is not None:
        mean = traffic.requests_per_second
    elif traffic.output_tokens_per_second is not None:
        mean = traffic.output_tokens_per_second / traffic.output_tokens
        notes.assume("traffic.requests_per_second", f"{mean:.3g}", "output_tokens_per_second / output_tokens")
    elif in_flight is not None:
        mean = 0.0
        notes.assume(
            "traffic.requests_per_second", "from the plan", "concurrent_users over the time of a request"
        )
    else:
        mean = DEFAULT_RPS
        notes.assume("traffic.requests_per_second", f"{mean:g}", "no rate was given")
    peak = traffic.peak_requests_per_second
    if peak is None:
        peak = mean * PEAK_TO_MEAN
        notes.assume(
            "traffic.peak_requests_per_second", f"{peak:.3g}" if mean else "2 x mean", "twice the mean"
        )
    elif peak < mean:
        fix = "Raise the peak, or give a lower rate."
        notes.violations.append(
            Violation("traffic.peak_requests_per_second", peak, f"at least the mean, {mean:.3g}", fix)
        )
    return mean, peak, in_flight


def _ramp(args: ServingStackArgs, notes: _Notes) -> float:
    if args.traffic.ramp is not None:
        return args.traffic.ramp.total_seconds()
    notes.assume("traffic.ramp", "5m", "default time from the mean to the peak")
    return DEFAULT_RAMP_S


def _timeouts(args: ServingStackArgs, notes: _Notes) -> tuple[int, int]:
    stream, request_s = args.stream_timeout, max(1, round(args.request_s))
    if args.request_timeout is None:
        notes.assume("request_timeout", f"{request_s}s", "default")
    if stream is None:
        stream_s = max(MIN_STREAM_S, STREAM_FACTOR * request_s)
        notes.assume("stream_timeout", f"{stream_s}s", "ten times the request timeout, at least 10m")
    else:
        stream_s = max(1, round(stream.total_seconds()))
    if stream_s < request_s:
        allowed = f"at least request_timeout, {request_s}s"
        fix = "Raise it, or give a shorter request_timeout."
        notes.violations.append(Violation("stream_timeout", f"{stream_s}s", allowed, fix))
    return request_s, stream_s


_QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def _limits(args: ServingStackArgs, request_s: int) -> tuple[Limit, ...]:
    """Objectives, the batch deadline, and the request timeout, which is one more limit on the whole
    request."""
    found: list[Limit] = []
    for kind in ("ttft", "tpot", "latency"):
        for name, q in _QUANTILES.items():
            value = getattr(args.slo, f"{kind}_{name}")
            if value is not None:
                found.append(Limit(kind, q, value.total_seconds(), f"slo.{kind}_{name}"))
    if args.traffic.deadline is not None:
        found.append(Limit("latency", 0.95, args.traffic.deadline.total_seconds(), "traffic.deadline"))
    found.append(Limit("latency", 0.95, float(request_s), "request_timeout"))
    return tuple(found)


def _max_model_len(args: ServingStackArgs, longest: int, output: int, notes: _Notes) -> int:
    needed = args.traffic.input_tokens + (output if output > 1 else 0)
    given = args.model.max_model_len
    if needed > longest:
        notes.violations.append(
            Violation(
                "traffic.input_tokens",
                args.traffic.input_tokens,
                f"prompt and answer within the model's context of {longest} tokens",
                "Shorten the traffic, or choose a model with a longer context.",
            )
        )
        return longest
    if given is None:
        length = 256
        while length < 2 * needed:
            length *= 2
        length = min(length, longest)
        notes.assume("model.max_model_len", length, "the power of two that holds the traffic twice over")
        return length
    if given > longest:
        notes.violations.append(
            Violation(
                "model.max_model_len", given, f"at most {longest}, the model's own context", "Lower it."
            )
        )
    elif given < needed:
        notes.violations.append(
            Violation(
                "model.max_model_len",
                given,
                f"at least traffic.input_tokens + traffic.output_tokens = {needed}",
                "Raise it, or shorten the traffic.",
            )
        )
    return given
