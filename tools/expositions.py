"""A page of SGLang's metrics as its own collectors write it, without the engine: tests scrape it.

    python tools/expositions.py [--check]      # writes tests/oracles/metrics/sglang-<release>.prom

The collectors' classes are the wheel's own, run with the real Prometheus client; whatever else they import is
replaced by stand-ins, since the engine itself needs torch and a GPU. Each metric is touched once.

Trap: a page made up from a list of names has the labels that its author believes in. Here an unknown label
is an error of the client.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path

from environments import environment, run
from releases import committed, deliver, wheel
from toolchain import ToolchainError, say

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "oracles" / "metrics"
CLIENT = "prometheus_client==0.23.1"
COLLECTORS = "sglang/srt/observability/metrics_collector.py"
BUCKETS = "sglang/srt/observability/utils.py"
COMMON = "sglang/srt/utils/common.py"

# Runs in the environment of the client, with a folder that holds the three files.
_PAGE = """
import ast, importlib.util, sys, types
from pathlib import Path
from unittest.mock import MagicMock
import prometheus_client
from prometheus_client import Counter, Gauge, Histogram, Summary, generate_latest

folder = Path(sys.argv[1])

class StandIns:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sglang", "torch"):
            return importlib.util.spec_from_loader(name, self)
    def create_module(self, spec):
        found = MagicMock(name=spec.name, __path__=[], __spec__=spec)
        return found
    def exec_module(self, module):
        pass

def load(file, name):
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile((folder / file).read_text(), file, "exec"), module.__dict__)
    return module

sys.meta_path.insert(0, StandIns())
load("utils.py", "sglang.srt.observability.utils")
collectors = load("metrics_collector.py", "sglang.srt.observability.metrics_collector")

class Unset:
    prefill_delayer_max_delay_passes = 30
    def __getattr__(self, name):
        return None

settings = Unset()
collectors.get_schedule = collectors.get_observability = lambda: settings
labels = {"model_name": "m", "engine_type": "unified"}
ranks = {"tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}
collectors.SchedulerMetricsCollector(labels={**labels, **ranks}, server_args=settings)
collectors.TokenizerMetricsCollector(server_args=settings, labels=labels)
tree = ast.parse((folder / "common.py").read_text())
wanted = "add_prometheus_track_response_middleware"
function = next(node for node in tree.body if getattr(node, "name", "") == wanted)
for index, node in enumerate(function.body):  # up to what needs a real application
    if isinstance(node, (ast.ImportFrom, ast.AsyncFunctionDef)) and index > 0:
        del function.body[index:]
        break
space = {"Optional": MagicMock(), "Dict": MagicMock(), "RefCountedGauge": MagicMock()}
exec(compile(ast.Module([function], []), "common.py", "exec"), space)
space[wanted](None)
values = {**labels, **ranks, "endpoint": "/v1/completions", "status_code": "200", "method": "POST"}
values |= {"is_streaming": "true"}
for metric in list(prometheus_client.REGISTRY._collector_to_names):
    if isinstance(metric, (Counter, Gauge, Histogram, Summary)):
        names = metric._labelnames
        one = metric.labels(**{name: values.get(name, "x") for name in names}) if names else metric
        if isinstance(metric, (Histogram, Summary)):
            one.observe(0.01)
        elif isinstance(metric, Gauge):
            one.set(1)
        else:
            one.inc()
for metric in list(prometheus_client.REGISTRY._collector_to_names):
    if not isinstance(metric, (Counter, Gauge, Histogram, Summary)):
        prometheus_client.REGISTRY.unregister(metric)
text = generate_latest().decode()
lines = [line for line in text.splitlines() if "_created" not in line and not line.startswith("# HELP")]
print("\\n".join(lines))
"""


def page(version: str) -> str:
    """The text of a replica's metrics page, below a line that says whose it is."""
    packed = wheel(f"sglang=={version}")
    folder = environment("expositions", (CLIENT,))
    sources = folder / "sources"
    sources.mkdir(exist_ok=True)
    with zipfile.ZipFile(packed) as archive:
        for name in (COLLECTORS, BUCKETS, COMMON):
            (sources / Path(name).name).write_bytes(archive.read(name))
    text = run([f"{folder}/bin/python", "-c", _PAGE, str(sources)])
    return f"# {packed.name}, {COLLECTORS} and {COMMON}, with {CLIENT}\n{text}"


def main() -> int:
    """Writes the page, or with --check says how it differs (exit 1)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare with the committed page")
    check: bool = parser.parse_args().check
    try:
        texts = {f"sglang-{version}.prom": page(version) for version in committed("sglang")}
    except ToolchainError as error:
        say(f"error: {error}")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    return deliver(texts, check=check, out=FOLDER)


if __name__ == "__main__":
    sys.exit(main())
