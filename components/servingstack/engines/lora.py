"""LoRA adapters: where they lie in the container, and the flags that name them.

Traps:
- Neither engine's list of adapters takes a revision: a name of the hub there means whatever its main branch
  holds at that start (vllm/lora/utils.py, get_adapter_absolute_path). So adapters are fetched first, each at
  its revision, and the engine is given directories.
- A flag with several values is no flag given several times: both parsers keep the last one alone
  (LoRAParserAction, LoRAPathAction).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from servingstack.adapter_args import AdapterArgs
from servingstack.plan import Adapter, Architecture, Download, Flag

FOLDER = "adapters"
CLAIMS_PATH = "/adapters"


@dataclass(frozen=True, slots=True)
class LoraRules:
    """How an engine counts adapters."""

    base_slots: int
    """Places in a batch that the model itself takes."""
    ranks: tuple[int, ...] = ()
    """Ranks that room can be set aside for; empty for any."""

    def slots(self, adapters: int) -> int:
        """Places for so many adapters."""
        return adapters + self.base_slots

    def rank(self, wanted: int) -> int:
        """The rank that room is set aside for. ValueError above the largest."""
        if not self.ranks:
            return wanted
        for rank in self.ranks:
            if rank >= wanted:
                return rank
        raise ValueError(f"a rank of at most {self.ranks[-1]}")


VLLM = LoraRules(base_slots=0, ranks=(1, 8, 16, 32, 64, 128, 256, 320, 512))
"""vllm/config/lora.py, MaxLoRARanks."""
SGLANG = LoraRules(base_slots=1)
"""sglang/srt/arg_groups/fields/lora.py: max_loras_per_batch counts requests of the base model as one."""


def placed(adapters: tuple[AdapterArgs, ...], cache_path: str) -> tuple[Adapter, ...]:
    """Each adapter's directory in the container."""
    return tuple(Adapter(name=each.name, path=_path(each, cache_path), rank=each.rank) for each in adapters)


def downloads(adapters: tuple[AdapterArgs, ...], cache_path: str) -> tuple[Download, ...]:
    """What is fetched from the hub before the engine starts."""
    return tuple(
        Download(repository=each.source, revision=each.revision, path=_path(each, cache_path))
        for each in adapters
        if claim_of(each) is None
    )


def claim_of(adapter: AdapterArgs) -> str | None:
    """The existing volume claim that holds it; None for the hub."""
    scheme, _, rest = adapter.source.partition("://")
    return rest.partition("/")[0] if scheme == "pvc" else None


def claims(adapters: tuple[AdapterArgs, ...]) -> dict[str, str]:
    """Where each claim is mounted."""
    found = (claim_of(each) for each in adapters)
    return {claim: f"{CLAIMS_PATH}/{claim}" for claim in found if claim is not None}


def _path(adapter: AdapterArgs, cache_path: str) -> str:
    claim = claim_of(adapter)
    if claim is not None:
        path = adapter.source.removeprefix("pvc://").partition("/")[2].strip("/")
        return f"{CLAIMS_PATH}/{claim}/{path}"
    # Another revision is another directory: a cache that outlives pods may hold the old one still.
    held = hashlib.sha256(f"{adapter.source}@{adapter.revision}".encode()).hexdigest()[:8]
    return f"{cache_path}/{FOLDER}/{adapter.name.replace('/', '--')}-{held}"


def vllm_flags(architecture: Architecture) -> list[Flag]:
    """Adapters as `vllm serve` takes them."""
    if not architecture.adapters:
        return []
    modules = [
        {"name": each.name, "path": each.path, "base_model_name": architecture.model}
        for each in architecture.adapters
    ]
    return [
        Flag(name="enable-lora"),
        Flag(name="max-loras", value=str(architecture.max_loras)),
        Flag(name="max-cpu-loras", value=str(len(architecture.adapters))),
        Flag(name="max-lora-rank", value=str(architecture.max_lora_rank)),
        Flag(name="lora-modules", values=tuple(json.dumps(each, sort_keys=True) for each in modules)),
    ]


def sglang_flags(architecture: Architecture) -> list[Flag]:
    """Adapters as SGLang takes them. Their target modules are read from the adapters."""
    if not architecture.adapters:
        return []
    adapters = architecture.adapters
    slots = SGLANG.slots(architecture.max_loras)
    paths = [{"lora_name": each.name, "lora_path": each.path} for each in adapters]
    return [
        Flag(name="enable-lora"),
        Flag(name="max-loras-per-batch", value=str(slots)),
        # At least the places of a batch (arg_groups/lora_hook.py).
        Flag(name="max-loaded-loras", value=str(max(slots, len(adapters)))),
        Flag(name="max-lora-rank", value=str(architecture.max_lora_rank)),
        Flag(name="lora-paths", values=tuple(json.dumps(each, sort_keys=True) for each in paths)),
    ]
