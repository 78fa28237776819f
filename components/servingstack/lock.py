"""The lock file: the plans of one environment as reviewed in a pull request, rendered later as they stand.

`plan.<env>.lock.json` beside the stack file. A stack's key is the hash of its args as written; as long as it
matches, the locked plan is what is deployed, whatever a newer library would decide.

Traps:
- A plan that a newer library wrote may hold fields this one does not know. Dropping them would deploy
  something nobody reviewed, so that is an error.
- An edit by hand is no decision of the planner's. So each plan has a hash of its content, over the text as it
  was written: a newer library may add fields to what it reads.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from servingstack._version import __version__
from servingstack.changes import Change, decision_changes
from servingstack.engines.vendor_images import is_release
from servingstack.errors import InvalidInput, Violation, dotted
from servingstack.plan import ServingPlan

LOCK_VERSION = 1
Locked = TypeVar("Locked", bound=BaseModel)
_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)
_BY_DIGEST = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")
_AGAIN = "Run `servingstack lock` again."
_EDITED = "The file was edited by hand; run `servingstack lock` again."


def content_hash(plan: Any) -> str:
    """Hash of a plan's JSON as it stands in the file."""
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class LockEntry(BaseModel):
    """One locked stack."""

    model_config = _CONFIG
    key: str
    """Hash of the args as written when the plan was made."""
    plan_hash: str
    """Hash of the plan as written."""
    plan: ServingPlan
    """The plan, whole."""

    @model_validator(mode="before")
    @classmethod
    def _plan_is_as_it_was_written(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and isinstance(plan := cast(Any, value).get("plan"), dict):
            written = cast(Any, value).get("plan_hash")
            if isinstance(written, str) and written != content_hash(plan):
                raise ValueError(f"a plan whose hash is plan_hash | {_EDITED}")
        return value

    @model_validator(mode="after")
    def _key_is_the_plans(self) -> LockEntry:
        if self.key != self.plan.args_key:
            raise ValueError(f"key equal to plan.args_key | {_EDITED}")
        images = [self.plan.container.image]
        images += [] if self.plan.front_door is None else [self.plan.front_door.image]
        for image in images:
            if not (_BY_DIGEST.fullmatch(image) or is_release(image)):
                raise ValueError(f"images by digest, which {image} is not | {_EDITED}")
        return self


class LockFile(BaseModel):
    """The plans of one environment, by stack."""

    model_config = _CONFIG
    lock_version: Literal[1] = LOCK_VERSION
    """Version of this file's shape."""
    library_version: str
    """The library that wrote it."""
    stacks: dict[str, LockEntry]
    """By the stack's name."""

    @model_validator(mode="after")
    def _names_are_the_plans(self) -> LockFile:
        for name, entry in self.stacks.items():
            if entry.plan.name != name:
                raise ValueError(f"the plan of {name} below that name, not of {entry.plan.name} | {_EDITED}")
        return self


@dataclass(frozen=True)
class Comparison:
    """How a locked plan stands to a fresh one."""

    state: Literal["absent", "matching", "stale"]
    """`stale`: the args were changed after the lock was written."""
    locked: ServingPlan | None
    changed: tuple[Change, ...]
    """Where the fresh plan differs from the locked one; with `matching`, by a newer library."""

    @property
    def current(self) -> bool:
        """Whether writing the lock anew would leave this stack as it is."""
        return self.state == "matching" and not self.changed


def lock_path(stack_file: Path) -> Path:
    """`stacks/plan.dev.lock.json` for `stacks/Pulumi.dev.yaml`, `x.lock.json` for any other file."""
    stem = stack_file.stem
    if stem.startswith("Pulumi."):
        return stack_file.with_name(f"plan.{stem.removeprefix('Pulumi.')}.lock.json")
    return stack_file.with_name(f"{stem}.lock.json")


def make(plans: Mapping[str, ServingPlan]) -> LockFile:
    """The lock of these plans, by stack name."""
    return LockFile(
        library_version=__version__, stacks={name: _entry(plan) for name, plan in sorted(plans.items())}
    )


def _entry(plan: ServingPlan) -> LockEntry:
    return LockEntry(key=plan.args_key, plan_hash=content_hash(plan.model_dump(mode="json")), plan=plan)


def dumps(lock: LockFile) -> str:
    """Stable JSON: sorted keys, one value a line, a newline at the end."""
    return json.dumps(lock.model_dump(mode="json"), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def loads(text: str, source: str) -> LockFile:
    """A lock file's text. Raises `InvalidInput` that names `source`."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        fix = f"Resolve a merge: {_AGAIN}"
        raise InvalidInput(
            [Violation(f"{source} line {error.lineno}", None, f"JSON ({error.msg})", fix)]
        ) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets without end
        raise InvalidInput([Violation(source, None, f"JSON of a lock file ({error})", _AGAIN)]) from None
    return parse(LockFile, content, source)


def parse(kind: type[Locked], content: Any, source: str) -> Locked:
    """A lock file or one plan from its parsed JSON. Raises `InvalidInput` that names `source`."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise InvalidInput([_violation(item, source) for item in error.errors(include_url=False)]) from None


def _violation(item: Any, source: str) -> Violation:
    allowed, _, fix = item["msg"].removeprefix("Value error, ").partition(" | ")
    newer = f"Written by a newer release? Use it, or run `servingstack lock` with this one ({__version__})."
    return Violation(f"{source}: {dotted(item['loc'])}", None, allowed, fix if fix else newer)


def read(path: Path) -> LockFile | None:
    """The lock file, None if there is none. Raises `InvalidInput` if it cannot be used."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InvalidInput([Violation(path.name, None, f"a readable lock file ({reason})", _AGAIN)]) from None
    return loads(text, path.name)


def write(path: Path, lock: LockFile) -> None:
    """Write it whole or not at all. Raises `InvalidInput` where it cannot be written."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(dumps(lock), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        allowed = f"a place where a file can be written ({error.strerror})"
        raise InvalidInput([Violation(str(path), None, allowed, "Remove what is there.")]) from None


def compare(lock: LockFile | None, plan: ServingPlan) -> Comparison:
    """The locked plan of the stack against a fresh one."""
    entry = None if lock is None else lock.stacks.get(plan.name)
    if entry is None:
        return Comparison("absent", None, ())
    changed = decision_changes(entry.plan.model_dump(mode="json"), plan.model_dump(mode="json"))
    return Comparison("matching" if entry.key == plan.args_key else "stale", entry.plan, changed)


__all__ = [
    "Comparison",
    "LockEntry",
    "LockFile",
    "compare",
    "content_hash",
    "dumps",
    "loads",
    "lock_path",
    "make",
    "parse",
    "read",
    "write",
]
