"""Run inside the engine's container as its startup probe: healthy, then warm, then ready.

The file is mounted as it stands, so it needs nothing but Python. Exit 0 once every planned request was
answered. A replica takes traffic only after that, so no client waits for lazy compilation and no panel counts
these requests.

Trap: the kubelet kills a probe at its time-out; the sum of the requests' time limits stays below it.
"""

import json
import os
import pathlib
import sys
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


def main(settings_path):
    """Exit code: 0 when warm, 1 when not yet."""
    settings = json.loads(pathlib.Path(settings_path).read_text(encoding="utf-8"))
    variable = settings["api_key_variable"]
    key = None if variable is None else os.environ.get(variable)
    base = f"http://127.0.0.1:{settings['port']}"
    try:
        call(base + settings["health_path"], settings["health_timeout_s"])
        for _ in range(settings["requests"]):
            call(base + settings["path"], settings["timeout_s"], settings["body"], key)
    except (urllib.error.URLError, OSError) as error:
        print(f"not yet: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
