"""What a replica needs beside its GPUs: cores, memory, shared memory, disk.

Trap: a memory-backed /dev/shm and a streaming loader's buffers count in the container's memory. A limit that
only looks at the GPUs kills the pod while it loads, with exit code 137 and no other word.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from servingstack.args import HardwareArgs
from servingstack.catalog import GIB
from servingstack.errors import Violation

BASE_BYTES = 3 * GIB
"""API server and engine core: two Python processes with torch."""
RANK_BYTES = 4 * GIB
"""One worker process per GPU: torch, CUDA's host side, pinned staging buffers."""
PROCESS_BYTES = 2 * GIB
"""A server or a Python worker with torch and CUDA's host side, no staging buffers of its own. An assumption:
no public measurement was found."""
SHM_BASE_BYTES = 1 * GIB
SHM_RANK_BYTES = 1 * GIB
"""Message queue between the processes, and NCCL's own segments per rank."""
LOADER_BYTES = 2 * GIB
"""A safetensors file is mapped, so only what is being copied must be resident."""
WHOLE_FILE_BYTES = 5 * GIB
"""A file of a checkpoint that is read whole: transformers' save_pretrained writes files of up to 5 GB
(max_shard_size), and so are most on the hub."""
STREAMER_LIMIT_BYTES = 40_000_000_000
"""RUNAI_STREAMER_MEMORY_LIMIT of the Run:ai streamer by default, per process."""
CORES_BASE, CORES_PER_GPU = 2.0, 1.0
"""vLLM docs, "Optimization and Tuning", CPU resources: at least 2 + N cores, one for the API server, one for
the engine core, one per GPU worker."""
SCRATCH_BYTES = 10 * GIB
"""Compiled kernels, logs, /tmp."""
WRITTEN_BYTES = 2 * GIB
"""The same where files are memory, and room costs what it takes: an assumption, no public measurement was
found."""


@dataclass(frozen=True, slots=True)
class Host:
    """Per replica."""

    cpu: float
    memory_request: int
    memory_limit: int
    shared_memory: int
    disk: int


def needed_memory(ranks: int, weights: int, load_format: str | None, *, whole_files: bool = False) -> int:
    """Least container memory, shared memory included."""
    loader = min(WHOLE_FILE_BYTES, weights) if whole_files else LOADER_BYTES
    if load_format == "runai_streamer":
        loader = min(STREAMER_LIMIT_BYTES, weights // ranks)
    return BASE_BYTES + ranks * (RANK_BYTES + loader) + shared_memory(ranks)


def shared_memory(ranks: int) -> int:
    """Size limit of /dev/shm."""
    return SHM_BASE_BYTES + ranks * SHM_RANK_BYTES


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes of a replica."""

    count: int
    weights: int
    load_format: str | None
    stored: int
    """What is downloaded to the node's disk; 0 where the weights lie on a volume."""
    whole_files: bool = False
    """Whether a file of weights is read whole before it is copied."""
    adapters: int = 0
    """All LoRA adapters: each process keeps them in memory, and the disk holds them."""


def host(hardware: HardwareArgs, ranks: Ranks, *, files_in_memory: bool = False) -> Host | Violation:
    """The host side of a replica; request and limit are the same unless given. A violation where what was
    given is too little. `files_in_memory`: what is written counts in the memory."""
    needed = needed_memory(ranks.count, ranks.weights, ranks.load_format, whole_files=ranks.whole_files)
    needed += ranks.count * ranks.adapters
    what = f"{ranks.count} ranks, their loading buffers, and shared memory"
    stored = ranks.stored + ranks.adapters
    needs = _Needs(ranks.count, needed, shared_memory(ranks.count), stored, what, files_in_memory)
    return _host(hardware, needs)


def host_of_batches(
    hardware: HardwareArgs,
    processes: int,
    weights: int,
    needs: tuple[int, int],
    *,
    files_in_memory: bool = False,
) -> Host | Violation:
    """The host side of an engine that batches whole requests; `needs` is its own shared memory and what it
    stores on the node's disk. A model file is read whole before it goes to the GPU."""
    shared = max(SHM_BASE_BYTES, needs[0])
    needed = BASE_BYTES + processes * PROCESS_BYTES + max(LOADER_BYTES, weights) + shared
    what = f"{processes} processes, a model file, and shared memory"
    return _host(hardware, _Needs(processes, needed, shared, needs[1], what, files_in_memory))


@dataclass(frozen=True, slots=True)
class _Needs:
    processes: int
    memory: int
    shared_memory: int
    stored: int
    what: str
    in_memory: bool

    @property
    def written(self) -> int:
        """What the container writes."""
        return (WRITTEN_BYTES if self.in_memory else SCRATCH_BYTES) + _rounded(self.stored)


def _host(hardware: HardwareArgs, needs: _Needs) -> Host | Violation:
    needed = needs.memory + (needs.written if needs.in_memory else 0)
    what = f"{needs.what}, and all that is written" if needs.in_memory else needs.what
    request, limit = hardware.memory_request, hardware.memory_limit
    if request is None:
        request = _rounded(needed) if limit is None else min(_rounded(needed), limit)
    limit = request if limit is None else limit
    for name, value in (("memory_request", request), ("memory_limit", limit)):
        if value < needed:
            gib = math.ceil(needed / GIB)
            return Violation(
                f"hardware.{name}",
                f"{value / GIB:.1f}Gi",
                f"at least {gib}Gi: {what}",
                f"Raise it to {gib}Gi, or leave it out.",
            )
    cpu = hardware.cpu_request
    return Host(
        cpu=CORES_BASE + CORES_PER_GPU * needs.processes if cpu is None else cpu,
        memory_request=request,
        memory_limit=limit,
        shared_memory=needs.shared_memory,
        disk=needs.written,
    )


def _rounded(value: float) -> int:
    return math.ceil(value / GIB) * GIB
