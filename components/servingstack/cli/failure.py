"""What went wrong, for a person or as JSON, and the exit code that says which kind it was.

Trap: a crash must never look like "no plan meets this". CI reads exit code 1 as a decision about the input.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from servingstack._version import __version__
from servingstack.errors import Infeasible, InvalidInput

INFEASIBLE, INVALID, CRASH = 1, 2, 70


def report(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Print `error` to stderr and return the exit code."""
    kind, code = _kind(error)
    if debug:
        traceback.print_exception(error)
    if as_json:
        print(json.dumps({"error": _document(error, kind)}, indent=2, default=str), file=sys.stderr)
    elif kind == "crash":
        print(_crash_text(error), file=sys.stderr)
    else:
        print(_message(error), file=sys.stderr)
    return code


def _kind(error: BaseException) -> tuple[str, int]:
    if isinstance(error, Infeasible):
        return "infeasible", INFEASIBLE
    if isinstance(error, InvalidInput) or _is_usage(error):
        return "invalid_input", INVALID
    return "crash", CRASH


def _is_usage(error: BaseException) -> bool:
    """Whether the command line was wrong. By shape: the class lives elsewhere in each release of typer."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _message(error: BaseException) -> str:
    if _is_usage(error):
        context = getattr(error, "ctx", None)
        usage = f"{context.get_usage()}\n" if context is not None else ""
        return f"{usage}{error.format_message()}"  # type: ignore[attr-defined]  # checked by _is_usage
    return str(error)


def _document(error: BaseException, kind: str) -> dict[str, Any]:
    violations: list[dict[str, Any]] = []
    if isinstance(error, InvalidInput):
        violations = [
            {"path": item.path, "value": item.value, "allowed": item.allowed, "fix": item.fix}
            for item in error.violations
        ]
    elif kind == "invalid_input":
        fix = "See `servingstack --help`."
        violations = [{"path": "(command line)", "value": None, "allowed": _message(error), "fix": fix}]
    nearest = error.nearest if isinstance(error, Infeasible) else ()
    binding = error.binding if isinstance(error, Infeasible) else None
    document: dict[str, Any] = {
        "kind": kind,
        "violations": violations,
        "binding": binding,
        "nearest": [{"change": item.change, "consequence": item.consequence} for item in nearest],
    }
    if kind == "crash":
        document["message"] = _crash_text(error)
    return document


def _crash_text(error: BaseException) -> str:
    return (
        f"servingstack {__version__} failed: {type(error).__name__}: {error}\n"
        "This is a fault of servingstack, not of your input. Please report it (the README says where),\n"
        "with the command, the file, and what `--debug` prints."
    )
