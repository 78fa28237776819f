"""Run inside the engine's image before the engine: fetch LoRA adapters from the hub, each at its revision.

The file is mounted as it stands, so it needs nothing but Python and the hub's client, which the engines'
images hold. Only the adapter's own two files are fetched: weights in another format than safetensors may be
code.

Trap: an adapter of a higher rank than was planned makes the engine end at its start, after minutes and with a
trace of its own. So the rank is looked at here, where the message can say what to change.
"""

import importlib
import json
import pathlib
import sys

FILES = ("adapter_config.json", "adapter_model.safetensors")


def wrong(adapter, folder):
    """What is wrong with a fetched adapter, or None."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        return f"holds no {' and no '.join(missing)}"
    rank = json.loads((folder / FILES[0]).read_text(encoding="utf-8")).get("r")
    if isinstance(rank, int) and rank > adapter["rank"]:
        return f"has rank {rank}; model.adapters says {adapter['rank']}"
    return None


def main(settings_path):
    """Exit code: 0 when every adapter is there, 1 for one that cannot be served."""
    fetch = importlib.import_module("huggingface_hub").snapshot_download  # only the engine's image has it
    found = []
    for adapter in json.loads(pathlib.Path(settings_path).read_text(encoding="utf-8")):
        folder = pathlib.Path(adapter["path"])
        fetch(
            repo_id=adapter["repository"],
            revision=adapter["revision"],
            local_dir=folder,
            allow_patterns=list(FILES),
        )
        problem = wrong(adapter, folder)
        if problem is not None:
            found.append(f"{adapter['repository']} at {adapter['revision'] or 'main'} {problem}")
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
