"""Moves a branch of a person's repository from one commit to another, together with the checkouts that have it.

The branch moves in one step, by compare-and-set: if it is no longer where it was, nothing happens. A checkout is
changed only if it has no uncommitted changes, and its index is locked meanwhile in git's own way, so that no commit of
the person's comes in between. If we are killed on the way, `recover` reads from the branch whether it has moved, and
finishes or forgets the rest. All functions block.
"""

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Sequence

import msgspec

from treadle.errors import Busy, WorkspaceError
from treadle.io import scratch
from treadle.io.files import place_new, read, read_if_there, rename, write
from treadle.io.paths import private_dir, state_dir
from treadle.io.records import FileRecord
from treadle.workspace import checkouts, journal
from treadle.workspace.checkouts import CheckoutChange
from treadle.workspace.store import Store, give
from treadle.workspace.user_repository import UserRepository

FORMAT = 1
LOCK_SECONDS = 20.0
"""How long a git command of the person's may keep the index of a checkout locked."""


class BranchMoved(WorkspaceError):
    """Another process has moved the branch meanwhile: decide again on what it is now."""

    retryable = True


class ChangedCheckout(msgspec.Struct, frozen=True, kw_only=True):
    top: str
    directory: str
    """Its git directory."""
    journal: str
    index: str
    """The digest of its new index, by which we know a lock of ours again."""


class BranchMove(msgspec.Struct, frozen=True, kw_only=True):
    """What is under way, kept on disk while it is."""

    format: int = FORMAT
    directory: str
    top: str
    common: str
    ref: str
    old: str
    new: str
    checkouts: tuple[ChangedCheckout, ...] = ()


MOVE = FileRecord(BranchMove, format=FORMAT)


def tip(user: UserRepository, ref: str) -> str:
    done = user.run("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", check=False)
    if done.code != 0:
        raise checkouts.missing(user, ref)
    return done.stdout.decode().strip()


def contains(user: UserRepository, ref: str, commit: str) -> bool:
    """Whether the branch has this commit now."""
    return user.run("merge-base", "--is-ancestor", commit, ref, check=False).code == 0


def look(user: UserRepository, ref: str, store: Store, old: str, new: str) -> None:
    """Raise WorkspaceError if a checkout stands in the way of this move as it is now.

    Where the branch has left `old`, the files of its checkouts have too, and prove nothing: `move` says that it moved.
    """
    with user.lock():
        if tip(user, ref) == old:
            _changes(user, ref, store, old, new)


def move(user: UserRepository, ref: str, store: Store, old: str, new: str, why: str) -> list[str]:
    """Move the branch. The store has the new commit and what it needs. Raises BranchMoved, and WorkspaceError when a
    checkout of the branch stands in the way; in both cases nothing has changed. Returns the checkouts whose files
    could not follow, because someone changed one of them in that moment."""
    with user.lock():
        _recover(user.common)
        if tip(user, ref) != old:
            raise BranchMoved(f"{ref} is no longer at {old[:12]}")
        give(store, user, new, without=old)
        changes = _changes(user, ref, store, old, new)
        return _Moving(user, ref, old, new).run(store, changes, why)


def _changes(user: UserRepository, ref: str, store: Store, old: str, new: str) -> list[CheckoutChange]:
    there = checkouts.of_branch(user, ref)
    if not there:
        return []
    before, files = store.borrow_tree(old)
    after, _ = store.borrow_tree(new)
    deltas = store.deltas(before, after, renames=False)
    return [CheckoutChange(checkout, files, deltas) for checkout in there]


class _Moving:
    def __init__(self, user: UserRepository, ref: str, old: str, new: str) -> None:
        self.user, self.ref, self.old, self.new = user, ref, old, new
        self.place = os.path.join(_place(user.common), f"{secrets.token_hex(8)}.json")

    def run(self, store: Store, changes: Sequence[CheckoutChange], why: str) -> list[str]:
        indexes = [_new_index(change) for change in changes]
        record = BranchMove(
            directory=self.user.directory,
            top=self.user.top,
            common=self.user.common,
            ref=self.ref,
            old=self.old,
            new=self.new,
            checkouts=tuple(
                ChangedCheckout(
                    top=change.top,
                    directory=change.checkout.directory,
                    journal=f"{self.place.removesuffix('.json')}.{number}",
                    index=hashlib.sha256(index).hexdigest(),
                )
                for number, (change, index) in enumerate(zip(changes, indexes, strict=True))
            ),
        )
        MOVE.save(self.place, record)
        try:
            for change, index, noted in zip(changes, indexes, record.checkouts, strict=True):
                _lock_index(change, index)
                writes, deletes = change.files(store)
                journal.stage(noted.journal, change.top, writes, deletes)
            arguments = ["update-ref", "-m", why, self.ref, self.new, self.old]
            done = self.user.run(*arguments, check=False)
        finally:
            # Whatever happened: the branch tells whether it has moved.
            moved, behind = _settle(self.place, record)
        if not moved:
            raise BranchMoved(f"{self.ref} could not be moved from {self.old[:12]}: {done.complaint}")
        return behind


def _new_index(change: CheckoutChange) -> bytes:
    """The index of the checkout with the changed entries; made by git from a copy, without looking at any file."""
    lines, skipped = change.index_lines()
    with scratch.directory("index") as directory:
        path = os.path.join(directory, "index")
        if change.index:
            write(path, change.index)
        env = {"GIT_INDEX_FILE": path}
        change.checkout.run("update-index", "-z", "--index-info", stdin=lines, env=env)
        if skipped:
            change.checkout.run("update-index", "-z", "--skip-worktree", "--stdin", stdin=skipped, env=env)
        return read(path)


def _lock_index(change: CheckoutChange, index: bytes) -> None:
    """Lock the index as git does, with a file that is to replace it."""
    deadline = time.monotonic() + LOCK_SECONDS
    lock = change.checkout.file("index.lock")
    while True:
        try:
            place_new(lock, index)
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                raise Busy(
                    f"another git command is running in {change.checkout.top}",
                    hint=f"if there is none, remove {lock}",
                ) from None
            time.sleep(0.05)
    if (read_if_there(change.checkout.file("index")) or b"") != change.index:
        raise BranchMoved(f"the index of {change.checkout.top} was changed meanwhile")


# Finishing...


def recover(user: UserRepository) -> None:
    """Finish or forget what a killed process has left under way in this repository."""
    with user.lock():
        _recover(user.common)


def _place(common: str) -> str:
    name = hashlib.blake2b(os.fsencode(common), digest_size=12).hexdigest()
    return private_dir(os.path.join(private_dir(os.path.join(state_dir(), "branch-moves")), name))


def _recover(common: str) -> None:
    place = _place(common)
    for name in sorted(os.listdir(place)):
        if name.endswith(".json"):
            path = os.path.join(place, name)
            if (record := MOVE.load(path)) is not None:
                _settle(path, record)


def _settle(path: str, record: BranchMove) -> tuple[bool, list[str]]:
    """Bring the checkouts to where the branch is. Returns whether it has the new commit, and who could not follow."""
    user = UserRepository(record.top, record.directory, record.common, linked=False)
    behind: list[str] = []
    moved = os.path.isdir(record.common) and contains(user, record.ref, record.new)
    for checkout in record.checkouts:
        lock = os.path.join(checkout.directory, "index.lock")
        ours = _digest(lock) == checkout.index
        if moved:
            if journal.settle(checkout.journal) == "undone":
                behind.append(checkout.top)
            if ours:
                rename(lock, os.path.join(checkout.directory, "index"))
        else:
            journal.abandon(checkout.journal)
            if ours:
                os.unlink(lock)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return moved, behind


def _digest(path: str) -> str:
    data = read_if_there(path)
    return "" if data is None else hashlib.sha256(data).hexdigest()
