"""The real engine and a real API server for the tests of this folder, started once.

The trap: `tools/` is no package and its modules are scripts, so they are found through `sys.path` here alone.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
from pulumi import automation

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from local_cluster import Cluster  # noqa: E402
from local_engine import LocalEngine  # noqa: E402


class InlineStack(Protocol):
    """`inline_stack(project, stack, program, config)`: a stack of the real engine with local state.

    `config` is a stack file's path, or its fully named keys (`{"servingstack:stacks": [...]}`).
    """

    def __call__(
        self,
        project: str,
        stack: str,
        program: Callable[[], None],
        config: Path | Mapping[str, Any] = ...,
    ) -> automation.Stack: ...


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of this test run: `cluster.kubeconfig`, `cluster.kubectl(...)`."""
    own = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        own.up()
        yield own
    finally:
        own.down()


@pytest.fixture(scope="session")
def engine(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    """The engine pointed at `cluster`; while it is in use this process sees its environment too."""
    own = LocalEngine(tmp_path_factory.mktemp("engine"), cluster.kubeconfig)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own.env.items():
            patch.setenv(name, value)
        yield own


@pytest.fixture(scope="session")
def engine_env(engine: LocalEngine) -> dict[str, str]:
    """Environment variables for a subprocess that runs the engine: PATH, backend, passphrase, KUBECONFIG."""
    return dict(engine.env)


@pytest.fixture(scope="session")
def inline_stack(engine: LocalEngine) -> InlineStack:
    def make(
        project: str,
        stack: str,
        program: Callable[[], None],
        config: Path | Mapping[str, Any] | None = None,
    ) -> automation.Stack:
        return engine.inline_stack(project, stack, program, {} if config is None else config)

    return make
