"""A TorchServe of one's own to test against, and what its release accepts and exports, as data files.

    python tools/torchserve.py install           # a virtual environment in the cache; prints its path
    python tools/torchserve.py facts [--check]   # writes the data files, or compares the committed ones

The trap: TorchServe's own installer fetches PyTorch by the gigabyte. Debian's python3-torch is enough for a
tiny model, and a virtual environment on the system's Python sees it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

VERSION = "0.12.0"
REQUIREMENTS = (f"torchserve=={VERSION}", f"torch-model-archiver=={VERSION}")
SYSTEM_PYTHON = "/usr/bin/python3"
_NO_PROPERTY = frozenset(
    {"PYTHON_EXECUTABLE", "VERSION", "METRIC_FORMAT_PROMETHEUS", "DEFAULT_TS_ALLOWED_URLS"}
    | {f"DEFAULT_REQUEST_SEQUENCE_{end}" for end in ("ID", "START", "END")}
    | {"MODEL_METRICS_LOGGER", "MODEL_LOGGER", "MODEL_SERVER_METRICS_LOGGER", "MODEL_SERVER_TELEMETRY_LOGGER"}
)
DATA = Path(__file__).resolve().parents[1] / "components/servingstack/engines/data"
MINIMUM_JAVA = 17
"""docker/Dockerfile and requirements of the release."""

# Runs in the environment: its parser as it is, and the metrics that its default configuration declares.
_READ = """
import json, pathlib, ts, yaml
from ts.arg_parser import ArgParser
flags = {}
for action in ArgParser.ts_parser()._actions:
    if action.dest == "help":
        continue
    names = [name for name in action.option_strings if name.startswith("--")]
    kind = "switch" if action.nargs == 0 else ("list" if action.nargs == "+" else "str")
    flags[names[0]] = {"kind": kind, "aliases": names[1:]}
config = yaml.safe_load((pathlib.Path(ts.__file__).parent / "configs" / "metrics.yaml").read_text())
metrics = {}
for section in ("ts_metrics", "model_metrics"):
    for kind, rows in config[section].items():
        for row in rows:
            labels = row["dimensions"] + (["Hostname"] if section == "model_metrics" else [])
            metrics[row["name"]] = {"type": kind, "labels": labels, "unit": row["unit"], "default": True}
print(json.dumps({"flags": flags, "metrics": metrics}))
"""


class TorchServeError(Exception):
    """What is missing on this machine, and how to install it."""


def environment() -> Path:
    """The virtual environment's directory."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "servingstack" / "torchserve"


def install() -> Path:
    """The environment, made where it is not there yet. Raises `TorchServeError` with what to install."""
    folder = environment()
    stamp, wanted = folder / "requirements.installed", "\n".join(REQUIREMENTS)
    _java()
    if stamp.is_file() and stamp.read_text() == wanted:
        return folder
    _debian_packages()
    print(f"torchserve: installing into {folder}", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run([SYSTEM_PYTHON, "-m", "venv", "--clear", "--system-site-packages", str(folder)])
    _run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", *REQUIREMENTS])
    stamp.write_text(wanted)
    return folder


def _quietly(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _run(command: list[str]) -> str:
    done = _quietly(command)
    if done.returncode != 0:
        raise TorchServeError(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def _java() -> None:
    java = shutil.which("java")
    text = "" if java is None else _quietly([java, "-version"]).stderr
    found = re.search(r'version "(\d+)', text)
    if found is None or int(found[1]) < MINIMUM_JAVA:
        raise TorchServeError(
            f"TorchServe needs Java {MINIMUM_JAVA} or newer on PATH (on Debian: sudo apt-get install "
            "openjdk-17-jre-headless)."
        )


def _debian_packages() -> None:
    """PyTorch and venv for the system's Python; installed where that is allowed."""
    missing = [
        package
        for module, package in (("torch", "python3-torch"), ("ensurepip", "python3-venv"))
        if _quietly([SYSTEM_PYTHON, "-c", f"import {module}"]).returncode != 0
    ]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise TorchServeError(
            f"TorchServe's tests need {', '.join(missing)} for {SYSTEM_PYTHON} (on Debian: sudo apt-get "
            f"install {' '.join(missing)})."
        )
    print(f"Debian packages: installing {' '.join(missing)}", file=sys.stderr)
    _run(["apt-get", "update", "-qq"])
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing])


def facts() -> dict[str, dict[str, Any]]:
    """The data files' contents by name."""
    folder = install()
    read = json.loads(_run([f"{folder}/bin/python", "-c", _READ]))
    jar = next(folder.glob("lib/python*/site-packages/ts/frontend/model-server.jar"))
    names = _run(["javap", "-constants", "-p", "-cp", str(jar), "org.pytorch.serve.util.ConfigManager"])
    model = _run(["javap", "-constants", "-p", "-cp", str(jar), "org.pytorch.serve.wlm.Model"])
    constants = re.findall(r'String ([A-Z_]+) = "([^"]+)"', names)
    head = {"engine": "torchserve", "version": VERSION, "source": f"PyPI wheels {', '.join(REQUIREMENTS)}"}
    flags = {
        **head,
        "files": ["ts/arg_parser.py", "ts/frontend/model-server.jar"],
        "flags": read["flags"],
        "environment": sorted(name for name, _ in constants if name.startswith("TS_")),
        # The configuration's own names; the others are for Python, the version, and headers of requests.
        "properties": sorted(value for name, value in constants if name not in _NO_PROPERTY),
        "model_properties": sorted(
            value for _, value in re.findall(r'String ([A-Z_]+) = "([a-z]+[A-Za-z]*)"', model)
        ),
    }
    metrics = {**head, "files": ["ts/configs/metrics.yaml"], "metrics": read["metrics"]}
    return {f"torchserve-{VERSION}.flags.json": flags, f"torchserve-{VERSION}.metrics.json": metrics}


def main() -> int:
    """Exit code: 0 when done or equal, 1 when the committed files differ or something is missing."""
    parser = argparse.ArgumentParser(
        description="A TorchServe to test against, and the facts of its release."
    )
    parser.add_argument("what", choices=["install", "facts"])
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    asked = parser.parse_args()
    try:
        if asked.what == "install":
            print(install())
            return 0
        for name, content in facts().items():
            text = json.dumps(content, indent=1, sort_keys=True) + "\n"
            if asked.check:
                if (DATA / name).read_text(encoding="utf-8") != text:
                    print(f"{name} differs from the release", file=sys.stderr)
                    return 1
            else:
                (DATA / name).write_text(text, encoding="utf-8")
    except TorchServeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
