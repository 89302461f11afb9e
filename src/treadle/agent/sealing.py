"""Keeps the git repositories of a session's workspaces out of its programs' reach, and takes over what they commit.

Each workspace with a repository gets a private one, made once for the session; `workspace/in_place.py` does the rest.
Git directories below the top of a workspace cannot be changed, and one that a program made is moved aside after a turn.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from treadle.errors import TreadleError
from treadle.io import scratch
from treadle.io.files import locked
from treadle.io.paths import private_dir, state_dir
from treadle.io.sandbox import methods, places
from treadle.io.sandbox.activity import activity
from treadle.io.sandbox.matches import Matches
from treadle.io.stopping import limited
from treadle.io.within import start_held
from treadle.session import Confinement, Mount
from treadle.workspace.git_names import is_git

if TYPE_CHECKING:
    from treadle.workspace.in_place import InPlace

LEAST_SECONDS = 15.0
"""For what one repository takes over from the other in a turn that used all its time."""
QUICK = 0.003
"""Seconds. A look at the workspaces that takes longer is not repeated for every command."""


class _RepositoryLook(NamedTuple):
    """What a look at the workspaces has found."""

    starts: int = -1
    """How many programs of ours had been started there by then; -1 while one ran."""
    found: AbstractSet[str] = frozenset()
    unread: tuple[str, ...] = ()
    seconds: float = 0.0


class Sealing:
    def __init__(
        self,
        write: tuple[str, ...],
        session: str,
        walls: Callable[[], Confinement | None],
        wanted: Callable[[], bool],
        time_left: Callable[[], float | None],
    ) -> None:
        """`walls`: how a program that is started now is confined; `wanted`: whether it is; `time_left`: the seconds
        that the turn still has, None where it has no limit."""
        self._write = write
        self._session = session
        self._walls = walls
        self._wanted = wanted
        self._time_left = time_left
        self._made: list[InPlace] | None = None
        self._home = ""
        self._nested = Matches(write, _is_repository)
        self._theirs: set[str] = set()
        """The git directories below the workspaces that were there before, or that the user has made since."""
        self._last = _RepositoryLook()
        self._lock = asyncio.Lock()
        """One look at the repositories, or one takeover from them, at a time: commands that run side by side share
        them, and a branch and its index move together."""
        self._taking = False
        """Whether what programs commit is taken over at all; what a check does to git is not."""
        self._notes: list[str] = []
        self._settling: set[asyncio.Task[None]] = set()
        self._held: locked | None = None
        """Locked while this session lives: its repositories are not to be taken for those of a killed one."""

    def begin(self) -> list[InPlace]:
        """Make the private repositories, the first time."""
        if self._made is None:
            self._theirs = set(self._look())
            self._made = [*self._sealed()] if methods.available().method == "bubblewrap" else []
        return self._made

    def _sealed(self) -> list[InPlace]:
        from treadle.workspace.in_place import (  # imported here because few sessions start a command at once
            OWNED,
            InPlace,
        )
        from treadle.workspace.user_repository import UserRepository

        found = [user for place in self._write if (user := UserRepository.at(place)) is not None]
        if not found:
            return []
        home = private_dir(os.path.join(state_dir(), "git"))
        number = 1
        while os.path.lexists(self._home or home):
            self._home = os.path.join(home, f"{self._session}-{number}")
            number += 1
        os.mkdir(self._home, mode=0o700)
        self._held = locked(os.path.join(self._home, OWNED), 0)
        self._held.__enter__()
        made = []
        for at, user in enumerate(found):
            try:
                made.append(InPlace(user, os.path.join(self._home, str(at)), self._session, at))
                self._notes += filter(None, [made[-1].problem])
            except (
                TreadleError,
                OSError,
            ) as error:  # then `.git` is read-only, as if we did not know it
                self._notes.append(f"commands cannot commit in {user.top}: {error}")
        return made

    def mounts(self) -> tuple[Mount, ...]:
        return tuple(mount for place in self.begin() for mount in place.mounts)

    def read_only(self) -> list[str]:
        """What programs may not change, whether it exists or not."""
        sealed = self.begin()
        covered = [mount.target for mount in self.mounts()]
        links = [link for place in sealed for link in place.submodules()]
        found = [*map(_git_directory, self._theirs), *(path for place in sealed for path in place.read_only())]
        found += [os.path.join(link, ".git") for link in links]
        # The user's git enters a submodule even if there is nothing in it yet, so nothing may come to be there.
        found += [link for link in links if os.path.isdir(link) and not os.path.lexists(os.path.join(link, ".git"))]
        tops = [place for place in found if places.is_under(place, *self._write)]
        return [place for place in dict.fromkeys(tops) if not places.is_under(place, *covered)]

    def new_repositories(self) -> list[str]:
        """Git directories that a program has made since the session began."""
        if self._made is None:
            return []
        mounted = {mount.target for mount in self.mounts()}
        return [path for path in self._look() if path not in self._theirs and path not in mounted]

    def _look(self) -> list[str]:
        """The git directories in the workspaces now. What came since the last look, while no program of ours ran, the
        user has made. What came while one ran may be the program's."""
        began, last = time.monotonic(), self._last
        starts, running = activity(self._write)
        found = self._nested.find()
        if last.starts == starts and not running:
            new = set(found) - last.found
            self._theirs |= {path for path in new if not places.is_under(path, *last.unread)}
        quiet = not running and methods.available().method == "bubblewrap"
        took = time.monotonic() - began
        self._last = _RepositoryLook(starts if quiet else -1, set(found), tuple(self._nested.unread), took)
        return found

    def _look_again(self, after: bool) -> None:
        """Before or after a command, if that can tell us something and takes no time that a person would notice."""
        last = self._last
        if self._made is not None and (last.seconds < QUICK or not after and last.starts == activity(self._write)[0]):
            self._look()

    async def ready(self) -> list[str]:
        """Before a command or a turn. Returns what a person should know."""
        notes: list[str] = []
        self._taking = True
        if self._wanted():
            async with self._lock:
                await asyncio.to_thread(self._look_again, False)
                if self._made is None:
                    notes += await self._leftovers()
                for place in self._made if self._made is not None else await asyncio.to_thread(self.begin):
                    try:
                        with self._limited():
                            await place.ready(partial(self._inside, place))
                    except (TreadleError, OSError) as error:
                        notes.append(f"the agent's repository does not follow yours: {error}")
        notes += self._notes
        self._notes = []
        return notes

    async def _leftovers(self) -> list[str]:
        """What sessions and tasks that were killed have done with git in these workspaces becomes branches."""
        notes: list[str] = []
        if os.path.isdir(os.path.join(state_dir(), "git")):
            from treadle.agent.leftovers import adopt

            notes += [note for place in self._write for note in await adopt(place)]
        if os.path.isdir(os.path.join(state_dir(), "worktrees")):
            from treadle.agent.isolation import take_over

            notes += [note for place in self._write for note in await take_over(place)]
        return notes

    async def settle(self) -> list[str]:
        """After a command or a turn. Returns what a person, and the agent, should know.

        Once begun it goes on to its end, also when this is cancelled: a branch does not move without its index. The
        next call then waits for it, and returns what there is to say.
        """
        self._taking = True
        await asyncio.shield(start_held(self._settling, self._settle()))
        notes, self._notes = self._notes, []
        return notes

    async def _settle(self) -> None:
        async with self._lock:
            with self._limited():
                for place in self._made or ():
                    if self._wanted():
                        self._notes += await place.settle(partial(self._inside, place))
            if self._wanted():
                await asyncio.to_thread(self._look_again, True)

    def _limited(self) -> AbstractContextManager[None]:
        """For all steps together: the time that the turn has left, or a little if it has none."""
        left = self._time_left()
        return limited(None if left is None else max(left, LEAST_SECONDS))

    async def _inside(self, place: InPlace, script: str, given: Mapping[str, bytes]) -> dict[str, bytes]:
        from treadle.agent.inside import run_inside

        walls = self._walls()
        assert walls is not None
        return await run_inside(walls, place.user.top, script, given)

    def close(self) -> None:
        """Remove the private repositories, unless something in them was not taken over."""
        unsettled = []
        for place in self._made or ():
            if place.is_settled() or not self._taking:
                place.remove()
            else:
                unsettled.append(place)
        if self._made is not None:
            self._made = unsettled  # a sidecar's turn is settled after its program has ended, which closes this
        if self._held is not None:
            if os.path.isdir(self._home) and os.listdir(self._home) == [os.path.basename(self._held.path)]:
                scratch.remove(self._home)
            self._held.__exit__(None, None, None)
            self._held = None


def _is_repository(path: str) -> bool:
    """Whether this makes its directory a repository for git: `.git`, or the HEAD of one that has no checkout.

    Git looks for objects and refs where `commondir` says, if there is one. One of these beside HEAD is enough for us:
    an agent could add the others later.
    """
    name = os.path.basename(path)
    if name != "HEAD":
        return is_git(name)
    beside = os.path.dirname(path)
    return any(os.path.lexists(os.path.join(beside, one)) for one in ("commondir", "objects", "refs"))


def _git_directory(path: str) -> str:
    return path if is_git(os.path.basename(path)) else os.path.dirname(path)
