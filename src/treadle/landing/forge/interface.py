"""What landing needs of a forge. GitHub has pull requests, GitLab merge requests: both are a `LandingRequest`."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable
from urllib.parse import urlsplit

import msgspec

from treadle.errors import ConfigError, WorkspaceError
from treadle.workspace.branch_moves import BranchMoved

CheckState: TypeAlias = Literal["pending", "green", "red"]


class ForgeRefused(WorkspaceError):
    """The forge does not do what it was asked to: a rule, a missing right, a missing review."""

    needs_person = True


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
    by: str = ""
    open: bool = True
    changed: str = ""
    """When, as the forge says it; texts of later times sort behind."""


class IssueComment(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    """Later ones have larger ids."""
    by: str
    text: str
    trusted: bool
    """Whether its author may change the repository, so that an answer of theirs counts."""


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


@runtime_checkable
class IssueForge(Protocol):
    """What watching issues needs beside it; a forge may do without."""

    async def issues(self, label: str, since: str) -> list[ForgeIssue]:
        """Those with this label that were changed at or after this time, open and closed, the earliest change first."""

    async def comments(self, number: int) -> list[IssueComment]: ...

    async def comment(self, number: int, text: str) -> None: ...

    async def close_issue(self, number: int) -> None: ...


class ForgeKind(msgspec.Struct, frozen=True, kw_only=True):
    """A forge as a train or a goal names it. One of another distribution is an entry point of the group
    `treadle.forges`."""

    made: Callable[[str, str, str], Forge]
    """Called with the address of the API, the repository, and the name of the variable that holds the token."""
    token: str
    """The variable that holds the token, unless another is named."""
    public: str
    """The host that is meant where a repository is named without one."""
    api: Callable[[str], str]
    """The address of the API on a host."""


# One repository's part of a forge's HTTP API. The token is read from the environment, by its name.

ANSWER_MAX = 16 << 20
PAGES_MAX = 20
KNOWN_MAX = 100


class ForgeApi:
    """`place` is the address that all paths begin with, `token` the name of the variable that holds the token, and
    `sign` the header that it is sent in: its name, and what stands before the token there."""

    def __init__(self, place: str, token: str, sign: tuple[str, str], headers: Mapping[str, str]) -> None:
        if urlsplit(place).scheme != "https" and urlsplit(place).hostname not in ("127.0.0.1", "localhost"):
            raise ConfigError(f"{place} is not an https address: a token would be sent in plain text")
        self.place = place
        self.host = urlsplit(place).hostname or ""
        self.token = token
        self._sign, self._more = sign, dict(headers)
        self._known: dict[str, tuple[str, bytes]] = {}
        """Path -> its tag and its answer: what has not changed costs none of an hour's requests."""

    async def get(self, path: str, kind: Any) -> Any:
        return await self.ask("GET", path, None, kind)

    async def pages(self, path: str, kind: type[Any], size: int) -> list[Any]:
        """All of a list that comes in pages of this size."""
        found: list[Any] = []
        for number in range(1, PAGES_MAX + 1):
            page = await self.get(f"{path}{'&' if '?' in path else '?'}page={number}", list[kind])  # type: ignore[valid-type]
            found += page
            if len(page) < size:
                return found
        raise WorkspaceError(f"{self.host} has more than {PAGES_MAX} pages of {path.partition('?')[0]}")

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None, kind: Any) -> Any:
        """The answer. With no `kind`, it is not looked at."""
        from treadle.io.http import HttpClient, HttpError  # a node of a fleet without a forge does without it

        tag, known = self._known.get(path, ("", b"")) if method == "GET" else ("", b"")
        headers = self._headers() | ({"if-none-match": tag} if tag else {})
        client = HttpClient(headers, connect_seconds=20, idle_seconds=60)
        data = msgspec.json.encode(body) if body is not None else b""
        try:
            async with client.request(method, self.place + path, data) as response:
                answer = b""
                async for chunk in response.chunks():
                    answer += chunk
                    if len(answer) > ANSWER_MAX:
                        raise WorkspaceError("the forge's answer is too long")
                status, tag = response.status, response.headers.get("etag", "")
        except HttpError as error:
            raise WorkspaceError(f"{self.host} cannot be asked: {error}", retryable=True) from error
        finally:
            await client.aclose()
        if status == 304:
            status, answer = 200, known
        elif method == "GET" and tag:
            self._known = dict([*self._known.items()][-KNOWN_MAX:]) | {path: (tag, answer)}
        if not 200 <= status < 300:
            reason = _reason(answer)
            limited = status == 403 and "rate limit" in reason.lower()  # GitHub's own way of saying 429
            passes = limited or status >= 500 or status in (408, 429)
            raise ForgeRefused(f"{self.host} answers {status} to {method}: {reason}", retryable=passes)
        try:
            return msgspec.json.decode(answer, type=kind) if kind is not None else None
        except msgspec.MsgspecError as error:
            raise WorkspaceError(f"{self.host} sent an unexpected answer: {error}") from error

    def _headers(self) -> dict[str, str]:
        value = os.environ.get(self.token, "").strip()
        if not value:
            raise ConfigError(f"there is no token in the variable {self.token}", hint="set it, or name another")
        name, before = self._sign
        return {name: f"{before}{value}", "user-agent": "treadle", "content-type": "application/json", **self._more}


def repository_of(address: str) -> tuple[str, str]:
    """The host and OWNER/NAME of a remote's address, over HTTPS or SSH. GitLab's groups may lie in groups."""
    if match := re.fullmatch(r"(?:[\w.-]+@)?([\w.-]+):([\w.-]+(?:/[\w.-]+)+)/?", address):
        return match[1], match[2].removesuffix(".git")
    parts = urlsplit(address)
    path = parts.path.strip("/").removesuffix(".git")
    if parts.hostname and re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+", path):
        return parts.hostname, path
    raise ConfigError("the remote's address has no OWNER/NAME of a forge", hint="give them: --forge KIND:OWNER/NAME")


def _reason(answer: bytes) -> str:
    """The forge's own words, with those of its details."""
    try:
        tree = msgspec.json.decode(answer)
        more = [str(each.get("message", "")) for each in tree.get("errors") or () if isinstance(each, dict)]
        message = tree.get("message") or tree["error"]
        return "; ".join(filter(None, [message if isinstance(message, str) else str(message), *more]))[:500]
    except (msgspec.MsgspecError, KeyError, AttributeError, TypeError):
        return answer[:200].decode("utf-8", "replace")
