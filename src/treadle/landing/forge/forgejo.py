"""The HTTP API of Forgejo and Gitea, as far as landing needs it."""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from treadle.errors import ConfigError
from treadle.landing.forge.asking import ForgeApi
from treadle.landing.forge.interface import (
    CheckState,
    ForgeCheck,
    ForgeComment,
    ForgeIssue,
    ForgeRefused,
    ForgeReviews,
    LandingRequest,
)

TOKEN = "FORGEJO_TOKEN"
PAGE = 50
"""Servers give no more at a time unless they are set to."""


class _ForgejoBranch(msgspec.Struct, frozen=True):
    ref: str = ""
    sha: str = ""


class _ForgejoPull(msgspec.Struct, frozen=True):
    number: int
    state: Literal["open", "closed"]
    title: str
    html_url: str = ""
    body: str = ""
    head: _ForgejoBranch = _ForgejoBranch()
    base: _ForgejoBranch = _ForgejoBranch()
    merged: bool = False
    merge_commit_sha: str | None = None


class _ForgejoStatus(msgspec.Struct, frozen=True):
    context: str = ""
    status: str = ""
    target_url: str = ""
    description: str = ""


class _Combined(msgspec.Struct, frozen=True):
    statuses: list[_ForgejoStatus] | None = None


class _ForgejoUser(msgspec.Struct, frozen=True):
    login: str = ""


class _ForgejoReview(msgspec.Struct, frozen=True):
    id: int
    state: str
    body: str = ""
    user: _ForgejoUser | None = None
    commit_id: str = ""
    dismissed: bool = False
    comments_count: int = 0


class _ForgejoRemark(msgspec.Struct, frozen=True):
    body: str = ""
    path: str = ""
    position: int = 0
    user: _ForgejoUser | None = None


class _ForgejoIssue(msgspec.Struct, frozen=True):
    number: int
    title: str
    body: str = ""


class Forgejo:
    """One repository. `api` is the address of the API, `token` the name of the variable that holds the token."""

    def __init__(self, api: str, repository: str, token: str = TOKEN) -> None:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
            raise ConfigError(f"{repository!r} is not OWNER/NAME of a repository")
        place = f"{api.rstrip('/')}/repos/{repository}"
        self.api = ForgeApi(place, token, ("authorization", "token "), {"accept": "application/json"})

    async def find(self, head: str, base: str) -> LandingRequest | None:
        found = await self.api.pages(f"/pulls?state=open&limit={PAGE}", _ForgejoPull, PAGE)
        return next((_request(each) for each in found if (each.head.ref, each.base.ref) == (head, base)), None)

    async def look(self, number: int) -> LandingRequest:
        return _request(await self.api.get(f"/pulls/{number}", _ForgejoPull))

    async def open(self, head: str, base: str, title: str, body: str) -> LandingRequest:
        given = {"title": title, "body": body, "head": head, "base": base}
        return _request(await self.api.ask("POST", "/pulls", given, _ForgejoPull))

    async def update(self, number: int, title: str, body: str) -> LandingRequest:
        return _request(await self.api.ask("PATCH", f"/pulls/{number}", {"title": title, "body": body}, _ForgejoPull))

    async def close(self, number: int) -> LandingRequest:
        try:
            return _request(await self.api.ask("PATCH", f"/pulls/{number}", {"state": "closed"}, _ForgejoPull))
        except ForgeRefused:  # as it does for one that was merged meanwhile
            found = await self.look(number)
            if found.state == "open":
                raise
            return found

    async def checks(self, commit: str) -> list[ForgeCheck]:
        found: list[_ForgejoStatus] = []
        for number in range(1, 1 << 10):
            path = f"/commits/{quote(commit)}/status?limit={PAGE}&page={number}"
            page = (await self.api.get(path, _Combined)).statuses or []
            found += page
            if len(page) < PAGE:
                break
        return [
            ForgeCheck(name=each.context, state=_state(each.status), url=each.target_url, text=each.description)
            for each in found
        ]

    async def reviews(self, number: int, commit: str) -> ForgeReviews:
        """Only what was written about this commit: what an earlier try was told is settled by the new one."""
        latest: dict[str, str] = {}
        comments = []
        for review in await self.api.pages(f"/pulls/{number}/reviews?limit={PAGE}", _ForgejoReview, PAGE):
            if review.commit_id != commit:
                continue
            if review.state in ("APPROVED", "REQUEST_CHANGES"):
                latest[_name(review.user)] = "" if review.dismissed else review.state
            if review.body.strip():
                comments.append(ForgeComment(by=_name(review.user), text=review.body))
            if review.comments_count:
                comments += await self._remarks(number, review.id)
        refused = tuple(name for name, state in latest.items() if state == "REQUEST_CHANGES")
        return ForgeReviews(refused_by=refused, comments=tuple(comments))

    async def _remarks(self, number: int, review: int) -> list[ForgeComment]:
        found = await self.api.get(f"/pulls/{number}/reviews/{review}/comments", list[_ForgejoRemark])
        return [
            ForgeComment(by=_name(each.user), text=each.body, path=each.path, line=each.position or None)
            for each in found
        ]

    async def merge(self, number: int, commit: str, message: str) -> str:
        title, _, rest = message.partition("\n")
        given: dict[str, Any] = {
            "Do": "merge",
            "head_commit_id": commit,
            "MergeTitleField": title,
            "MergeMessageField": rest.strip(),
        }
        await self.api.ask("POST", f"/pulls/{number}/merge", given, None)
        found = await self.look(number)
        if found.state != "merged" or not found.merged_as:
            raise ForgeRefused("the forge did not merge yet")
        return found.merged_as

    async def issue(self, number: int) -> ForgeIssue:
        found: _ForgejoIssue = await self.api.get(f"/issues/{number}", _ForgejoIssue)
        return ForgeIssue(number=found.number, title=found.title, body=found.body)


def _request(pull: _ForgejoPull) -> LandingRequest:
    return LandingRequest(
        number=pull.number,
        url=pull.html_url,
        head=pull.head.sha,
        state="merged" if pull.merged else pull.state,
        title=pull.title,
        body=pull.body,
        merged_as=(pull.merge_commit_sha or "") if pull.merged else "",
    )


def _state(status: str) -> CheckState:
    states: dict[str, CheckState] = {"success": "green", "skipped": "green", "pending": "pending", "": "pending"}
    return states.get(status, "red")


def _name(user: _ForgejoUser | None) -> str:
    return user.login if user is not None and user.login else "a deleted account"
