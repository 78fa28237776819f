"""Which model, and how big: from the catalog, from Hugging Face config keys, or from a number of parameters.

Trap: a repository id that looks like a known one is not that one. Nothing is guessed from a name; an unknown
id without `config` or `parameters` is an error that names all three ways."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from servingstack import catalog
from servingstack.args import ModelArgs
from servingstack.catalog import Model
from servingstack.errors import InvalidInput, Violation
from servingstack.plan import Assumption
from servingstack.units import format_size


@dataclass(frozen=True, slots=True)
class SizedModel:
    """A model and what had to be assumed of it."""

    model: Model
    weight_scale: float
    assumed: tuple[Assumption, ...]


def resolve_model(args: ModelArgs, *, cached: bool = True) -> SizedModel:
    """The model to size; `cached` for an engine that keeps a KV cache. Raises `InvalidInput` where it is
    unknown or cannot be sized."""
    found, assumed = _find(args)
    task = "classify" if args.task == "other" else args.task  # sized alike: whole requests
    if task is not None and task != found.task:
        found = dataclasses.replace(found, task=task)
    if not found.reliable and cached:
        raise InvalidInput(
            [
                Violation(
                    "model.id",
                    args.id,
                    f"a model whose cache can be sized; this one cannot: {found.unreliable_reason}",
                    "Choose a model with plain attention; a guess would run out of memory.",
                )
            ]
        )
    wrong = _implausible(args, found)
    if wrong:
        raise InvalidInput(wrong)
    scale = 1.0
    if args.weight_bytes is not None:
        scale = args.weight_bytes / catalog.weight_bytes(found)
    return SizedModel(found, scale, tuple(assumed))


LEAST_BYTES, MOST_BYTES = 0.4, 8.0
"""Bytes per parameter: four bits with some room below, and fp32 with as much again for what a formula leaves
out."""


def _implausible(args: ModelArgs, found: Model) -> list[Violation]:
    """Sizes that contradict each other; planned, they would run out of memory or promise a speed from
    nothing."""
    wrong: list[Violation] = []
    if found.active_parameters > found.parameters:
        allowed = f"at most the parameters, {found.parameters}"
        wrong.append(Violation("model.active_parameters", args.active_parameters, allowed, "Lower it."))
    stored = args.weight_bytes
    if stored is not None and not LEAST_BYTES <= stored / found.parameters <= MOST_BYTES:
        least, most = (format_size(round(each * found.parameters)) for each in (LEAST_BYTES, MOST_BYTES))
        allowed = f"{least} to {most} for {found.parameters / 1e9:.3g} billion parameters"
        wrong.append(Violation("model.weight_bytes", format_size(stored), allowed, "Correct the unit."))
    return wrong


def _find(args: ModelArgs) -> tuple[Model, list[Assumption]]:
    count = None if args.parameters is None else int(args.parameters)
    active = None if args.active_parameters is None else int(args.active_parameters)
    if args.config is not None:
        task = "classify" if args.task == "other" else args.task
        found = catalog.model_from_hf_config(
            args.id, args.config, parameters=count, active_parameters=active, task=task
        )
        return found, [_note(text) for text in found.assumptions]
    known = catalog.model(args.id)
    if known is None and count is not None:
        return _by_parameters(args, count, active)
    if known is None:
        raise InvalidInput([_unknown(args)])
    notes = [_note(text) for text in known.assumptions]
    if count is None and active is None:
        return known, notes
    total = known.parameters if count is None else count
    used = round(known.active_parameters * total / known.parameters) if active is None else active
    experts = round(known.expert_parameters * total / known.parameters)
    return dataclasses.replace(
        known, parameters=total, active_parameters=used, expert_parameters=experts
    ), notes


def _note(text: str) -> Assumption:
    return Assumption(path="model", value=text, why="reading the model's config")


def _unknown(args: ModelArgs) -> Violation:
    close = catalog.suggest_models(args.id)
    hint = f"Did you mean {', '.join(close)}? " if close else ""
    return Violation(
        "model.id",
        args.id,
        "a model of the catalog, or any id together with model.config or model.parameters",
        f"{hint}Else add `config:` with the keys of the model's config.json, or `parameters:`.",
    )


def _by_parameters(args: ModelArgs, total: int, active: int | None) -> tuple[Model, list[Assumption]]:
    """The shape of the catalog's dense model nearest in size, with the parameters that were given."""
    dense = [row for row in catalog.models() if row.reliable and not row.experts and row.task == "generate"]
    shape = min(dense, key=lambda row: abs(row.parameters - total))
    model = dataclasses.replace(
        shape,
        id=args.id,
        base_id=args.id,
        parameters=total,
        active_parameters=total if active is None else active,
        gated=False,
        source="model.parameters given",
    )
    why = "only the number of parameters was given: shape of the catalog's nearest dense model"
    return model, [Assumption(path="model.config", value=f"as {shape.id}", why=why)]
