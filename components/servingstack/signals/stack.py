"""The decisions that signals are made of, and the engine's tables.

Trap: an own image may be of any release; its version is then no number, and both spellings of a renamed
metric are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from servingstack.args import ServingStackArgs
from servingstack.engines import vllm_signals
from servingstack.engines.signal import Counts, EngineSignal
from servingstack.plan import Architecture, Cost, Scaling, Timeouts
from servingstack.signals.scope import Scope


class EngineTables(Protocol):
    """What an engine's signal module offers."""

    @staticmethod
    def signals(version: str | None) -> dict[str, EngineSignal]: ...
    @staticmethod
    def objective_counts(kind: str, threshold_s: float | None, version: str | None) -> Counts: ...
    @staticmethod
    def histogram_edge(kind: str, threshold_s: float, version: str | None) -> float: ...
    @staticmethod
    def stalled(selector: str) -> str: ...


_TABLES: dict[str, EngineTables] = {"vllm": vllm_signals}


@dataclass(frozen=True)
class Stack:
    """What is watched: the input, where its series are, and what was decided before."""

    args: ServingStackArgs
    scope: Scope
    architecture: Architecture
    scaling: Scaling
    timeouts: Timeouts
    cost: Cost

    @property
    def tables(self) -> EngineTables:
        """The engine's module. KeyError for an engine without one."""
        return _TABLES[self.architecture.engine]

    @property
    def engine_version(self) -> str | None:
        """The engine's release, or None where the image is of an unknown one."""
        return self.architecture.engine_version

    @property
    def generates(self) -> bool:
        """Whether there are tokens to time. An embedding has none."""
        return self.architecture.task == "generate"

    def engine_signal(self, signal: str) -> EngineSignal:
        """One of the engine's own signals."""
        return self.tables.signals(self.engine_version)[signal]
