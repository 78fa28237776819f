"""The front door beside each replica: HAProxy on the port that the service's ingress calls, the engine behind
it on the loopback address.

Container Apps' own ingress ends a request after 240 s and knows no shorter time, no queue and no key
(learn.microsoft.com/azure/container-apps/ingress-overview). All of that is done here. Nothing is held: while
no replica is up, the ingress holds requests itself.

Its configuration travels in the container's environment, so that it belongs to the revision. A secret would
be the only file that the service can mount, and secrets belong to the app: a changed one makes no revision,
reaches the old revision's replicas at their next restart, and cannot be removed while an old revision names
it.

Traps:
- There are no hooks before a container stops, and both are told to stop at once. So the door waits until the
  ingress has seen the replica leave, then drains, and tells the engine's launcher by a file when it is done.
- The official image stops softly on SIGUSR1, the service sends SIGTERM. The shell around it translates.
- A variable's text is expanded by Kubernetes where it says dollar-parenthesis. None of these texts does.
"""

from __future__ import annotations

from importlib import resources

from servingstack.plan import FrontDoor, ServingPlan
from servingstack.targets import haproxy

READY_PATH = haproxy.READY_PATH
TIMING_LUA = "timing.lua"
DRAIN_DIR = "/var/run/servingstack"
"""An EmptyDir of both containers."""
DRAINED_FILE = f"{DRAIN_DIR}/drained"
LEAVE_S = 5
"""Until the ingress has seen a replica leave: an assumption, as long as on a cluster."""
FILES = {"DOOR_CONFIG": "haproxy.cfg", "DOOR_LUA": "front_door.lua", "DOOR_TIMING": TIMING_LUA}
"""Variables by the file that each becomes."""

# Numbers by themselves, what may be missing as text. No path and nothing of a request's content.
LOG_FORMAT = (
    '\'{"status":%ST,"backend":"%b","queue_ms":%Tw,"first_byte_ms":%Tr,"total_ms":%Ta,"waiting":%bq,'
    '"in_flight":%bc,"end":"%ts","ttft_ms":"%[var(txn.ttft_ms)]","last_ms":"%[var(txn.last_ms)]",'
    '"events":"%[var(txn.events)]"}\''
)
"""One line of JSON for each request (HAProxy 2.8 configuration manual, 8.2.6 "Custom log format"): status,
the backend (`busy` where the queue was full), wait in the queue, time to the answer's headers and in all,
requests that waited and that were in flight, how it ended, and for streams the time to the first and last
piece and the number of events."""

_SCRIPT = """\
set -u
umask 022
rm -f "$DRAINED_FILE"
folder="${{TMPDIR:-/tmp}}/door"
mkdir -p "$folder"
{writes}
haproxy -db -f "$folder/haproxy.cfg" &
door=$!
stop() {{ sleep {leave_s}; kill -USR1 "$door" 2>/dev/null; }}
trap stop TERM INT
code=0
while kill -0 "$door" 2>/dev/null; do wait "$door"; code=$?; done
: > "$DRAINED_FILE"
exit "$code"
"""


def files(plan: ServingPlan) -> dict[str, str]:
    """The proxy's files by name."""
    door = front_door(plan)
    timing = resources.files("servingstack.targets.azure.container_apps").joinpath(TIMING_LUA)
    return {
        "haproxy.cfg": haproxy.config(plan, door, upstream(plan)),
        "front_door.lua": haproxy.lua(plan, door, hold_s=None),
        TIMING_LUA: timing.read_text(encoding="utf-8"),
    }


def upstream(plan: ServingPlan) -> haproxy.Upstream:
    """The one engine beside the door."""
    return haproxy.Upstream(
        default_server="",
        servers=(f"server engine 127.0.0.1:{plan.container.port}",),
        lua_files=("front_door.lua", TIMING_LUA),
        filters=("lua.limits", "lua.timing"),
        log_format=LOG_FORMAT,
    )


def command() -> list[str]:
    """Exec form: puts the files down, runs the proxy, translates signals."""
    writes = "\n".join(f'printf \'%s\' "${key}" > "$folder/{name}"' for key, name in FILES.items())
    return ["sh", "-c", _SCRIPT.format(writes=writes, leave_s=LEAVE_S)]


def environment(plan: ServingPlan) -> dict[str, str]:
    """The variables that hold the files, and where the end of draining is told."""
    texts = files(plan)
    return {
        "DRAINED_FILE": DRAINED_FILE,
        **{variable: texts[name] for variable, name in FILES.items()},
    }


def front_door(plan: ServingPlan) -> FrontDoor:
    """The proxy. Raises ValueError for a plan without one."""
    if plan.front_door is None:
        raise ValueError(f"the plan of {plan.name!r} has no front door, which every container app has")
    return plan.front_door
