"""Write a note on a merge request, or update the one that has the same first line.

    python gitlab_note.py comment.md

Reads GitLab's own variables and GITLAB_TOKEN, a project access token with the scope `api` and the role
Reporter: a job's own token may not write notes.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any


def call(method: str, path: str, body: dict[str, str] | None = None) -> Any:
    """One request to GitLab's API (docs.gitlab.com/api/notes)."""
    project, request = os.environ["CI_PROJECT_ID"], os.environ["CI_MERGE_REQUEST_IID"]
    url = f"{os.environ['CI_API_V4_URL']}/projects/{project}/merge_requests/{request}/notes{path}"
    headers = {"PRIVATE-TOKEN": os.environ["GITLAB_TOKEN"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(
        urllib.request.Request(url, data, headers, method=method), timeout=30
    ) as answer:
        return json.loads(answer.read())


def own_note(marker: str) -> int | None:
    """The note of an earlier run."""
    page = 1
    while notes := call("GET", f"?per_page=100&page={page}"):
        for note in notes:
            if note["body"].startswith(marker):
                return int(note["id"])
        page += 1
    return None


def main(path: Path) -> None:
    """Update, or write anew."""
    text = path.read_text(encoding="utf-8")
    note = own_note(text.splitlines()[0])
    call("POST" if note is None else "PUT", "" if note is None else f"/{note}", {"body": text})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
