"""A small GitHub. With GitHub's own OpenAPI document, every request and every answer is held against it, and what
differs is in `wrong`."""

import re
from pathlib import Path
from typing import Any

from tests.landing.forge.contract import Contract, filled
from tests.landing.forge.server import ForgeServer


class GitHubServer(ForgeServer):
    kind = "github"
    sign = "Authorization"

    def __init__(self, bare: Path, contract: Contract | None = None) -> None:
        super().__init__(bare)
        self.contract = contract
        self.runs: list[dict[str, Any]] = []
        self.reviews: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.wrong: list[str] = []
        self.said: dict[int, list[dict[str, Any]]] = {}
        self.clock = 0

    def checked(self, method: str, path: str, query: dict[str, list[str]], body: Any, status: int, answer: Any) -> Any:
        if self.contract is not None:
            answer = filled(self.contract.answer_schema(method, path, status), answer)
            self.wrong += self.contract.faults(method, path, query, body, status, answer)
        return answer

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
        if rest == "/issues":
            return 200, self._listed(query)
        if (match := re.fullmatch(r"/issues/(\d+)(/comments)?", rest)) and int(match[1]) in self.issues:
            return self._issue(method, int(match[1]), bool(match[2]), body)
        if rest.endswith("/check-runs"):
            runs = [each for each in self.runs if each["head_sha"] in rest]
            return 200, {"total_count": len(runs), "check_runs": runs}
        if rest.endswith("/status"):
            return 200, {"state": "pending", "sha": rest.split("/")[2], "total_count": 0, "statuses": []}
        return 404, {"message": "Not Found"}

    def _listed(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        label, since = query["labels"][0], query.get("since", [""])[0]
        found = [
            {"number": number, **issue}
            for number, issue in self.issues.items()
            if label in issue.get("labels", ()) and issue.get("updated_at", "") >= since
        ]
        shown = [{**each, "labels": [{"name": name} for name in each["labels"]]} for each in found]
        return sorted(shown, key=lambda each: str(each["updated_at"])) if query.get("page", ["1"]) == ["1"] else []

    def _issue(self, method: str, number: int, comments: bool, body: Any) -> tuple[int, Any]:
        issue, said = self.issues[number], self.said.setdefault(number, [])
        if comments and method == "GET":
            return 200, said
        if comments:
            return 201, self.says(number, "the-bot", body["body"], "OWNER")
        if method == "PATCH":
            self.edits(number, **body)
        return 200, {"number": number, **{key: value for key, value in issue.items() if key != "labels"}}

    def edits(self, number: int, **fields: Any) -> None:
        """Someone changes an issue."""
        self.clock += 1
        stamp = f"2026-01-01T00:00:{self.clock:02}Z"
        issue = {"state": "open", "user": {"login": "stranger"}, "body": "", **self.issues.get(number, {}), **fields}
        self.issues[number] = {**issue, "updated_at": stamp}

    def says(self, number: int, by: str, text: str, association: str = "NONE") -> dict[str, Any]:
        """Someone comments on an issue."""
        said = self.said.setdefault(number, [])
        made = {"id": len(said) + 1, "body": text, "user": {"login": by}, "author_association": association}
        said.append(made)
        self.edits(number)
        return made

    def _pull(self, method: str, pull: dict[str, Any], part: str, body: Any) -> tuple[int, Any]:
        if part == "/reviews":
            return 200, self.reviews
        if part == "/comments":
            return 200, self.comments
        if part == "/merge":
            if self.needs_review:
                return 405, {"message": "At least 1 approving review is required by reviewers with write access."}
            if body["sha"] != self.head(pull):
                return 409, {"message": "Head branch was modified. Review and try the merge again."}
            return 200, {"sha": self.merge(pull), "merged": True, "message": "Pull Request successfully merged"}
        if method == "PATCH":
            pull.update(body)
        return 200, self._shown(pull)

    def _all(self) -> list[dict[str, Any]]:
        return [self._shown(pull) for pull in self.pulls]

    def _shown(self, pull: dict[str, Any]) -> dict[str, Any]:
        shown = {
            name: pull.get(name) for name in ("number", "html_url", "state", "title", "body", "merged", "merged_at")
        }
        shown["merge_commit_sha"] = pull.get("merge_commit_sha")
        return {**shown, "head": {"ref": pull["head_ref"], "sha": self.head(pull)}}

    def ends(self, pull: dict[str, Any], how: str) -> None:
        self.runs.append({"name": "ci", "status": "completed", "conclusion": how, "head_sha": pull["sha"]})

    def refuses(self, pull: dict[str, Any], by: str, text: str, remark: str, path: str, line: int) -> None:
        said = {"user": {"login": by}, "commit_id": pull["sha"]}
        self.comments.append({"body": remark, "path": path, "line": line, **said})
        self.reviews.append({"state": "CHANGES_REQUESTED", "body": text, **said})
