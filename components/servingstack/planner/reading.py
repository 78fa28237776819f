"""How weights are read where a directory is a bucket: file by file, never at random.

Trap: engines map a checkpoint's files and read them piece by piece, which is free on a disk. Through FUSE
each piece is a request to the bucket: the same 16 GB that take a minute and a half in order took an hour
(github.com/marin-community/marin/pull/1208), longer than any service waits for a start.
"""

from __future__ import annotations

from servingstack.plan import Container, PlanWarning

from .demand import Demand

OWN_LOADERS = ("runai_streamer", "fastsafetensors")
"""Formats whose loader reads in its own way."""


def whole_files(demand: Demand) -> bool:
    """Whether weights are read from a directory where only whole files are fast, and the user chose no
    loader."""
    if demand.batcher is not None or demand.engine.load_format in OWN_LOADERS:
        return False
    directory = demand.can.directories.get(demand.args.model.source.partition("://")[0])
    return directory is not None and directory.whole_files


def read_whole(demand: Demand, container: Container) -> tuple[Container, tuple[PlanWarning, ...]]:
    """The container with the engine's flags for it, and a warning where the engine has none."""
    if not whole_files(demand):
        return container, ()
    if not demand.kind.whole_files:
        return container, (_slow(demand),)
    given = {flag.name for flag in container.flags}
    added = tuple(flag for flag in demand.kind.whole_files if flag.name not in given)
    return container.model_copy(update={"flags": (*container.flags, *added)}), ()


def _slow(demand: Demand) -> PlanWarning:
    return PlanWarning(
        code="slow-reads",
        path="model.source",
        message=(
            f"{demand.kind.kind} reads {demand.args.model.source} piece by piece through a mount, which can "
            f"take as long as an hour. Keep the weights in the image, or use another engine."
        ),
    )
