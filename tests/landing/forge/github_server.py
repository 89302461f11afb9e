"""A small GitHub: a real HTTP server over a real bare repository, whose protected branch only it moves.

With GitHub's own OpenAPI document, every request and every answer is held against it, and what differs is in `wrong`.
"""

import json
import os
import re
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fleet.repositories import git
from tests.landing.forge.contract import Contract, filled

HOOK = """#!/bin/sh
while read old new ref; do
  if [ "$ref" = refs/heads/main ]; then echo 'GH006: Protected branch update failed' >&2; exit 1; fi
done
"""


class GitHubServer:
    def __init__(self, bare: Path, contract: Contract | None = None) -> None:
        self.bare, self.contract = bare, contract
        self.pulls: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.reviews: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.issues: dict[int, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.needs_review = False
        self.tokens: set[str] = set()
        (bare / "hooks/pre-receive").write_text(HOOK)
        (bare / "hooks/pre-receive").chmod(0o755)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                outer.take(self)

            do_POST = do_PATCH = do_PUT = do_GET

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.api = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "GitHubServer":
        self._thread.start()
        return self

    def __exit__(self, *what: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, asked: BaseHTTPRequestHandler) -> None:
        data = asked.rfile.read(int(asked.headers.get("Content-Length", 0)))
        body = json.loads(data) if data else None
        self.tokens.add(asked.headers.get("Authorization", ""))
        path = urlsplit(asked.path)
        self.asked.append(f"{asked.command} {path.path}")
        status, answer = self.answer(asked.command, path.path, parse_qs(path.query), body)
        if self.contract is not None:
            answer = filled(self.contract.answer_schema(asked.command, path.path, status), answer)
            self.wrong += self.contract.faults(asked.command, path.path, parse_qs(path.query), body, status, answer)
        raw = json.dumps(answer).encode()
        asked.send_response(status)
        asked.send_header("Content-Type", "application/json; charset=utf-8")
        asked.send_header("Content-Length", str(len(raw)))
        asked.end_headers()
        asked.wfile.write(raw)

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        rest = path.removeprefix("/repos/shop/web")
        if rest == "/pulls" and method == "GET":
            head = query["head"][0].removeprefix("shop:")
            return 200, [each for each in self._all() if each["state"] == "open" and each["head"]["ref"] == head]
        if rest == "/pulls" and method == "POST":
            number = len(self.pulls) + 1
            html = f"http://forge.example/shop/web/pull/{number}"
            pull = {
                "number": number,
                "html_url": html,
                "state": "open",
                "merged": False,
                "head_ref": body["head"],
                **body,
            }
            self.pulls.append(pull)
            return 201, self._shown(pull)
        if match := re.fullmatch(r"/pulls/(\d+)(/\w+)?", rest):
            return self._pull(method, self.pulls[int(match[1]) - 1], match[2] or "", body)
        if (match := re.fullmatch(r"/issues/(\d+)", rest)) and int(match[1]) in self.issues:
            return 200, {"number": int(match[1]), **self.issues[int(match[1])]}
        if rest.endswith("/check-runs"):
            runs = [each for each in self.runs if each["head_sha"] in rest]
            return 200, {"total_count": len(runs), "check_runs": runs}
        if rest.endswith("/status"):
            return 200, {"state": "pending", "sha": rest.split("/")[2], "total_count": 0, "statuses": []}
        return 404, {"message": "Not Found"}

    def _pull(self, method: str, pull: dict[str, Any], part: str, body: Any) -> tuple[int, Any]:
        if part == "/reviews":
            return 200, self.reviews
        if part == "/comments":
            return 200, self.comments
        if part == "/merge":
            if self.needs_review:
                return 405, {"message": "At least 1 approving review is required by reviewers with write access."}
            if body["sha"] != self._head(pull):
                return 409, {"message": "Head branch was modified. Review and try the merge again."}
            return 200, {"sha": self.merge(pull), "merged": True, "message": "Pull Request successfully merged"}
        if method == "PATCH":
            pull.update(body)
        return 200, self._shown(pull)

    def merge(self, pull: dict[str, Any], *, squash: bool = False) -> str:
        """What the button on the forge does."""
        head, base = self._head(pull), git(self.bare, "rev-parse", "main")
        tree = git(self.bare, "merge-tree", "--write-tree", base, head).split()[0]
        parents = ["-p", base] if squash else ["-p", base, "-p", head]
        made = git(self.bare, "commit-tree", tree, *parents, "-m", "Merge pull request")
        git(self.bare, "update-ref", "refs/heads/main", made, base)
        pull.update(state="closed", merged=True, merge_commit_sha=made, merged_at="2026-01-01T00:00:00Z")
        return made

    def _head(self, pull: dict[str, Any]) -> str:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "-q", f"refs/heads/{pull['head_ref']}"],
            cwd=self.bare,
            capture_output=True,
            text=True,
            env={**os.environ, "BY_FORGE": "1"},
        )
        pull["sha"] = done.stdout.strip() or pull.get("sha", "")
        return str(pull["sha"])

    def _all(self) -> list[dict[str, Any]]:
        return [self._shown(pull) for pull in self.pulls]

    def _shown(self, pull: dict[str, Any]) -> dict[str, Any]:
        shown = {
            name: pull.get(name) for name in ("number", "html_url", "state", "title", "body", "merged", "merged_at")
        }
        shown["merge_commit_sha"] = pull.get("merge_commit_sha")
        return {**shown, "head": {"ref": pull["head_ref"], "sha": self._head(pull)}}
