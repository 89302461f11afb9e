"""The HTTP API of Forgejo and Gitea, as far as landing needs it."""

from typing import Any
from urllib.parse import quote

import msgspec

from treadle.landing.forge.github import ForgeAccount, PullBranch, PullRequest, PullRequests, account, request
from treadle.landing.forge.interface import (
    CheckState,
    ForgeCheck,
    ForgeComment,
    ForgeKind,
    ForgeRefused,
    ForgeReviews,
    LandingRequest,
)

TOKEN = "FORGEJO_TOKEN"
PAGE = 50
"""Servers give no more at a time unless they are set to."""


class _Branch(PullBranch, frozen=True, kw_only=True):
    ref: str = ""
    sha: str = ""


class _Pull(PullRequest, frozen=True, kw_only=True):
    html_url: str = ""
    head: _Branch = _Branch()
    base: _Branch = _Branch()


class _Status(msgspec.Struct, frozen=True):
    context: str = ""
    status: str = ""
    target_url: str = ""
    description: str = ""


class _Combined(msgspec.Struct, frozen=True):
    statuses: list[_Status] | None = None


class _Review(msgspec.Struct, frozen=True):
    id: int
    state: str
    body: str = ""
    user: ForgeAccount | None = None
    commit_id: str = ""
    dismissed: bool = False
    comments_count: int = 0


class _Remark(msgspec.Struct, frozen=True):
    body: str = ""
    path: str = ""
    position: int = 0
    user: ForgeAccount | None = None


class Forgejo(PullRequests):
    """`api` is the address of the API, `token` the name of the variable that holds the token."""

    kind = _Pull

    def __init__(self, api: str, repository: str, token: str = TOKEN) -> None:
        super().__init__(api, repository, token, "token", {"accept": "application/json"})

    async def find(self, head: str, base: str) -> LandingRequest | None:
        found = await self.api.pages(f"/pulls?state=open&limit={PAGE}", _Pull, PAGE)
        return next((request(each) for each in found if (each.head.ref, each.base.ref) == (head, base)), None)

    async def close(self, number: int) -> LandingRequest:
        try:
            return await super().close(number)
        except ForgeRefused:  # as it does for one that was merged meanwhile
            found = await self.look(number)
            if found.state == "open":
                raise
            return found

    async def checks(self, commit: str) -> list[ForgeCheck]:
        found: list[_Status] = []
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
        for review in await self.api.pages(f"/pulls/{number}/reviews?limit={PAGE}", _Review, PAGE):
            if review.commit_id != commit:
                continue
            if review.state in ("APPROVED", "REQUEST_CHANGES"):
                latest[account(review.user)] = "" if review.dismissed else review.state
            if review.body.strip():
                comments.append(ForgeComment(by=account(review.user), text=review.body))
            if review.comments_count:
                comments += await self._remarks(number, review.id)
        refused = tuple(name for name, state in latest.items() if state == "REQUEST_CHANGES")
        return ForgeReviews(refused_by=refused, comments=tuple(comments))

    async def _remarks(self, number: int, review: int) -> list[ForgeComment]:
        found = await self.api.get(f"/pulls/{number}/reviews/{review}/comments", list[_Remark])
        return [
            ForgeComment(by=account(each.user), text=each.body, path=each.path, line=each.position or None)
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


def _state(status: str) -> CheckState:
    states: dict[str, CheckState] = {"success": "green", "skipped": "green", "pending": "pending", "": "pending"}
    return states.get(status, "red")


KIND = ForgeKind(made=Forgejo, token=TOKEN, public="codeberg.org", api=lambda host: f"https://{host}/api/v1")
