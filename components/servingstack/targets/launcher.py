"""The first process of a container where a service can only ask over HTTP whether a replica is ready: it
starts the engine, warms it up, and only then says so.

The file is handed to the container as text (`python3 -c`), so it needs nothing but Python, and brings the
warm-up script's own text along: both kinds of service run the same lines. Readiness is answered on a port of
its own; clients and the service's health checks reach the engine itself.

Traps:
- An engine's own health path answers as soon as it can serve, before anything was warmed up. Probing it would
  send the first clients into lazy compilation.
- The service watches this process, so it must end when the engine does, with the engine's code, and must pass
  on the signal to stop: else a dead engine looks like a running container.
"""

import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import types


def write(files):
    """Put down the texts that the engine reads, before it starts."""
    for path, text in files.items():
        place = pathlib.Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


def answer(ready, port):
    """Serve 200 once `ready` is set, 503 before, on every path. Returns the server, which runs in a
    thread."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if ready.is_set() else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format, *args):
            """Nothing: a probe every few seconds is no news."""

    server = http.server.ThreadingHTTPServer(("", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def warm(warm_up, settings, engine):
    """Try until every planned request was answered. Returns False once the engine has ended, or at the
    deadline."""
    deadline = time.monotonic() + settings["startup_s"]
    while engine.poll() is None:
        try:
            warm_up.attempt(settings, deadline)
        except OSError as error:  # URLError is one
            print(f"not yet: {error}", file=sys.stderr, flush=True)
        else:
            return True
        if time.monotonic() >= deadline:
            print("not warm in time", file=sys.stderr, flush=True)
            return False
        time.sleep(settings["poll_s"])
    return False


def stopped(settings, engine):
    """A handler that passes a signal on: at once, or where a proxy beside the engine still answers what it
    has taken, once that has said so by a file, or its time is over."""

    def pass_on(number):
        beside = settings.get("proxy", {"drained": os.devnull, "drain_s": 0})
        drained, deadline = pathlib.Path(beside["drained"]), time.monotonic() + beside["drain_s"]
        while not drained.exists() and time.monotonic() < deadline:
            time.sleep(settings["poll_s"] / 4)
        engine.send_signal(number)

    return lambda number, _: threading.Thread(target=pass_on, args=(number,), daemon=True).start()


def main(settings, command):
    """Exit code: the engine's; 1 where it was not warm in time."""
    warm_up = types.ModuleType("warm_up")
    exec(settings["script"], warm_up.__dict__)  # the product's own text, from the same plan as this one
    write(settings["files"])
    ready = threading.Event()
    answer(ready, settings["ready_port"])
    engine = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stopped(settings, engine))
    if warm(warm_up, settings, engine):
        ready.set()
    elif engine.poll() is None:
        engine.terminate()
        engine.wait()
        return 1
    code = engine.wait()
    return code if code >= 0 else 128 - code  # as a shell says which signal ended it


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(json.loads(sys.argv[1]), sys.argv[2:]))
