"""The decisions that signals are made of, and the engine's tables.

Trap: an own image may be of any release; its version is then no number, and both spellings of a renamed
metric are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from servingstack.args import ServingStackArgs
from servingstack.engines.registry import ENGINES
from servingstack.engines.signal import EngineSignal, EngineTables
from servingstack.plan import Architecture, Cost, Scaling, Timeouts
from servingstack.signals.scope import Scope


@dataclass(frozen=True)
class Stack:
    """What is watched: the input, what its parts are called, and what was decided before."""

    args: ServingStackArgs
    names: Mapping[str, str]
    """Physical names by role."""
    architecture: Architecture
    scaling: Scaling
    timeouts: Timeouts
    cost: Cost

    @property
    def scope(self) -> Scope:
        """Where its series are in a cluster's Prometheus."""
        target = self.args.target
        return Scope.of(self.names, target.kubernetes.namespace, overflow=target.overflow is not None)

    @property
    def tables(self) -> EngineTables:
        """The engine's signals. KeyError for an engine that this release has not."""
        return ENGINES[self.architecture.engine].tables(self.args)

    @property
    def engine_version(self) -> str | None:
        """The engine's release, or None where the image is of an unknown one."""
        return self.architecture.engine_version

    @property
    def generates(self) -> bool:
        """Whether there are tokens to time. An embedding has none."""
        return self.architecture.task == "generate"

    def has(self, signal: str) -> bool:
        """Whether the engine has such a signal."""
        return signal in self.tables.signals(self.engine_version)

    def engine_signal(self, signal: str) -> EngineSignal:
        """One of the engine's own signals."""
        return self.tables.signals(self.engine_version)[signal]
