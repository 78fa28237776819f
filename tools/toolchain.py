"""Resolves the real engine and control plane: PATH, else the official download, else a Go build.

The trap: a tool of another version on PATH works almost always, and then fails a preview or an admission
in a way nobody can reproduce. So PATH counts only for the pinned version, and what is downloaded must say
that version too.

Each tool is pinned by `tools/go/<module>/go.mod` and its `go.sum`; a build is verified by Go's checksum
database, a download by TLS to its publisher and by its own `version` output. The executable at its versioned
path is the stamp: what is there is not resolved again.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Group = Literal["engine", "cluster", "oracle"]

GO_MODULES = Path(__file__).resolve().parent / "go"
CONNECT_TIMEOUT_S = 4.0
"""A download site that is not reached must not hold up the build; ours, no vendor's number."""

OS = platform.system().lower()
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class ToolchainError(Exception):
    """A tool that could be had in none of the three ways, and what to do."""


@dataclass(frozen=True)
class Tool:
    name: str
    version: str
    group: Group
    module: str
    """The folder below tools/go whose go.mod pins it."""
    package: str
    minutes: float
    """Build time with a cold cache on two cores, as measured; a warm cache needs seconds."""
    url: str
    """The publisher's own download, with {version}, {os}, {arch} and {x64} to be filled in."""
    ldflags: str = ""
    version_args: tuple[str, ...] | None = ("--version",)
    """How it prints its version; None where it cannot, then neither PATH nor a check applies."""

    @property
    def path(self) -> Path:
        return cache_dir() / "bin" / self.name / self.version / self.name

    @property
    def bare_version(self) -> str:
        return self.version.removeprefix("v")


_KUBERNETES = "v1.36.3"
# Without these the API server says v0.0.0-master and clients fall back to the oldest behaviour they know
# (k8s.io/component-base/version/base.go).
_KUBERNETES_LDFLAGS = " ".join(
    f"-X k8s.io/component-base/version.{key}={value}"
    for key, value in {"gitVersion": _KUBERNETES, "gitMajor": "1", "gitMinor": "36"}.items()
)


def _kubernetes(name: str, minutes: float, version_args: tuple[str, ...] = ("--version",)) -> Tool:
    return Tool(
        name=name,
        version=_KUBERNETES,
        group="cluster",
        module="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        minutes=minutes,
        url=f"https://dl.k8s.io/release/{{version}}/bin/{{os}}/{{arch}}/{name}",
        ldflags=_KUBERNETES_LDFLAGS,
        version_args=version_args,
    )


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="etcd",
        version="v3.6.16",
        group="cluster",
        module="etcd",
        package="go.etcd.io/etcd/server/v3",
        minutes=0.5,
        url="https://github.com/etcd-io/etcd/releases/download/{version}/etcd-{version}-{os}-{arch}.tar.gz",
    ),
    _kubernetes("kube-apiserver", 6),
    _kubernetes("kube-controller-manager", 1.5),
    _kubernetes("kube-scheduler", 0.2),
    _kubernetes("kubectl", 0.5, ("version", "--client")),
    Tool(
        name="kwok",
        version="v0.8.0",
        group="cluster",
        module="kwok",
        package="sigs.k8s.io/kwok/cmd/kwok",
        minutes=1.2,
        url="https://github.com/kubernetes-sigs/kwok/releases/download/{version}/kwok-{os}-{arch}",
    ),
    Tool(
        name="pulumi",
        version="v3.274.1",
        group="engine",
        module="pulumi",
        package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        minutes=4,
        url="https://get.pulumi.com/releases/sdk/pulumi-{version}-{os}-{x64}.tar.gz",
        # The Automation API refuses an engine that does not say its version.
        ldflags="-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=3.274.1",
        version_args=("version",),
    ),
    Tool(
        name="pulumi-resource-kubernetes",
        version="v4.34.2",  # the version of the Python SDK in uv.lock; the engine warns about an older one
        group="engine",
        module="provider",
        package=".",
        minutes=8.5,
        url="https://get.pulumi.com/releases/plugins/pulumi-resource-kubernetes-{version}-{os}-{arch}.tar.gz",
        ldflags="-X github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version=4.34.2",
        version_args=None,
    ),
    Tool(
        name="sloth",
        version="v0.16.0",
        group="oracle",
        module="sloth",
        package="github.com/slok/sloth/cmd/sloth",
        minutes=2,
        url="https://github.com/slok/sloth/releases/download/{version}/sloth-{os}-{arch}",
        ldflags="-X github.com/slok/sloth/internal/info.Version=v0.16.0",
        version_args=("version",),
    ),
    Tool(
        name="kube-score",
        version="v1.20.0",
        group="oracle",
        module="kube-score",
        package="github.com/zegl/kube-score/cmd/kube-score",
        minutes=2.6,
        url="https://github.com/zegl/kube-score/releases/download/{version}/kube-score_1.20.0_{os}_{arch}",
        ldflags="-X main.version=1.20.0",
        version_args=("version",),
    ),
)


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/servingstack`, `~/.cache/servingstack` when unset or empty."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "servingstack"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _says_its_version(tool: Tool, executable: Path) -> bool:
    if tool.version_args is None:
        return False
    try:
        done = subprocess.run(
            [str(executable), *tool.version_args], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    words = (done.stdout + done.stderr).replace(",", " ").split()
    return done.returncode == 0 and any(word.removeprefix("v") == tool.bare_version for word in words)


def _publish(tool: Tool, executable: Path) -> None:
    """Moves a finished executable to its versioned path in one step, so that a path that exists is whole."""
    executable.chmod(0o755)
    executable.replace(tool.path)


def _from_path(tool: Tool) -> bool:
    found = shutil.which(tool.name)
    if found is None or not _says_its_version(tool, Path(found)):
        return False
    tool.path.symlink_to(Path(found).resolve())
    say(f"{tool.name} {tool.version}: {found}")
    return True


def _member(tool: Tool, archive: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for entry in tar:
            if entry.isfile() and Path(entry.name).name == tool.name:
                content = tar.extractfile(entry)
                if content is not None:
                    return content.read()
    raise ToolchainError(f"no {tool.name} in the archive")


def _from_download(tool: Tool) -> bool:
    url = tool.url.format(version=tool.version, os=OS, arch=ARCH, x64={"amd64": "x64"}.get(ARCH, ARCH))
    started = time.monotonic()
    partial = tool.path.with_suffix(".part")
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S) as response:  # fixed https URL
            body: bytes = response.read()
        partial.write_bytes(_member(tool, body) if url.endswith(".tar.gz") else body)
        partial.chmod(0o755)
        if tool.version_args is not None and not _says_its_version(tool, partial):
            raise ToolchainError("the download does not say the pinned version")
    except (OSError, tarfile.TarError, ToolchainError):
        partial.unlink(missing_ok=True)
        return False
    _publish(tool, partial)
    say(f"{tool.name} {tool.version}: downloaded in {time.monotonic() - started:.0f} s")
    return True


def _from_go(tool: Tool) -> None:
    go = shutil.which("go")
    if go is None:
        raise ToolchainError(
            f"{tool.name} {tool.version}: not on PATH, its download was not reached, and there is no `go` to "
            f"build it with. Install Go 1.26 or newer, or put that version on PATH, and try again."
        )
    say(
        f"{tool.name} {tool.version}: building with Go "
        f"(about {tool.minutes:g} min, seconds when Go's cache is warm)..."
    )
    started = time.monotonic()
    partial = tool.path.with_suffix(".part")
    command = [go, "build", "-ldflags", f"-s -w {tool.ldflags}".strip(), "-o", str(partial), tool.package]
    done = subprocess.run(
        command,
        cwd=GO_MODULES / tool.module,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        partial.unlink(missing_ok=True)
        tail = "\n".join(done.stdout.splitlines()[-20:])
        raise ToolchainError(f"{tool.name} {tool.version}: `{' '.join(command)}` failed:\n{tail}")
    _publish(tool, partial)
    say(f"{tool.name} {tool.version}: built in {time.monotonic() - started:.0f} s")


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two builds at once take longer than one after the other, and would write the same files."""
    lock = cache_dir() / "bin" / ".lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def resolve(groups: Iterable[Group]) -> dict[str, Path]:
    """Each tool of the groups by name, with its executable. ToolchainError if one cannot be had."""
    chosen = set(groups)
    wanted = [tool for tool in TOOLS if tool.group in chosen]
    if not all(os.access(tool.path, os.X_OK) for tool in wanted):
        with _one_at_a_time():
            for tool in wanted:
                if os.access(tool.path, os.X_OK):
                    continue
                tool.path.unlink(missing_ok=True)  # a link to a tool that has been uninstalled
                tool.path.parent.mkdir(parents=True, exist_ok=True)
                if not (_from_path(tool) or _from_download(tool)):
                    _from_go(tool)
    return {tool.name: tool.path for tool in wanted}


def search_path(tools: dict[str, Path]) -> str:
    """A PATH with these tools before everything else."""
    return os.pathsep.join([*(str(path.parent) for path in tools.values()), os.environ.get("PATH", "")])


def module_dir(module: str, version: str) -> Path:
    """Where Go keeps the files of a module's version, fetched and verified when they are not there yet."""
    go = shutil.which("go")
    if go is None:
        raise ToolchainError(
            f"{module} {version}: there is no `go` to fetch its files with. Install Go 1.26 or newer."
        )
    done = subprocess.run(
        [go, "mod", "download", "-json", f"{module}@{version}"],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    answer: dict[str, str] = json.loads(done.stdout) if done.stdout else {}
    if done.returncode != 0 or "Dir" not in answer:
        raise ToolchainError(f"{module} {version}: {answer.get('Error') or done.stderr.strip()}")
    return Path(answer["Dir"])


def main() -> int:
    parser = argparse.ArgumentParser(description="Resolve the pinned engine and control plane.")
    parser.add_argument("--group", choices=["engine", "cluster", "oracle", "all"], default="all")
    chosen: str = parser.parse_args().group
    groups: dict[str, list[Group]] = {
        "engine": ["engine"],
        "cluster": ["cluster"],
        "oracle": ["oracle"],
        "all": ["engine", "cluster"],
    }
    try:
        tools = resolve(groups[chosen])
    except ToolchainError as error:
        say(f"error: {error}")
        return 1
    for path in tools.values():
        print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
