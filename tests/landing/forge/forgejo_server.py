"""A small Forgejo."""

import re
from pathlib import Path
from typing import Any

from tests.landing.forge.server import ForgeServer


class ForgejoServer(ForgeServer):
    kind = "forgejo"
    sign = "Authorization"

    def __init__(self, bare: Path) -> None:
        super().__init__(bare)
        self.statuses: list[tuple[str, dict[str, Any]]] = []
        self.reviews: list[dict[str, Any]] = []
        self.comments: dict[int, list[dict[str, Any]]] = {}

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        rest = path.removeprefix("/repos/shop/web")
        if rest == "/pulls" and method == "GET":
            return 200, [self._shown(each) for each in self.pulls if each["state"] == "open"]
        if rest == "/pulls" and method == "POST":
            pull = {"number": len(self.pulls) + 1, "state": "open", "head_ref": body["head"], "merged": False}
            self.pulls.append({**pull, "title": body["title"], "body": body["body"]})
            return 201, self._shown(self.pulls[-1])
        if match := re.fullmatch(r"/pulls/(\d+)/reviews/(\d+)/comments", rest):
            return 200, self.comments.get(int(match[2]), [])
        if match := re.fullmatch(r"/pulls/(\d+)(/\w+)?", rest):
            return self._pull(method, self.pulls[int(match[1]) - 1], match[2] or "", body)
        if match := re.fullmatch(r"/commits/(\w+)/status", rest):
            found = [status for sha, status in self.statuses if sha == match[1]]
            return 200, {"state": "pending", "sha": match[1], "total_count": len(found), "statuses": found}
        if (match := re.fullmatch(r"/issues/(\d+)", rest)) and int(match[1]) in self.issues:
            return 200, {"number": int(match[1]), **self.issues[int(match[1])]}
        return 404, {"message": "The target couldn't be found.", "url": "http://forge.example/api/swagger"}

    def _pull(self, method: str, pull: dict[str, Any], part: str, body: Any) -> tuple[int, Any]:
        if part == "/reviews":
            return 200, self.reviews
        if part == "/merge":
            if self.needs_review:
                return 405, {"message": "Does not have enough approvals"}
            if body["head_commit_id"] != self.head(pull):
                return 409, {"message": "head out of date"}
            self.merge(pull)
            return 200, None
        if method == "PATCH":
            if "state" in body and pull["merged"]:
                return 412, {"message": "cannot change state of this pull request, it was already merged"}
            pull.update(body)
            return 201, self._shown(pull)
        return 200, self._shown(pull)

    def _shown(self, pull: dict[str, Any]) -> dict[str, Any]:
        merged = (
            {"merge_commit_sha": pull["merge_commit_sha"], "merged_at": pull["merged_at"]} if pull["merged"] else {}
        )
        return {
            "id": 5000 + pull["number"],
            "number": pull["number"],
            "html_url": f"http://forge.example/shop/web/pulls/{pull['number']}",
            "state": pull["state"],
            "title": pull["title"],
            "body": pull["body"],
            "merged": pull["merged"],
            "head": {"label": pull["head_ref"], "ref": pull["head_ref"], "sha": self.head(pull)},
            "base": {"label": "main", "ref": "main"},
            **merged,
        }

    def ends(self, pull: dict[str, Any], how: str) -> None:
        text = {"description": "2 tests failed", "target_url": "http://forge.example/run/7"}
        self.statuses.append((pull["sha"], {"id": 1, "context": "ci", "status": how, **text}))

    def refuses(self, pull: dict[str, Any], by: str, text: str, remark: str, path: str, line: int) -> None:
        number, who = len(self.reviews) + 1, {"login": by}
        said = {"commit_id": pull["sha"], "user": who}
        review = {
            "id": number,
            "state": "REQUEST_CHANGES",
            "body": text,
            "comments_count": 1,
            "dismissed": False,
            **said,
        }
        self.reviews.append(review)
        self.comments[number] = [{"id": 1, "body": remark, "path": path, "position": line, **said}]
