"""What the picture in ARCHITECTURE.md promises, read from the sources themselves."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

import servingstack
from servingstack.targets import REGISTRY, capabilities

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "components" / "servingstack"
TARGETS = PACKAGE / "targets"
SHELL = (
    "claims.py",
    "component.py",
    "decision.py",
    "project.py",
    "cli/graph.py",
    "dynamic/modal.py",
    "dynamic/replicate.py",
    "dynamic/secrets.py",
    "targets/existing.py",
    *(
        f"{entry.package.removeprefix('servingstack.').replace('.', '/')}/{module}.py"
        for entry in REGISTRY.values()
        for module in ("existing", "resources")
    ),
)
"""The only modules that may import Pulumi; everything else is the pure core."""
SDKS = {"pulumi", "pulumi_kubernetes", "pulumi_aws", "pulumi_gcp", "pulumi_azure_native", "modal"}
IN_THE_CONTAINER = "targets/kubernetes/warm_up.py"
"""A script that runs elsewhere."""
ENGINES = ("vllm", "triton", "torchserve", "sglang")
MODULE_LINES = 350
"""Of code: what is explained does not count, or nobody would explain it."""
FUNCTION_LINES = 60

MODULES = sorted(path for path in PACKAGE.rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


every_module = pytest.mark.parametrize("path", MODULES, ids=map(_name, MODULES))


def _imports(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module


def _texts(tree: ast.AST) -> Iterator[str]:
    """Names and literals of the code, without docstrings and comments."""
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@every_module
def test_only_the_shell_imports_pulumi(path: Path) -> None:
    imported = {name.split(".")[0] for name in _imports(ast.parse(path.read_text()))}
    if _name(path) not in SHELL:
        assert not SDKS & imported


def test_planning_and_rendering_load_no_part_of_pulumi() -> None:
    """What the sources say, seen from a running interpreter."""
    code = (
        "import sys, servingstack.planner, servingstack.signals, servingstack.targets.kubernetes.manifests; "
        "print(sorted(name for name in sys.modules if name.split('.')[0].startswith('pulumi')))"
    )
    assert _python(code) == "[]"


def test_importing_the_package_loads_nothing_that_costs() -> None:
    heavy = ("pulumi", "pydantic", "yaml", "rich", "typer", "grafana_foundation_sdk", "pulumi_kubernetes")
    code = f"import sys, servingstack; print(sorted(set({heavy}) & set(sys.modules)))"
    assert _python(code) == "[]"


def test_the_component_loads_no_cloud_no_catalog_and_no_command_line() -> None:
    heavy = (*sorted(SDKS - {"pulumi"}), "servingstack.catalog", "rich", "typer", "grafana_foundation_sdk")
    code = (
        f"import sys; from servingstack import ServingStack; print(sorted(set({heavy}) & set(sys.modules)))"
    )
    assert _python(code) == "[]"


def test_the_input_loads_no_engine_and_no_plan_and_builds_no_validator() -> None:
    """Most programs use one engine, and one whose plan is locked plans nothing."""
    later = ("engines.vllm", "engines.triton_settings", "measured", "plan", "planner", "catalog")
    loaded = "sorted(name for name in sys.modules if name.removeprefix('servingstack.') in later)"
    built = "[model.__name__ for model in BaseModel.__subclasses__() if model.__pydantic_complete__]"
    code = (
        "import sys; from pydantic import BaseModel; "
        "from servingstack import ServingStack, ServingStackArgs; "
        f"later = {later}; print({loaded}, {built})"
    )
    assert _python(code) == "[] []"


@every_module
def test_a_model_is_built_when_it_is_first_used_and_reads_no_source(path: Path) -> None:
    """A hundred validators, and as many looks into the sources for docstrings, at every import else."""
    if _name(path) == IN_THE_CONTAINER:
        return
    module = importlib.import_module(_dotted(path))
    models = [
        each for each in vars(module).values() if isinstance(each, type) and issubclass(each, BaseModel)
    ]
    for model in models:
        if model.__module__ == module.__name__:
            assert model.model_config.get("defer_build"), model
            assert not model.model_config.get("use_attribute_docstrings"), model


def _python(code: str) -> str:
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "path", sorted(TARGETS.rglob("*.py")), ids=lambda path: path.relative_to(TARGETS).as_posix()
)
def test_no_target_names_an_engine(path: Path) -> None:
    """They meet in the plan's container."""
    for text in _texts(ast.parse(path.read_text())):
        assert not [engine for engine in ENGINES if engine in text.lower()], text


@pytest.mark.parametrize("path", sorted((PACKAGE / "engines").rglob("*.py")), ids=lambda path: path.name)
def test_no_engine_names_a_target(path: Path) -> None:
    for text in _texts(ast.parse(path.read_text())):
        words = re.split(r"[^a-z-]+", text.lower())  # `multimodal` names no option
        assert not [option for option in REGISTRY if option in words], text
        assert "servingstack.targets" not in text


def test_the_registry_is_the_folders() -> None:
    folders = {
        ".".join(path.parent.relative_to(TARGETS).parts) for path in TARGETS.rglob("*/capabilities.py")
    }
    assert folders == {entry.package.removeprefix("servingstack.targets.") for entry in REGISTRY.values()}
    assert {folder.rpartition(".")[2] for folder in folders} == {name.replace("-", "_") for name in REGISTRY}


@pytest.mark.parametrize("option", REGISTRY)
def test_every_option_has_capabilities_a_component_tests_and_two_goldens(option: str) -> None:
    package = REGISTRY[option].package
    assert capabilities(option).option == option
    resources = importlib.import_module(f"{package}.resources")
    assert callable(resources.build)
    (component,) = [name for name in resources.__all__ if name != "build"]
    assert hasattr(servingstack, component)
    folder = Path(*package.removeprefix("servingstack.targets.").split("."))
    assert list((ROOT / "tests" / "targets" / folder).glob("test_*.py"))
    for size in ("defaults", "max"):
        assert list((ROOT / "tests" / "goldens" / "plans").glob(f"{folder}*{size}*")), (
            f"no golden plan {size}"
        )


def test_what_is_public_is_sorted_complete_and_there() -> None:
    public = servingstack.__all__
    assert public == sorted(public, key=_order)
    assert len(public) == len(set(public))
    assert {*servingstack._MODULES, "__version__"} == set(public)
    for name in public:
        assert getattr(servingstack, name) is not None
    assert dir(servingstack) == public
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = servingstack.nothing  # pyright: ignore


def test_each_engines_settings_and_a_benchmarks_table_are_public() -> None:
    """Their modules load when a program names them, so nothing else would find one that is missing."""
    needed = {*(f"{engine.capitalize()}Settings" for engine in ("vllm", "sglang", "triton")), "MeasuredTable"}
    assert needed | {"TorchServeSettings", "ServingStackArgs"} <= set(servingstack.__all__)


def _order(name: str) -> tuple[int, str]:
    """As ruff sorts `__all__` (RUF022): constants, classes, the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@every_module
def test_each_all_is_sorted_and_names_what_is_there(path: Path) -> None:
    if _name(path) == IN_THE_CONTAINER:
        return
    module = importlib.import_module(_dotted(path))
    public = list(getattr(module, "__all__", []))
    assert public == sorted(public, key=_order)
    assert all(hasattr(module, name) for name in public)


@every_module
def test_each_module_says_what_it_is_for(path: Path) -> None:
    if path.read_text().strip():
        assert ast.get_docstring(ast.parse(path.read_text())), "no docstring"


@every_module
def test_modules_and_functions_can_be_read_in_a_sitting(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert len(_code_lines(tree)) <= MODULE_LINES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= FUNCTION_LINES, f"{node.name}: {length} lines"


def _code_lines(tree: ast.AST) -> set[int]:
    """Numbers of the lines on which a statement or a part of one stands, docstrings aside."""
    statements = [
        node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword)
    ]
    prose = {
        line
        for node in statements
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return {line for node in statements for line in (node.lineno, node.end_lineno or node.lineno)} - prose


@every_module
def test_nothing_is_left_for_later(path: Path) -> None:
    text = path.read_text()
    for word in ("TODO", "FIXME", "XXX", "NotImplementedError", "noqa: C901", "noqa: PLR09"):
        assert word not in text


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_file_with_tests_is_found_and_none_is_skipped(path: Path) -> None:
    tree = ast.parse(path.read_text())
    tests = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert not tests or path.name.startswith("test_"), "pytest collects test_*.py"
    marks = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not {"skip", "skipif", "xfail"} & marks


def test_every_module_of_the_targets_that_renders_is_imported_by_the_tests_of_its_folder() -> None:
    """A new file below a target comes with a test that reaches it."""
    reached = set()
    for path in (ROOT / "tests" / "targets").rglob("*.py"):
        reached |= set(_imports(ast.parse(path.read_text())))
    assert "servingstack.targets.kubernetes.manifests" in reached
