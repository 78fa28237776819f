"""Definitions that the local cluster needs and other projects publish: custom resources and kwok's stages.

The trap: a copy kept here would grow old beside the version it was taken from. So nothing is copied: the
files are read at install time, pinned by version.
"""

from __future__ import annotations

import shutil
import urllib.request
from dataclasses import dataclass

from toolchain import ToolchainError, module_dir


@dataclass(frozen=True)
class Published:
    """Files of a public project, by Go module and by repository; nothing of them is copied into this one."""

    module: str
    repository: str
    version: str
    files: tuple[str, ...]


CRDS = (
    Published(
        "github.com/kedacore/keda/v2",
        "kedacore/keda",
        "v2.21.0",
        tuple(
            f"config/crd/bases/keda.sh_{kind}.yaml"
            for kind in (
                "scaledobjects",
                "scaledjobs",
                "triggerauthentications",
                "clustertriggerauthentications",
            )
        ),
    ),
    Published(
        "github.com/prometheus-operator/prometheus-operator",
        "prometheus-operator/prometheus-operator",
        "v0.92.0",
        tuple(
            f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
            for kind in ("servicemonitors", "podmonitors", "prometheusrules")
        ),
    ),
    Published(
        "sigs.k8s.io/lws",
        "kubernetes-sigs/lws",
        "v0.9.0",
        ("config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",),
    ),
)
_KWOK = ("sigs.k8s.io/kwok", "kubernetes-sigs/kwok", "v0.8.0")
STAGES = Published(
    *_KWOK,
    tuple(
        f"kustomize/stage/{name}.yaml"
        for name in (
            *(f"pod/fast/pod-{step}" for step in ("ready", "complete", "delete")),
            "node/fast/node-initialize",
            "node/heartbeat/node-heartbeat",
            *(f"volume/fast/{step}" for step in ("pv-bind", "pv-delete", "pvc-provision", "pvc-delete")),
        )
    ),
)
STORAGE_CLASS = Published(*_KWOK, ("kustomize/stage/volume/fast/storage-class.yaml",))


def fetch(published: Published) -> list[str]:
    """The files' text: from the Go module where there is Go, else from the tagged repository."""
    if shutil.which("go") is not None:
        folder = module_dir(published.module, published.version)
        return [(folder / file).read_text() for file in published.files]
    texts: list[str] = []
    for file in published.files:
        url = f"https://raw.githubusercontent.com/{published.repository}/{published.version}/{file}"
        try:
            with urllib.request.urlopen(url, timeout=20) as response:
                texts.append(response.read().decode())
        except OSError as error:
            raise ToolchainError(
                f"{url}: {error}. Install Go 1.26 or newer, or connect to the internet."
            ) from error
    return texts
