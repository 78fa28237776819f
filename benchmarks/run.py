"""Three ratios, each measured in one run on one machine: import, preview, planning.

    .venv/bin/python benchmarks/run.py [--runs N] [import] [preview] [planning]

Trap: a time alone says more of the machine than of the library. So each figure is a ratio of two medians, and
the two commands of a pair take turns, which keeps the ratio true while the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
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


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _ratio(name: str, aim: str, ours: Callable[[], object], theirs: Callable[[], object], runs: int) -> None:
    """Medians over `runs` turns, after one turn that does not count."""
    ours(), theirs()
    pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(runs)]
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{name:<44} {mine:8.3f} s / {other:8.3f} s = {mine / other:5.2f}   aim {aim}", flush=True)


def _python(code: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def importing(runs: int) -> None:
    """The library, and the two packages that it cannot do without."""
    alone = _python("import pulumi, pydantic")
    _ratio(
        "import servingstack / import pulumi, pydantic",
        "under 1.1",
        _python("import servingstack"),
        alone,
        runs,
    )
    used = _python("from servingstack import ServingStack")
    _ratio("import ServingStack / import pulumi, pydantic", "under 1.1", used, alone, runs)


def previewing(runs: int) -> None:
    """One stack by the component, and a program that has the same objects written out."""
    sys.path.insert(0, str(ROOT / "tools"))
    import pulumi

    from local_cluster import Cluster
    from local_engine import LocalEngine
    from servingstack import ServingStack, ServingStackArgs
    from servingstack.planner import plan
    from servingstack.targets.kubernetes import resources
    from servingstack.targets.kubernetes.manifests import manifests

    written_out = manifests(plan(ServingStackArgs.parse(STACK)))

    def by_component() -> None:
        ServingStack("chat", STACK)

    def by_hand() -> None:
        for each in written_out:
            resources._register(f"chat-{each.role}", each, pulumi.ResourceOptions())

    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder) / "cluster")
        try:
            engine = LocalEngine(Path(folder) / "engine", cluster.up())
            import os

            os.environ.update(engine.env)
            ours = engine.inline_stack("component", "bench", by_component, {})
            theirs = engine.inline_stack("by-hand", "bench", by_hand, {})
            _ratio("preview by component / written out", "under 1.1", ours.preview, theirs.preview, runs)
        finally:
            cluster.down()


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
    _ratio("1000 plans / 100 plans", "10, linear", many, one, max(1, runs // 3))
    print(f"{'one plan':<44} {_seconds(one) / 100 * 1000:8.1f} ms", flush=True)


BENCHMARKS = {"import": importing, "preview": previewing, "planning": planning}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("which", nargs="*", choices=list(BENCHMARKS), default=list(BENCHMARKS))
    options = parser.parse_args()
    for name in options.which:
        BENCHMARKS[name](options.runs)


if __name__ == "__main__":
    main()
