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

import environments
from releases import deliver
from toolchain import ToolchainError, say

VERSION = "0.12.0"
REQUIREMENTS = (f"torchserve=={VERSION}", f"torch-model-archiver=={VERSION}")
SYSTEM_PYTHON = "/usr/bin/python3"
_NO_PROPERTY = frozenset(
    {"PYTHON_EXECUTABLE", "VERSION", "METRIC_FORMAT_PROMETHEUS", "DEFAULT_TS_ALLOWED_URLS"}
    | {f"DEFAULT_REQUEST_SEQUENCE_{end}" for end in ("ID", "START", "END")}
    | {"MODEL_METRICS_LOGGER", "MODEL_LOGGER", "MODEL_SERVER_METRICS_LOGGER", "MODEL_SERVER_TELEMETRY_LOGGER"}
)
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


def install() -> Path:
    """The environment, made where it is not there yet. Raises `ToolchainError` with what to install."""
    _java()
    _debian_packages()
    return environments.environment("torchserve", REQUIREMENTS, python=SYSTEM_PYTHON, system=True)


def _says(command: list[str]) -> str | None:
    """What a command prints on either stream; None where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode == 0 else None


def _java() -> None:
    java = shutil.which("java")
    found = None if java is None else re.search(r'version "(\d+)', _says([java, "-version"]) or "")
    if found is None or int(found[1]) < MINIMUM_JAVA:
        raise ToolchainError(
            f"TorchServe needs Java {MINIMUM_JAVA} or newer on PATH (on Debian: sudo apt-get install "
            "openjdk-17-jre-headless)."
        )


def _debian_packages() -> None:
    """PyTorch and venv for the system's Python; installed where that is allowed."""
    missing = [
        package
        for module, package in (("torch", "python3-torch"), ("ensurepip", "python3-venv"))
        if _says([SYSTEM_PYTHON, "-c", f"import {module}"]) is None
    ]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ToolchainError(
            f"TorchServe's tests need {', '.join(missing)} for {SYSTEM_PYTHON} (on Debian: sudo apt-get "
            f"install {' '.join(missing)})."
        )
    print(f"Debian packages: installing {' '.join(missing)}", file=sys.stderr)
    environments.run(["apt-get", "update", "-qq"])
    environments.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing])


def facts() -> dict[str, dict[str, Any]]:
    """The data files' contents by name."""
    folder = install()
    read = json.loads(environments.run([f"{folder}/bin/python", "-c", _READ]))
    jar = next(folder.glob("lib/python*/site-packages/ts/frontend/model-server.jar"))
    javap = ["javap", "-constants", "-p", "-cp", str(jar)]
    names = environments.run([*javap, "org.pytorch.serve.util.ConfigManager"])
    model = environments.run([*javap, "org.pytorch.serve.wlm.Model"])
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
        texts = {n: json.dumps(c, indent=1, sort_keys=True) + "\n" for n, c in facts().items()}
        return deliver(texts, check=asked.check)
    except ToolchainError as error:
        say(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
