"""Write down what a Triton release accepts and exports: its flags and its metrics, out of its own sources.

    python tools/triton_facts.py --check                  # compares the committed release with its sources
    python tools/triton_facts.py --version 26.08 --core-ref <commit>
    (--server and --core name local clones of github.com/triton-inference-server; else each is cloned)

The server is read at `r<release>`, the core at that branch or, where the repository lacks it, at the commit
that `--core-ref` or the committed file names.

Trap: flags are declared in C++ and each may stand under an `#ifdef`; the official image is built with all of
them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys

from environments import run
from releases import DATA, committed, deliver
from toolchain import ToolchainError, cache_dir, say

_GITHUB = "https://github.com/triton-inference-server"
_OPTION = re.compile(r'\{OPTION_[A-Z_0-9]+,\s*"([a-z0-9-]+)",\s*(Option::Arg\w+|"[^"]*")')
_KINDS = {"Option::ArgBool": "choice", "Option::ArgNone": "switch", "Option::ArgInt": "int"}
_FAMILY = re.compile(
    r'prometheus::Build(Counter|Gauge|Histogram|Summary)\(\)\s*\.Name\(\s*"(\w+)"\)\s*\.Help\(\s*((?:"[^"]*"\s*)+)\)'
)
_PER_MODEL = ["model", "version"]


def show(clone: str, ref: str, path: str) -> str:
    """One file at a commit."""
    return run(["git", "-C", clone, "show", f"{ref}:{path}"])


def flags(source: str) -> dict[str, dict[str, object]]:
    """Flags by their spelling."""
    deprecated = source.index("// Deprecations")
    found: dict[str, dict[str, object]] = {}
    for match in _OPTION.finditer(source):
        kind = _KINDS.get(match[2], "float" if match[2] == "Option::ArgFloat" else "str")
        row: dict[str, object] = {"kind": kind, "aliases": []}
        if kind == "choice":
            row["choices"] = ["true", "false"]
        if match.start() > deprecated:
            row["deprecated"] = True
        found[f"--{match[1]}"] = row
    return dict(sorted(found.items()))


def metrics(source: str, reporter: str) -> dict[str, dict[str, object]]:
    """Metrics by name."""
    edges = re.search(r"kFirstResponseHistogram, \{([0-9, ]+)\}", reporter)
    if edges is None:
        raise SystemExit("the histogram's default edges are no longer where they were")
    found: dict[str, dict[str, object]] = {}
    for kind, name, text in _FAMILY.findall(source):
        node = name.startswith(("nv_gpu", "nv_energy", "nv_cpu", "nv_pinned"))
        row: dict[str, object] = {
            "type": kind.lower(),
            "help": "".join(re.findall(r'"([^"]*)"', text)),
            "labels": (["gpu_uuid"] if name.startswith(("nv_gpu", "nv_energy")) else [])
            if node
            else _PER_MODEL,
            "default": kind not in ("Histogram", "Summary"),
        }
        if name == "nv_inference_request_failure":
            row["labels"] = [*_PER_MODEL, "reason"]
        if kind == "Histogram":
            row["buckets"] = [float(edge) for edge in edges[1].split(",")]
        found[name] = row
    return dict(sorted(found.items()))


def clone(name: str, given: str | None) -> str:
    """A clone without files: git fetches those that are asked for."""
    if given is not None:
        return given
    folder = cache_dir() / "triton" / name
    if not (folder / "HEAD").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", f"{_GITHUB}/{name}.git", str(folder)])
    return str(folder)


def committed_ref(release: str) -> str | None:
    """The core's commit that the committed file names; None where there is no file."""
    path = DATA / f"triton-{release}.metrics.json"
    if not path.is_file():
        return None
    source: str = json.loads(path.read_text(encoding="utf-8"))["source"]
    return source.split(" ")[1].removesuffix(",")


def render(release: str, server: str, core: str, core_ref: str) -> dict[str, str]:
    """File name -> text of both data files."""
    branch, parser = f"r{release}", "src/command_line_parser.cc"
    metrics_source, reporter = "src/metrics.cc", "src/metric_model_reporter.h"
    found = metrics(show(core, core_ref, metrics_source), show(core, core_ref, reporter))
    parts = {
        "flags": (
            f"triton-inference-server/server {branch}, {parser}",
            {"flags": flags(show(server, branch, parser)), "environment": []},
        ),
        "metrics": (
            f"triton-inference-server/core {core_ref}, {metrics_source} and {reporter}",
            {"metrics": found},
        ),
    }
    head = {"engine": "triton", "version": release}
    return {
        f"triton-{release}.{what}.json": json.dumps(head | {"source": source} | body, indent=1) + "\n"
        for what, (source, body) in parts.items()
    }


def main() -> int:
    """Writes both files, or with --check says how they differ (exit 1)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", default=next(iter(committed("triton"))))
    parser.add_argument("--server")
    parser.add_argument("--core")
    parser.add_argument("--core-ref")
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    asked = parser.parse_args()
    ref = asked.core_ref or committed_ref(asked.version) or f"r{asked.version}"
    try:
        clones = clone("server", asked.server), clone("core", asked.core)
        texts = render(asked.version, *clones, ref)
    except ToolchainError as error:
        say(f"error: {error}")
        return 1
    return deliver(texts, check=asked.check)


if __name__ == "__main__":
    sys.exit(main())
