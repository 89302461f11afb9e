"""GitHub's HTTP API, also of a server of one's own, as far as landing needs it, and what other forges share with it."""

import re
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from treadle.errors import ConfigError
from treadle.landing.forge.interface import (
    CheckState,
    ForgeApi,
    ForgeCheck,
    ForgeComment,
    ForgeIssue,
    ForgeRefused,
    ForgeReviews,
    IssueComment,
    LandingRequest,
)

PUBLIC = "https://api.github.com"
VERSION = "2022-11-28"
TOKEN = "GITHUB_TOKEN"
PAGE = 100
WRITERS = ("OWNER", "MEMBER", "COLLABORATOR")
"""Whose comments count as answers: strangers may comment, too."""
GOOD = ("success", "neutral", "skipped")


class PullBranch(msgspec.Struct, frozen=True, kw_only=True):
    ref: str
    sha: str


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    html_url: str
    state: Literal["open", "closed"]
    title: str
    head: PullBranch
    body: str | None = None
    merged: bool = False
    merged_at: str | None = None
    merge_commit_sha: str | None = None


class _Output(msgspec.Struct, frozen=True):
    title: str | None = None
    summary: str | None = None


class _Run(msgspec.Struct, frozen=True):
    name: str
    status: str
    conclusion: str | None = None
    html_url: str | None = None
    output: _Output = _Output()


class _Runs(msgspec.Struct, frozen=True):
    check_runs: list[_Run]


class _Status(msgspec.Struct, frozen=True):
    context: str
    state: str
    target_url: str | None = None
    description: str | None = None


class _Statuses(msgspec.Struct, frozen=True):
    statuses: list[_Status]


class ForgeAccount(msgspec.Struct, frozen=True):
    login: str = ""


class _Review(msgspec.Struct, frozen=True):
    state: str
    body: str
    user: ForgeAccount | None = None
    commit_id: str | None = None


class _Remark(msgspec.Struct, frozen=True):
    body: str
    path: str
    user: ForgeAccount | None = None
    commit_id: str | None = None
    line: int | None = None


class _Merged(msgspec.Struct, frozen=True):
    sha: str
    merged: bool
    message: str = ""


class _Issue(msgspec.Struct, frozen=True):
    number: int
    title: str
    body: str | None = None
    user: ForgeAccount | None = None
    state: str = "open"
    updated_at: str = ""
    pull_request: Any = None


class _Comment(msgspec.Struct, frozen=True):
    id: int
    body: str | None = None
    user: ForgeAccount | None = None
    author_association: str = ""


class PullRequests:
    """What the APIs of GitHub, Forgejo and Gitea have in common: one repository with pull requests and issues."""

    kind: type[PullRequest]
    """How the forge describes a pull request."""

    def __init__(self, api: str, repository: str, token: str, word: str, headers: dict[str, str]) -> None:
        """`word` comes before the token in the header that holds it."""
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
            raise ConfigError(f"{repository!r} is not OWNER/NAME of a repository")
        self.api = ForgeApi(f"{api.rstrip('/')}/repos/{repository}", token, ("authorization", f"{word} "), headers)

    async def look(self, number: int) -> LandingRequest:
        return request(await self.api.get(f"/pulls/{number}", self.kind))

    async def open(self, head: str, base: str, title: str, body: str) -> LandingRequest:
        given = {"title": title, "body": body, "head": head, "base": base}
        return request(await self.api.ask("POST", "/pulls", given, self.kind))

    async def update(self, number: int, title: str, body: str) -> LandingRequest:
        return request(await self.api.ask("PATCH", f"/pulls/{number}", {"title": title, "body": body}, self.kind))

    async def close(self, number: int) -> LandingRequest:
        return request(await self.api.ask("PATCH", f"/pulls/{number}", {"state": "closed"}, self.kind))

    async def issue(self, number: int) -> ForgeIssue:
        found: _Issue = await self.api.get(f"/issues/{number}", _Issue)
        return _issue(found)


class GitHub(PullRequests):
    """`api` is the address of the API, `token` the name of the variable that holds the token."""

    kind = PullRequest

    def __init__(self, api: str, repository: str, token: str = TOKEN) -> None:
        headers = {"accept": "application/vnd.github+json", "x-github-api-version": VERSION}
        super().__init__(api, repository, token, "Bearer", headers)
        self.owner = repository.partition("/")[0]

    async def find(self, head: str, base: str) -> LandingRequest | None:
        wanted = f"state=open&head={quote(f'{self.owner}:{head}')}&base={quote(base)}&per_page={PAGE}"
        found = await self.api.get(f"/pulls?{wanted}", list[PullRequest])
        return next((request(pull) for pull in found if pull.head.ref == head), None)

    async def checks(self, commit: str) -> list[ForgeCheck]:
        runs = await self.api.get(f"/commits/{commit}/check-runs?filter=latest&per_page={PAGE}", _Runs)
        combined = await self.api.get(f"/commits/{commit}/status?per_page={PAGE}", _Statuses)
        found = []
        for run in runs.check_runs:
            text = " ".join(filter(None, (run.output.title, run.output.summary)))
            found.append(ForgeCheck(name=run.name, state=_run_state(run), url=run.html_url or "", text=text[:1000]))
        for status in combined.statuses:
            state: CheckState = {"success": "green", "pending": "pending"}.get(status.state, "red")  # type: ignore[assignment]
            url, text = status.target_url or "", status.description or ""
            found.append(ForgeCheck(name=status.context, state=state, url=url, text=text))
        return found

    async def reviews(self, number: int, commit: str) -> ForgeReviews:
        """Only what was written about this commit: what an earlier try was told is settled by the new one."""
        latest: dict[str, _Review] = {}
        comments = []
        for review in await self.api.get(f"/pulls/{number}/reviews?per_page={PAGE}", list[_Review]):
            if review.commit_id == commit and review.state in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED"):
                latest[account(review.user)] = review
            if review.commit_id == commit and review.body.strip():
                comments.append(ForgeComment(by=account(review.user), text=review.body))
        for remark in await self.api.get(f"/pulls/{number}/comments?per_page={PAGE}", list[_Remark]):
            if remark.commit_id == commit:
                comments.append(
                    ForgeComment(by=account(remark.user), text=remark.body, path=remark.path, line=remark.line)
                )
        refused = tuple(name for name, review in latest.items() if review.state == "CHANGES_REQUESTED")
        return ForgeReviews(refused_by=refused, comments=tuple(comments))

    async def merge(self, number: int, commit: str, message: str) -> str:
        title, _, rest = message.partition("\n")
        given = {"sha": commit, "merge_method": "merge", "commit_title": title, "commit_message": rest.strip()}
        done: _Merged = await self.api.ask("PUT", f"/pulls/{number}/merge", given, _Merged)
        if not done.merged:
            raise ForgeRefused(f"the forge did not merge: {done.message}")
        return done.sha

    async def issues(self, label: str, since: str) -> list[ForgeIssue]:
        wanted = f"labels={quote(label)}&state=all&sort=updated&direction=asc&per_page={PAGE}"
        found = await self.api.pages(f"/issues?{wanted}{f'&since={quote(since)}' if since else ''}", _Issue, PAGE)
        return [_issue(each) for each in found if each.pull_request is None]

    async def comments(self, number: int) -> list[IssueComment]:
        found: list[_Comment] = await self.api.pages(f"/issues/{number}/comments?per_page={PAGE}", _Comment, PAGE)
        return [
            IssueComment(
                id=each.id, by=account(each.user), text=each.body or "", trusted=each.author_association in WRITERS
            )
            for each in found
        ]

    async def comment(self, number: int, text: str) -> None:
        await self.api.ask("POST", f"/issues/{number}/comments", {"body": text}, None)

    async def close_issue(self, number: int) -> None:
        given = {"state": "closed", "state_reason": "completed"}
        await self.api.ask("PATCH", f"/issues/{number}", given, None)


def _issue(found: _Issue) -> ForgeIssue:
    return ForgeIssue(
        number=found.number,
        title=found.title,
        body=found.body or "",
        by=account(found.user),
        open=found.state == "open",
        changed=found.updated_at,
    )


def request(pull: PullRequest) -> LandingRequest:
    merged = pull.merged or pull.merged_at is not None
    return LandingRequest(
        number=pull.number,
        url=pull.html_url,
        head=pull.head.sha,
        state="merged" if merged else pull.state,
        title=pull.title,
        body=pull.body or "",
        merged_as=(pull.merge_commit_sha or "") if merged else "",
    )


def _run_state(run: _Run) -> CheckState:
    if run.status != "completed":
        return "pending"
    return "green" if run.conclusion in GOOD else "red"


def account(user: ForgeAccount | None) -> str:
    return user.login if user is not None and user.login else "a deleted account"
