"""A directory for one task, written from a commit: kept, with a branch for its changes, if there are any.

The task has a git directory of its own there. No git of ours runs in what it leaves: its files are read by us, its
commits come out in a bundle that is made inside a sandbox, and the branch is made in the user's repository of what was
hashed on the way.
"""

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from treadle.agent.bundling import bundle_of
from treadle.errors import Busy, TreadleError, WorkspaceError
from treadle.io.files import locked
from treadle.io.paths import private_dir, state_dir
from treadle.io.removing import remove_tree
from treadle.workspace.in_place import OWNED
from treadle.workspace.reopened import open_workspace
from treadle.workspace.user_repository import UserRepository
from treadle.workspace.workspace import Workspace, prepare


class IsolatedPlace:
    """Where an isolated task works. `cwd` is the directory there that matches the task's own."""

    def __init__(self, workspace: Workspace, label: str, held: locked) -> None:
        """`held`: the lock on its directory, which tells others that the task lives."""
        self._held = held
        self._workspace = workspace
        self._label = label
        self.cwd = workspace.root
        self.top = workspace.top
        self.branch = workspace.place.branch or ""
        """What the branch with its changes is called, once it is made."""
        self.notes = list(workspace.notes)
        """What is missing here that a person might expect."""
        self.problems: list[str] = []
        """What could not be taken into the branch, and is only here."""
        self.exists = True
        self.published = False

    async def release(self) -> None:
        """Make the branch and keep the directory, if anything changed; otherwise remove it."""
        try:
            await self._release()
        finally:
            self._held.__exit__(None, None, None)
            with suppress(FileNotFoundError):
                os.unlink(self._held.path)  # what is kept from now on is for a person

    async def _release(self) -> None:
        try:
            if await asyncio.to_thread(self._workspace.holds_work):
                await self._publish()
            else:
                await asyncio.to_thread(self.discard)
        except TreadleError as error:
            self.problems.append(f"the branch {self.branch} was not made, the work is in {self.top}: {error}")

    async def _publish(self) -> None:
        unread = (await asyncio.to_thread(self._workspace.difference)).unread
        self.problems += [f"not in the branch, only in {self.top}: {unread}"] if unread else []
        commit, message = await self._commits(), f"{self._label}: what a subagent left"
        self.published = await asyncio.to_thread(self._workspace.publish, message, commit) is not None
        if self.published:
            await asyncio.to_thread(self._workspace.forget_base)  # the branch keeps it from now on
        if self.published and not self.problems:
            await asyncio.to_thread(remove_tree, self._workspace.store.directory)

    async def _commits(self) -> str | None:
        """The last of the task's own commits, in our store."""
        workspace = self._workspace
        if not await asyncio.to_thread(workspace.has_committed):
            return None
        try:
            bundle = await bundle_of(self.top, str(workspace.place.start), workspace.store.lenders)
            return await asyncio.to_thread(workspace.take_commits, bundle)
        except TreadleError as error:
            self.problems.append(f"its own commits are only in {self.top}, the branch has its files: {error}")
            return None

    def discard(self) -> None:
        self.exists = False
        self._workspace.discard()


@asynccontextmanager
async def isolated(cwd: str, label: str) -> AsyncIterator[IsolatedPlace]:
    """A directory with the files of the commit that `cwd` has checked out. Afterwards `exists` says if it is there."""
    making = asyncio.ensure_future(asyncio.to_thread(_make, cwd, label))
    try:
        place = await asyncio.shield(making)
    except asyncio.CancelledError:
        # It is not interrupted half-way: what was made is removed again.
        await asyncio.wait([making])
        if making.exception() is None:
            await asyncio.to_thread(making.result().discard)
        raise
    try:
        yield place
    finally:
        await place.release()


def _make(cwd: str, label: str) -> IsolatedPlace:
    name = f"{re.sub(r'[^A-Za-z0-9]+', '-', label).strip('-')[:30].lower() or 'agent'}-{secrets.token_hex(4)}"
    if UserRepository.around(cwd) is None:
        raise WorkspaceError(f"{cwd} is not in a git repository, so it has no worktrees", hint="run git init there")
    directory = private_dir(os.path.join(private_dir(os.path.join(state_dir(), "worktrees")), name))
    held = locked(os.path.join(directory, OWNED), 0)
    held.__enter__()
    try:
        return IsolatedPlace(prepare("worktree", cwd, directory, name=name), label, held)
    except BaseException:
        held.__exit__(None, None, None)
        remove_tree(directory)
        raise


# What killed tasks have left...


async def take_over(top: str) -> list[str]:
    """Make branches of what killed tasks have left of the repository at `top`. Returns what a person should know."""
    base, notes = os.path.join(state_dir(), "worktrees"), []
    for name in sorted(await asyncio.to_thread(os.listdir, base)):
        directory = os.path.join(base, name)
        if os.path.exists(os.path.join(directory, OWNED)):  # one that is kept for a person has none
            try:
                notes += await _take_over(directory, top)
            except Busy:
                continue  # it lives, or another session takes it over
            except (TreadleError, OSError) as error:
                notes.append(f"a task was killed, and its work is only in {directory}: {error}")
    return notes


async def _take_over(directory: str, top: str) -> list[str]:
    held = locked(os.path.join(directory, OWNED), 0)
    held.__enter__()
    try:
        workspace = await asyncio.to_thread(_left_here, directory, top)
    except BaseException:
        held.__exit__(None, None, None)
        raise
    if workspace is None:
        held.__exit__(None, None, None)
        return []
    place = IsolatedPlace(workspace, os.path.basename(directory).rpartition("-")[0], held)
    await place.release()
    if not place.exists:
        return []
    made = f"is now the branch {place.branch}, and" if place.published else "is"
    return [f"a task was killed before it ended: its work {made} in {place.top}", *place.problems]


def _left_here(directory: str, top: str) -> Workspace | None:
    """What is left in the directory of a task; None if it is about another checkout, or the task had not begun."""
    workspace = open_workspace(directory)
    if workspace is None:
        remove_tree(directory)
        return None
    user = UserRepository.around(workspace.place.source)
    return workspace if user is not None and os.path.realpath(user.top) == os.path.realpath(top) else None
