"""Documents: stack files, argument files and Pulumi config become validated args, all violations at once.

Three shapes are read: one stack (`name`, `model`, `target`, ...), several (`{defaults, stacks}`), and a
Pulumi stack file (`config:` with `servingstack:stacks` and `servingstack:defaults`). What is handed on at
deployment (`existing:`) is split off here, so that it can never reach a plan or its hash.

Trap: `pulumi.Config.require_object` hands out a `secure:` value inside an object in plain text, without a
word. So a `secure:` anywhere in stacks or defaults is refused; a secret has a config key of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeGuard, cast

from servingstack.args import ServingStackArgs
from servingstack.errors import InvalidInput, Unreadable, Violation
from servingstack.handed_on import FIELDS
from servingstack.measured import bench_path
from servingstack.measured_formats import by_reference, resolve
from servingstack.measured_formats import read as read_table
from servingstack.plain import problems, secret_violation
from servingstack.yaml12 import load

NAMESPACE = "servingstack:"
KNOWN_KEYS = ("stacks", "defaults", "require_lock", "platforms")
# Null means "reset to unset", except inside these, which are not ours: there a null is a value.
_FREE_FORM = (("model", "config"), ("overrides",))


@dataclass(frozen=True)
class ConfigValue:
    """`{config: key}`: a value (often secret) under a config key of its own."""

    key: str


@dataclass(frozen=True)
class StackOutput:
    """`{stack: org/project/env, output: name}`: an output of another Pulumi stack."""

    stack: str
    output: str


@dataclass(frozen=True)
class StackEntry:
    """One stack of a document."""

    args: ServingStackArgs
    existing: Mapping[str, Any]
    """By field of the option's `Existing`: a plain value, a `ConfigValue` or a `StackOutput`."""
    path: str
    """Where it stands: `stacks[1]`, or empty for a file that is one stack."""


@dataclass(frozen=True)
class Document:
    """Everything one file or one environment says."""

    stacks: tuple[StackEntry, ...]
    require_lock: bool = False
    """Whether a deployment stops when the lock file is absent or stale."""
    single: bool = False
    """Whether the file is one stack, not a list."""
    notes: tuple[str, ...] = ()
    """What was seen and not used."""


def read(path: Path) -> Document:
    """A file as a document. Raises `InvalidInput`."""
    return parse_text(read_text(path), path.name, path.parent)


def read_text(path: Path) -> str:
    """A file's text. Raises `InvalidInput`."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        allowed = "a readable YAML file"
        raise InvalidInput(
            [Unreadable(str(path), None, allowed, f"not {allowed} ({reason}). Check the path.")]
        ) from None


def with_benches(document: Document, stack_file: Path) -> Document:
    """The document with the tables that `servingstack bench` wrote beside its lock file, for stacks that name
    none. Raises `InvalidInput` for one that cannot be read."""
    return replace(document, stacks=tuple(_with_bench(entry, stack_file) for entry in document.stacks))


def _with_bench(entry: StackEntry, stack_file: Path) -> StackEntry:
    path = bench_path(stack_file, entry.args.name)
    if entry.args.measured is not None or not path.is_file():
        return entry
    return replace(entry, args=entry.args.model_copy(update={"measured": read_table([path])}))


def parse_text(text: str, source: str, folder: Path | None = None) -> Document:
    """YAML text of any of the three shapes. `source` names it in errors; paths in it are relative to
    `folder`, by default the current one. Raises `InvalidInput`."""
    folder = Path() if folder is None else folder
    content = load(text, source)
    if not isinstance(content, Mapping):
        allowed = "one stack, `stacks` with a list of them, or a Pulumi stack file"
        raise InvalidInput(
            [Violation(source, _short(content), allowed, "Begin with `name:`, `stacks:` or `config:`.")]
        )
    if "config" in content and not {"model", "stacks"} & content.keys():
        return from_stack_file(content, folder)
    if {"stacks", "defaults", "platforms"} & content.keys():
        return _parse(content, folder, single=False)
    return _parse({"stacks": [content]}, folder, single=True)


def from_stack_file(content: Mapping[str, Any], folder: Path) -> Document:
    """A Pulumi stack file, as loaded from that folder."""
    config = content["config"]
    if not isinstance(config, Mapping):
        raise InvalidInput(
            [Violation("config", _short(config), "config keys with values", "Indent them under `config:`.")]
        )
    ours = {key.removeprefix(NAMESPACE): value for key, value in config.items() if key.startswith(NAMESPACE)}
    notes = ("ESC environments (`environment:`) are not resolved here.",) if "environment" in content else ()
    return from_config(ours, folder, notes=notes)


def from_config(values: Mapping[str, Any], folder: Path, notes: tuple[str, ...] = ()) -> Document:
    """The values under `servingstack:`, by key without the namespace; paths in them are relative to
    `folder`."""
    document = {key: values[key] for key in KNOWN_KEYS if key in values}
    ours = ", ".join(f"{NAMESPACE}{known}" for known in KNOWN_KEYS)
    misspelt = [
        Violation(f"{NAMESPACE}{key}", _short(values[key]), ours, f"Did you mean `{NAMESPACE}{close[0]}`?")
        for key in values
        if key not in KNOWN_KEYS and (close := get_close_matches(key, KNOWN_KEYS, n=1, cutoff=0.8))
    ]
    return _parse(document, folder, single=False, notes=notes, found=misspelt)


def _parse(
    document: Mapping[str, Any],
    folder: Path,
    *,
    single: bool,
    notes: tuple[str, ...] = (),
    found: list[Violation] | None = None,
) -> Document:
    violations = [*([] if found is None else found), *_outer_violations(document)]
    defaults = document.get("defaults")
    defaults = defaults if isinstance(defaults, Mapping) else {}
    listed = document.get("stacks")
    entries: list[StackEntry] = []
    for index, own in enumerate(listed if isinstance(listed, list) else []):
        path = "" if single else f"stacks[{index}]"
        if not isinstance(own, Mapping):
            violations.append(Violation(path, _short(own), "a stack (an object)", "Begin with `name:`."))
            continue
        entry, wrong = _entry(own, defaults, path, folder)
        violations += wrong
        entries += [] if entry is None else [entry]
    violations += _duplicate_names(listed)
    if violations:  # what is wrong in the defaults was found once for each stack
        raise InvalidInput({(item.path, item.allowed): item for item in violations}.values())
    require_lock = document.get("require_lock", False) in (True, "true")
    return Document(tuple(entries), require_lock, single, notes)


def _outer_violations(document: Mapping[str, Any]) -> Iterator[Violation]:
    """What is wrong around the stacks, and what may stand nowhere at all."""
    unknown = [key for key in document if key not in KNOWN_KEYS]
    for key in unknown:
        close = get_close_matches(key, KNOWN_KEYS, n=1)
        fix = f"Did you mean `{close[0]}`?" if close else "Remove it, or move it into `defaults` or a stack."
        yield Violation(key, _short(document[key]), "one of stacks, defaults", fix)
    if "platforms" in document:
        yield Violation(
            "platforms",
            _short(document["platforms"]),
            "not in this release; the option `kubernetes` needs none, it uses the cluster that exists",
            "Remove `platforms`.",
        )
    stacks, defaults = document.get("stacks"), document.get("defaults")
    if not isinstance(stacks, list) or not stacks:
        yield Violation(
            "stacks", _short(stacks), "a list of one or more stacks", "Add `- name: ...` below `stacks:`."
        )
    if defaults is not None and not isinstance(defaults, Mapping):
        yield Violation(
            "defaults", _short(defaults), "an object with fields of a stack", "Write `field: value` below it."
        )
    elif defaults is not None and "name" in defaults:
        yield Violation(
            "defaults.name", _short(defaults["name"]), "no name in defaults", "Give each stack its own name."
        )
    if document.get("require_lock", False) not in (True, False, "true", "false"):
        yield Violation(
            "require_lock", _short(document["require_lock"]), "true or false", "Correct the value."
        )
    for part in ("stacks", "defaults"):
        yield from problems(document.get(part), part)


def _duplicate_names(listed: Any) -> Iterator[Violation]:
    first: dict[str, int] = {}
    for index, own in enumerate(listed if isinstance(listed, list) else []):
        name = own.get("name") if isinstance(own, Mapping) else None
        if not isinstance(name, str):
            continue
        if name in first:
            yield Violation(
                f"stacks[{index}].name", name, f"a name other than stacks[{first[name]}]'s", "Rename one."
            )
        first.setdefault(name, index)


def _entry(
    own: Mapping[str, Any], defaults: Mapping[str, Any], path: str, folder: Path
) -> tuple[StackEntry | None, list[Violation]]:
    """One stack over the defaults. Violations name the place that holds the value."""
    base = merge({}, {key: value for key, value in defaults.items() if key != "name"})
    merged = merge(base, own)
    given = merged.pop("existing", None)
    existing, violations = _existing(given)
    args: ServingStackArgs | None = None
    try:
        if by_reference(merged.get("measured")):
            merged["measured"] = resolve(merged["measured"], folder).model_dump(
                mode="json", exclude_none=True
            )
        args = ServingStackArgs.validated(merged)
    except InvalidInput as error:
        violations = [*error.violations, *violations]
    placed = [_placed(violation, own, defaults, path) for violation in violations]
    return (None if args is None or placed else StackEntry(args, existing, path)), placed


def _placed(
    violation: Violation, own: Mapping[str, Any], defaults: Mapping[str, Any], path: str
) -> Violation:
    inner = "" if violation.path == "(document)" else violation.path
    prefix = "defaults" if inner and not _holds(own, inner) and _holds(defaults, inner) else path
    joined = ".".join(part for part in (prefix, inner) if part)
    return replace(violation, path=joined if joined else "(document)")


def _holds(document: Any, path: str) -> bool:
    for part in re.findall(r"[^.\[\]]+", path):
        if isinstance(document, Mapping) and part in document:
            document = document[part]
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return False
    return True


def merge(base: Mapping[str, Any], over: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """`over` laid over `base`: objects merge, lists replace, null resets to unset. Another engine replaces
    whole."""
    free = any(path[: len(form)] == form for form in _FREE_FORM)
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if value is None and not free:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            inner = (*path, key)
            result[key] = merge(below if _merges(below, value, inner) else {}, value, inner)
        elif isinstance(value, list):
            items = [merge({}, item, (*path, key)) if isinstance(item, Mapping) else item for item in value]
            result[key] = items
        else:
            result[key] = value
    return result


def _merges(below: Any, over: Mapping[str, Any], path: tuple[str, ...]) -> TypeGuard[Mapping[str, Any]]:
    if not isinstance(below, Mapping):
        return False
    return path != ("engine",) or "kind" not in over or over["kind"] == below.get("kind")


def _existing(given: Any) -> tuple[dict[str, Any], list[Violation]]:
    """The values that are handed on at deployment."""
    if given is None:
        return {}, []
    if not isinstance(given, Mapping):
        return {}, [
            Violation("existing", _short(given), "an object with ids of what exists", "Write `field: value`.")
        ]
    existing: dict[str, Any] = {}
    violations: list[Violation] = []
    for name, value in given.items():
        path = f"existing.{name}"
        if name not in FIELDS:
            close = get_close_matches(name, FIELDS, n=1)
            fix = f"Did you mean `{close[0]}`?" if close else "Remove it."
            violations.append(Violation(path, _short(value), f"one of {', '.join(FIELDS)}", fix))
        elif not isinstance(value, Mapping):
            existing[name] = value
            if not _plain(value):
                allowed = "a text, a list of texts, or a reference"
                violations.append(Violation(path, _short(value), allowed, "Correct the value."))
        elif set(value) == {"config"} and isinstance(value["config"], str):
            existing[name] = ConfigValue(value["config"])
        elif set(value) == {"stack", "output"} and all(isinstance(part, str) for part in value.values()):
            existing[name] = StackOutput(value["stack"], value["output"])
        elif "secure" not in value:  # a secure value has been reported already
            allowed = "a plain value, {config: KEY} or {stack: org/project/env, output: NAME}"
            violations.append(
                Violation(path, f"an object with {', '.join(map(str, value))}", allowed, "Use one of these.")
            )
    return existing, violations


def _plain(value: Any) -> bool:
    """A text, or several."""
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(each, str) for each in cast("list[Any]", value))
    )


def _short(value: Any) -> Any:
    """What kind of value it is; numbers as they are. No text, which may be a secret."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | str):
        return "a list" if isinstance(value, list) else "a text"
    return value if value is None or isinstance(value, bool | int | float) else f"a {type(value).__name__}"


__all__ = [
    "ConfigValue",
    "Document",
    "StackEntry",
    "StackOutput",
    "from_config",
    "merge",
    "parse_text",
    "read",
    "read_text",
    "secret_violation",
]
