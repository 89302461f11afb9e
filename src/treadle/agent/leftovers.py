"""The private repositories of sessions that have ended with something in them that was not taken over.

A session locks its directory in STATE/git while it lives. The next one in the same checkout looks for those without an
owner, and makes branches of their commits. What is unfinished there is left to a person: `look` says what there is,
`hand_over` puts it into their repository. Such a git may run what the agent's settings say, so it runs only inside a
sandbox.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from treadle.agent.bundling import bundle_inside
from treadle.agent.inside import run_inside
from treadle.errors import Busy, TreadleError, WorkspaceError
from treadle.io import scratch
from treadle.io.files import locked, read_at_most
from treadle.io.paths import state_dir
from treadle.io.reading import read_if_there
from treadle.io.sandbox import methods
from treadle.session import Confinement, Mount
from treadle.workspace import staging
from treadle.workspace.base_refs import forget
from treadle.workspace.exchange import lacks, receive_bundle
from treadle.workspace.in_place import OWNED, RECORD, PlaceRecord
from treadle.workspace.listing import STATES, BadListing, ref_files
from treadle.workspace.store import LONG
from treadle.workspace.takeover import LOCK, Inside, Takeover, recalled
from treadle.workspace.user_repository import ID, UserRepository

REFS_CAP = 16 << 20
SHOWN = ("refs/heads/", "refs/tags/", "refs/notes/")
KNOWN = 200
"""How many commits of the user's refs a bundle leaves out by name."""


class Leftover(NamedTuple):
    home: str
    """The directory of the session."""
    directory: str
    record: PlaceRecord

    @property
    def private(self) -> str:
        return os.path.join(self.directory, "git")


class GitLeft(msgspec.Struct, frozen=True, kw_only=True):
    """What one session has left in its own repository."""

    session: str
    checkout: str
    repository: str
    at_work: bool = False
    """Whether the session lives: then it is the agent's still."""
    unfinished: tuple[str, ...] = ()
    conflicts: int = 0
    branches: tuple[str, ...] = ()
    """Branches and tags that it made or moved."""
    stashes: int = 0
    problem: str = ""
    """Why more is not known."""


def find(*, living: bool = False) -> list[Leftover]:
    """All that is kept of sessions that no longer live; with `living`, of the others."""
    base = os.path.join(state_dir(), "git")
    found: list[Leftover] = []
    for home in sorted(os.listdir(base)) if os.path.isdir(base) else ():
        home = os.path.join(base, home)
        if not os.path.exists(os.path.join(home, OWNED)):
            continue  # it is being made, or was left by an earlier release
        try:
            with locked(os.path.join(home, OWNED), 0):
                found += _places(home) if not living else []
        except Busy:
            found += _places(home) if living else []
    return found


def _places(home: str) -> list[Leftover]:
    found = []
    for name in sorted(os.listdir(home)):
        data = read_if_there(os.path.join(home, name, RECORD)) if name.isdigit() else None
        if data is not None:
            found.append(Leftover(home, os.path.join(home, name), msgspec.json.decode(data, type=PlaceRecord)))
    return found


def unfinished(left: Leftover) -> list[str]:
    return sorted(name for name in STATES if os.path.lexists(os.path.join(left.private, name)))


async def adopt(top: str) -> list[str]:
    """Take over what killed sessions have left of the checkout at `top`. Returns what a person should know."""
    notes: list[str] = []
    for left in await asyncio.to_thread(find):
        if left.record.top != top:
            continue
        try:
            with locked(os.path.join(left.home, OWNED), 0):
                notes += await _adopt(left)
        except Busy:
            continue  # another session does it
        except (TreadleError, OSError) as error:
            notes.append(
                f"session {left.record.session} ended before its commits were taken over: they are kept in"
                f" {left.private} ({error})"
            )
    return notes


async def _adopt(left: Leftover) -> list[str]:
    notes = []
    user = await asyncio.to_thread(UserRepository.at, left.record.top)
    if user is None:
        raise WorkspaceError(f"{left.record.top} is no longer a checkout")
    if await asyncio.to_thread(staging.release, user, os.path.join(left.directory, LOCK)):
        notes.append(f"session {left.record.session} was killed while it held the index of {left.record.top}: unlocked")
    missing, unnamed = await asyncio.to_thread(_not_taken, left, user)
    if missing or unnamed:
        if missing:
            await _receive(left, user, missing)
        made = await asyncio.to_thread(_name, left, user, [*missing, *unnamed])
        notes.append(
            f"session {left.record.session} ended before its commits were taken over: they are now {', '.join(made)}"
        )
    if stopped := unfinished(left):
        name = left.record.session
        notes.append(
            f"session {name} left work unfinished in its own repository ({', '.join(stopped)}):"
            f" `treadle git adopt {name}` takes it over, `treadle git drop {name}` removes it"
        )
    else:
        await asyncio.to_thread(_remove, left)
    return notes


# What a person asks for...


async def look() -> list[GitLeft]:
    """What there is, in all checkouts. A session that lives is listed if it has something unfinished."""
    living = [left for left in await asyncio.to_thread(lambda: find(living=True)) if unfinished(left)]
    found = [_left(left, at_work=True) for left in living]
    for left in await asyncio.to_thread(find):
        try:
            with locked(os.path.join(left.home, OWNED), 0):
                found.append(await _look(left))
        except (TreadleError, BadListing, OSError) as error:
            found.append(_left(left, problem=str(error)))
    return found


def _left(left: Leftover, *, at_work: bool = False, problem: str = "") -> GitLeft:
    return GitLeft(
        session=left.record.session,
        checkout=left.record.top,
        repository=left.private,
        at_work=at_work,
        unfinished=tuple(unfinished(left)),
        problem=problem,
    )


async def _look(left: Leftover) -> GitLeft:
    async with _reopened(left) as (taking, inside):
        found = await taking.left(inside)
    moved = [name for name, at in found.refs.items() if taking.refs.get(name) != at and name.startswith(SHOWN)]
    return GitLeft(
        session=left.record.session,
        checkout=left.record.top,
        repository=left.private,
        unfinished=found.unfinished,
        conflicts=len({path for path, _, _ in found.conflicts}),
        branches=tuple(sorted(name.removeprefix("refs/heads/").removeprefix("refs/") for name in moved)),
        stashes=len(found.stashes),
    )


async def hand_over(left: Leftover) -> tuple[list[str], bool]:
    """Put what a session left into the user's repository, each ref only from the value that the session knew. Returns
    what the user should know, and whether that was all, so that nothing is kept any more. Raises Busy for a session
    that lives."""
    with locked(os.path.join(left.home, OWNED), 0):
        try:
            async with _reopened(left) as (taking, inside):
                await asyncio.to_thread(staging.release, taking.user, os.path.join(left.directory, LOCK))
                notes = await taking.adopt(inside)
        except BadListing as error:
            raise WorkspaceError(f"session {left.record.session} left what cannot be taken over: {error}") from error
        if not taking.stale:
            await asyncio.to_thread(_remove, left)
    return notes, not taking.stale


async def drop(left: Leftover) -> None:
    """Remove what a session left. Raises Busy for one that lives."""
    with locked(os.path.join(left.home, OWNED), 0):
        await asyncio.to_thread(_remove, left)


@asynccontextmanager
async def _reopened(left: Leftover) -> AsyncIterator[tuple[Takeover, Inside]]:
    user = await asyncio.to_thread(UserRepository.at, left.record.top)
    if user is None:
        raise WorkspaceError(f"{left.record.top} is no longer a checkout")
    taking = Takeover(user, left.directory, left.record.session)
    await asyncio.to_thread(taking.recall)
    with scratch.directory("adopting") as temp, scratch.directory("no-files") as nothing:
        walls = _walls(left, temp)
        env = {"GIT_DIR": left.private, "GIT_WORK_TREE": nothing}

        async def inside(script: str, given: Mapping[str, bytes]) -> Mapping[str, bytes]:
            return await run_inside(walls, left.private, script, given, env)

        yield taking, inside


def _walls(left: Leftover, temp: str) -> Confinement:
    mounts = tuple(Mount(source=source, target=target) for source, target in left.record.objects)
    walls = Confinement(use="on", network="off", write=(left.private,), mounts=mounts, temp=temp)
    methods.wanted(walls, None)
    return walls


# What the next session does...


def _ids(private: str) -> set[str]:
    """The objects that its refs name, read as data: the files are an agent's."""
    found: set[str] = set()
    for path in (os.path.join(private, "HEAD"), os.path.join(private, "packed-refs"), *ref_files(private)):
        try:
            lines = os.fsdecode(read_at_most(path, REFS_CAP, follow=False)).splitlines()
        except OSError:
            continue  # a link, or not there
        found |= {line.split(" ")[0].strip() for line in lines}
    return {one for one in found if ID.fullmatch(one)}


def _not_taken(left: Leftover, user: UserRepository) -> tuple[list[str], list[str]]:
    """What the session's refs name and the user's repository does not have; and what it has already, but by no ref,
    because the session was killed before it moved them. What both began with is the user's own affair."""
    ids = sorted(_ids(left.private))
    missing = lacks(user, ids)
    try:
        head, refs = recalled(left.directory, left.record.session)
    except WorkspaceError:
        return missing, []  # of an earlier release
    known = {at for at in (head, *refs.values(), *user.refs().values()) if ID.fullmatch(at)}
    there = [one for one in ids if one not in known and one not in missing]
    if not there:
        return missing, []
    asked = "".join(f"{one}\n" for one in there).encode()
    kinds = user.run("cat-file", "--batch-check=%(objecttype)", stdin=asked).stdout.decode().split()
    commits = [one for one, kind in zip(there, kinds, strict=True) if kind == "commit"]
    revs = "".join([*(f"{one}\n" for one in commits), *(f"^{one}\n" for one in known)]).encode()
    words = ("rev-list", "--ignore-missing", "--stdin")
    walked = set(user.run(*words, stdin=revs, timeout=LONG).stdout.decode().split()) if commits else set()
    return missing, [one for one, kind in zip(there, kinds, strict=True) if kind == "tag" or one in walked]


async def _receive(left: Leftover, user: UserRepository, missing: list[str]) -> None:
    """Every object is hashed on the way."""
    refs = (await asyncio.to_thread(user.refs)).values()
    known = [f"^{at}" for at in dict.fromkeys(refs) if ID.fullmatch(at)][:KNOWN]
    with scratch.directory("bundling") as temp:
        bundle = await bundle_inside(_walls(left, temp), left.private, ["--all", *missing, *known])
    await asyncio.to_thread(receive_bundle, user, bundle, missing)


def _name(left: Leftover, user: UserRepository, commits: list[str]) -> list[str]:
    """Each commit becomes a branch, whatever its ref was called."""
    made = []
    for commit in commits:
        name = f"treadle/{left.record.session}-{commit[:8]}"
        words = ["update-ref", "-m", "treadle: from a killed session"]
        if user.run(*words, f"refs/heads/{name}", commit, check=False).code != 0:  # not a commit, such as a tag
            name = f"refs/{name}"
            user.run(*words, name, commit)
        made.append(name)
    return made


def _remove(left: Leftover) -> None:
    user = UserRepository.at(left.record.top)
    scratch.remove(left.directory)
    if user is not None:
        forget(user, left.directory)
    if os.listdir(left.home) == [OWNED]:
        scratch.remove(left.home)
