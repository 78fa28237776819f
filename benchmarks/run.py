"""Ratios, each measured in one run on one machine: import, preview, planning, the command line.

    .venv/bin/python benchmarks/run.py [--runs N] [import] [preview] [planning] [command]

Traps:
- A time alone says more of the machine than of the library. So each figure is a ratio of two medians, and the
  two commands of a pair take turns, which keeps the ratio true while the machine's speed drifts. Of what
  waits for nothing the processor time is taken: who else uses the machine does not count then.
- Where Python may write no bytecode, every source is compiled anew at every start, which no installed package
  is. So bytecode is kept, for both sides, in a folder of this run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STACK: dict[str, Any] = {
    "name": "chat",
    "model": {"id": "Qwen/Qwen2.5-7B-Instruct"},
    "target": {"option": "kubernetes"},
    "slo": {"ttft_p95": "1s", "tpot_p95": "60ms"},
    "traffic": {"requests_per_second": 2},
}
BARE = "import pulumi, pydantic"
MODELS = "import pulumi; from pydantic import BaseModel, Field, field_validator"
"""What any program has loaded that checks its input by a model of its own: pydantic itself loads its parts
when they are used."""


def _seconds(work: Callable[[], object]) -> float:
    """Processor time of this process."""
    started = time.process_time()
    work()
    return time.process_time() - started


def _processor_seconds(work: Callable[[], object]) -> float:
    """User and system time of the processes that `work` starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _turns(ours: Callable[[], float], theirs: Callable[[], float], runs: int) -> tuple[float, float]:
    """Medians over `runs` turns, after one turn that does not count."""
    ours(), theirs()
    pairs = [(ours(), theirs()) for _ in range(runs)]
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return mine, other


def _say(name: str, mine: float, other: float, aim: str | None) -> None:
    words = "" if aim is None else f"   aim {aim}"
    print(f"{name:<58} {mine:8.3f} s / {other:8.3f} s = {mine / other:5.2f}{words}", flush=True)


def _processes(
    name: str, aim: str | None, ours: Callable[[], object], theirs: Callable[[], object], runs: int
) -> None:
    _say(name, *_turns(lambda: _processor_seconds(ours), lambda: _processor_seconds(theirs), runs), aim)


def _python(code: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def importing(runs: int) -> None:
    """The library, and the two packages that it cannot do without.

    The second of these costs more when it is used than when it is imported: `import pydantic` loads none of
    what makes a model. So the input's own models are compared with a program that has models as well."""
    for names in ("", "ServingStack", "ServingStack, ServingStackArgs"):
        code = f"from servingstack import {names}" if names else "import servingstack"
        _processes(f"{code} / bare", "under 1.1", _python(code), _python(BARE), runs)
    _processes(f"{code} / models", "under 1.1", _python(code), _python(MODELS), runs)
    _processes("import pydantic's models / bare", None, _python(MODELS), _python(BARE), runs)
    first = "from servingstack import ServingStack, ServingStackArgs; from servingstack.planner import plan; "
    first += f"plan(ServingStackArgs.parse({STACK!r}))"
    _processes("import, check, plan / bare", None, _python(first), _python(BARE), runs)


_PREVIEWS = """
import json, resource, runpy, sys, time
from pulumi import automation

path, project, work_dir = sys.argv[1:]
loaded = []

def program():
    if not loaded:
        loaded.append(runpy.run_path(path)["program"])
    loaded[0]()

def processor():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)

options = automation.LocalWorkspaceOptions(work_dir=work_dir)
stack = automation.create_or_select_stack("bench", project, program, options)
times = []
for _ in range(2):
    started, used = time.perf_counter(), processor()
    stack.preview()
    times.append((time.perf_counter() - started, processor() - used))
print(json.dumps(times))
"""
"""Two previews of one process, each by the clock and by the processor time of program, engine and provider:
the first loads what the program imports, the second does not."""


def previewing(runs: int) -> None:
    """One stack by the component, and by a program that has its objects written out (`written_out.py`).

    Both look up the definitions that others must have installed, and have the same dependencies and time
    limits. What only the component does: it checks the input, plans, renders (the dashboard by Grafana's own
    builders among it), and registers two components with the plan as output."""
    sys.path.insert(0, str(ROOT / "tools"))
    from local_cluster import Cluster
    from local_engine import LocalEngine

    with tempfile.TemporaryDirectory() as folder:
        programs = {"component": Path(folder) / "component.py", "by-hand": Path(folder) / "by_hand.py"}
        programs["component"].write_text(
            "from servingstack import ServingStack\n\n\n"
            f"def program():\n    ServingStack('chat', {STACK!r})\n"
        )
        script = [sys.executable, str(ROOT / "benchmarks" / "written_out.py"), json.dumps(STACK)]
        programs["by-hand"].write_bytes(subprocess.run(script, check=True, stdout=subprocess.PIPE).stdout)
        cluster = Cluster(Path(folder) / "cluster")
        try:
            env = dict(os.environ) | LocalEngine(Path(folder) / "engine", cluster.up()).env
            _previews(programs, Path(folder), env, runs)
        finally:
            cluster.down()


def _previews(programs: dict[str, Path], folder: Path, env: dict[str, str], runs: int) -> None:
    def times(project: str) -> list[tuple[float, float]]:
        work_dir = folder / "work" / project
        work_dir.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", _PREVIEWS, str(programs[project]), project, str(work_dir)]
        done = subprocess.run(command, check=True, env=env, stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    pairs = [(times("component"), times("by-hand")) for _ in range(runs + 1)][1:]
    for place, when in enumerate(("first of a process", "again")):
        for kind, unit in enumerate(("", ", processor")):
            mine, other = (statistics.median(pair[side][place][kind] for pair in pairs) for side in (0, 1))
            _say(f"preview by component / written out, {when}{unit}", mine, other, "under 1.1")


def planning(runs: int) -> None:
    """A thousand stacks cost a thousand times one: planning keeps no state that grows."""
    from servingstack import ServingStackArgs
    from servingstack.planner import plan

    def stacks(count: int) -> Callable[[], object]:
        # Rates differ, so that no cache of a whole plan could help.
        inputs = [
            ServingStackArgs.parse({**STACK, "traffic": {"requests_per_second": 1 + index / 1000}})
            for index in range(count)
        ]
        return lambda: deque(map(plan, inputs), maxlen=0)  # a plan is used and let go

    one, many = stacks(100), stacks(1000)
    turns = _turns(lambda: _seconds(many), lambda: _seconds(one), max(1, runs // 3))
    _say("1000 plans / 100 plans", *turns, "10, linear")
    fastest = min(_seconds(one) for _ in range(max(3, runs // 3))) / 100 * 1000
    print(f"{'one plan, the fastest hundred':<58} {fastest:8.1f} ms   aim under 10", flush=True)


def commanding(runs: int) -> None:
    """`servingstack plan`, and an interpreter that loads what it prints and checks with."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chat.yaml"
        path.write_text(json.dumps(STACK))  # JSON is YAML
        command = [str(Path(sys.executable).with_name("servingstack")), "plan", "--file", str(path)]
        _processes(
            "servingstack plan / import pydantic, yaml, typer, rich",
            None,
            lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL),
            _python("from pydantic import BaseModel, Field; import yaml, typer, rich.console, rich.table"),
            runs,
        )


@contextmanager
def _bytecode_kept() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        yield


BENCHMARKS = {"import": importing, "preview": previewing, "planning": planning, "command": commanding}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("which", nargs="*", choices=list(BENCHMARKS), default=list(BENCHMARKS))
    options = parser.parse_args()
    with _bytecode_kept():
        for name in options.which:
            BENCHMARKS[name](options.runs)


if __name__ == "__main__":
    main()
