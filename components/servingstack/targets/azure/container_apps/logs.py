"""What is asked of the logs, in Azure's query language: requests as the ingress saw them, and as the door
did.

`ContainerAppHTTPLogs` has one row for each request at the environment's ingress, `ContainerAppConsoleLogs`
each line that a container wrote (learn.microsoft.com/azure/azure-monitor/reference/tables, both); the door
writes one line of JSON for each request (sidecar.py).

Traps:
- A request that its client left has status 0 in the ingress' log, and counts neither as good nor as bad.
- The door's refusals (no such path, no key, too large, queue full) never reached a model. They count in no
  objective.
- Rows arrive minutes late, so the last bin of a panel is always low.
- The engine's warm-up does not pass the ingress and not the door: it is in none of these.
"""

from __future__ import annotations

HTTP = "ContainerAppHTTPLogs"
CONSOLE = "ContainerAppConsoleLogs"
DOOR = "front-door"
"""Name of the door's container."""
REFUSED = "401, 404, 405, 408, 413, 429"
BIN = "5m"
PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}


def requests(app: str) -> str:
    """Every request that its client waited for, with what came of it."""
    return (
        f"{HTTP}\n| where ContainerAppName == '{app}' and StatusCode > 0\n"
        f"| extend Passed = StatusCode !in ({REFUSED}), Milliseconds = todouble(RequestDuration)"
    )


def door(app: str) -> str:
    """Every request that the doors let pass to an engine."""
    columns = {
        "Status": "toint(Line.status)",
        "QueueMs": "todouble(Line.queue_ms)",
        "Waiting": "todouble(Line.waiting)",
        "InFlight": "todouble(Line.in_flight)",
        "TtftMs": "todouble(tostring(Line.ttft_ms))",
        "LastMs": "todouble(tostring(Line.last_ms))",
        "Events": "toint(tostring(Line.events))",
    }
    read = ", ".join(f"{name} = {value}" for name, value in columns.items())
    mine = f"ContainerAppName == '{app}' and ContainerName == '{DOOR}'"
    return (
        f"{CONSOLE}\n| where {mine} and Log startswith '{{'\n"
        "| extend Line = parse_json(Log)\n| where tostring(Line.backend) == 'engine'\n"
        f"| extend {read}\n"
        "| extend TpotMs = iff(Events > 1, (LastMs - TtftMs) / (Events - 1), real(null))"
    )


def binned(source: str, value: str, *, where: str | None = None) -> str:
    """One series: an aggregate over bins of five minutes."""
    narrowed = "" if where is None else f"\n| where {where}"
    return f"{source}{narrowed}\n| summarize value = {value} by bin(TimeGenerated, {BIN})"


def percentile(column: str, percent: int, scale: float = 1000.0) -> str:
    """An aggregate: a percentile, in seconds."""
    return f"percentile({column}, {percent}) / {scale:g}"


def share(bad: str, all_: str) -> str:
    """An aggregate: the part of the rows that `bad` holds for; null where there is none."""
    return f"iff(countif({all_}) > 0, 1.0 * countif({bad}) / countif({all_}), real(null))"
