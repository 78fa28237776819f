"""A real engine for these tests alone, whose dynamic provider talks to a stand-in on this machine.

The trap: `tools/` is no package and its modules are scripts, so they are found through `sys.path`; and the
engine's plugin has the environment of the engine, so tokens and addresses are set there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

from tests.engine.clouds.stack import CloudStack, Site
from tests.engine.dynamic import replicate_server
from tests.engine.dynamic.modal_server import Account as ModalAccount
from tests.engine.dynamic.modal_server import serving
from tests.engine.dynamic.replicate_server import Account as ReplicateAccount

from local_engine import LocalEngine

Open = Callable[[str, Callable[[], None], Mapping[str, str]], CloudStack]


LAUNCHER = f'#!/bin/sh\nexec {sys.executable} -u -m pulumi.dynamic "$@"\n'
"""What Pulumi's own release puts beside `pulumi` as `pulumi-resource-pulumi-python`; the engine that is built
here comes alone."""


@pytest.fixture(scope="session")
def dynamic_engine(tmp_path_factory: pytest.TempPathFactory) -> LocalEngine:
    engine = LocalEngine(tmp_path_factory.mktemp("dynamic"))
    plugins = tmp_path_factory.mktemp("plugins")
    launcher = plugins / "pulumi-resource-pulumi-python"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    engine.env["PATH"] = f"{plugins}{os.pathsep}{engine.env['PATH']}"
    return engine


@pytest.fixture
def open_stack(dynamic_engine: LocalEngine) -> Iterator[Open]:
    """`open_stack(name, program, environment)`: a stack whose engine and plugins see `environment` too."""
    before = dict(dynamic_engine.env)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in dynamic_engine.env.items():
            patch.setenv(name, value)

        def make(name: str, program: Callable[[], None], environment: Mapping[str, str]) -> CloudStack:
            dynamic_engine.env.update(environment)
            return CloudStack(Site(dynamic_engine, "", {}), "dynamic", name, program)

        yield make
    dynamic_engine.env.clear()
    dynamic_engine.env.update(before)


@pytest.fixture
def modal_account() -> Iterator[tuple[ModalAccount, str]]:
    """An empty account of Modal, and the address of its control plane."""
    account = ModalAccount()
    with serving(account) as url:
        yield account, url


@pytest.fixture
def replicate_account() -> Iterator[tuple[ReplicateAccount, str]]:
    """An empty account of Replicate, and the address of its API."""
    account = ReplicateAccount()
    with replicate_server.serving(account) as url:
        yield account, url
