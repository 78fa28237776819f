"""Reads what an SGLang release accepts and exports out of its own wheel, and writes it as data files.

    python tools/sglang_facts.py --check                    # compares every committed release with its wheel
    python tools/sglang_facts.py --version 0.5.20           # reads one, and writes its files

The trap: SGLang's flags are annotated fields of a dozen classes, which a parser is built from at run time.
Nothing is imported (that needs torch); the sources are read as syntax trees, and a form the reader does not
know stops it instead of being left out in silence. A `bool` is a bare switch: unlike vLLM's there is no
`--no-...`.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from typing import Any

from releases import Node, Sources, calls, literal, read, wheel

FIELDS = "sglang/srt/arg_groups/fields/"
CHOICES = "sglang/srt/arg_groups/choices.py"
SERVER_ARGS = "sglang/srt/server_args.py"
COLLECTORS = "sglang/srt/observability/metrics_collector.py"
COMMON = "sglang/srt/utils/common.py"
ENVIRON = "sglang/srt/environ.py"
QUANTIZATION = "sglang/srt/layers/quantization/"
PLAIN = {"str": "str", "int": "int", "float": "float"}
# Parsers of a flag's whole text (sglang/srt/utils/common.py).
PARSERS = {
    "json.loads": "json",
    "json_list_type": "json",
    "human_readable_int": "int",
    "nullable_str": "str",
    "str": "str",
}
# Labels that each collector starts from: SchedulerMetricsCollectorContext and TokenizerManager. `dp_rank` and
# `priority` are added where data parallelism and priorities are on.
LABELS = {
    "SchedulerMetricsCollector": ["model_name", "engine_type", "tp_rank", "pp_rank", "moe_ep_rank"],
    "TokenizerMetricsCollector": ["model_name", "engine_type"],
}
KINDS = {"Gauge": "gauge", "Counter": "counter", "Histogram": "histogram", "Summary": "summary"}


def stop(where: str, node: ast.AST) -> SystemExit:
    """For a form that this reader does not know."""
    line = getattr(node, "lineno", 0)
    return SystemExit(f"{where}:{line}: a form this reader does not know: {ast.unparse(node)[:200]}")


def constants(sources: Sources) -> dict[str, list[Any]]:
    """The lists of choices by name."""
    found: dict[str, list[Any]] = {}
    for node in sources.tree(CHOICES).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = literal(node.value)
            if isinstance(value, (list, set, tuple)):
                found[node.targets[0].id] = sorted(value)  # pyright: ignore[reportUnknownArgumentType]
    return found


def annotated(field: ast.AnnAssign) -> tuple[ast.expr, ast.expr] | None:
    """Type and metadata of `name: A[type, metadata]`; None for a field without a flag."""
    note = field.annotation
    if not (isinstance(note, ast.Subscript) and ast.unparse(note.value) == "A"):
        return None
    assert isinstance(note.slice, ast.Tuple)
    return note.slice.elts[0], note.slice.elts[1]


def kind_of(kind: ast.expr, given: dict[str, ast.expr]) -> Node:
    """`kind` and `optional` of a flag, as add_cli_args_from_dataclass would make it."""
    optional = isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "Optional"
    inner: ast.expr = kind.slice if optional and isinstance(kind, ast.Subscript) else kind
    text = ast.unparse(inner)
    found: Node = {"kind": "", "optional": optional}
    if "action" in given:
        known = {"argparse.BooleanOptionalAction": "bool", "'store_true'": "switch"}
        found["kind"] = known.get(ast.unparse(given["action"]), "str")
    elif "type_parser" in given:
        found["kind"] = PARSERS.get(ast.unparse(given["type_parser"]), "str")
    elif text.startswith("Literal["):
        assert isinstance(inner, ast.Subscript)
        values = literal(inner.slice)
        members: list[Any] = list(values) if isinstance(values, tuple) else [values]  # pyright: ignore[reportUnknownArgumentType]
        found |= {"kind": "choice", "choices": sorted(m for m in members if m is not None)}
    elif text.startswith(("List[", "list[")):
        found["kind"] = "list"
    elif text == "bool":
        found["kind"] = "switch"
    else:
        found["kind"] = PLAIN.get(text, "str")
    return found


def field_flag(
    name: str, field: ast.AnnAssign, owner: str, choices: dict[str, list[Any]]
) -> tuple[str, Node] | None:
    """One flag of an annotated field; None for one without a command line."""
    parts = annotated(field)
    if parts is None:
        return None
    kind, note = parts
    is_arg = isinstance(note, ast.Call) and ast.unparse(note.func) == "Arg"
    given = {k.arg: k.value for k in note.keywords if k.arg} if is_arg and isinstance(note, ast.Call) else {}
    if not is_arg and not isinstance(note, (ast.Constant, ast.BinOp, ast.JoinedStr)):
        raise stop(FIELDS, field)
    if "no_cli" in given and literal(given["no_cli"]):
        return None
    found = kind_of(kind, given)
    if "choices" in given:
        values = literal(given["choices"])
        values = choices.get(ast.unparse(given["choices"])) if values is None else sorted(values)
        if values is None:  # computed elsewhere: any text may be right
            found["choices_of"] = ast.unparse(given["choices"])
        else:
            found |= {"kind": "choice", "choices": values}
    flag = str(literal(given["cli_name"])) if "cli_name" in given else "--" + name.replace("_", "-")
    aliases = list(literal(given["aliases"])) if "aliases" in given else []
    return flag, {**found, "default": literal(field.value), "config": owner, "aliases": aliases}


def written_flags(sources: Sources) -> Iterator[tuple[str, Node]]:
    """Flags that ServerArgs.add_cli_args writes out: dynamic choices, the file, deprecated spellings."""
    owner = next(n for n in ast.walk(sources.tree(SERVER_ARGS)) if getattr(n, "name", "") == "add_cli_args")
    for call in calls(owner, "add_argument"):
        given = {k.arg: k.value for k in call.keywords if k.arg}
        names = [str(literal(a)) for a in call.args]
        kind = PARSERS.get(ast.unparse(given["type"]), "str") if "type" in given else "str"
        kind = PLAIN.get(ast.unparse(given["type"]), kind) if "type" in given else kind
        action = ast.unparse(given["action"]) if "action" in given else ""
        found: Node = {"kind": "switch" if "store" in action.lower() else kind, "optional": True}
        if "Deprecated" in action:
            found["deprecated"] = True
        yield names[0], {**found, "default": None, "config": "ServerArgs", "aliases": names[1:]}


def flags_file(sources: Sources) -> Node:
    """Every flag of the server, and every environment variable it declares."""
    choices = constants(sources)
    flags: dict[str, Node] = {}
    for name in sorted(n for n in sources.names if n.startswith(FIELDS)):
        for owner in (n for n in sources.tree(name).body if isinstance(n, ast.ClassDef)):
            for field in (n for n in owner.body if isinstance(n, ast.AnnAssign)):
                assert isinstance(field.target, ast.Name)
                if (found := field_flag(field.target.id, field, owner.name, choices)) is not None:
                    flags[found[0]] = found[1]
    for name, found in written_flags(sources):
        flags.setdefault(name, found)
    owner = next(n for n in sources.tree(ENVIRON).body if getattr(n, "name", "") == "Envs")
    assert isinstance(owner, ast.ClassDef)
    env = sorted(
        n.targets[0].id
        for n in owner.body
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and isinstance(n.value, ast.Call)
    )
    files = [FIELDS + "*.py", CHOICES, SERVER_ARGS, ENVIRON]
    return {"files": files, "flags": dict(sorted(flags.items())), "environment": env}


def exponential(call: ast.Call) -> list[float]:
    """Edges of exponential_buckets(start, width, length), as observability/utils.py computes them."""
    given = {k.arg: literal(k.value) for k in call.keywords}
    return [given["start"] * given["width"] ** i for i in range(given["length"])]


def edges(node: ast.expr, defaults: dict[str, list[float]]) -> list[float]:
    """A histogram's upper edges, without +Inf: written out, by name, or computed."""
    value = literal(node)
    if isinstance(value, (list, tuple)):
        return [float(edge) for edge in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(node, ast.Name) and node.id in defaults:
        return defaults[node.id]
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "exponential_buckets":
        return exponential(node)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "generate_buckets":
        return edges(node.args[1], defaults)
    if ast.unparse(node).startswith("sorted("):
        return []  # depends on settings
    raise stop(COLLECTORS, node)


def label_names(node: ast.expr | None, base: list[str]) -> list[str]:
    """`list(labels.keys()) + ["x"]`, `[*labels.keys(), "x"]` and plain lists alike."""
    if node is None:
        return []
    text = ast.unparse(node)
    own = [str(n.value) for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return (base if "labels" in text or "extra_label_names" in text else []) + own


def collector_metrics(body: ast.AST, base: list[str]) -> Iterator[tuple[str, Node]]:
    """Metrics that a collector makes, named as they appear on the metrics page."""
    defaults: dict[str, list[float]] = {}
    for node in ast.walk(body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = literal(node.value)
            if isinstance(value, list):
                defaults[node.targets[0].id] = value
    # `if bucket_... is None` only sets edges; a metric under any other `if` is not always there.
    optional = {id(c) for n in ast.walk(body) if isinstance(n, ast.If) for c in ast.walk(n)}
    for call in ast.walk(body):
        kind = KINDS.get(getattr(getattr(call, "func", None), "id", ""))
        if not isinstance(call, ast.Call) or kind is None:
            continue
        given = {k.arg: k.value for k in call.keywords if k.arg}
        name = str(literal(given["name"]))
        if kind == "counter":
            name = name.removesuffix("_total") + "_total"
        found: Node = {"type": kind, "help": said(given["documentation"])}
        found["labels"] = label_names(given.get("labelnames"), base)
        if "buckets" in given:
            found["buckets"] = edges(given["buckets"], defaults)
        yield name, {**found, "default": id(call) not in optional}


def said(node: ast.expr) -> str:
    """A documentation text."""
    return str(literal(node)).strip()


def metrics_file(sources: Sources) -> Node:
    """Metrics of the scheduler, the tokenizer manager and the HTTP middleware; all need --enable-metrics."""
    metrics: dict[str, Node] = {}
    for node in sources.tree(COLLECTORS).body:
        if isinstance(node, ast.ClassDef) and node.name in LABELS:
            init = next(m for m in node.body if getattr(m, "name", "") == "__init__")
            metrics |= dict(collector_metrics(init, LABELS[node.name]))
    middleware = "add_prometheus_track_response_middleware"
    function = next(n for n in sources.tree(COMMON).body if getattr(n, "name", "") == middleware)
    metrics |= dict(collector_metrics(function, []))
    return {
        "files": [COLLECTORS, COMMON],
        "needs": "--enable-metrics",
        "metrics": dict(sorted(metrics.items())),
    }


def method_classes(sources: Sources) -> dict[str, str]:
    """Quantization method -> class name: the table of every platform, and what CUDA adds."""
    tree = sources.tree(QUANTIZATION + "__init__.py")
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "BASE_QUANTIZATION_METHODS":
            assert isinstance(node.value, ast.Dict)
            pairs = zip(node.value.keys, node.value.values, strict=True)
            found |= {str(literal(k)): ast.unparse(v) for k, v in pairs}
        if isinstance(node, ast.If) and "is_cuda()" in ast.unparse(node.test):
            for call in calls(node, "update"):
                table = call.args[0]
                assert isinstance(table, ast.Dict)
                pairs = zip(table.keys, table.values, strict=True)
                found |= {str(literal(k)): ast.unparse(v) for k, v in pairs}
    return found


def quantization_file(sources: Sources) -> Node:
    """Lowest compute capability per method on NVIDIA GPUs, with its source line.

    Where a method returns several, the last is CUDA's; the others are behind `if is_npu` and kin."""
    classes = sources.classes(QUANTIZATION)
    rows: dict[str, Node] = {}
    schemes = {n: n for n in classes if n.startswith("CompressedTensorsW")}
    for method, owner in {**method_classes(sources), **schemes}.items():
        if owner not in classes:
            continue
        path, definition = classes[owner]
        for member in definition.body:
            if isinstance(member, ast.FunctionDef) and member.name == "get_min_capability":
                returns = [n for n in ast.walk(member) if isinstance(n, ast.Return) and n.value is not None]
                last = max(returns, key=lambda n: n.lineno, default=None)
                value = None if last is None or last.value is None else last.value
                if isinstance(
                    value, ast.IfExp
                ):  # `100 if self.use_mxfp8 else 80`, `60 if not _is_musa else 21`
                    test = ast.unparse(value.test)
                    value = value.body if test.startswith("not ") or f"use_{method}" in test else value.orelse
                capability = literal(value)
                if last is not None and isinstance(capability, int):
                    source = f"{path}:{last.lineno}"
                    rows[method] = {"class": owner, "min_capability": capability, "source": source}
    return {"files": [QUANTIZATION + "**"], "methods": dict(sorted(rows.items()))}


def render(version: str, kinds: list[str]) -> dict[str, str]:
    """File name -> text of the data files."""
    packed = wheel(f"sglang=={version}")
    sources = Sources(packed)
    readers = {"flags": flags_file, "metrics": metrics_file, "quantization": quantization_file}
    head = {"engine": "sglang", "version": version, "source": f"PyPI wheel {packed.name}"}
    return {
        f"sglang-{version}.{kind}.json": json.dumps(
            {**head, **readers[kind](sources)}, indent=1, ensure_ascii=False
        )
        + "\n"
        for kind in kinds
    }


if __name__ == "__main__":
    sys.exit(read("sglang", ("flags", "metrics", "quantization"), render, __doc__))
