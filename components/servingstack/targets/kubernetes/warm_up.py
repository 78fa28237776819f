"""Run inside the engine's container as its startup probe: healthy, then warm, then ready.

The file is mounted as it stands, so it needs nothing but Python. It tries again until every planned request
was answered, and then exits with 0. A replica takes traffic only after that, so no client waits for lazy
compilation and no panel counts these requests.

Trap: the kubelet counts failures, not time. An engine that is healthy and hangs on a request makes each try
last minutes, and fifty tries last hours. So one probe is the whole start: it ends at a deadline of its own,
below the kubelet's.
"""

import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request


def call(url, timeout_s, body=None, key=None):
    """Send one request. Raises URLError (and HTTPError for a status above 399), or OSError at the time
    limit."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers)
    # The proxy of the environment, if any, leads outside; this call stays inside.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=timeout_s) as answer:
        answer.read()


def attempt(settings, deadline):
    """Ask for health, then send every planned request. Raises URLError or OSError."""
    variable = settings["api_key_variable"]
    key = None if variable is None else os.environ.get(variable)
    base = f"http://127.0.0.1:{settings['port']}"

    def left(limit_s):
        return max(1, min(limit_s, deadline - time.monotonic()))

    call(base + settings["health_path"], left(settings["health_timeout_s"]))
    for _ in range(settings["requests"]):
        call(base + settings["path"], left(settings["timeout_s"]), settings["body"], key)


def main(settings_path):
    """Exit code: 0 when warm, 1 when it was not warm in time."""
    settings = json.loads(pathlib.Path(settings_path).read_text(encoding="utf-8"))
    deadline = time.monotonic() + settings["startup_s"]
    while True:
        try:
            attempt(settings, deadline)
        except (urllib.error.URLError, OSError) as error:
            print(f"not yet: {error}", file=sys.stderr)
        else:
            return 0
        if time.monotonic() >= deadline:
            return 1
        time.sleep(settings["poll_s"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
