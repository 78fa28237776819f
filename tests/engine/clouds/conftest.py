"""An engine for these tests alone, and accounts in memory for it to work on.

The trap: the engine is found on this process's PATH and reads its variables, and so does the engine of
the other tests of this run; so the variables are set for these tests and put back after them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

import pytest
from tests.engine.clouds import aws, azure, gcp, sagemaker_rules
from tests.engine.clouds.cloud import Cloud
from tests.engine.clouds.provider import Provider, served
from tests.engine.clouds.stack import CloudStack, Site

from local_engine import LocalEngine

RULES = {"aws": sagemaker_rules.RULES}
TABLES: dict[str, ModuleType] = {"aws": aws, "gcp": gcp, "azure": azure}


@dataclass
class Account:
    """One account of one cloud, and the stacks that work on it."""

    cloud: Cloud
    provider: Provider
    open: Open


class Open(Protocol):
    """`open(project, stack, program, config)`, the last fully named keys."""

    def __call__(
        self, project: str, name: str, program: Callable[[], None], config: Mapping[str, str] = ..., /
    ) -> CloudStack: ...


MakeAccount = Callable[[str], Account]


@pytest.fixture(scope="session")
def cloud_engine(tmp_path_factory: pytest.TempPathFactory) -> LocalEngine:
    return LocalEngine(tmp_path_factory.mktemp("clouds"))


@pytest.fixture
def account(cloud_engine: LocalEngine) -> Iterator[MakeAccount]:
    """`account("aws")`: a new, empty account. At the end every property that was changed must have a row."""
    # The SDKs' many objects stay for ever; looking through them again and again took a sixth of these tests.
    gc.freeze()
    made: list[Cloud] = []
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for name, value in cloud_engine.env.items():
            patch.setenv(name, value)

        def make(provider: str) -> Account:
            table = TABLES[provider]
            cloud = Cloud(table.KINDS, table.SETTINGS, table.INVOKES, RULES.get(provider, {}))
            made.append(cloud)
            served_by, attached = stack.enter_context(served(cloud))

            def open_(
                project: str,
                name: str,
                program: Callable[[], None],
                config: Mapping[str, str] | None = None,
            ) -> CloudStack:
                site = Site(cloud_engine, attached, config or {})
                return CloudStack(site, project, name, program)

            return Account(cloud, served_by, open_)

        yield make
    missing = [row for cloud in made for row in cloud.without_row]
    assert missing == [], "without a row in tests/engine/clouds"
