"""The resources as a tree with their inputs, and what changes since a git ref, for a person.

Trap: a ConfigMap's program or a dashboard's JSON is thousands of lines. Long texts are cut here and whole
in `--json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from servingstack.changes import summarised
from servingstack.cli.diff import Difference, StackDiff
from servingstack.cli.graph import Resource
from servingstack.cli.locking import lock_note
from servingstack.cli.plan_text import console, plan_view, usd
from servingstack.cli.source import Planned, Source

LONGEST = 90


def print_previews(
    source: Source,
    planned: Mapping[str, Planned],
    graphs: Mapping[str, tuple[Resource, ...]],
    *,
    brief: bool = False,
) -> None:
    """Plan and resources of every stack; `brief`: the decision in a sentence, resources by name alone."""
    out = _console_with_notes(source)
    for name, item in planned.items():
        if brief:
            out.print(Text(f"{name}: {item.deployed.architecture.why}"))
        else:
            out.print(plan_view(item.deployed))
        out.print(Text(lock_note(item, source)), Text())
        heading = Text(f"Resources of {name} ({len(graphs[name])})", style="bold cyan")
        out.print(heading, tree(graphs[name], inputs=not brief), Text())


def print_difference(source: Source, difference: Difference) -> None:
    """What changes, and nothing that does not."""
    out = _console_with_notes(source)
    for line in difference_lines(difference):
        out.print(line, soft_wrap=True)


def _console_with_notes(source: Source) -> Console:
    out = console()
    for note in source.document.notes:
        out.print(Text(f"note: {note}", style="yellow"))
    return out


def tree(graph: tuple[Resource, ...], *, inputs: bool = True) -> Tree:
    """Resources below their parents."""
    root = Tree(Text("stack"), hide_root=True)
    branches: dict[str, Tree] = {}
    for item in graph:
        above = branches.get(item.parent, root) if item.parent is not None else root
        branch = above.add(Text.assemble((item.name, "bold"), f"  {item.type}"))
        branches[item.name] = branch
        for line in _input_lines(item.inputs) if inputs else ():
            branch.add(Text(line))
    return root


def _input_lines(inputs: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in inputs.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from _input_lines(value, f"{path}.")
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            for index, item in enumerate(value):
                yield from _input_lines(item, f"{path}[{index}].")
        else:
            yield f"{path}: {_short(value)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    first, newline, _ = text.partition("\n")
    if len(first) <= LONGEST and not newline:
        return first
    return f"{first[:LONGEST]}... ({len(text)} characters)"


def difference_lines(difference: Difference) -> Iterator[Text]:
    """Decisions, cost and resources that change since the ref."""
    yield Text(f"Changes since {difference.ref}", style="bold cyan")
    for problem in difference.problems:
        yield Text(f"cannot be planned at {difference.ref}, so it is shown as new: {problem}", style="yellow")
    for name, one in difference.stacks.items():
        yield Text(f"{name}: no change" if one.empty else name, style="bold")
        yield from _stack_lines(one)
    for name in difference.removed_stacks:
        yield Text(f"{name}: removed", style="bold red")
    change = difference.monthly_change
    sign = "+" if change > 0 else "-" if change < 0 else ""
    yield Text(f"Cost a month: {sign}{usd(abs(change))}", style="bold")


def _stack_lines(one: StackDiff) -> Iterator[Text]:
    for line in (line for change in one.given for line in change.lines()):
        yield Text(f"  input: {line}")
    for line in (line for change in one.decision for line in change.lines()):
        yield Text(f"  {line}")
    if one.monthly_before != one.monthly_after:
        yield Text(f"  cost a month: {usd(one.monthly_before)} => {usd(one.monthly_after)}")
    if one.asleep:
        used = f"{usd(one.expected_before)} => {usd(one.expected_after)}"
        yield Text(f"  cost a month at the mean traffic: {used}")
    for item in one.added:
        yield Text(f"  + {item.name}  {item.type}", style="green")
    for item in one.removed:
        yield Text(f"  - {item.name}  {item.type}", style="red")
    for item, fields in one.changed:
        yield Text(f"  ~ {item.name}  {item.type}", style="yellow")
        for line in summarised(fields):
            yield Text(f"      {line}")
