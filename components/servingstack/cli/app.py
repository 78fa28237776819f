"""The commands. Each reads a source, asks the library, and prints text or JSON; nothing is decided here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from servingstack._version import __version__
from servingstack.cli.bench import bench

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Plan, show and lock model-serving stacks. Needs no credentials and no engine.",
    epilog="--debug, anywhere, prints the traceback of an error.",
)

Environment = Annotated[
    str | None, typer.Argument(metavar="ENV", help="Environment: Pulumi.ENV.yaml of this project.")
]
Check = Annotated[
    bool, typer.Option("--check", help="Write nothing; exit 2 if the lock file is not current.")
]
Brief = Annotated[
    bool, typer.Option("--brief", help="Only the decision, and the resources without their inputs.")
]
Diff = Annotated[str | None, typer.Option("--diff", metavar="REF", help="Compare with a git ref.")]
Comment = Annotated[
    bool, typer.Option("--comment", help="With --diff: Markdown for a comment on a pull request.")
]
Engine = Annotated[
    Path | None,
    typer.Option("--engine", metavar="FILE", help="With --comment: what `pulumi preview --json` wrote."),
]
File = Annotated[Path | None, typer.Option("--file", "-f", help="A file: one stack, or {defaults, stacks}.")]
Stack = Annotated[str | None, typer.Option("--stack", help="Only this stack of the document.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, also for errors.")]


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version or context.invoked_subcommand is None:
        print(__version__ if version else context.get_help())
        raise typer.Exit


@app.command()
def plan(
    environment: Environment = None,
    file: File = None,
    stack: Stack = None,
    as_json: Json = False,
) -> None:
    """Decide, and print the decision: hardware, batching, scaling, objectives, cost, and why."""
    from servingstack.cli.source import entries, open_source, plan_all
    from servingstack.planner import packing

    source = open_source(environment, file)
    planned = plan_all(source, stack)
    if as_json:
        shown = {name: item.fresh.model_dump(mode="json") for name, item in planned.items()}
        groups = [group.document() for group in packing.groups(entries(planned))]
        _print_json(shown, one_object=source.one_object or stack is not None, groups=groups)
        return
    from servingstack.cli.plan_text import print_plans

    print_plans(source, planned)


@app.command()
def preview(
    *,
    environment: Environment = None,
    file: File = None,
    stack: Stack = None,
    diff: Diff = None,
    brief: Brief = False,
    comment: Comment = False,
    engine: Engine = None,
    as_json: Json = False,
) -> None:
    """Print the plan and every resource with its inputs, or with --diff only what changes since a git ref."""
    from servingstack.cli.diff import compare
    from servingstack.cli.graph import resources
    from servingstack.cli.source import open_source, plan_all, plan_at

    source = open_source(environment, file)
    planned = plan_all(source, stack)
    graphs = {name: resources(item) for name, item in planned.items()}
    difference = None
    if diff is not None:
        before, problems = plan_at(source, diff, stack)
        difference = compare(diff, before, planned, graphs, problems)
    if comment or engine is not None:
        from servingstack.cli.comment import printed

        print(printed(source, difference, planned, engine), end="")
        return
    if as_json:
        shown: dict[str, Any] = {
            name: {"plan": item.deployed.model_dump(mode="json")}
            | {"resources": [one.document() for one in graphs[name]]}
            | ({} if difference is None else {"diff": difference.document(name)})
            for name, item in planned.items()
        }
        removed = [] if difference is None else difference.removed_stacks
        _print_json(shown, one_object=source.one_object or stack is not None, removed=removed)
        return
    from servingstack.cli.preview_text import print_difference, print_previews

    if difference is not None:
        print_difference(source, difference)
    else:
        print_previews(source, planned, graphs, brief=brief)


@app.command()
def lock(
    environment: Environment = None,
    file: File = None,
    check: Check = False,
    as_json: Json = False,
) -> None:
    """Write the lock file of an environment, or check that it is current."""
    from servingstack.cli.locking import check_lock, write_lock
    from servingstack.cli.source import open_source, plan_all

    source = open_source(environment, file, to_relock=not check)
    planned = plan_all(source)
    report = check_lock(source, planned) if check else write_lock(source, planned)
    print(json.dumps(report.document(), indent=2) if as_json else report.text())


@app.command()
def schema(as_json: Json = False) -> None:
    """Print the JSON schema of the files, for editors: `# yaml-language-server: $schema=schema.json`."""
    from servingstack.schema import dumps

    del as_json  # it is JSON either way
    print(dumps(), end="")


app.command()(bench)


def _print_json(
    shown: dict[str, Any],
    *,
    one_object: bool,
    removed: list[str] | None = None,
    groups: list[dict[str, Any]] | None = None,
) -> None:
    document: dict[str, Any] = {"stacks": shown}
    if groups:
        document["groups"] = groups
    if removed:
        document["removed_stacks"] = removed
    print(json.dumps(next(iter(shown.values())) if one_object and shown else document, indent=2))
