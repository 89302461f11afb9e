"""A git worktree for one task: made for it, kept with its branch if anything changed there, removed if not."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from treadle.errors import WorkspaceError
from treadle.io.paths import private_dir, state_dir
from treadle.work.git import Repository, Worktree


class Place:
    """Where an isolated task works. `cwd` is the directory in the worktree that the task was started in."""

    def __init__(self, tree: Worktree, cwd: str, pending: int) -> None:
        self.tree = tree
        self.cwd = cwd
        self.pending = pending
        """How many changes of the original directory were not committed, and so are not here."""
        self.kept = True

    def release(self) -> None:
        self.kept = not self.tree.remove_if_unchanged()


@asynccontextmanager
async def isolated(cwd: str, label: str) -> AsyncIterator[Place]:
    """A worktree of the repository that `cwd` is in. Afterwards `kept` says whether it is still there."""
    making = asyncio.ensure_future(asyncio.to_thread(_make, cwd, label))
    try:
        place = await asyncio.shield(making)
    except asyncio.CancelledError:
        # git is not interrupted half-way: what it has made is taken away again.
        await asyncio.wait([making])
        if making.exception() is None:
            await asyncio.to_thread(making.result().release)
        raise
    try:
        yield place
    finally:
        await asyncio.to_thread(place.release)


def _make(cwd: str, label: str) -> Place:
    repository = Repository.find(cwd)
    if repository is None:
        raise WorkspaceError(f"{cwd} is not in a git repository, so it has no worktrees", hint="run git init there")
    name = f"{re.sub(r'[^A-Za-z0-9]+', '-', label).strip('-')[:30].lower() or 'agent'}-{secrets.token_hex(4)}"
    path = os.path.join(private_dir(os.path.join(state_dir(), "worktrees")), name)
    tree = repository.add_worktree(path, f"treadle/{name}")
    inside = os.path.relpath(os.path.realpath(cwd), os.path.realpath(repository.top))
    here = os.path.normpath(os.path.join(tree.path, inside))
    os.makedirs(here, exist_ok=True)
    return Place(tree, here, len(repository.git("status", "--porcelain").splitlines()))
