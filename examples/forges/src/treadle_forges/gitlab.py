"""GitLab's HTTP API, as far as landing needs it."""

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
    ForgeKind,
    ForgeRefused,
    ForgeReviews,
    LandingRequest,
)

TOKEN = "GITLAB_TOKEN"
PAGE = 100
GOOD = ("success", "skipped")
BAD = ("failed", "canceled", "canceling")


class _MergeRequest(msgspec.Struct, frozen=True):
    iid: int
    web_url: str
    state: Literal["opened", "closed", "locked", "merged"]
    title: str
    source_branch: str
    sha: str | None = None
    """Of its newest commit; missing for a moment after it was opened."""
    description: str | None = None
    merge_commit_sha: str | None = None
    squash_commit_sha: str | None = None


class _JobStatus(msgspec.Struct, frozen=True):
    name: str
    status: str
    allow_failure: bool = False
    target_url: str | None = None
    description: str | None = None


class _Account(msgspec.Struct, frozen=True):
    username: str


class _Reviewer(msgspec.Struct, frozen=True):
    user: _Account
    state: str


class _NotePlace(msgspec.Struct, frozen=True):
    new_path: str | None = None
    new_line: int | None = None
    old_path: str | None = None


class _DiscussionNote(msgspec.Struct, frozen=True):
    body: str
    author: _Account
    system: bool = False
    resolved: bool = False
    position: _NotePlace = _NotePlace()


class _Discussion(msgspec.Struct, frozen=True):
    notes: list[_DiscussionNote]


class _GitLabIssue(msgspec.Struct, frozen=True):
    iid: int
    title: str
    description: str | None = None


class GitLab:
    """One project. `api` is the address of the API, `token` the name of the variable that holds the token."""

    def __init__(self, api: str, repository: str, token: str = TOKEN) -> None:
        if not re.fullmatch(r"[\w.-]+(/[\w.-]+)+", repository):
            raise ConfigError(f"{repository!r} is not GROUP/NAME of a project")
        place = f"{api.rstrip('/')}/projects/{quote(repository, safe='')}"
        self.api = ForgeApi(place, token, ("private-token", ""), {})

    async def find(self, head: str, base: str) -> LandingRequest | None:
        wanted = f"state=opened&source_branch={quote(head, safe='')}&target_branch={quote(base, safe='')}"
        found = await self.api.get(f"/merge_requests?{wanted}&per_page={PAGE}", list[_MergeRequest])
        return next((_request(each) for each in found if each.source_branch == head), None)

    async def look(self, number: int) -> LandingRequest:
        return _request(await self.api.get(f"/merge_requests/{number}", _MergeRequest))

    async def open(self, head: str, base: str, title: str, body: str) -> LandingRequest:
        given = {"source_branch": head, "target_branch": base, "title": title, "description": body}
        return _request(await self.api.ask("POST", "/merge_requests", given, _MergeRequest))

    async def update(self, number: int, title: str, body: str) -> LandingRequest:
        return await self._change(number, {"title": title, "description": body})

    async def close(self, number: int) -> LandingRequest:
        try:
            return await self._change(number, {"state_event": "close"})
        except ForgeRefused:  # as it does for one that was merged meanwhile
            found = await self.look(number)
            if found.state == "open":
                raise
            return found

    async def _change(self, number: int, given: dict[str, str]) -> LandingRequest:
        return _request(await self.api.ask("PUT", f"/merge_requests/{number}", given, _MergeRequest))

    async def checks(self, commit: str) -> list[ForgeCheck]:
        path = f"/repository/commits/{commit}/statuses?per_page={PAGE}"
        return [
            ForgeCheck(name=each.name, state=_state(each), url=each.target_url or "", text=each.description or "")
            for each in await self.api.pages(path, _JobStatus, PAGE)
        ]

    async def reviews(self, number: int, commit: str) -> ForgeReviews:
        """A reviewer's word counts for the request, not for one commit of it: it stands until that person takes it
        back or the request is closed."""
        reviewers = await self.api.get(f"/merge_requests/{number}/reviewers?per_page={PAGE}", list[_Reviewer])
        found = await self.api.pages(f"/merge_requests/{number}/discussions?per_page={PAGE}", _Discussion, PAGE)
        notes = [note for each in found for note in each.notes if not note.system and not note.resolved]
        return ForgeReviews(
            refused_by=tuple(each.user.username for each in reviewers if each.state == "requested_changes"),
            comments=tuple(_comment(note) for note in notes),
        )

    async def merge(self, number: int, commit: str, message: str) -> str:
        given: dict[str, Any] = {"sha": commit, "merge_commit_message": message, "squash": False}
        done: _MergeRequest = await self.api.ask("PUT", f"/merge_requests/{number}/merge", given, _MergeRequest)
        if done.state != "merged":
            raise ForgeRefused("the forge did not merge yet")
        return done.merge_commit_sha or done.squash_commit_sha or commit  # a project may fast-forward only

    async def issue(self, number: int) -> ForgeIssue:
        found: _GitLabIssue = await self.api.get(f"/issues/{number}", _GitLabIssue)
        return ForgeIssue(number=found.iid, title=found.title, body=found.description or "")


def _request(found: _MergeRequest) -> LandingRequest:
    states: dict[str, Literal["open", "closed", "merged"]] = {"opened": "open", "locked": "open", "merged": "merged"}
    merged = found.merge_commit_sha or found.squash_commit_sha or found.sha
    return LandingRequest(
        number=found.iid,
        url=found.web_url,
        head=found.sha or "",
        state=states.get(found.state, "closed"),
        title=found.title,
        body=found.description or "",
        merged_as=(merged or "") if found.state == "merged" else "",
    )


def _state(found: _JobStatus) -> CheckState:
    """A job that may fail, or that a person may start, holds nothing up."""
    if found.status in GOOD:
        return "green"
    if found.allow_failure and found.status in (*BAD, "manual"):
        return "green"
    return "red" if found.status in BAD else "pending"


def _comment(note: _DiscussionNote) -> ForgeComment:
    place = note.position
    path = place.new_path or place.old_path or ""
    return ForgeComment(by=note.author.username, text=note.body, path=path, line=place.new_line)


KIND = ForgeKind(made=GitLab, token=TOKEN, public="gitlab.com", api=lambda host: f"https://{host}/api/v4")
