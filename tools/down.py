"""`make down`: stops the local cluster and removes the state of the stack on it.

The trap: destroying the stack first would need a living cluster, and hang on a dead one. The cluster goes
with all that is on it, so its state simply goes too; no cloud is ever touched.
"""

from __future__ import annotations

import contextlib
import shutil

from local_cluster import Cluster
from toolchain import say


def main() -> int:
    cluster = Cluster()
    cluster.down()
    for name in ("backend", "pulumi-home", "work"):
        shutil.rmtree(cluster.root / name, ignore_errors=True)
    with contextlib.suppress(OSError):  # only when nothing else is in it
        cluster.root.rmdir()
    say("nothing is running; the local stack and its cluster are gone (built tools stay in the cache)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
