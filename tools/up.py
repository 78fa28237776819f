"""`make up`: the stack `local`, from its plan to ready replicas on this machine.

The trap: whoever runs this wants to see a decision within seconds, and a first build of the engine takes many
minutes. So plan and preview come first; they need neither.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pulumi import automation

from local_cluster import Cluster, ClusterError
from local_engine import LocalEngine
from pki import PkiError
from processes import ProcessError
from toolchain import ToolchainError, resolve, say

ROOT = Path(__file__).resolve().parent.parent
STACK = "local"
READY_S = 180.0
"""Simulated pods are ready within a second of being scheduled; what takes longer than this never comes."""


def _servingstack(*arguments: str) -> None:
    command = Path(sys.executable).parent / "servingstack"
    done = subprocess.run([str(command), *arguments], cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SystemExit(done.returncode)


def _program() -> Callable[[], None]:
    """`program` of stacks/__main__.py, the very function that `pulumi up` runs."""
    return runpy.run_path(str(ROOT / "stacks" / "__main__.py"), run_name="stacks")["program"]


def _deploy(engine: LocalEngine) -> automation.OutputMap:
    os.environ.update(engine.env)  # the program runs in this process and reads the cluster's KUBECONFIG here
    os.chdir(ROOT)
    config = ROOT / "stacks" / f"Pulumi.{STACK}.yaml"
    stack = engine.inline_stack("servingstack", STACK, _program(), config)
    # A run that was interrupted leaves a lock; nobody else uses this backend.
    stack.cancel()
    # Refreshed first: what somebody deleted by hand is there again, and "ready" is true.
    return stack.up(refresh=True, on_output=lambda line: print(line, flush=True)).outputs


def _unready(cluster: Cluster) -> list[str]:
    found: dict[str, Any] = json.loads(
        cluster.kubectl("get", "deployments", "--all-namespaces", "-o", "json")
    )
    lines: list[str] = []
    for item in found["items"]:
        status, wanted = item.get("status", {}), item["spec"]["replicas"]
        seen = status.get("observedGeneration", 0) >= item["metadata"]["generation"]
        ready = status.get("readyReplicas", 0) if seen else 0
        if ready < wanted:
            lines.append(
                f"{item['metadata']['namespace']}/{item['metadata']['name']}: {ready} of {wanted} ready"
            )
    return lines


def _wait_ready(cluster: Cluster) -> None:
    deadline = time.monotonic() + READY_S
    while lines := _unready(cluster):
        if time.monotonic() > deadline:
            raise ClusterError("replicas did not become ready:\n  " + "\n  ".join(lines))
        time.sleep(0.5)


def _print_outputs(outputs: automation.OutputMap) -> None:
    for name, output in sorted(outputs.items()):
        if output.secret:
            print(f"{name}: (a secret)")
        else:
            value = output.value
            print(f"{name}: {value if isinstance(value, str) else json.dumps(value, indent=2)}")


def _up() -> None:
    _servingstack("plan", STACK)
    _servingstack("preview", STACK, "--brief")
    resolve(["engine", "cluster"])
    cluster = Cluster()
    started = time.monotonic()
    kubeconfig = cluster.up()
    say(f"local cluster: ready after {time.monotonic() - started:.1f} s")
    outputs = _deploy(LocalEngine(cluster.root, kubeconfig))
    _wait_ready(cluster)
    say("all replicas are ready")
    _print_outputs(outputs)
    print(
        "\nThe pods are simulated: they are scheduled and Ready, and nothing answers at the endpoint."
        f"\nLook around:  export KUBECONFIG={kubeconfig}; kubectl -n serving get all\nStop it all:  make down"
    )


def main() -> int:
    try:
        _up()
    except (ClusterError, ProcessError, ToolchainError, PkiError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except automation.CommandError as error:
        # Its text repeats everything that was printed on the way; only what came before that is news.
        last = str(error).split("stderr:")[-1].strip()
        print(f"error: the engine did not deploy the stack, see above. {last}".strip(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
