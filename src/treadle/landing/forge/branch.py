"""The branch that a train lands on: one of the repository, one behind a remote, or one that a forge moves."""

import contextlib
import re
import time
from collections.abc import Coroutine
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from treadle.errors import ConfigError, NotFound, WorkspaceError
from treadle.host import evidence
from treadle.io.process.loop import run_async
from treadle.landing.forge.interface import (
    CheckState,
    Forge,
    ForgeApi,
    ForgeCheck,
    ForgeComment,
    ForgeIssue,
    ForgeKind,
    ForgeRed,
    ForgeRefused,
    ForgeReviews,
    IssueComment,
    LandingRequest,
    NotYet,
    repository_of,
)
from treadle.receipts.evidence import evidence_lines
from treadle.settings import extensions
from treadle.workspace import branch_moves, remotes
from treadle.workspace.branch_moves import BranchMoved
from treadle.workspace.remotes import PushRefused, Remote, RemoteBranch
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository

# The branch that a train lands on, wherever it is: read, and moved in one step from one commit to another.
#
# A name such as `main` is a branch of the repository itself, whose checkouts follow; `origin:main` is a branch behind
# a remote of the repository. All functions block.

FRESH_SECONDS = 5.0
"""How long what was read of a branch behind a remote is believed. A push names what it replaces, so nothing depends on
it but how soon a commit of another's is noticed."""


class LandingBranch(Protocol):
    def tip(self) -> str:
        """Where it is now. The repository has that commit."""

    def contains(self, commit: str) -> bool: ...

    def look(self, old: str, new: str) -> None:
        """Raise WorkspaceError if something stands in the way of moving it."""

    def move(self, old: str, new: str) -> list[str]:
        """Move it. Raises BranchMoved if it is not at `old`, WorkspaceError if it cannot be moved. Returns the
        checkouts whose files could not follow. Whether it moved is to be read from the branch, whatever happened."""


class OwnBranch:
    """A branch of the repository itself."""

    def __init__(self, user: UserRepository, branch: str, store: Store, why: str) -> None:
        self.user, self.store, self.why = user, store, why
        self.ref = f"refs/heads/{branch}"

    def tip(self) -> str:
        return branch_moves.tip(self.user, self.ref)

    def contains(self, commit: str) -> bool:
        return branch_moves.contains(self.user, self.ref, commit)

    def look(self, old: str, new: str) -> None:
        branch_moves.look(self.user, self.ref, self.store, old, new)

    def move(self, old: str, new: str) -> list[str]:
        return branch_moves.move(self.user, self.ref, self.store, old, new, self.why)


class PushedBranch:
    """A branch behind a remote."""

    def __init__(self, there: RemoteBranch) -> None:
        self.there = there
        self._seen = ("", 0.0)

    def tip(self) -> str:
        at, when = self._seen
        if not at or time.monotonic() - when > FRESH_SECONDS:
            at = self.there.tip()
            self._seen = (at, time.monotonic())
        return at

    def contains(self, commit: str) -> bool:
        return branch_moves.contains(self.there.user, self.there.here, commit)

    def look(self, old: str, new: str) -> None:
        """Nothing is in the way of a push that could be seen before."""

    def move(self, old: str, new: str) -> list[str]:
        self._seen = ("", 0.0)  # whatever becomes of the push, the branch is read again
        self.there.move(old, new)
        return []


# A branch that a forge moves: what was built and checked is pushed beside it and becomes a pull request, and when its
# checks there are green it lands, by a push where the forge allows that, else merged by the forge.
#
# A pull request is opened after the intent is stored, and closed before the intent is given up, so a request that
# someone merges by hand is what the train wanted. All functions block.

T = TypeVar("T")
POLL_SECONDS = 15.0
"""Each look asks five times, and an hour has a limit of 5000."""
LOOKED_AT = 100
_EVIDENCE = re.compile(r"^Evidence: (\w+)$", re.M)
BEGIN_SECONDS = 30.0
"""How long after a push a forge may take to begin its checks. A forge without any then has none."""


class RequestedBranch(PushedBranch):
    def __init__(self, there: RemoteBranch, forge: Forge, name: str) -> None:
        super().__init__(there)
        self.forge = forge
        self.beside = f"treadle/land-{there.branch}-{name[:8]}"
        self._pushed = ("", 0.0)

    def contains(self, commit: str) -> bool:
        """Also when someone let the forge make one commit of it: since then one has the tree that was checked."""
        if super().contains(commit):
            return True
        if self.there.store.ref(f"refs/train/{commit}") is None:
            return False  # not built by us
        old = self.there.store.ref(f"{commit}^1")
        words = ("log", "--first-parent", f"-{LOOKED_AT}", "--format=%T", f"{old}..{self.there.here}")
        trees = self.there.user.run(*words, check=False).stdout.decode().split() if old else []
        return self.there.store.tree_of(commit) in trees

    def move(self, old: str, new: str) -> list[str]:
        self._seen = ("", 0.0)
        if self.there.tip() != old:
            raise BranchMoved(f"{self.there.branch} is no longer at {old[:12]}")
        request = self._request(new)
        if not self._verdict(request, new):
            raise NotYet(f"{request.url} waits for its checks", POLL_SECONDS)
        try:
            self.there.move(old, new)
        except PushRefused:
            self._merge(request, new)
        self.there.delete(self.beside)
        return []

    def give_up(self, new: str) -> bool:
        """Close the request. False when it was merged meanwhile."""
        request = self._ask(self.forge.find(self.beside, self.there.branch))
        if request is not None and request.head == new:
            request = self._ask(self.forge.close(request.number))
        return request is None or request.state != "merged"

    # Steps...

    def _request(self, new: str) -> LandingRequest:
        """Push it beside the branch, and have an open request that says what it is."""
        if self._pushed[0] != new:
            self.there.push(new, f"refs/heads/{self.beside}")
            self._pushed = (new, time.monotonic())
        title, body = self._words(new)
        found = self._ask(self.forge.find(self.beside, self.there.branch))
        if found is None:
            return self._ask(self.forge.open(self.beside, self.there.branch, title, body))
        if (found.title, found.body.replace("\r\n", "\n").strip()) != (title, body.strip()):
            return self._ask(self.forge.update(found.number, title, body))
        return found

    def _words(self, new: str) -> tuple[str, str]:
        """What people read: the commit's own words, which name orders, agents, receipts and the tree, its files, and
        what its checks have shown."""
        message = self.there.store.git("log", "-1", "--format=%B", new, lent=True).stdout.decode("utf-8", "replace")
        stat = self.there.store.git("diff", "--stat", f"{new}^1", new, lent=True).stdout.decode("utf-8", "replace")
        title, _, rest = message.strip().partition("\n")
        shown = f"{rest.strip()}\n\n```\n{stat.strip()[:20_000]}\n```\n\n"
        patch = self.there.store.git("diff", f"{new}^1", new, lent=True).stdout.decode("utf-8", "replace")
        for name in _EVIDENCE.findall(message):
            with contextlib.suppress(NotFound):  # it may be on the machine that ran the check
                found = evidence.load(name)
                lines = [f"record    {found.id}, {found.standing}", *evidence_lines(found.evidence, patch)]
                shown += "```\n" + "\n".join(lines)[:20_000] + "\n```\n\n"
        return title[:250], f"{shown}{self.about}\n"

    about = "Built, checked and landed by a Treadle train: what is merged is the tree that was checked."

    def _verdict(self, request: LandingRequest, new: str) -> bool:
        """Whether the forge's checks are green. Raises ForgeRed when one is not, or a reviewer asked for changes."""
        reviews = self._ask(self.forge.reviews(request.number, new))
        if reviews.refused_by:
            raise ForgeRed(f"{', '.join(reviews.refused_by)} asked for changes in {request.url}", _remarks(reviews))
        checks = self._ask(self.forge.checks(new))
        red = [each for each in checks if each.state == "red"]
        if red:
            raise ForgeRed(f"{', '.join(each.name for each in red)} failed in {request.url}", _failures(red))
        if not checks:
            return time.monotonic() - self._pushed[1] > BEGIN_SECONDS
        return all(each.state == "green" for each in checks)

    def _merge(self, request: LandingRequest, new: str) -> None:
        """Have the forge merge it. It looks at the request's commit only, so we look at what came of it."""
        message = self.there.store.git("log", "-1", "--format=%B", new, lent=True).stdout.decode("utf-8", "replace")
        try:
            made = self._ask(self.forge.merge(request.number, new, message))
        except ForgeRefused as error:
            raise NotYet(f"{request.url}: {error}", POLL_SECONDS) from error
        self._compare(made, new)

    def _compare(self, made: str, new: str) -> None:
        self.there.tip()
        tree = self.there.user.run("rev-parse", "--verify", f"{made}^{{tree}}").stdout.decode().strip()
        if tree != self.there.store.tree_of(new):
            raise WorkspaceError(
                f"the forge merged {new[:12]} as {made[:12]} on top of what another pushed at that moment, and that was"
                " not checked",
                hint="check the branch; let the forge require branches to be up to date",
            )

    def _ask(self, asking: Coroutine[Any, Any, T]) -> T:
        return run_async(asking)


def _failures(red: list[ForgeCheck]) -> str:
    return "\n".join(f"{each.name}: {each.text or 'failed'} {each.url}".rstrip() for each in red)


def _remarks(reviews: ForgeReviews) -> str:
    rows = []
    for each in reviews.comments:
        place = f"{each.path}:{each.line}: " if each.path and each.line else f"{each.path}: " if each.path else ""
        rows.append(f"{each.by}: {place}{each.text}")
    return "\n".join(rows)


# GitHub's HTTP API, as far as landing needs it.

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


# Which kind of branch a train has: one of the repository itself, one behind a remote, or one that a forge moves.


def branch_of(
    user: UserRepository, name: str, store: Store, train: str, *, forge: str = "", token: str = ""
) -> LandingBranch:
    remote, branch = remotes.split(name)
    if not remote:
        if forge:
            raise ConfigError(f"{name} is a branch of the repository itself", hint="a forge has REMOTE:BRANCH")
        return OwnBranch(user, branch, store, f"treadle: train {train}")
    found = Remote(user, remote)
    there = RemoteBranch(found, branch, store)
    return RequestedBranch(there, forge_of(forge, token, found.address), train) if forge else PushedBranch(there)


KINDS = {
    "github": ForgeKind(
        made=GitHub,
        token=TOKEN,
        public="github.com",
        api=lambda host: PUBLIC if host == "github.com" else f"https://{host}/api/v3",
    )
}
"""Our own; others are found by their entry points."""


def forge_of(written: str, token: str, address: str) -> Forge:
    """The forge that `github`, `github:OWNER/NAME` or `github:OWNER/NAME@API` means, for a remote of this address."""
    name, _, rest = written.partition(":")
    repository, _, api = rest.partition("@")
    kind: ForgeKind | None = KINDS.get(name) or extensions.load("forges", name, ForgeKind)
    if kind is None:
        hint = "github is ours; `treadle docs land-work` says how to add gitlab, forgejo and others"
        raise ConfigError(f"there is no forge {name!r}", hint=hint)
    host = kind.public
    if not repository:
        host, repository = repository_of(address)
    return kind.made(api or kind.api(host), repository, token or kind.token)
