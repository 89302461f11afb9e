"""What landing needs of a forge. GitHub has pull requests, GitLab merge requests: both are a `LandingRequest`."""

from typing import Literal, Protocol, TypeAlias

import msgspec

from treadle.errors import WorkspaceError
from treadle.workspace.branch_moves import BranchMoved

CheckState: TypeAlias = Literal["pending", "green", "red"]


class ForgeRefused(WorkspaceError):
    """The forge does not do what it was asked to: a rule, a missing right, a missing review."""


class ForgeRed(WorkspaceError):
    """The change must not land as it is: a check of the forge failed, or a reviewer asked for changes. `output` is what
    its author needs to know."""

    def __init__(self, why: str, output: str) -> None:
        super().__init__(why)
        self.output = output


class NotYet(BranchMoved):
    """The forge is at work, or waits for a person. It is to be asked again after these seconds."""

    def __init__(self, why: str, seconds: float) -> None:
        super().__init__(why)
        self.seconds = seconds


class LandingRequest(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    url: str
    head: str
    """The commit that is to be merged."""
    state: Literal["open", "closed", "merged"]
    title: str = ""
    body: str = ""
    merged_as: str = ""
    """The commit that the forge made of it."""


class ForgeCheck(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    state: CheckState
    url: str = ""
    text: str = ""


class ForgeComment(msgspec.Struct, frozen=True, kw_only=True):
    """What a reviewer wrote, on a line or on the whole."""

    by: str
    text: str
    path: str = ""
    line: int | None = None


class ForgeReviews(msgspec.Struct, frozen=True, kw_only=True):
    refused_by: tuple[str, ...] = ()
    """Who asked for changes in this commit."""
    comments: tuple[ForgeComment, ...] = ()


class ForgeIssue(msgspec.Struct, frozen=True, kw_only=True):
    """What someone asks for there."""

    number: int
    title: str
    body: str = ""


class Forge(Protocol):
    async def find(self, head: str, base: str) -> LandingRequest | None:
        """The open request from one branch to another."""

    async def look(self, number: int) -> LandingRequest: ...

    async def open(self, head: str, base: str, title: str, body: str) -> LandingRequest: ...

    async def update(self, number: int, title: str, body: str) -> LandingRequest: ...

    async def close(self, number: int) -> LandingRequest:
        """Close it unmerged, so that it cannot be merged any more; returns it as it then is."""

    async def checks(self, commit: str) -> list[ForgeCheck]:
        """What the forge's checks say of a commit; empty when there is none."""

    async def reviews(self, number: int, commit: str) -> ForgeReviews: ...

    async def merge(self, number: int, commit: str, message: str) -> str:
        """Merge it if its head is still this commit, by a merge commit, whose id is returned. Raises ForgeRefused."""

    async def issue(self, number: int) -> ForgeIssue: ...
