"""Where a command's input comes from: an environment's stack file, any file, or either of them at a git ref.

Trap: at a git ref the file may not have existed yet. That is an environment without stacks, not an error.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from servingstack import documents, lock
from servingstack.documents import Document, StackEntry
from servingstack.errors import Infeasible, InvalidInput, Violation
from servingstack.lock import Comparison, LockFile
from servingstack.plan import ServingPlan
from servingstack.planner import packing
from servingstack.planner import plan as make_plan
from servingstack.yaml12 import load


@dataclass(frozen=True)
class Source:
    """One document with its lock file."""

    path: Path
    document: Document
    lock: LockFile | None
    is_environment: bool
    broken_lock: InvalidInput | None = None
    """Why the lock file cannot be used, for the command that writes it anew."""

    @property
    def name(self) -> str:
        """The environment's, or the file's."""
        return self.path.stem.removeprefix("Pulumi.") if self.is_environment else self.path.name

    @property
    def lock_path(self) -> Path:
        return lock.lock_path(self.path)

    @property
    def lock_command(self) -> str:
        """What writes the lock file anew."""
        if not self.is_environment:
            return f"servingstack lock --file {self.path}"
        return f"servingstack lock {self.name}"

    @property
    def one_object(self) -> bool:
        """Whether JSON output is the object itself, not `{"stacks": {...}}`."""
        return not self.is_environment and len(self.document.stacks) == 1


@dataclass(frozen=True)
class Planned:
    """One stack with its fresh plan, and how the locked one stands to it."""

    entry: StackEntry
    fresh: ServingPlan
    lock: Comparison

    @property
    def deployed(self) -> ServingPlan:
        """What a deployment renders: the locked plan as long as it matches."""
        locked = self.lock.locked
        return locked if self.lock.state == "matching" and locked is not None else self.fresh


def open_source(environment: str | None, file: Path | None, *, to_relock: bool = False) -> Source:
    """The environment by name (`stacks/Pulumi.<env>.yaml`), or the file. Raises `InvalidInput`.

    `to_relock`: a lock file that cannot be used is as none, since it is about to be written anew."""
    if (environment is None) == (file is None):
        raise InvalidInput(
            [Violation("(command line)", None, "an environment's name or --file, one of them", "Give one.")]
        )
    path = file if file is not None else stack_file(str(environment), Path.cwd())
    document = documents.with_benches(documents.read(path), path)
    source = Source(path, document, None, environment is not None)
    try:
        return replace(source, lock=lock.read(source.lock_path))
    except InvalidInput as error:
        if not to_relock:
            raise
        return replace(source, broken_lock=error)


def stack_file(environment: str, start: Path) -> Path:
    """`Pulumi.<env>.yaml` of the project that `start` is in. Raises `InvalidInput` naming those there are."""
    project = next((folder for folder in (start, *start.parents) if (folder / "Pulumi.yaml").is_file()), None)
    if project is None:
        fix = "Change into the project, or use --file."
        raise InvalidInput(
            [Violation("(environment)", environment, "a folder with Pulumi.yaml here or above", fix)]
        )
    settings = load(documents.read_text(project / "Pulumi.yaml"), "Pulumi.yaml")
    folder = project / str(settings.get("stackConfigDir", "") if isinstance(settings, dict) else "")
    name = environment.rsplit("/", 1)[-1]  # org/project/stack, as Pulumi spells it in full
    found = folder / f"Pulumi.{name}.yaml"
    if not found.is_file():
        there = sorted(
            path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in folder.glob("Pulumi.*.yaml")
        )
        close = get_close_matches(name, there, n=1)
        fix = f"Did you mean `{close[0]}`?" if close else f"Write {found}."
        raise InvalidInput([Violation("(environment)", environment, ", ".join(there) or "none here", fix)])
    return found


def at_ref(source: Source, ref: str) -> Source:
    """The same files at a git ref. A file that was not there counts as no stacks. Raises `InvalidInput`."""
    folder = source.path.resolve().parent
    text = _git(folder, "show", f"{ref}:./{source.path.name}")
    locked = _git(folder, "show", f"{ref}:./{source.lock_path.name}")
    document = (
        Document(()) if text is None else documents.parse_text(text, f"{source.path.name} at {ref}", folder)
    )
    old_lock = None if locked is None else lock.loads(locked, f"{source.lock_path.name} at {ref}")
    return replace(source, document=document, lock=old_lock)


def plan_at(source: Source, ref: str, stack: str | None) -> tuple[dict[str, Planned], list[str]]:
    """The stacks of the same files at a git ref as far as they can be planned, and why the others cannot.

    A change that mends a broken file is a change like any other, so nothing there is an error here, but a ref
    that does not exist."""
    folder = source.path.resolve().parent
    if _git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") is None:
        raise InvalidInput(
            [Violation("--diff", ref, f"a git ref of the repository of {folder}", "Check the name.")]
        )
    try:
        old = at_ref(source, ref)
    except InvalidInput as error:
        return {}, [str(error)]
    planned: dict[str, Planned] = {}
    problems: list[str] = []
    for entry in old.document.stacks:
        name = entry.args.name
        if stack not in (None, name):
            continue
        try:
            planned |= plan_all(old, name)
        except (InvalidInput, Infeasible) as error:
            problems.append(f"{name}: {error}")
    return planned, problems


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, encoding="utf-8", check=False
        )
    except UnicodeDecodeError:
        what = arguments[-1].replace(":./", ": ")
        raise InvalidInput([Violation(what, None, "UTF-8 text", "Correct the file.")]) from None
    except FileNotFoundError:
        raise InvalidInput([Violation("--diff", None, "git on the PATH", "Install git.")]) from None
    return done.stdout if done.returncode == 0 else None


def plan_all(source: Source, stack: str | None = None) -> dict[str, Planned]:
    """Every stack planned, by name. Raises `InvalidInput` or `Infeasible` for all of them together."""
    planned: dict[str, Planned] = {}
    violations: list[Violation] = []
    refused: list[tuple[str, Infeasible]] = []
    for entry in _chosen(source.document.stacks, stack):
        try:
            fresh = make_plan(entry.args)
        except InvalidInput as error:
            violations += [replace(item, path=under(entry.path, item.path)) for item in error.violations]
        except Infeasible as error:
            refused.append((entry.args.name, error))
        else:
            planned[entry.args.name] = Planned(entry, fresh, lock.compare(source.lock, fresh))
    if not violations and not refused and stack is None:
        violations += packing.violations(entries(planned))
    if violations:
        raise InvalidInput(violations)
    if len(refused) == 1 and source.one_object:
        raise refused[0][1]
    if refused:
        raise _together(refused)
    return planned


def entries(planned: Mapping[str, Planned]) -> list[packing.Entry]:
    """Stacks with the plans that would be deployed, to be looked at together."""
    return [packing.Entry(item.entry.path, item.entry.args, item.deployed) for item in planned.values()]


def _chosen(entries: Iterable[StackEntry], stack: str | None) -> list[StackEntry]:
    listed = list(entries)
    if stack is None:
        return listed
    names = [entry.args.name for entry in listed]
    if stack not in names:
        close = get_close_matches(stack, names, n=1)
        fix = f"Did you mean `{close[0]}`?" if close else "Use one of these."
        raise InvalidInput([Violation("--stack", stack, ", ".join(names), fix)])
    return [entry for entry in listed if entry.args.name == stack]


def under(prefix: str, path: str) -> str:
    """A field's path in a document of several stacks."""
    return path if not prefix else f"{prefix}.{path}"


def _together(refused: list[tuple[str, Infeasible]]) -> Infeasible:
    """One refusal of several stacks, each line naming its stack."""
    return Infeasible(
        "; ".join(f"{name}: {error.binding}" for name, error in refused),
        [replace(item, change=f"{name}: {item.change}") for name, error in refused for item in error.nearest],
        [f"{name}: {item}" for name, error in refused for item in error.considered],
    )
