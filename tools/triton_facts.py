"""Write down what a Triton release accepts and exports: its flags and its metrics, out of its own sources.

    python tools/triton_facts.py 26.08 --server <clone of server> --core <clone of core>

The clones are of github.com/triton-inference-server; the server is read at `r<release>`, the core at that
branch or, if the clone lacks it, at the commit given by `--core-ref`.

Trap: flags are declared in C++ and each may stand under an `#ifdef`; the official image is built with all of
them.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess

DATA = pathlib.Path(__file__).resolve().parents[1] / "components" / "servingstack" / "engines" / "data"
_OPTION = re.compile(r'\{OPTION_[A-Z_0-9]+,\s*"([a-z0-9-]+)",\s*(Option::Arg\w+|"[^"]*")')
_KINDS = {"Option::ArgBool": "choice", "Option::ArgNone": "switch", "Option::ArgInt": "int"}
_FAMILY = re.compile(
    r'prometheus::Build(Counter|Gauge|Histogram|Summary)\(\)\s*\.Name\(\s*"(\w+)"\)\s*\.Help\(\s*((?:"[^"]*"\s*)+)\)'
)
_PER_MODEL = ["model", "version"]


def show(clone: str, ref: str, path: str) -> str:
    """One file at a commit."""
    return subprocess.run(
        ["git", "-C", clone, "show", f"{ref}:{path}"], capture_output=True, text=True, check=True
    ).stdout


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


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release")
    parser.add_argument("--server", required=True)
    parser.add_argument("--core", required=True)
    parser.add_argument("--core-ref")
    asked = parser.parse_args()
    branch = f"r{asked.release}"
    core = asked.core_ref if asked.core_ref is not None else branch
    head = {"engine": "triton", "version": asked.release}
    parts = {
        "flags": (
            f"triton-inference-server/server {branch}, src/command_line_parser.cc",
            {"flags": flags(show(asked.server, branch, "src/command_line_parser.cc")), "environment": []},
        ),
        "metrics": (
            f"triton-inference-server/core {core}, src/metrics.cc and src/metric_model_reporter.h",
            {
                "metrics": metrics(
                    show(asked.core, core, "src/metrics.cc"),
                    show(asked.core, core, "src/metric_model_reporter.h"),
                )
            },
        ),
    }
    for what, (source, body) in parts.items():
        path = DATA / f"triton-{asked.release}.{what}.json"
        path.write_text(json.dumps(head | {"source": source} | body, indent=1) + "\n", encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
