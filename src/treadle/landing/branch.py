"""The branch that a train lands on, wherever it is: read, and moved in one step from one commit to another.

A name such as `main` is a branch of the repository itself, whose checkouts follow; `origin:main` is a branch behind a
remote of the repository. All functions block.
"""

import time
from typing import Protocol

from treadle.workspace import branch_moves
from treadle.workspace.remotes import RemoteBranch
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository

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
