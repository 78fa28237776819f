"""What an option can do, as data: checked once, in the planner, never in a target.

Trap: a refusal names the options that can meet the demand, and derives that list from this data. A limit that
is written into code instead is invisible there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Door:
    """The stack's own proxy, for options that need one to bound time and queue."""

    image: str
    replicas: int
    """Two, so that a node's loss does not close the door."""
    port: int
    stats_port: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One option."""

    option: str
    exposures: tuple[str, ...]
    """Who can be let in."""
    spot: bool
    """Whether interruptible capacity can be asked for."""
    scale_to_zero: bool
    longest_hold_s: int
    """How long a request may be held while a replica starts."""
    queue_metric: str
    """Signal that scaling follows, `queue_depth` or the nearest that the option has."""
    timeout_enforced_by: str
    """The part of the path that ends a request."""
    longest_request_s: int | None
    """Longest request timeout that can be set; None for no limit of its own."""
    door: Door | None
    on_kubernetes: bool
