"""Reads what a vLLM release accepts and exports out of its own wheel, and writes it as data files.

    python tools/vllm_facts.py --check                      # compares every committed release with its wheel
    python tools/vllm_facts.py --version 0.30.0             # reads one, and writes its files
    (--kinds flags quantization reads a part)

The trap: nothing is imported. vLLM's parser is built from dataclass annotations at run time and importing it
needs torch, so the sources are read as syntax trees, and a construct the reader does not know stops it
instead of being left out in silence.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from releases import Node, Sources, calls, literal, read, wheel

# vLLM 0.30.0 METADATA: Requires-Dist prometheus-fastapi-instrumentator>=8.0.0.
INSTRUMENTATOR = "prometheus-fastapi-instrumentator==8.0.0"
ARG_UTILS = "vllm/engine/arg_utils.py"
CLI_ARGS = ("vllm/entrypoints/launchers/cli_args.py", "vllm/entrypoints/openai/cli_args.py")
"""Where it is since 0.28, and where it was before."""
LOGGERS = "vllm/v1/metrics/loggers.py"
BUCKETS = "vllm/v1/metrics/buckets.py"
ENVS = "vllm/envs.py"
QUANTIZATION = "vllm/model_executor/layers/quantization/"
# Type names in the order vLLM's own _compute_kwargs asks for them (arg_utils.py, 0.30.0).
KINDS = (
    ("bool", "bool"),
    ("Literal", "choice"),
    ("tuple", "list"),
    ("list", "list"),
    ("set", "list"),
    ("int", "int"),
    ("float", "float"),
    ("dict", "json"),
)
KINDS_OF_FILES = ("flags", "metrics", "quantization")
"""Metrics can be read from 0.28 on, whose edges are in a file of their own."""


class Annotations:
    """Turns a dataclass field's annotation into a flag's kind and choices, as vLLM's own parser would."""

    def __init__(self, sources: Sources) -> None:
        self.aliases: dict[str, ast.expr] = {}
        config = [n for n in sources.names if n.startswith("vllm/config/")]
        for name in [*config, "vllm/entrypoints/chat_utils.py", QUANTIZATION + "__init__.py"]:
            for node in sources.tree(name).body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.aliases.setdefault(node.targets[0].id, node.value)
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                    self.aliases.setdefault(node.target.id, node.value)
        self.configs = sources.classes("vllm/config/")

    def parts(self, node: ast.expr) -> Iterator[ast.expr]:
        """The members of a union, aliases opened and Annotated stripped."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield from self.parts(node.left)
            yield from self.parts(node.right)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from self.parts(ast.parse(node.value, mode="eval").body)
        elif isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in {
            "Annotated",
            "SkipValidation",
        }:
            inner = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
            yield from self.parts(inner)
        elif isinstance(node, ast.Name) and node.id in self.aliases and node.id not in self.configs:
            yield from self.parts(self.aliases[node.id])
        else:
            yield node

    def members(self, node: ast.expr) -> list[Any]:
        """A Literal's values; one may itself be the name of a Literal."""
        if isinstance(node, ast.Tuple):
            return [value for element in node.elts for value in self.members(element)]
        if isinstance(node, ast.Name):
            return [
                v for p in self.parts(node) if isinstance(p, ast.Subscript) for v in self.members(p.slice)
            ]
        return [ast.literal_eval(node)]

    def kind(self, annotation: ast.expr) -> Node:
        """`kind` and, where the parser refuses other values, `choices` (or `known` where it does not)."""
        names: set[str] = set()
        choices: list[Any] = []
        for part in self.parts(annotation):
            if isinstance(part, ast.Subscript):
                base = ast.unparse(part.value).rsplit(".", 1)[-1]
                names.add(base)
                if base == "Literal":
                    choices += self.members(part.slice)
            else:
                names.add(ast.unparse(part).rsplit(".", 1)[-1])
        optional = "None" in names
        names.discard("None")
        kind = next((kind for name, kind in KINDS if name in names), None)
        if kind is None:
            kind = "json" if any(n in self.configs and n.endswith("Config") for n in names) else "str"
        if kind == "choice" and "str" in names:
            return {"kind": "str", "known": sorted(choices), "optional": optional}
        if kind == "bool" and "str" in names:
            kind = "bool_or_str"
        found: Node = {"kind": kind, "optional": optional}
        if choices:
            found["choices"] = sorted(choices)
        return found


def fields(definition: ast.ClassDef) -> dict[str, ast.AnnAssign]:
    """Annotated fields of a dataclass by name."""
    return {
        n.target.id: n
        for n in definition.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }


def default_of(field: ast.AnnAssign) -> Any:
    """A field's constant default, also out of `Field(default=...)`."""
    value = field.value
    if isinstance(value, ast.Call):
        value = next((k.value for k in value.keywords if k.arg == "default"), None)
    return literal(value)


def explicit(call: ast.Call) -> Node:
    """A flag whose argparse settings are written out in the call."""
    given = {k.arg: k.value for k in call.keywords if k.arg}
    action = ast.unparse(given["action"]).strip("'").rsplit(".", 1)[-1] if "action" in given else ""
    kind = {"store_true": "switch", "BooleanOptionalAction": "bool"}.get(action)
    if kind is None:
        kind = {"int": "int", "float": "float"}.get(
            ast.unparse(given["type"]) if "type" in given else "", "str"
        )
    found: Node = {"kind": kind, "optional": True, "default": literal(given.get("default"))}
    if isinstance(given.get("choices"), ast.List):
        found |= {"kind": "choice", "choices": sorted(literal(given["choices"]))}
    return found


def engine_flags(sources: Sources, notes: Annotations) -> Iterator[tuple[str, Node]]:
    """Flags of EngineArgs.add_cli_args, AsyncEngineArgs.add_cli_args and make_arg_parser."""
    classes = {n.name: n for n in sources.tree(ARG_UTILS).body if isinstance(n, ast.ClassDef)}
    functions = [
        next(m for m in classes[c].body if isinstance(m, ast.FunctionDef) and m.name == "add_cli_args")
        for c in ("EngineArgs", "AsyncEngineArgs")
    ]
    functions += [
        n
        for n in sources.tree(sources.first(CLI_ARGS)).body
        if isinstance(n, ast.FunctionDef) and n.name == "make_arg_parser"
    ]
    for function in functions:
        kwargs_of = {
            n.targets[0].id: n.value.args[0].id  # model_kwargs = get_kwargs(ModelConfig)
            for n in ast.walk(function)
            if isinstance(n, ast.Assign)
            and isinstance(n.value, ast.Call)
            and isinstance(n.targets[0], ast.Name)
            and getattr(n.value.func, "id", "") == "get_kwargs"
            and isinstance(n.value.args[0], ast.Name)
        }
        renamed = {
            n.targets[0].id: n.value  # moe_backend_kwargs = kernel_kwargs["moe_backend"]
            for n in ast.walk(function)
            if isinstance(n, ast.Assign)
            and isinstance(n.value, ast.Subscript)
            and isinstance(n.targets[0], ast.Name)
            and getattr(n.value.value, "id", "") in kwargs_of
        }
        for call in calls(function, "add_argument"):
            flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            name = next((f for f in flags if f.startswith("--")), None)
            if name is None:
                continue  # the positional model_tag
            starred = [k.value for k in call.keywords if k.arg is None]
            if not starred:
                found = explicit(call)
            else:
                config, field_name, overridden = named_field(starred[0], kwargs_of, renamed)
                field = fields(notes.configs[config][1])[field_name]
                found = {**notes.kind(field.annotation), "default": default_of(field), "config": config}
                if overridden:
                    found["default"] = None
            yield name, {**found, "aliases": [f for f in flags if f != name]}


def named_field(
    node: ast.expr, kwargs_of: dict[str, str], renamed: dict[str, ast.Subscript]
) -> tuple[str, str, bool]:
    """(config class, field, whether its default is replaced) behind a `**kwargs` of add_argument."""
    overridden = False
    if isinstance(node, ast.Dict):  # {**cache_kwargs["x"], "default": None}
        overridden = any(literal(k) == "default" for k in node.keys if k is not None)
        node = next(v for k, v in zip(node.keys, node.values, strict=True) if k is None)
    if isinstance(node, ast.Name):
        node = renamed[node.id]
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
        raise SystemExit(f"{ARG_UTILS}:{node.lineno}: a form this reader does not know: {ast.unparse(node)}")
    return kwargs_of[node.value.id], str(literal(node.slice)), overridden


def frontend_flags(sources: Sources, notes: Annotations) -> Iterator[tuple[str, Node]]:
    """One flag per field of FrontendArgs and its base."""
    classes = {n.name: n for n in sources.tree(sources.first(CLI_ARGS)).body if isinstance(n, ast.ClassDef)}
    for owner in ("BaseFrontendArgs", "FrontendArgs"):
        for name, field in fields(classes[owner]).items():
            found = {
                **notes.kind(field.annotation),
                "default": default_of(field),
                "config": owner,
                "aliases": [],
            }
            yield "--" + name.replace("_", "-"), found


def flags_file(sources: Sources) -> Node:
    """Every flag of `vllm serve`, and every VLLM_* environment variable it reads."""
    notes = Annotations(sources)
    flags = dict(sorted([*engine_flags(sources, notes), *frontend_flags(sources, notes)]))
    table = next(
        n
        for n in sources.tree(ENVS).body
        if isinstance(n, ast.AnnAssign) and getattr(n.target, "id", "") == "environment_variables"
    )
    assert isinstance(table.value, ast.Dict)
    env = sorted(str(literal(k)) for k in table.value.keys if literal(k) is not None)
    return {
        "files": [ARG_UTILS, sources.first(CLI_ARGS), ENVS, "vllm/config/*.py"],
        "flags": flags,
        "environment": env,
    }


def bucket_families(sources: Sources) -> dict[str, list[float]]:
    """Edges by family; the token families depend on the model's length and are not here."""
    tree = sources.tree(BUCKETS)
    constants = {
        n.target.id: list(ast.literal_eval(n.value))
        for n in tree.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and isinstance(n.value, ast.Tuple)
    }
    table = next(
        n.value
        for n in tree.body
        if isinstance(n, ast.AnnAssign) and getattr(n.target, "id", "") == "_STATIC_FAMILY_DEFAULTS"
    )
    assert isinstance(table, ast.Dict)
    return {str(literal(k)): constants[ast.unparse(v)] for k, v in zip(table.keys, table.values, strict=True)}


def engine_metrics(sources: Sources) -> Iterator[tuple[str, Node]]:
    """Metrics of PrometheusStatLogger as they appear on /metrics (counters end in _total)."""
    logger = next(
        n
        for n in sources.tree(LOGGERS).body
        if isinstance(n, ast.ClassDef) and n.name == "PrometheusStatLogger"
    )
    init = next(m for m in logger.body if isinstance(m, ast.FunctionDef) and m.name == "__init__")
    family_of = {
        n.targets[0].id: literal(n.value.args[0])
        for n in ast.walk(init)
        if isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Call)
        and isinstance(n.targets[0], ast.Name)
        and getattr(n.value.func, "id", "") == "histogram_buckets"
    }
    conditional = {id(c) for n in ast.walk(init) if isinstance(n, ast.If) for c in ast.walk(n)}
    families = bucket_families(sources)
    for kind in ("gauge", "counter", "histogram"):
        for call in calls(init, f"_{kind}_cls"):
            given = {k.arg: k.value for k in call.keywords}
            name = str(literal(given["name"]))
            if kind == "counter" and not name.endswith("_total"):
                name += "_total"
            found: Node = {
                "type": kind,
                "help": literal(given["documentation"]),
                "labels": label_names(given),
            }
            if "buckets" in given:
                family = family_of[ast.unparse(given["buckets"])]
                found |= {"family": family, "buckets": families.get(str(family), "1-2-5 up to max_model_len")}
            yield name, {**found, "default": id(call) not in conditional}


def label_names(given: dict[str | None, ast.expr]) -> list[str]:
    """`labelnames + ["reason"]` -> ["model_name", "engine", "reason"]."""
    text = ast.unparse(given["labelnames"])
    extra = [
        e for n in ast.walk(given["labelnames"]) if isinstance(n, ast.List) for e in map(literal, n.elts) if e
    ]
    return (["model_name", "engine"] if text.startswith("labelnames") else []) + extra


def http_metrics(wheel: Path) -> Iterator[tuple[str, Node]]:
    """Metrics of the HTTP instrumentator's `default()`, which vLLM installs unchanged."""
    tree = Sources(wheel).tree("prometheus_fastapi_instrumentator/metrics.py")
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "default")
    positional = function.args.args
    defaults = dict(
        zip([a.arg for a in positional][-len(function.args.defaults) :], function.args.defaults, strict=True)
    )
    labels = {
        n.targets[0].id: list(ast.literal_eval(n.value))
        for n in ast.walk(function)
        if isinstance(n, ast.Assign)
        and isinstance(n.targets[0], ast.Name)
        and n.targets[0].id.endswith("_names")
        and isinstance(n.value, ast.Tuple)
    }
    for call in ast.walk(function):
        kind = getattr(getattr(call, "func", None), "id", "")
        if not isinstance(call, ast.Call) or kind not in {"Counter", "Summary", "Histogram"}:
            continue
        given = {k.arg: k.value for k in call.keywords}
        names = ast.unparse(given["labelnames"]).split(" ")[0] if "labelnames" in given else ""
        found: Node = {
            "type": kind.lower(),
            "help": str(literal(given["documentation"])).strip(),
            "labels": labels[names] if names else [],
            "default": True,
        }
        if "buckets" in given:
            found["buckets"] = list(literal(defaults[ast.unparse(given["buckets"])]))
        yield str(literal(given["name"])), found


def metrics_file(sources: Sources, instrumentator: Path) -> Node:
    """Every metric vLLM exports, with labels and histogram edges."""
    reasons = next(
        n
        for n in sources.tree("vllm/v1/engine/__init__.py").body
        if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "FINISH_REASON_STRINGS"
    )
    excluded = next(
        k.value
        for c in ast.walk(sources.tree("vllm/entrypoints/serve/instrumentator/metrics.py"))
        if isinstance(c, ast.Call)
        for k in c.keywords
        if k.arg == "excluded_handlers"
    )
    metrics = dict(sorted([*engine_metrics(sources), *http_metrics(instrumentator)]))
    return {
        "files": [LOGGERS, BUCKETS, "vllm/entrypoints/serve/instrumentator/metrics.py", INSTRUMENTATOR],
        "finished_reasons": list(ast.literal_eval(reasons.value)),
        "excluded_handlers": ast.literal_eval(excluded),
        "metrics": metrics,
    }


def method_classes(sources: Sources) -> dict[str, str]:
    """Quantization method -> class name, out of get_quantization_config's table."""
    tree = sources.tree(QUANTIZATION + "__init__.py")
    tables = [
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.AnnAssign) and getattr(n.target, "id", "") == "method_to_config"
    ]
    assert isinstance(tables[0], ast.Dict)
    return {str(literal(k)): ast.unparse(v) for k, v in zip(tables[0].keys, tables[0].values, strict=True)}


def quantization_file(sources: Sources) -> Node:
    """Lowest compute capability and activation types per method, each with its source line."""
    classes = sources.classes(QUANTIZATION)
    rows: dict[str, Node] = {}
    schemes = {n: n for n in classes if n.startswith("CompressedTensorsW")}
    for method, owner in {**method_classes(sources), **schemes}.items():
        if owner not in classes:
            continue  # a platform-dependent alias (deepseek_config)
        path, definition = classes[owner]
        row: Node = {"class": owner}
        for member in definition.body:
            if isinstance(member, ast.FunctionDef) and member.name == "get_min_capability":
                returned = next(n for n in ast.walk(member) if isinstance(n, ast.Return))
                row |= {"min_capability": literal(returned.value), "source": f"{path}:{returned.lineno}"}
            if isinstance(member, ast.FunctionDef) and member.name == "get_supported_act_dtypes":
                returned = next(n for n in ast.walk(member) if isinstance(n, ast.Return))
                row["act_dtypes"] = (
                    ast.unparse(returned.value).replace("torch.", "") if returned.value else None
                )
        if "min_capability" in row:
            rows[method] = row
    return {"files": [QUANTIZATION + "**"], "methods": dict(sorted(rows.items()))}


def render(version: str, kinds: list[str]) -> dict[str, str]:
    """File name -> text of the data files."""
    packed = wheel(f"vllm=={version}")
    sources = Sources(packed)
    readers = {
        "flags": lambda: flags_file(sources),
        "metrics": lambda: metrics_file(sources, wheel(INSTRUMENTATOR)),
        "quantization": lambda: quantization_file(sources),
    }
    head = {"engine": "vllm", "version": version, "source": f"PyPI wheel {packed.name}"}
    return {
        f"vllm-{version}.{kind}.json": json.dumps({**head, **readers[kind]()}, indent=1, ensure_ascii=False)
        + "\n"
        for kind in kinds
    }


if __name__ == "__main__":
    sys.exit(read("vllm", KINDS_OF_FILES, render, __doc__))
