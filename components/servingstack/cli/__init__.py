"""The command line `servingstack`: shows and locks what the library decides. No credentials, no engine.

Exit codes: 0, 1 for "no plan meets this", 2 for invalid input; from sysexits.h, 70 for a crash (EX_SOFTWARE)
and 74 where the output cannot be written (EX_IOERR).

Trap: everything heavy (typer, rich, pulumi) is imported inside the functions, so that `import servingstack`
stays cheap and `servingstack plan` never loads Pulumi.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

IO_ERROR = 74


def main() -> NoReturn:
    """Entry point of the console script."""
    import signal

    if hasattr(signal, "SIGPIPE"):  # `servingstack plan | head` ends as any Unix tool does
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code. Errors go to stderr, as JSON if `--json` is given."""
    from servingstack.cli.failure import report

    try:
        from servingstack.cli.app import app

        arguments = [argument for argument in argv if argument != "--debug"]
        result = app(args=arguments, prog_name="servingstack", standalone_mode=False)
        sys.stdout.flush()
    except OSError as error:
        report(_unwritten(error), as_json="--json" in argv, debug="--debug" in argv)
        return IO_ERROR
    except (Exception, RecursionError) as error:
        return report(error, as_json="--json" in argv, debug="--debug" in argv)
    return result if isinstance(result, int) else 0


def _unwritten(error: OSError) -> Exception:
    from servingstack.errors import InvalidInput, Violation

    sys.stdout = None  # type: ignore[assignment]  # else Python tries again at its end, and says so
    allowed = f"a file or an output that can be used ({error})"
    return InvalidInput([Violation("(output)", None, allowed, "Free some space, or write elsewhere.")])
