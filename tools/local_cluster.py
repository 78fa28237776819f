"""A real Kubernetes control plane on this machine, with simulated GPU nodes.

etcd, the API server, the controller manager and the scheduler are the real ones; kwok plays the kubelets: it
keeps nodes Ready and walks pods to Running, without running anything. Admission, validation, scheduling and
preemption are therefore real; probes, images and drains are not.

The trap: the API server answers `readyz` before the service account of a namespace exists, and refuses pods
until then. So `up` waits for the default namespace's own.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import nodes
import pki
from processes import Process, ProcessError
from published import CRDS, STAGES, STORAGE_CLASS, fetch
from toolchain import ToolchainError, resolve, say, search_path

READY_S = 90.0
"""The control plane is ready after about five seconds on two idle cores; a loaded machine needs longer."""

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def default_state() -> Path:
    """`$SERVINGSTACK_STATE`, else `$XDG_STATE_HOME/servingstack`, else `~/.local/state/servingstack`."""
    own = os.environ.get("SERVINGSTACK_STATE")
    if own:
        return Path(own).resolve()
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "servingstack"


class ClusterError(Exception):
    """The control plane did not become ready, and why."""


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Cluster:
    """The control plane of one state directory. `up` and `down` may be called in any state, and again."""

    def __init__(self, state: Path | None = None) -> None:
        self.root = state if state is not None else default_state()
        self.home = self.root / "cluster"
        self.kubeconfig = self.home / "kubeconfig"
        self._pki = self.home / "pki"
        self._ports = self.home / "ports.json"
        self._installed = self.home / "installed.json"
        self._processes = {name: Process(self.home, name) for name in COMPONENTS}
        self._tools: dict[str, Path] = {}

    def status(self) -> dict[str, int | None]:
        """Each component with the id of its process, None where it is not running."""
        return {name: process.pid for name, process in self._processes.items()}

    def up(self) -> Path:
        """Starts what is not running, waits until nodes are ready and returns the kubeconfig's path."""
        self._tools = resolve(["cluster"])
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        pki.create(self._pki)
        running = self.status()
        if not any(running.values()):
            self._choose_ports()
        commands = self._commands()
        for name in ("etcd", "kube-apiserver"):
            if running[name] is None:
                self._processes[name].start(commands[name])
        self._wait("the API server", self._api_ready)
        for name in COMPONENTS[2:]:
            if running[name] is None:
                self._processes[name].start(commands[name])
        self._install()
        return self.kubeconfig

    def down(self) -> None:
        """Stops every component, whoever started it, and removes the cluster's data."""
        for name in reversed(COMPONENTS):
            self._processes[name].kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """kubectl's output; ClusterError with its message when it fails."""
        if not self._tools:
            self._tools = resolve(["cluster"])
        command = [str(self._tools["kubectl"]), "--kubeconfig", str(self.kubeconfig), *arguments]
        # Without an input of its own, kubectl would eat the caller's.
        done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        """What a client of this cluster needs: KUBECONFIG, and kubectl first on PATH."""
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": search_path(resolve(["cluster"]))}

    def _choose_ports(self) -> None:
        etcd, peer, api = _free_ports(3)
        self._ports.write_text(json.dumps({"etcd": etcd, "peer": peer, "api": api}))
        self._write_kubeconfig(api)

    def _commands(self) -> dict[str, list[str]]:
        ports: dict[str, int] = json.loads(self._ports.read_text())
        client, peer = (f"http://127.0.0.1:{ports[name]}" for name in ("etcd", "peer"))
        arguments = {
            "etcd": [
                f"--data-dir={self.home / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",  # the data is thrown away with the cluster
            ],
            "kube-apiserver": self._apiserver_arguments(client, ports["api"]),
            "kube-controller-manager": [
                f"--kubeconfig={self.kubeconfig}",
                f"--service-account-private-key-file={self._pki / 'sa.key'}",
                f"--root-ca-file={self._pki / 'ca.crt'}",
                "--leader-elect=false",
                "--secure-port=0",
            ],
            "kube-scheduler": [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0"],
            "kwok": [
                f"--kubeconfig={self.kubeconfig}",
                "--manage-all-nodes=false",
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                *(f"--config={path}" for path in self._stage_files()),
            ],
        }
        return {name: [str(self._tools[name]), *arguments[name]] for name in COMPONENTS}

    def _apiserver_arguments(self, etcd: str, port: int) -> list[str]:
        return [
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            # A loopback address may not be an endpoint of the `kubernetes` service; nothing here needs it.
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--tls-cert-file={self._pki / 'apiserver.crt'}",
            f"--tls-private-key-file={self._pki / 'apiserver.key'}",
            f"--client-ca-file={self._pki / 'ca.crt'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._pki / 'sa.pub'}",
            f"--service-account-signing-key-file={self._pki / 'sa.key'}",
            f"--requestheader-client-ca-file={self._pki / 'ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._pki / 'front-proxy-client.crt'}",
            f"--proxy-client-key-file={self._pki / 'front-proxy-client.key'}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",  # so that it is pod security that refuses, as on a real cluster
        ]

    def _stage_files(self) -> list[Path]:
        folder = self.home / "stages"
        paths = [folder / Path(file).name for file in STAGES.files]
        if not all(path.exists() for path in paths):
            folder.mkdir(parents=True, exist_ok=True)
            for path, text in zip(paths, fetch(STAGES), strict=True):
                path.write_text(text)
        return paths

    def _write_kubeconfig(self, port: int) -> None:
        def inline(name: str) -> str:
            return base64.b64encode((self._pki / name).read_bytes()).decode()

        server = f"https://127.0.0.1:{port}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "servingstack-local",
            "clusters": [
                {
                    "name": "servingstack-local",
                    "cluster": {"server": server, "certificate-authority-data": inline("ca.crt")},
                }
            ],
            "users": [
                {
                    "name": "admin",
                    "user": {
                        "client-certificate-data": inline("admin.crt"),
                        "client-key-data": inline("admin.key"),
                    },
                }
            ],
            "contexts": [
                {"name": "servingstack-local", "context": {"cluster": "servingstack-local", "user": "admin"}}
            ],
        }
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(config, indent=1))

    def _api_ready(self) -> bool:
        port: int = json.loads(self._ports.read_text())["api"]
        context = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        context.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
        try:
            with urllib.request.urlopen(
                f"https://127.0.0.1:{port}/readyz", timeout=5, context=context
            ) as answer:
                return answer.status == 200
        except OSError:
            return False

    def _wait(self, what: str, ready: Any) -> None:
        deadline = time.monotonic() + READY_S
        while not ready():
            for process in self._processes.values():
                if process.log.exists():
                    process.check()
            if time.monotonic() > deadline:
                raise ClusterError(f"{what} was not ready after {READY_S:.0f} s; see {self.home / 'logs'}")
            time.sleep(0.1)

    def _install(self) -> None:
        """Custom resource definitions, the storage class and the nodes: once per cluster."""
        wanted = {"nodes": nodes.manifests(), "crds": [[crd.module, crd.version, crd.files] for crd in CRDS]}
        stamp = json.dumps(wanted, sort_keys=True)
        if self._installed.exists() and self._installed.read_text() == stamp:
            return
        definitions = "\n---\n".join(text for crd in CRDS for text in fetch(crd))
        # Server-side: some definitions are larger than the annotation that a client-side apply would need.
        self.kubectl("apply", "--server-side", "-f", "-", stdin=definitions)
        self.kubectl("apply", "-f", "-", stdin="\n---\n".join(fetch(STORAGE_CLASS)))
        node_list = {"apiVersion": "v1", "kind": "List", "items": nodes.manifests()}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(node_list))
        limit = f"--timeout={READY_S:.0f}s"
        self.kubectl("wait", "--for=condition=Established", "customresourcedefinitions", "--all", limit)
        self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", limit)
        self.kubectl("wait", "--for=create", "serviceaccount/default", "--namespace=default", limit)
        self._installed.write_text(stamp)


def main() -> int:
    parser = argparse.ArgumentParser(description="The local control plane with simulated GPU nodes.")
    parser.add_argument("command", choices=["up", "down", "status"])
    command: str = parser.parse_args().command
    cluster = Cluster()
    try:
        if command == "up":
            started = time.monotonic()
            print(cluster.up())
            say(f"local cluster: ready after {time.monotonic() - started:.1f} s")
        elif command == "down":
            cluster.down()
            say("local cluster: nothing is running, its data is removed")
        else:
            for name, pid in cluster.status().items():
                print(f"{name:26}{'not running' if pid is None else pid}")
    except (ClusterError, ProcessError, ToolchainError, pki.PkiError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
