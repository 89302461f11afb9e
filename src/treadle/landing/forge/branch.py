"""The branch that a train lands on: read, and moved in one step from one commit to another.

A name such as `main` is a branch of the repository itself, whose checkouts follow; `origin:main` is one behind a remote
of the repository, which a forge may move. All functions block.
"""

import contextlib
import re
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from treadle.errors import ConfigError, NotFound, WorkspaceError
from treadle.host import evidence
from treadle.io.process.loop import run_async
from treadle.landing.forge.interface import (
    Forge,
    ForgeCheck,
    ForgeRed,
    ForgeRefused,
    ForgeReviews,
    LandingRequest,
    NotYet,
)
from treadle.landing.forge.kinds import forge_of
from treadle.receipts.evidence import evidence_lines
from treadle.workspace import branch_moves, remotes
from treadle.workspace.branch_moves import BranchMoved
from treadle.workspace.remotes import PushRefused, Remote, RemoteBranch
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository

FRESH_SECONDS = 5.0
"""How long what was read of a branch behind a remote is believed. A push names what it replaces, so nothing depends on
it but how soon a commit of another's is noticed."""


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
# someone merges by hand is what the train wanted.

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


def branch_of(
    user: UserRepository, name: str, store: Store, train: str, *, forge: str = "", token: str = ""
) -> OwnBranch | PushedBranch:
    """`look` raises WorkspaceError if something stands in the way of a move. `move` raises BranchMoved if the branch is
    not at the old commit, and returns the checkouts whose files could not follow. Whether it moved is to be read from
    the branch, whatever happened."""
    remote, branch = remotes.split(name)
    if not remote:
        if forge:
            raise ConfigError(f"{name} is a branch of the repository itself", hint="a forge has REMOTE:BRANCH")
        return OwnBranch(user, branch, store, f"treadle: train {train}")
    found = Remote(user, remote)
    there = RemoteBranch(found, branch, store)
    return RequestedBranch(there, forge_of(forge, token, found.address), train) if forge else PushedBranch(there)
