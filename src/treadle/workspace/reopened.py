"""Finds the workspace of a run again, also one that an earlier release has left: with snapshots instead of a store, and
with `git worktree`. Such a one is compared, applied, released and discarded like any other; none is made any more.
"""

import os

from treadle.errors import WorkspaceError
from treadle.io.removing import remove_tree
from treadle.workspace.prepared import Prepared, read_record
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository
from treadle.workspace.workspace import STORE, Difference, Workspace

SNAPSHOTS = "snapshots.git"


def open_workspace(directory: str) -> Workspace | None:
    """The workspace that was prepared in `directory`, or None when its preparation did not finish. Raises StorageError
    for one that a newer treadle has prepared."""
    place = read_record(directory)
    if place is None:
        return None
    return _earlier(place) if place.format == 0 else Workspace(place, Store.open(os.path.join(directory, STORE)))


def _earlier(place: Prepared) -> Workspace:
    """The workspace with a store that borrows from its snapshots, which stay as they are."""
    directory = os.path.join(place.directory, STORE)
    if os.path.isdir(directory):
        return EarlierWorkspace(place, Store.open(directory))
    snapshots = os.path.join(place.directory, SNAPSHOTS, "objects")
    user = UserRepository.around(place.source)
    store = Store.make(directory, lenders=[snapshots, *(user.object_places() if user is not None else ())])
    try:
        store.borrow_tree(place.before)
    except WorkspaceError:
        remove_tree(directory)
        raise
    return EarlierWorkspace(place, store)


def abandoned(source: str, name: str) -> None:
    """Remove what a run that died while its worktree was made has left in the person's repository."""
    user = UserRepository.around(source)
    branch = f"refs/heads/treadle/{name}"
    if user is not None and branch in user.refs():
        user.run("worktree", "prune")
        head = user.run("rev-parse", "--verify", "HEAD^{commit}", check=False).stdout.decode().strip()
        if head:  # without one, git would delete it wherever it is
            user.run("update-ref", "-d", branch, head, check=False)  # one that has moved is kept


class EarlierWorkspace(Workspace):
    @property
    def top(self) -> str:
        return self.root

    def publish(self, message: str, agent: str | None = None) -> str | None:
        return None  # its branch is in the person's repository already

    def _holds_more(self, found: Difference) -> bool:
        """Whether its branch has commits. What is above the directory worked on is not looked at, so it is kept."""
        if self.place.mode != "worktree":
            return False
        whole = os.path.join(self.place.directory, "workspace")
        user = UserRepository.around(self.place.source)
        if user is None or os.path.realpath(whole) != os.path.realpath(self.root):
            return True
        return user.refs().get(f"refs/heads/{self.place.branch}") != self.place.start

    def _remove(self) -> None:
        super()._remove()
        remove_tree(os.path.join(self.place.directory, SNAPSHOTS))
        if self.place.mode != "worktree":
            return
        remove_tree(os.path.join(self.place.directory, "workspace"))
        user = UserRepository.around(self.place.source)
        if user is not None:
            user.run("worktree", "prune")
            user.run("update-ref", "-d", f"refs/heads/{self.place.branch}", check=False)  # it may be gone

    def _remove_branch(self) -> None:
        pass  # it goes with the worktree
