"""What a user may hand to an engine past its typed settings: extra arguments and extra environment variables.

Trap: a check that compares plain spellings lets a managed flag through, and then the pod holds eight GPUs
while the engine uses one. vLLM's parser takes `--tensor_parallel_size`, `-tp=2`, `--no-enable-prefix-caching`
and `--compilation-config.mode 3`; SGLang's is plain argparse, which completes unique beginnings, so that
`--mem-frac=0.5` would set `--mem-fraction-static`. Only names that the release spells out in full get
through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from servingstack.engines import facts

_SECRET_NAME = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIAL)", re.IGNORECASE)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"-\d+(\.\d+)?")
_LEVEL = re.compile(r"-O=?(\d+)")


@dataclass(frozen=True)
class Argument:
    """One argument that begins a flag."""

    spelt: str
    """As it was written, without a value."""
    name: str
    """The release's own name of the flag, without hyphens; as written where there is none."""
    given: str
    """What the engine is handed: the name with its negation and its dotted key."""
    value: str | None


@dataclass(frozen=True)
class Extras:
    """What one pinned release lets a user add."""

    engine: str
    """As in the names of the data files."""
    name: str
    """As users know it: `vLLM`."""
    version: str
    managed_flags: Mapping[str, str]
    """Flags that have a field of their own."""
    refused_flags: Mapping[str, str]
    """Flags that would contradict the plan and have no field, with the reason."""
    managed_env: Mapping[str, str]
    refused_env: frozenset[str]
    caches: Callable[[str], tuple[tuple[str, str], ...]]
    """Variables of every directory that would else be under an unwritable home, for a path of the cache."""
    loose: bool = False
    """Whether the parser reads `--a_b` as `--a-b`, `--a.key` as a part of `--a`, and `-O3` as a level."""

    def arguments(self, given: Sequence[str]) -> list[str]:
        """Everything wrong with extra arguments, as sentences. Empty if nothing is."""
        wrong: list[str] = []
        takes_value = False
        for argument in given:
            if not _is_flag(argument):
                if not takes_value:
                    wrong.append(f"{argument!r} follows no flag that takes one more value")
                takes_value = False
            elif " " in argument.partition("=")[0]:
                wrong.append(f"{argument!r} is several arguments in one; give each its own element")
                takes_value = False
            else:
                read = self._read(argument)
                wrong += self._problems(read)
                known = facts.flags(self.engine, self.version)
                alone = read.name in known and known[read.name].kind in facts.FLAGLESS_KINDS
                takes_value = not alone and read.value is None
        return wrong

    def flags(self, given: Sequence[str]) -> list[tuple[str, str | None]]:
        """Checked arguments as (name without hyphens, value): `--a=b`, `--a b`, `-a b` and `-O3` alike."""
        found: list[tuple[str, str | None]] = []
        for argument in given:
            if _is_flag(argument):
                read = self._read(argument)
                found.append((read.given, read.value))
            else:
                found[-1] = (found[-1][0], argument)
        return found

    def variables(self, given: Mapping[str, str]) -> list[str]:
        """Everything wrong with extra environment variables, as sentences. Empty if nothing is."""
        if not given:
            return []
        known = facts.environment(self.engine, self.version)
        planned = {name for name, _ in self.caches("/")}
        wrong: list[str] = []
        for name in given:
            if not _ENV_NAME.fullmatch(name):
                wrong.append(f"{name!r} is no name of an environment variable")
            elif name in self.managed_env:
                wrong.append(f"{name} is a secret: use {self.managed_env[name]}")
            elif name in self.refused_env or name in planned:
                wrong.append(f"{name} is set by the plan")
            elif _SECRET_NAME.search(name) and name not in known:
                wrong.append(f"{name} looks like a secret, and this text lands in the state in clear")
            elif name.startswith(f"{self.engine.upper()}_") and name not in known:
                nearest = facts.closest(name, sorted(known))
                wrong.append(f"{name} is no variable of this {self.name} release. {nearest}".rstrip())
        return wrong

    def _read(self, argument: str) -> Argument:
        """The flag an argument sets, as the engine's parser reads it."""
        if self.loose and (level := _LEVEL.fullmatch(argument)):
            return Argument(argument, "optimization-level", "optimization-level", level[1])
        known = facts.flags(self.engine, self.version)
        head, inline, value = argument.partition("=")
        given = head.removeprefix("--")
        name = given.partition(".")[0].replace("_", "-") if self.loose else given
        positive = name.removeprefix("no-")
        if name not in known and positive in known and known[positive].kind == "bool":
            name = positive
        aliased = next((flag.name for flag in known.values() if head in flag.aliases), None)
        if aliased is not None:
            name = given = aliased
        return Argument(head, name, given, value if inline else None)

    def _problems(self, argument: Argument) -> list[str]:
        name, spelt = argument.name, argument.spelt
        if name in self.managed_flags:
            return [f"{spelt} has a field of its own: use {self.managed_flags[name]}"]
        if name in self.refused_flags:
            return [f"{spelt} would contradict the plan: {self.refused_flags[name]}"]
        known = facts.flags(self.engine, self.version)
        if name not in known:
            nearest = facts.closest(name, list(known))
            return [f"{spelt} is no flag of this {self.name} release. {nearest}".rstrip()]
        return []


def _is_flag(argument: str) -> bool:
    return argument.startswith("-") and not _NUMBER.fullmatch(argument)
