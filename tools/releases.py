"""What the readers of a release's facts share: its wheel as syntax trees, and the committed data files.

Trap: nothing of a release is imported. Its parsers are built at run time out of modules that need torch, and
a reader that met a form it does not know would leave a flag out in silence; so each reader stops at one.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from environments import environment, run
from toolchain import cache_dir, say

DATA = Path(__file__).resolve().parents[1] / "components/servingstack/engines/data"
Node = dict[str, Any]
# One platform's wheels whatever the machine, so that the same file is read everywhere.
_PLATFORM = (
    "--no-deps", "--only-binary=:all:", "--implementation=cp", "--python-version=3.11",
    "--platform=manylinux_2_34_x86_64", "--platform=manylinux_2_28_x86_64",
)  # fmt: skip
Render = Callable[[str, list[str]], dict[str, str]]
"""File name -> text, for a release and the kinds of facts that are wanted of it."""


class Sources:
    """The Python files of one wheel: each read and parsed at most once."""

    def __init__(self, wheel: Path) -> None:
        self.zip = zipfile.ZipFile(wheel)
        self.names = [name for name in self.zip.namelist() if name.endswith(".py")]
        self.trees: dict[str, ast.Module] = {}

    def tree(self, name: str) -> ast.Module:
        if name not in self.trees:
            self.trees[name] = ast.parse(self.zip.read(name))
        return self.trees[name]

    def first(self, names: tuple[str, ...]) -> str:
        """The first of these files that the wheel has."""
        return next(name for name in names if name in self.names)

    def classes(self, prefix: str) -> dict[str, tuple[str, ast.ClassDef]]:
        """Class name -> (file, definition) for the files under a prefix."""
        found: dict[str, tuple[str, ast.ClassDef]] = {}
        for name in sorted(self.names):
            if name.startswith(prefix):
                for node in self.tree(name).body:
                    if isinstance(node, ast.ClassDef):
                        found[node.name] = (name, node)
        return found


def literal(node: ast.AST | None) -> Any:
    """A constant's value, or None where it is computed."""
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def calls(tree: ast.AST, method: str) -> Iterator[ast.Call]:
    """Every call of a method of that name, in source order."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == method]
    yield from sorted(found, key=lambda n: n.lineno)


def wheel(requirement: str) -> Path:
    """The wheel of one requirement `name==version`, by pip; kept in the cache, since some are half a
    gigabyte."""
    folder = cache_dir() / "wheels"
    pattern = requirement.replace("-", "_").replace("==", "-") + "-*.whl"
    if not list(folder.glob(pattern)):
        folder.mkdir(parents=True, exist_ok=True)
        say(f"{requirement}: fetching its wheel")
        pip = f"{environment('pip')}/bin/python"
        run([pip, "-m", "pip", "download", requirement, *_PLATFORM, "--quiet", "-d", str(folder)])
    return next(folder.glob(pattern))


def committed(engine: str) -> dict[str, list[str]]:
    """Releases whose facts are committed, each with its kinds."""
    found: dict[str, list[str]] = {}
    for path in sorted(DATA.glob(f"{engine}-*.json")):
        release, kind = path.stem.removeprefix(f"{engine}-").rsplit(".", 1)
        found.setdefault(release, []).append(kind)
    return found


def deliver(texts: dict[str, str], *, check: bool, out: Path = DATA) -> int:
    """Writes the files; with `check` says how they differ from what is there instead. Exit code 1 where they
    do."""
    stale = 0
    for name, text in texts.items():
        path = out / name
        if not check:
            path.write_text(text, encoding="utf-8")
            say(f"{name}: written")
            continue
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        stale += old != text
        say(f"{name}: {'as the release says' if old == text else 'differs from the release'}")
        for line in difflib.unified_diff(old.splitlines(), text.splitlines(), "committed", "release", n=0):
            say(f"  {line}")
    return 1 if stale else 0


def read(engine: str, kinds: tuple[str, ...], render: Render, about: str | None) -> int:
    """The command line of a reader: writes or compares one release's facts, or every committed one's."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", help="a release; every committed one if left out")
    parser.add_argument("--kinds", nargs="+", choices=kinds)
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    given = parser.parse_args()
    wanted = committed(engine) if given.version is None else {given.version: list(kinds)}
    asked: list[str] | None = given.kinds
    if asked is not None:
        wanted = dict.fromkeys(wanted, asked)
    codes = [deliver(render(version, of), check=given.check, out=given.out) for version, of in wanted.items()]
    return max(codes, default=1)
