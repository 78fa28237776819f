"""Runs checkov and kube-score over the golden manifests, and keeps what they find.

Their findings are committed under tests/oracles/scanners, so that the tests need neither; each finding is
fixed, or stands in `reviewed.yaml` with the reason why it stays.

Trap: a scan grows old in silence while the manifests change. So each result names what it was made of by a
digest per object, without the parts that no scanner reads (arguments, texts, rules), and a test compares.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from environments import environment
from toolchain import TOOLS, ToolchainError, resolve

ROOT = Path(__file__).resolve().parents[1]
MANIFESTS = ROOT / "tests" / "goldens" / "manifests"
FOLDER = ROOT / "tests" / "oracles" / "scanners"
CHECKOV = "3.3.30"
KUBERNETES = "v1.30"
"""The oldest that is supported: later ones only add."""
_CUSTOM = ("keda.sh/", "monitoring.coreos.com/")
Body = dict[str, Any]


@dataclass(frozen=True, order=True)
class Finding:
    """One check that one object does not pass."""

    check: str
    title: str
    object: str
    """`defaults.yaml Deployment/chat-door`."""


def bodies() -> dict[str, Body]:
    """Every object of the golden manifests by `file kind/name`; a list of a ConfigMap's keys stands for its
    texts."""
    found: dict[str, Body] = {}
    for path in sorted(MANIFESTS.glob("*.yaml")):
        for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if isinstance(body.get("data"), list):
                body["data"] = dict.fromkeys(body["data"], "")
            found[f"{path.name} {body['kind']}/{body['metadata']['name']}"] = body
    return found


def digests(objects: dict[str, Body]) -> dict[str, str]:
    """What a scan is made of: 12 hex digits of each object as scanners see it."""
    return {
        name: hashlib.sha256(json.dumps(_seen(body), sort_keys=True).encode()).hexdigest()[:12]
        for name, body in objects.items()
        if not body["apiVersion"].startswith(_CUSTOM)
    }


def _seen(value: Any, key: str = "") -> Any:
    """Without a pod's arguments and texts, a command's own text, image digests and hashes of contents."""
    if key in ("args", "command", "data", "annotations", "labels", "matchLabels", "metadata"):
        return sorted(value) if key == "metadata" else None
    if isinstance(value, dict):
        return {k: _seen(v, k) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [_seen(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value.partition("@sha256:")[0] if isinstance(value, str) else value


def checkov(folder: Path) -> list[Finding]:
    """Failed checks of checkov's own policies."""
    tool = environment("checkov", (f"checkov=={CHECKOV}",)) / "bin" / "checkov"
    command = [
        str(tool),
        "-d",
        str(folder),
        "--framework",
        "kubernetes",
        "--compact",
        "--quiet",
        "-o",
        "json",
    ]
    said = json.loads(_output(command, (0, 1)))
    return [
        Finding(
            each["check_id"],
            each["check_name"],
            f"{Path(each['file_path']).name} {_named(each['resource'])}",
        )
        for each in said["results"]["failed_checks"]
    ]


def _named(resource: str) -> str:
    """checkov's `Deployment.serving.chat-door` as `Deployment/chat-door`."""
    kind, _, name = resource.partition(".")
    return f"{kind}/{name.rpartition('.')[2]}"


def kube_score(folder: Path) -> list[Finding]:
    """Checks of kube-score that are below OK, optional ones too."""
    tool = resolve(["oracle"])["kube-score"]
    return [
        finding
        for path in sorted(folder.glob("*.yaml"))
        for finding in _scored(path.name, json.loads(_output(_score(tool, path), (0, 1))))
    ]


def _score(tool: Path, path: Path) -> list[str]:
    return [str(tool), "score", "--output-format=json", f"--kubernetes-version={KUBERNETES}", str(path)]


def _scored(file: str, said: list[Body]) -> Iterator[Finding]:
    passed = 10  # scorecard.GradeAllOK
    for each in said:
        for check in each["checks"]:
            if not check["skipped"] and check["grade"] < passed:
                name = f"{file} {each['type_meta']['kind']}/{each['object_meta']['name']}"
                yield Finding(check["check"]["id"], check["check"]["name"], name)


def _output(command: list[str], fine: tuple[int, ...]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in fine or not done.stdout.strip():
        raise ToolchainError(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


SCANNERS: dict[str, tuple[str, Callable[[Path], list[Finding]]]] = {
    "checkov": (CHECKOV, checkov),
    "kube-score": (next(tool.version for tool in TOOLS if tool.name == "kube-score"), kube_score),
}


def scanned(name: str) -> Body:
    """What a scanner says of today's golden manifests, as it is committed."""
    version, scan = SCANNERS[name]
    objects = bodies()
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(MANIFESTS.glob("*.yaml")):
            own = [body for known, body in objects.items() if known.startswith(f"{path.name} ")]
            native = [body for body in own if not body["apiVersion"].startswith(_CUSTOM)]
            (Path(scratch) / path.name).write_text(yaml.safe_dump_all(native), encoding="utf-8")
        found = sorted(set(scan(Path(scratch))))
    grouped: dict[str, Body] = {}
    for each in found:
        row = grouped.setdefault(each.check, {"check": each.check, "title": each.title, "objects": []})
        row["objects"].append(each.object)
    return {"tool": name, "version": version, "findings": list(grouped.values()), "scanned": digests(objects)}
