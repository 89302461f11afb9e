"""What the small forges have in common: a real HTTP server over a real bare repository, whose protected branch only it
moves. Every request and its answer are kept in `exchanges`."""

import hashlib
import json
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from tests.fleet.repositories import git

HOOK = """#!/bin/sh
while read old new ref; do
  if [ "$ref" = refs/heads/main ]; then echo 'GH006: Protected branch update failed' >&2; exit 1; fi
done
"""


class Exchange(msgspec.Struct, kw_only=True):
    method: str
    path: str
    query: dict[str, list[str]]
    body: Any
    status: int
    answer: Any


class ForgeServer:
    """`pulls` are the requests to merge, as the forge itself knows them."""

    kind = ""
    sign = ""
    """The header with the token."""
    prefix = ""
    """What paths begin with for a client that adds it to the address itself."""

    def __init__(self, bare: Path) -> None:
        self.bare = bare
        self.pulls: list[dict[str, Any]] = []
        self.issues: dict[int, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.exchanges: list[Exchange] = []
        self.unchanged = 0
        """Answers that were not sent again, because the one who asked has them."""
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

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *what: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, asked: BaseHTTPRequestHandler) -> None:
        data = asked.rfile.read(int(asked.headers.get("Content-Length", 0)))
        body = json.loads(data) if data else None
        self.tokens.add(asked.headers.get(self.sign, ""))
        place = urlsplit(asked.path)
        path, query = unquote(place.path).removeprefix(self.prefix), parse_qs(place.query)
        self.asked.append(f"{asked.command} {path}")
        status, answer = self.answer(asked.command, path, query, body)
        answer = self.checked(asked.command, path, query, body, status, answer)
        told = Exchange(method=asked.command, path=path, query=query, body=body, status=status, answer=answer)
        self.exchanges.append(told)
        raw = json.dumps(answer).encode() if answer is not None else b""
        tag = f'"{hashlib.sha256(raw).hexdigest()[:16]}"'
        if asked.command == "GET" and asked.headers.get("If-None-Match") == tag:
            status, raw = 304, b""
            self.unchanged += 1
        asked.send_response(status)
        asked.send_header("ETag", tag)
        asked.send_header("Content-Type", "application/json; charset=utf-8")
        asked.send_header("Content-Length", str(len(raw)))
        asked.end_headers()
        asked.wfile.write(raw)

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        raise NotImplementedError

    def checked(self, method: str, path: str, query: dict[str, list[str]], body: Any, status: int, answer: Any) -> Any:
        """The answer as it is sent."""
        return answer

    # What people and other programs do on the forge...

    def merge(self, pull: dict[str, Any], *, squash: bool = False) -> str:
        """What the button on the forge does."""
        head, base = self.head(pull), git(self.bare, "rev-parse", "main")
        tree = git(self.bare, "merge-tree", "--write-tree", base, head).split()[0]
        parents = ["-p", base] if squash else ["-p", base, "-p", head]
        made = git(self.bare, "commit-tree", tree, *parents, "-m", "Merge pull request")
        git(self.bare, "update-ref", "refs/heads/main", made, base)
        pull.update(state="closed", merged=True, merge_commit_sha=made, merged_at="2026-01-01T00:00:00Z")
        return made

    def head(self, pull: dict[str, Any]) -> str:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "-q", f"refs/heads/{pull['head_ref']}"],
            cwd=self.bare,
            capture_output=True,
            text=True,
        )
        pull["sha"] = done.stdout.strip() or pull.get("sha", "")
        return str(pull["sha"])

    def ends(self, pull: dict[str, Any], how: str) -> None:
        """A check of the request's commit ends so: success or failure."""
        raise NotImplementedError

    def refuses(self, pull: dict[str, Any], by: str, text: str, remark: str, path: str, line: int) -> None:
        """A reviewer asks for changes, with a remark on a line."""
        raise NotImplementedError
