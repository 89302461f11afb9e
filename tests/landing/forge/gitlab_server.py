"""A small GitLab."""

import re
from pathlib import Path
from typing import Any

from tests.landing.forge.server import ForgeServer


class GitLabServer(ForgeServer):
    kind = "gitlab"
    sign = "Private-Token"

    def __init__(self, bare: Path) -> None:
        super().__init__(bare)
        self.statuses: list[dict[str, Any]] = []
        self.reviewers: list[dict[str, Any]] = []
        self.discussions: list[dict[str, Any]] = []

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        rest = re.sub(r"^/projects/(3|shop/web|shop%2Fweb)(?=/)", "", path)  # by its number or its name
        if rest == "/merge_requests" and method == "GET":
            head = query["source_branch"][0]
            return 200, [self._shown(each) for each in self._open() if each["head_ref"] == head]
        if rest == "/merge_requests" and method == "POST":
            pull = {"number": len(self.pulls) + 1, "state": "open", "head_ref": body["source_branch"], "merged": False}
            self.pulls.append({**pull, "title": body["title"], "body": body.get("description")})
            return 201, self._shown(self.pulls[-1])
        if match := re.fullmatch(r"/merge_requests/(\d+)(/\w+)?", rest):
            given = {**{name: values[0] for name, values in query.items()}, **(body or {})}  # it takes either
            return self._request(method, self.pulls[int(match[1]) - 1], match[2] or "", given)
        if match := re.fullmatch(r"/repository/commits/(\w+)/statuses", rest):
            return 200, [each for each in self.statuses if each["sha"] == match[1]]
        if (match := re.fullmatch(r"/issues/(\d+)", rest)) and int(match[1]) in self.issues:
            issue = self.issues[int(match[1])]
            return 200, {"id": 70, "iid": int(match[1]), "title": issue["title"], "description": issue["body"]}
        return 404, {"message": "404 Project Not Found"}

    def _request(self, method: str, pull: dict[str, Any], part: str, body: Any) -> tuple[int, Any]:
        if part == "/reviewers":
            return 200, self.reviewers
        if part == "/discussions":
            return 200, self.discussions
        if part == "/merge":
            if self.needs_review:
                return 405, {"message": "405 Method Not Allowed"}
            if body["sha"] != self.head(pull):
                return 409, {"message": "SHA does not match HEAD of source branch: " + self.head(pull)}
            self.merge(pull)
            return 200, self._shown(pull)
        if method == "PUT" and "state_event" in body:
            if pull["merged"]:
                return 422, {"message": {"state": ["cannot transition via :close from :merged"]}}
            pull["state"] = "closed"
        elif method == "PUT":
            pull.update(title=body["title"], body=body["description"])
        return 200, self._shown(pull)

    def _open(self) -> list[dict[str, Any]]:
        return [each for each in self.pulls if each["state"] == "open"]

    def _shown(self, pull: dict[str, Any]) -> dict[str, Any]:
        number = pull["number"]
        return {
            "id": 5000 + number,
            "iid": number,
            "project_id": 3,
            "title": pull["title"],
            "description": pull["body"],
            "state": "merged" if pull["merged"] else {"open": "opened"}.get(pull["state"], "closed"),
            "web_url": f"http://forge.example/shop/web/-/merge_requests/{number}",
            "source_branch": pull["head_ref"],
            "target_branch": "main",
            "sha": self.head(pull),
            "merge_commit_sha": pull.get("merge_commit_sha"),
            "squash_commit_sha": None,
        }

    def ends(self, pull: dict[str, Any], how: str) -> None:
        status = {"failure": "failed"}.get(how, how)
        text = {"description": "2 tests failed", "target_url": "http://forge.example/run/7"}
        self.statuses.append(
            {"id": 1, "sha": pull["sha"], "name": "ci", "status": status, "allow_failure": False, **text}
        )

    def refuses(self, pull: dict[str, Any], by: str, text: str, remark: str, path: str, line: int) -> None:
        who = {"id": 2, "name": by, "username": by, "state": "active"}
        place = {"position_type": "text", "new_path": path, "old_path": path, "new_line": line, "old_line": None}
        plain = {"author": who, "system": False}
        notes = [
            {"id": 1, "body": text, **plain},
            {"id": 2, "body": remark, "resolved": False, "position": place, **plain},
        ]
        notes.append({"id": 3, "body": "assigned to @ann", "author": who, "system": True})
        self.discussions += [{"id": f"d{note['id']}", "individual_note": False, "notes": [note]} for note in notes]
        self.reviewers.append({"user": who, "state": "requested_changes", "created_at": "2026-01-01T00:00:00Z"})
