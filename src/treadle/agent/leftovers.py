"""The private repositories of sessions that were killed: what they committed and was not taken over becomes branches.

A session locks its directory in STATE/git while it lives. The next one in the same checkout looks for those without an
owner. Their git may run what the agent's settings say, so it runs only inside a sandbox.
"""

import asyncio
import os
from typing import NamedTuple

import msgspec

from treadle.agent.bundling import bundle_inside
from treadle.errors import Busy, TreadleError, WorkspaceError
from treadle.io import scratch
from treadle.io.files import locked, read_at_most
from treadle.io.paths import state_dir
from treadle.io.reading import read_if_there
from treadle.io.sandbox import methods
from treadle.session import Confinement, Mount
from treadle.workspace import staging
from treadle.workspace.exchange import lacks, receive_bundle
from treadle.workspace.in_place import LOCK, OWNED, RECORD, PlaceRecord
from treadle.workspace.listing import STATES, ref_files
from treadle.workspace.user_repository import ID, UserRepository

REFS_CAP = 16 << 20
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


def find() -> list[Leftover]:
    """All that is kept of sessions that no longer live."""
    base = os.path.join(state_dir(), "git")
    found: list[Leftover] = []
    for home in sorted(os.listdir(base)) if os.path.isdir(base) else ():
        home = os.path.join(base, home)
        if not os.path.exists(os.path.join(home, OWNED)):
            continue  # it is being made, or was left by an earlier release
        try:
            with locked(os.path.join(home, OWNED), 0):
                found += _places(home)
        except Busy:
            continue
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
    said: list[str] = []
    for left in await asyncio.to_thread(find):
        if left.record.top != top:
            continue
        try:
            with locked(os.path.join(left.home, OWNED), 0):
                said += await _adopt(left)
        except Busy:
            continue  # another session does it
        except (TreadleError, OSError) as error:
            said.append(
                f"session {left.record.session} ended before its commits were taken over: they are kept in"
                f" {left.private} ({error})"
            )
    return said


async def _adopt(left: Leftover) -> list[str]:
    said = []
    if await asyncio.to_thread(staging.release, os.path.join(left.directory, LOCK)):
        said.append(f"session {left.record.session} was killed while it held the index of {left.record.top}: unlocked")
    user = await asyncio.to_thread(UserRepository.at, left.record.top)
    if user is None:
        raise WorkspaceError(f"{left.record.top} is no longer a checkout")
    missing = await asyncio.to_thread(lambda: lacks(user, sorted(_ids(left.private))))
    if missing:
        made = await _branches(left, user, missing)
        said.append(
            f"session {left.record.session} ended before its commits were taken over: they are now {', '.join(made)}"
        )
    if not unfinished(left):
        await asyncio.to_thread(_remove, left)
    return said


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


async def _branches(left: Leftover, user: UserRepository, missing: list[str]) -> list[str]:
    refs = (await asyncio.to_thread(user.refs)).values()
    known = [f"^{at}" for at in dict.fromkeys(refs) if ID.fullmatch(at)][:KNOWN]
    mounts = tuple(Mount(source=source, target=target) for source, target in left.record.objects)
    with scratch.directory("bundling") as temp:
        walls = Confinement(use="on", network="off", write=(left.private,), mounts=mounts, temp=temp)
        methods.wanted(walls, None)
        bundle = await bundle_inside(walls, left.private, ["--all", *missing, *known])
    return await asyncio.to_thread(_take, left, user, bundle, missing)


def _take(left: Leftover, user: UserRepository, bundle: bytes, missing: list[str]) -> list[str]:
    """Every object is hashed on the way. Each commit that was missing becomes a branch, whatever its ref was called."""
    receive_bundle(user, bundle, missing)
    made = []
    for commit in missing:
        name = f"treadle/{left.record.session}-{commit[:8]}"
        words = ["update-ref", "-m", "treadle: from a killed session"]
        if user.run(*words, f"refs/heads/{name}", commit, check=False).code != 0:  # not a commit, such as a tag
            name = f"refs/{name}"
            user.run(*words, name, commit)
        made.append(name)
    return made


def _remove(left: Leftover) -> None:
    scratch.remove(left.directory)
    if os.listdir(left.home) == [OWNED]:
        scratch.remove(left.home)
