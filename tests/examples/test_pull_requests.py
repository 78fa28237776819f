"""The ready workflows for pull requests keep what their page promises."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "examples" / "pull-requests"
GITHUB: dict[str, Any] = yaml.safe_load((FOLDER / "github.yml").read_text())
STEPS = [step for job in GITHUB["jobs"].values() for step in job["steps"]]


def test_every_action_is_pinned_by_its_commit_and_says_its_release() -> None:
    uses = re.findall(r"uses: (\S+)(.*)", (FOLDER / "github.yml").read_text())
    assert len(uses) >= 6
    for action, release in uses:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", release), action


def test_nothing_is_allowed_but_what_a_job_names() -> None:
    assert GITHUB["permissions"] == {}
    assert GITHUB["jobs"]["offline"]["permissions"] == {"contents": "read"}
    assert GITHUB["jobs"]["preview"]["permissions"] == {
        "contents": "read",
        "id-token": "write",
        "pull-requests": "write",
    }


def test_a_fork_gets_no_credentials_and_still_a_preview() -> None:
    triggers = GITHUB[True]  # YAML 1.1 reads `on` so
    assert set(triggers) == {"pull_request"}, "pull_request_target would hand a fork the repository's secrets"
    assert GITHUB["jobs"]["preview"]["if"] == (
        "github.event.pull_request.head.repo.full_name == github.repository"
    )
    offline = json.dumps(GITHUB["jobs"]["offline"])
    assert "secrets." not in offline
    assert "--comment" in offline


def test_no_text_of_a_pull_request_is_pasted_into_a_script() -> None:
    """`${{ ... }}` in a script is replaced before the shell reads it."""
    assert not [step["run"] for step in STEPS if "${{" in step.get("run", "")]


def test_zizmor_finds_nothing() -> None:
    tool = shutil.which("zizmor", path=str(Path(sys.executable).parent))
    assert tool is not None, "zizmor is in the dev group"
    command = [tool, "--offline", "--persona", "pedantic", "--no-progress", str(FOLDER / "github.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_gitlabs_jobs_keep_forks_off_the_credentials() -> None:
    jobs = yaml.safe_load((FOLDER / "gitlab.yml").read_text())
    (rule,) = jobs["serving-preview"]["rules"]
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID" in rule["if"]
    assert "id_tokens" not in jobs["serving-offline"]
    assert "@sha256:" in jobs[".serving"]["image"]


class Notes(BaseHTTPRequestHandler):
    """GitLab's notes of one merge request, in memory."""

    notes: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        page = int(self.path.rpartition("page=")[2])
        self._answer(self.notes[(page - 1) * 2 : page * 2])  # pages of two, however many were asked for

    def do_POST(self) -> None:
        self.notes.append({"id": len(self.notes) + 1, "body": self._body()})
        self._answer({})

    def do_PUT(self) -> None:
        wanted = int(self.path.rpartition("/")[2])
        next(note for note in self.notes if note["id"] == wanted)["body"] = self._body()
        self._answer({})

    def _body(self) -> str:
        assert self.headers["PRIVATE-TOKEN"] == "token"
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

    def _answer(self, value: Any) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def gitlab(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    Notes.notes = [{"id": number, "body": "something else"} for number in range(1, 4)]
    with ThreadingHTTPServer(("127.0.0.1", 0), Notes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("CI_API_V4_URL", f"http://127.0.0.1:{server.server_port}/api/v4")
        monkeypatch.setenv("CI_PROJECT_ID", "7")
        monkeypatch.setenv("CI_MERGE_REQUEST_IID", "8")
        monkeypatch.setenv("GITLAB_TOKEN", "token")
        yield Notes.notes
        server.shutdown()


def test_a_note_is_written_once_and_then_updated(gitlab: list[dict[str, Any]], tmp_path: Path) -> None:
    main = runpy.run_path(str(FOLDER / "gitlab_note.py"))["main"]
    text = tmp_path / "comment.md"
    for content in ("first", "second"):
        text.write_text(f"<!-- servingstack prod -->\n{content}\n")
        main(text)
    own = [note["body"] for note in gitlab if note["body"].startswith("<!-- servingstack prod -->")]
    assert own == ["<!-- servingstack prod -->\nsecond\n"]
