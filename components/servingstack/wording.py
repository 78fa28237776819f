"""What the validator says in its own terms, said in the document's: an object, a list, a text, a name.

Trap: a validator's message is written for the author of the model. "A valid dictionary or instance of
ModelArgs" and a regular expression tell the author of a YAML file nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from servingstack.fields import WORDS
from servingstack.later import resolved
from servingstack.redact import names_secret

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

CORRECT = "Correct the value."
_LISTED = 4
"""Fields that are named as examples of an object's."""
_ONE_FIELD = {"model": "id", "target": "option", "nodes[]": "accelerator", "traffic": "requests_per_second"}
"""The field that is meant where one plain value stands in an object's place."""
_OBJECTS = ("model_type", "model_attributes_type", "dataclass_type", "dict_type", "mapping_type")
_PLAIN = {
    "string_type": "a text",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "extra_forbidden": "no such field here",
    "missing": "a value",
}
_FIXES = {
    "int_from_float": "Round it.",
    "extra_forbidden": "Remove it, or correct its spelling.",
    "missing": "Add it.",
    "too_short": "Add one, or remove the field.",
    "string_too_long": "Shorten it.",
}
_BOUNDS = {
    "greater_than": ("above", "gt", "Raise it."),
    "greater_than_equal": ("at least", "ge", "Raise it."),
    "less_than": ("below", "lt", "Lower it."),
    "less_than_equal": ("at most", "le", "Lower it."),
}


def said(item: ErrorDetails, path: str, known: Mapping[str, list[str]]) -> tuple[str, str]:
    """What is allowed at the path, and what to do. `known` maps the path of an object to its fields."""
    kind, context = item["type"], item.get("ctx", {})
    names = known.get(re.sub(r"\[\d+\]", "", path), [])
    if kind in _OBJECTS:
        return _object(path, item["input"], names)
    if kind in ("tuple_type", "list_type"):
        return _list(path, item["input"])
    if kind in _BOUNDS:
        word, bound, fix = _BOUNDS[kind]
        return f"{word} {context[bound]:.15g}", fix
    text = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if kind == "value_error":  # our own validators say "allowed | fix"
        allowed, _, own = text.partition(" | ")
        return allowed, own if own else CORRECT
    return _of_one_value(kind, context, text), _FIXES.get(kind, _quotes(kind, item["input"]))


def _of_one_value(kind: str, context: Mapping[str, Any], otherwise: str) -> str:
    if kind == "string_pattern_mismatch":
        return WORDS.get(context["pattern"], otherwise)
    if kind == "string_too_long":
        return f"at most {context['max_length']} characters"
    if kind == "too_short":
        return f"at least {context['min_length']} in the list"
    return _PLAIN.get(kind, otherwise)


def _quotes(kind: str, given: Any) -> str:
    """The fix where the quotes alone may be wrong."""
    if kind == "string_type" and isinstance(given, int | float):
        return "Put it in quotes."
    if kind in ("float_type", "int_type", "bool_type") and isinstance(given, str):
        return "Write it without quotes."
    return CORRECT


def did_you_mean(given: str, names: list[str], otherwise: str) -> str:
    """The fix that names the closest of the names, else the other one."""
    close = get_close_matches(given, names, n=1)
    return f"Did you mean `{close[0]}`?" if close else otherwise


def tag(given: Any, tags: list[str]) -> tuple[str, str]:
    """The same for the field that says which of several kinds an object is."""
    if given is None:
        first = next((name for name in tags if name != "auto"), "")
        return f"one of {', '.join(tags)}", f"Add `kind: {first}`, or the kind that these settings are for."
    return f"one of {', '.join(tags)}", did_you_mean(str(given), tags, "Use one of these.")


def _object(path: str, given: Any, names: list[str]) -> tuple[str, str]:
    field = re.sub(r"\[\d+\]", "[]", path).rpartition(".")[2]
    others = " and others" if len(names) > _LISTED else ""
    allowed = f"an object with {', '.join(names[:_LISTED])}{others}" if names else "an object"
    if names_secret(path):
        return allowed, f"Name a secret that exists: `{field}: {{name: NAME, key: KEY}}`."
    if path == "engine":
        return allowed, "Write `engine: {kind: vllm}`."
    inner, plain = _ONE_FIELD.get(field), _plain(given)
    if inner is not None and plain is not None and isinstance(given, str) == (field != "traffic"):
        own = f"{{{inner}: {plain}}}"
        return allowed, f"Write `- {own}`." if field.endswith("[]") else f"Write `{field}: {own}`."
    return allowed, f"Write `{names[0] if names else 'key'}: ...` and the like below it."


def _list(path: str, given: Any) -> tuple[str, str]:
    plain = None if names_secret(path) else _plain(given)
    return "a list", "Write a list, each item after `- `." if plain is None else f"Write `[{plain}]`."


def _plain(value: Any) -> str | None:
    """A short plain value as the document has it; None for anything else."""
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return text if 0 < len(text) <= 60 and text.isprintable() else None


def known_fields(model: type[BaseModel], prefix: str = "") -> dict[str, list[str]]:
    """Field names by the path of their object (without list indexes), for "did you mean"; the kinds of a
    union by the path of the field that tells them apart."""
    known = {prefix: list(model.model_fields)}
    for name, field in ((name, resolved(field)) for name, field in model.model_fields.items()):
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(field.discriminator, str):
            kinds = [inner.model_fields[field.discriminator] for inner in _models_in(field.annotation)]
            known[f"{path}.{field.discriminator}"] = [get_args(kind.annotation)[0] for kind in kinds]
        for inner in _models_in(field.annotation):
            for below, names in known_fields(inner, path).items():
                known[below] = list(dict.fromkeys([*known.get(below, []), *names]))
    return known


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models in an annotation, however deep: in an optional, a union, a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]
