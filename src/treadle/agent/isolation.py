"""A git worktree for one task: made for it, kept with its branch if anything changed there, removed otherwise."""

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from treadle.io.paths import private_dir, state_dir
from treadle.workspace.git import Worktree, check_out


class IsolatedPlace:
    """Where an isolated task works. `cwd` is the directory in the worktree that matches the task's own."""

    def __init__(self, tree: Worktree, cwd: str, pending: int) -> None:
        self.tree = tree
        self.cwd = cwd
        self.pending = pending
        """How many uncommitted changes the original directory has, which are therefore missing here."""
        self.kept = True

    def release(self) -> None:
        self.kept = not self.tree.remove_if_unchanged()


@asynccontextmanager
async def isolated(cwd: str, label: str) -> AsyncIterator[IsolatedPlace]:
    """A worktree of the repository that `cwd` is in. Afterwards `kept` says whether it still exists."""
    making = asyncio.ensure_future(asyncio.to_thread(_make, cwd, label))
    try:
        place = await asyncio.shield(making)
    except asyncio.CancelledError:
        # git is not interrupted half-way: what it has made is removed again.
        await asyncio.wait([making])
        if making.exception() is None:
            await asyncio.to_thread(making.result().release)
        raise
    try:
        yield place
    finally:
        await asyncio.to_thread(place.release)


def _make(cwd: str, label: str) -> IsolatedPlace:
    name = f"{re.sub(r'[^A-Za-z0-9]+', '-', label).strip('-')[:30].lower() or 'agent'}-{secrets.token_hex(4)}"
    path = os.path.join(private_dir(os.path.join(state_dir(), "worktrees")), name)
    made = check_out(cwd, path, f"treadle/{name}", hint="run git init there")
    return IsolatedPlace(made.tree, made.cwd, made.pending)
