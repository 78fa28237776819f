"""HTTP with JSON, and patience: tried again where trying again is safe, with growing pauses.

A 429 or 503 says that nothing was done, so anything may be sent again. After another 5xx or a broken
connection it is not known, so what is not the same when it is done twice (`POST`) is reported as unknown, and
the caller looks first.

Trap: `Retry-After` may ask for longer than anybody waits; it is followed up to a limit.
"""

from __future__ import annotations

import json
import random
import time
import urllib.error
import urllib.request
from typing import Any

from .secrets import Failed

TRIES = 6
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
TIMEOUT_S = 30.0
_NOTHING_DONE = (429, 503)


class Refused(Failed):
    """The service said no."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Unknown(Failed):
    """Whether it was done is not known."""


def call(
    method: str, url: str, token: str, body: dict[str, Any] | None = None, timeout_s: float = TIMEOUT_S
) -> Any:
    """The answer's JSON; None where it is empty. Raises `Refused`, `Unknown` for a POST that may have been
    done, or `Failed` where the service stays away."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    last = ""
    for attempt in range(TRIES):
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        asked = 0.0
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            last = f"{method} {url}: {error.code} {_detail(error)}"
            if error.code not in _NOTHING_DONE and error.code < 500:
                raise Refused(error.code, last) from None
            if method == "POST" and error.code not in _NOTHING_DONE:
                raise Unknown(last) from None
            asked = _retry_after(error)
        except OSError as error:
            last = f"{method} {url}: {error}"
            if method == "POST":
                raise Unknown(last) from None
        if attempt < TRIES - 1:
            pause = min(LONGEST_PAUSE_S, max(asked, FIRST_PAUSE_S * 2**attempt))
            time.sleep(pause * random.uniform(0.8, 1.2))
    raise Failed(f"{last}; tried {TRIES} times")


def _detail(error: urllib.error.HTTPError) -> str:
    """What the service says, on one line."""
    text = error.read().decode(errors="replace")
    try:
        found = json.loads(text)
    except ValueError:
        return text[:200]
    return str(found.get("detail", text)) if isinstance(found, dict) else text[:200]


def _retry_after(error: urllib.error.HTTPError) -> float:
    try:
        return float(error.headers.get("Retry-After") or 0)
    except ValueError:
        return 0.0
