"""Models by repository id or alias.

Trap: an id says more than an architecture. `Qwen/Qwen2.5-7B-Instruct-AWQ` is the base model's shape in
another precision, and Llama-3 and Llama-3.1 are one shape with contexts of 8192 and 131072 tokens: an alias
carries what differs.
"""

from __future__ import annotations

import dataclasses
import difflib
from functools import cache
from typing import cast

from .records import Model, Precision, Task
from .tables import Row, cited, flag, optional_int, table


@cache
def _rows() -> dict[str, Row]:
    return {row["id"].lower(): row for row in table("models")}


@cache
def _aliases() -> dict[str, Row]:
    return {row["alias"].lower(): row for row in table("model_aliases")}


@cache
def model(model_id: str) -> Model | None:
    """The model behind a repository id, in any case; None where the catalog does not know it (then
    `suggest_models` helps, or a Hugging Face config with `model_from_hf_config`). For an alias the id,
    precision, context and access are its own, the rest its base's."""
    key = model_id.strip().lower()
    row = _rows().get(key)
    if row is not None:
        return _model(row)
    alias = _aliases().get(key)
    return None if alias is None else _aliased(alias)


def models() -> tuple[Model, ...]:
    """Every base row, aliases left out."""
    return tuple(_model(row) for row in _rows().values())


def model_ids() -> tuple[str, ...]:
    """Every id that `model` knows, aliases included, sorted."""
    return tuple(
        sorted([row["id"] for row in _rows().values()] + [row["alias"] for row in _aliases().values()])
    )


def suggest_models(model_id: str, limit: int = 3) -> list[str]:
    """Known ids that look like an unknown one, best first; compared whole, then by the name after the
    slash."""
    known = {name.lower(): name for name in model_ids()}
    wanted = model_id.strip().lower()
    found = difflib.get_close_matches(wanted, known, n=limit, cutoff=0.75)
    short = {name.rsplit("/", 1)[-1]: name for name in reversed(known)}
    near = difflib.get_close_matches(wanted.rsplit("/", 1)[-1], short, n=limit, cutoff=0.6)
    return [known[name] for name in dict.fromkeys([*found, *(short[name] for name in near)])][:limit]


def _aliased(alias: Row) -> Model:
    base = _model(_rows()[alias["base"].lower()])
    context = optional_int(alias["max_context"])
    precision = cast(Precision, alias["precision"]) if alias["precision"] else base.precision
    same = precision == base.precision
    return dataclasses.replace(
        base,
        id=alias["alias"],
        precision=precision,
        group_size=base.group_size if same else optional_int(alias["group_size"]),
        max_context=base.max_context if context is None else context,
        gated=flag(alias["gated"]) if alias["gated"] else base.gated,
        source=f"{cited(alias['source'])}; architecture: {base.source}",
        date=alias["date"],
    )


_NUMBERS = (
    "layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "experts", "experts_per_token",
    "moe_intermediate", "shared_experts", "moe_layers", "kv_lora_rank", "qk_rope_head_dim", "parameters",
    "active_parameters", "expert_parameters", "vocab", "max_context", "sliding_layers",
)  # fmt: skip


def _model(row: Row) -> Model:
    numbers = {name: int(row[name]) for name in _NUMBERS}
    return Model(
        **numbers,
        id=row["id"],
        base_id=row["id"],
        architecture=row["architecture"],
        task=cast(Task, row["task"]),
        tie_embeddings=flag(row["tie_embeddings"]),
        sliding_window=optional_int(row["sliding_window"]),
        precision=cast(Precision, row["precision"]),
        group_size=optional_int(row["group_size"]),
        gated=flag(row["gated"]),
        reliable=not row["unreliable_reason"],
        unreliable_reason=row["unreliable_reason"],
        assumptions=tuple(part for part in row["assumptions"].split("; ") if part),
        source=cited(row["source"]),
        date=row["date"],
        note=row["note"],
    )
