"""A change of the stack files as a comment on a pull request: Markdown, the decision first, resources folded.

What the files alone tell comes from the difference against a git ref. What only the engine knows (which
resource is replaced, what a policy says) comes from what `pulumi preview --json` wrote, where there is one.

Traps:
- A comment is read by whoever may read the repository. Values are those of the offline preview, in which
  secrets are masked and unknowns are empty; of the engine's output, names and reasons alone are shown, never
  a state's values.
- Text from a file ends up in Markdown and HTML: a model id with a pipe breaks a table, a `</details>` in an
  override the whole comment. Everything is escaped.
- GitHub refuses a comment of more than 65,536 characters, and a comment that was refused is no comment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from servingstack.changes import Change, summarised
from servingstack.cli.diff import Difference, StackDiff
from servingstack.cli.plan_text import usd
from servingstack.cli.source import Planned, Source
from servingstack.errors import InvalidInput, Violation
from servingstack.plan import PlanWarning, ServingPlan

LONGEST = 60_000
"""Characters; GitHub takes 65,536 of a comment (its API answers "body is too long"), GitLab a million."""
_NAMED = 10
"""Deleted resources that are named."""
_GONE = ("delete", "discard")
_REPLACED = ("replace", "create-replacement", "delete-replaced", "discard-replaced")
# Operations of the engine (pulumi sdk/go/common/apitype/plan.go, OpType).


@dataclass(frozen=True)
class Step:
    """One resource of which the engine says that it goes, in whole or for a new one."""

    operation: str
    name: str
    type: str
    because: tuple[str, ...]
    """Properties that make it so."""


@dataclass(frozen=True)
class Finding:
    """What a policy says."""

    policy: str
    level: str
    resource: str
    message: str


@dataclass(frozen=True)
class Preview:
    """What the engine's preview adds to the difference of the files."""

    counts: Mapping[str, int]
    gone: tuple[Step, ...]
    replaced: tuple[Step, ...]
    findings: tuple[Finding, ...]


def marker(environment: str) -> str:
    """The line by which a later run finds its own comment."""
    return f"<!-- servingstack {escape(environment)} -->"


def read_preview(path: Path) -> Preview:
    """What the engine wrote of a preview: its events, or the digest of `pulumi preview --json`, which leaves
    policies out. Raises `InvalidInput` for anything else."""
    try:
        values = list(_values(path.read_text(encoding="utf-8")))
        if not values:
            raise ValueError("the file is empty")
        return _digest(values[0]) if "steps" in values[0] else _events(values)
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        allowed = "what `pulumi preview --json` wrote, as a digest or as events"
        fix = f"Write it to a file, without other output ({type(error).__name__}: {error})."
        raise InvalidInput([Violation("--engine", str(path), allowed, fix)]) from None


def _values(text: str) -> Iterator[dict[str, Any]]:
    """One JSON object, or one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        value, at = decoder.raw_decode(text, at)
        yield dict(value)


def _digest(found: Mapping[str, Any]) -> Preview:
    # pulumi sdk/go/common/apitype + pkg/display, PreviewDigest; without an empty list of steps there is none.
    steps = [_step(step, "replaceReasons") for step in found["steps"]]
    return _preview(found.get("changeSummary", {}), steps, ())


def _events(found: Sequence[Mapping[str, Any]]) -> Preview:
    """Events of the engine (pulumi sdk/go/common/apitype/events.go, EngineEvent)."""
    steps = [
        _step(each["resourcePreEvent"]["metadata"], "keys") for each in found if "resourcePreEvent" in each
    ]
    counts = [each["summaryEvent"]["resourceChanges"] for each in found if "summaryEvent" in each]
    if not counts:
        raise ValueError("the preview did not come to its end")
    return _preview(
        counts[-1], steps, [_finding(each["policyEvent"]) for each in found if "policyEvent" in each]
    )


def _preview(counts: Mapping[str, int], steps: Sequence[Step], findings: Sequence[Finding]) -> Preview:
    return Preview(
        counts=dict(counts),
        gone=tuple(step for step in steps if step.operation in _GONE),
        replaced=tuple(_once(step for step in steps if step.operation in _REPLACED)),
        findings=tuple(findings),
    )


def printed(
    source: Source, difference: Difference | None, planned: Mapping[str, Planned], engine: Path | None
) -> str:
    """What the command prints. Raises `InvalidInput` without a ref to compare with."""
    if difference is None:
        fix = "Add --diff origin/main, or the branch that is merged into."
        raise InvalidInput(
            [Violation("--comment", "given", "with --diff REF, since it says what changes", fix)]
        )
    preview = None if engine is None else read_preview(engine)
    return comment(source.name, difference, planned, preview)


def comment(
    environment: str, difference: Difference, planned: Mapping[str, Planned], preview: Preview | None = None
) -> str:
    """The whole comment."""
    head = [marker(environment), f"## Serving: `{_code(environment)}`", *_summary(difference, planned)]
    lost = [] if preview is None else ["\n".join(_lost(preview))]
    parts = ["\n".join(_stack(name, one, planned[name])) for name, one in difference.stacks.items()]
    folded = [
        _folded(f"Resources of {name}", _resources(one))
        for name, one in difference.stacks.items()
        if _touched(one)
    ]
    foot = [] if preview is None else list(_counts(preview))
    return _cut([part for part in (*head, *lost, *parts, *foot) if part], folded)


def _cut(always: list[str], folded: list[str]) -> str:
    """What is folded is left out first where the whole would be refused."""
    whole = "\n\n".join([*always, *folded])
    if len(whole) <= LONGEST:
        return whole + "\n"
    note = "The resources are too many for a comment: see the job's log."
    text = "\n\n".join([*always, note])
    return (text if len(text) <= LONGEST else text[:LONGEST] + "\n\n...") + "\n"


def _summary(difference: Difference, planned: Mapping[str, Planned]) -> Iterator[str]:
    for problem in difference.problems:
        yield f"> Cannot be planned at `{_code(difference.ref)}`, so it is shown as new: {_text(problem)}"
    quiet = [name for name, one in difference.stacks.items() if one.empty]
    if len(quiet) == len(difference.stacks) and not difference.removed_stacks:
        yield f"No change against `{_code(difference.ref)}`."
        return
    for name in difference.removed_stacks:
        yield f"**Stack `{_code(name)}` is removed, with everything it serves.**"
    after = sum(planned[name].deployed.cost.monthly_usd for name in difference.stacks)
    before = after - difference.monthly_change
    yield (
        f"**Cost a month: {usd(before)} → {usd(after)} ({_signed(difference.monthly_change)})**, at the "
        "fewest replicas."
    )
    if difference.asleep:
        then, now = (
            sum(getattr(one, side) for one in difference.stacks.values())
            for side in ("expected_before", "expected_after")
        )
        yield (
            f"At the mean traffic: {usd(then)} → {usd(now)} ({_signed(now - then)}) a month, since a stack "
            "may sleep; removed stacks are not counted."
        )


def _signed(amount: float) -> str:
    return f"{'+' if amount > 0 else '-' if amount < 0 else '±'}{usd(abs(amount))}"


def _stack(name: str, one: StackDiff, planned: Planned) -> Iterator[str]:
    yield f"### {_text(name)}"
    if one.empty:
        yield "No change."
        return
    plan = planned.deployed
    yield f"{_text(plan.architecture.why)}"
    cost = f"{usd(one.monthly_before)} → {usd(one.monthly_after)}"
    used = f"{usd(one.expected_before)} → {usd(one.expected_after)}"
    mean = f", at the mean traffic {used}" if one.asleep else ""
    yield f"\nCapacity: {_capacity(plan)}. Cost a month: {cost}{mean}."
    yield from _goes(one)
    if one.decision:
        yield "\n| decision | before | after |\n|---|---|---|"
        yield from (_row(change) for change in one.decision)
    if one.given:
        yield "\n<details><summary>What was changed in the input</summary>\n\n| field | before | after |"
        yield "|---|---|---|"
        yield from (_row(change) for change in one.given)
        yield "\n</details>"
    yield from (_warning(warning) for warning in plan.warnings)


def _goes(one: StackDiff) -> Iterator[str]:
    """What callers and reviewers must not miss, as far as the files tell."""
    moved = next((change for change in one.decision if change.path == "option"), None)
    if moved is not None and moved.before is not None:
        old, new = _code(str(moved.before)), _code(str(moved.after))
        yield (
            f"\n**It moves from `{old}` to `{new}`: address, protocol and the way to authenticate change, so "
            "every caller must be moved.**"
        )
    if one.removed:
        names = [f"`{_code(item.name)}`" for item in one.removed[:_NAMED]]
        more = f" and {len(one.removed) - _NAMED} more" if len(one.removed) > _NAMED else ""
        yield f"\n**Deleted: {', '.join(names)}{more}.**"


def _capacity(plan: ServingPlan) -> str:
    scaling, architecture = plan.scaling, plan.architecture
    low, high = scaling.min_replicas, scaling.max_replicas
    replicas = f"{low} replicas" if low == high else f"{low} to {high} replicas"
    gpus = architecture.gpus_per_replica
    return f"{replicas} of {gpus} x {architecture.accelerator} ({low * gpus} to {high * gpus} GPUs)"


def _warning(warning: PlanWarning) -> str:
    where = f"`{_code(warning.path)}`: " if warning.path else ""
    return f"- ⚠ {where}{_text(warning.message)} `{_code(warning.code)}`"


def _row(change: Change) -> str:
    return f"| `{_code(change.path)}` | {_value(change.before)} | {_value(change.after)} |"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{_code(text if len(text) <= 80 else text[:77] + '...')}`"


def _touched(one: StackDiff) -> bool:
    return bool(one.added or one.removed or one.changed)


def _resources(one: StackDiff) -> Iterator[str]:
    for item in one.removed:
        yield f"- {item.name}  {item.type}"
    for item in one.added:
        yield f"+ {item.name}  {item.type}"
    for item, fields in one.changed:
        yield f"! {item.name}  {item.type}"
        yield from (f"      {line}" for line in summarised(fields))


def _folded(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(_fenced(line) for line in lines)
    return f"<details><summary>{_text(title)}</summary>\n\n```diff\n{body}\n```\n\n</details>"


def _lost(preview: Preview) -> Iterator[str]:
    """What a reviewer must not miss."""
    rows = [*(("deleted", step) for step in preview.gone), *(("replaced", step) for step in preview.replaced)]
    for what, step in rows:
        why = f", because of {', '.join(f'`{_code(path)}`' for path in step.because)}" if step.because else ""
        yield f"- **{what}: `{_code(step.name)}`** ({_text(step.type)}){why}"
    if preview.findings:
        yield "\n| policy | level | resource | finding |\n|---|---|---|---|"
        for each in preview.findings:
            cells = (each.policy, each.level, each.resource, each.message)
            yield f"| {' | '.join(_text(cell) for cell in cells)} |"


def _counts(preview: Preview) -> Iterator[str]:
    found = [f"{count} {_text(what)}" for what, count in sorted(preview.counts.items()) if count]
    yield f"The engine's preview: {', '.join(found) if found else 'nothing to do'}."


def _step(step: Mapping[str, Any], reasons: str) -> Step:
    urn = str(step["urn"])
    return Step(
        operation=str(step["op"]),
        name=urn.rpartition("::")[2],
        type=urn.rpartition("::")[0].rpartition("::")[2].rpartition("$")[2],
        because=tuple(str(path) for path in step.get(reasons) or ()),
    )


def _once(steps: Iterable[Step]) -> Iterator[Step]:
    """A replacement is three steps; the one that says why is kept."""
    best: dict[tuple[str, str], Step] = {}
    for step in steps:
        key = (step.type, step.name)
        if key not in best or len(step.because) > len(best[key].because):
            best[key] = step
    yield from best.values()


def _finding(event: Mapping[str, Any]) -> Finding:
    lines = str(event["message"]).strip().splitlines()
    return Finding(
        policy=str(event["policyName"]),
        level=str(event["enforcementLevel"]),
        resource=str(event.get("resourceUrn", "")).rpartition("::")[2],
        message=lines[0] if lines else "",
    )


def _text(value: str) -> str:
    """Plain text in Markdown: no HTML, no table cell's end, no mention of anybody."""
    escaped = escape(" ".join(value.split()), quote=False)
    for sign in ("\\", "|", "*", "_", "`", "[", "]", "#"):
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped.replace("@", "@\u200b")


def _code(value: str) -> str:
    """Between single backticks, in a table too."""
    return " ".join(value.replace("`", "'").split()).replace("|", "\\|")


def _fenced(line: str) -> str:
    """A line of a fenced block must not end it."""
    return line.replace("```", "'''")


__all__ = ["Preview", "comment", "marker", "printed", "read_preview"]
