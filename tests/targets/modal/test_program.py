"""The program that Modal's client deploys: the same plan gives the same text, it holds new names only and no
secret, and what it does in a container is run here with a stand-in for the engine."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.targets.modal.documents import DEFAULTS, MAX, document

from servingstack.planner import plan
from servingstack.targets.modal import bodies
from servingstack.targets.modal.program import fingerprint, program, spec

OLD = (
    "keep_warm", "concurrency_limit", "container_idle_timeout", "allow_concurrent_inputs", "web_endpoint",
    "__init__", "Stub", "modal.gpu", "modal.parameter",
)  # fmt: skip
"""What Modal 1.0 renamed or no longer takes."""


@pytest.mark.parametrize("given", [DEFAULTS, MAX], ids=["defaults", "max"])
def test_it_compiles_and_has_modals_present_names_only(given: dict[str, object]) -> None:
    text = program(plan(given))
    ast.parse(text)
    for name in OLD:
        assert name not in text, name
    assert re.search(r"@modal\.concurrent\(max_inputs=.*target_inputs=", text)


def test_the_same_plan_gives_the_same_text_and_a_change_another_fingerprint() -> None:
    assert program(plan(DEFAULTS)) == program(plan(DEFAULTS))
    changed = document(request_timeout="45s")
    assert fingerprint(plan(DEFAULTS)) != fingerprint(plan(changed))
    assert re.fullmatch(r"[0-9a-f]{32}", fingerprint(plan(DEFAULTS)))
    assert spec(plan(DEFAULTS))["tags"]["servingstack-program"] == fingerprint(plan(DEFAULTS))


def test_the_image_is_pinned_and_secrets_are_named_alone() -> None:
    found = spec(plan(MAX))
    assert "@sha256:" in found["image"]
    assert found["env_of_secrets"] == {"VLLM_API_KEY": "API_KEY"}
    assert found["secrets"] == {"chat-key": ["API_KEY"]}
    assert "API_KEY" not in found["env"]


def test_the_resources_properties_hold_the_program_and_its_fingerprint() -> None:
    found = plan(DEFAULTS)
    body = bodies.app(found)
    assert body["program"] == program(found)
    assert body["fingerprint"] == fingerprint(found)
    assert body["warm_up"]["path"] == "/health"
    to_zero = document(scaling={"min_replicas": 0, "scale_to_zero_after": "5m"})
    assert bodies.app(plan(to_zero))["warm_up"] is None


ENGINE = """
import http.server, os, sys, time
time.sleep(0.5)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0); self.rfile.read(length)
        open(os.environ["SEEN"], "a").write(self.path + " " + os.environ.get("TOKEN", "") + "\\n")
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
if os.environ.get("BROKEN"):
    sys.exit(3)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def _free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _run(tmp_path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`serve` of the real program, with another engine behind the real launcher."""
    found = plan(DEFAULTS)
    port, ready = _free_port(), _free_port()
    engine = tmp_path / "engine.py"
    engine.write_text(ENGINE)
    wanted = spec(found)
    launcher = json.loads(wanted["command"][3]) | {"port": port, "ready_port": ready, "startup_s": 20}
    command = [sys.executable, "-c", wanted["command"][2], json.dumps(launcher)]
    changed = wanted | {
        "command": [*command, sys.executable, str(engine), str(port)],
        "ready_port": ready,
        "startup_timeout_s": 20,
        "env": {"SEEN": str(tmp_path / "seen")},
        "env_of_secrets": {"TOKEN": "HF_TOKEN"},
    }
    text = program(found).replace(
        repr(json.dumps(wanted, sort_keys=True, indent=1)), repr(json.dumps(changed))
    )
    module = tmp_path / "deployed.py"
    module.write_text(text)
    script = textwrap.dedent(f"""
        import os, signal, sys, traceback
        sys.path.insert(0, {str(tmp_path)!r})
        import deployed
        try:
            deployed.serve.local()
            print("warm", flush=True)
        except Exception:
            traceback.print_exc()
        os.killpg(0, signal.SIGKILL)
    """)
    return subprocess.run(
        [sys.executable, "-c", script],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HF_TOKEN": "hf_value", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        start_new_session=True,
    )


def test_a_container_is_ready_only_after_the_planned_warm_up(tmp_path: Path) -> None:
    done = _run(tmp_path, {})
    assert done.stdout.strip() == "warm", done.stderr
    seen = (tmp_path / "seen").read_text().splitlines()
    assert seen == ["/v1/completions hf_value"] * plan(DEFAULTS).container.warm_up.requests


def test_an_engine_that_ends_before_it_is_warm_ends_the_container(tmp_path: Path) -> None:
    done = _run(tmp_path, {"BROKEN": "1"})
    assert "warm" not in done.stdout
    assert "ended with 3 before it was warm" in done.stderr
