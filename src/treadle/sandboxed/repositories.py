"""The private repositories of agents: a git run inside, commits taken out, work apart, and what is left over."""

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from treadle.errors import Busy, LocalError, TimedOut, TreadleError, WorkspaceError
from treadle.io import files, scratch
from treadle.io.descriptors import remove_tree
from treadle.io.files import locked, read_at_most
from treadle.io.paths import private_dir, state_dir
from treadle.io.sandbox import methods
from treadle.io.sandbox.start import start
from treadle.io.tasks import at_most, within
from treadle.policy.environment import reduced
from treadle.session import Confinement, Mount
from treadle.workspace import index_file
from treadle.workspace.gate import TreeGate, waiting
from treadle.workspace.in_place import APART, LIST, LOCK, OWNED, PLACE, RECORD, Inside, PlaceRecord, Takeover, recalled
from treadle.workspace.private_git import STATES, BadListing, ref_files
from treadle.workspace.store import LONG, lacks, receive_bundle
from treadle.workspace.user_repository import ID, UserRepository, forget
from treadle.workspace.workspace import Workspace, open_workspace, prepare

# Runs a script where an agent's programs run: a git of the agent's repository can run what the agent has set up.

LOOK_SECONDS = 15.0
"""For a look at the agent's repository: all that a person waits for after they have stopped a run."""
INSIDE_SECONDS = 60.0
"""For what moves objects or refs."""
LARGEST = 1 << 30
"""Bytes of what comes out at once; larger work stays where it is, and that is reported."""
ROOM = "/run/treadle"


async def run_inside(
    walls: Confinement, cwd: str, script: str, given: Mapping[str, bytes], env: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Run a shell script behind these walls, without the network. It finds `given` as files in /run/treadle/in; the
    result is what it left in /run/treadle/out. Raises LocalError when it fails."""
    with scratch.directory("inside") as room:
        into, out = os.path.join(room, "in"), os.path.join(room, "out")
        os.mkdir(into)
        os.mkdir(out)
        for name, data in given.items():
            files.write(os.path.join(into, name), data)
        shown = (Mount(source=into, target=f"{ROOM}/in"), Mount(source=out, target=f"{ROOM}/out", write=True))
        walls = replace(
            walls, network="off", hosts=(), sockets=(), relay=None, home=None, mounts=(*walls.mounts, *shown)
        )
        own = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **(env or {})}
        output, seconds = b"", at_most(LOOK_SECONDS if script is LIST else INSIDE_SECONDS)
        try:
            async with within(seconds):
                child = await start(walls, ["/bin/sh", "-c", script], cwd=cwd, env=own, stderr="stdout")
                async with child:
                    while data := await child.stdio.read():
                        output = (output + data)[-4096:]
                    code = await child.wait()
        except TimeoutError as error:
            raise TimedOut(f"git did not end within {round(seconds, 1):g} s") from error
        if code:
            raise LocalError(f"git says: {output.decode(errors='replace').strip()[-500:] or f'exit code {code}'}")
        return await asyncio.to_thread(_files, out)


def _files(directory: str) -> dict[str, bytes]:
    """What a program left here. Links are not followed, and anything but files is left out."""
    found = {}
    for name in os.listdir(directory):
        try:
            data = read_at_most(os.path.join(directory, name), LARGEST + 1, follow=False)
        except OSError:
            continue
        if len(data) > LARGEST:
            raise LocalError(f"it is larger than {LARGEST >> 20} MiB")
        found[name] = data
    return found


# Takes the commits out of a repository that an agent could write: a git inside a sandbox puts them into a bundle.
#
# That git may run what the agent's settings say, so it runs only behind walls. The bundle is checked whole when it is
# taken into our store (`workspace/store.py`).

BUNDLE_SECONDS = 60.0
BUNDLE_CAP = 1 << 30


async def bundle_of(top: str, since: str, shown: Sequence[str]) -> bytes:
    """A bundle of what the repository in the directory `top` has at HEAD beyond a commit.

    `shown`: the objects that it borrows. Raises ConfigError where there is no sandbox.
    """
    with scratch.directory("bundling") as temp:
        walls = Confinement(use="on", network="off", write=(top,), read_only=tuple(shown), temp=temp)
        methods.wanted(walls, None)
        return await bundle_inside(walls, top, ["HEAD", f"^{since}"])


async def bundle_inside(walls: Confinement, root: str, revisions: Sequence[str]) -> bytes:
    """A bundle of what `git rev-list` would list in the directory `root`, made behind these walls."""
    argv = ["git", "bundle", "create", "--quiet", "-", *revisions]
    bundle = bytearray()
    async with await start(walls, argv, cwd=root, env=reduced(os.environ)) as child:
        try:
            async with within(BUNDLE_SECONDS):
                while data := await child.stdio.read():
                    bundle += data
                    if len(bundle) > BUNDLE_CAP:
                        raise WorkspaceError(f"its commits have more than {BUNDLE_CAP} bytes")
                code = await child.wait()
        except TimeoutError:
            raise WorkspaceError(f"its commits were not bundled within {BUNDLE_SECONDS:g} s") from None
    if code != 0:
        raise WorkspaceError(f"its commits are not in the branch: git bundle ended with {code}")
    return bytes(bundle)


# A directory for one task, written from a commit: kept, with a branch for its changes, if there are any.
#
# The task has a git directory of its own there. No git of ours runs in what it leaves: its files are read by us, its
# commits come out in a bundle that is made inside a sandbox, and the branch is made in the user's repository of what
# was hashed on the way.


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


# The private repositories of sessions that have ended with something in them that was not taken over.
#
# A session locks its directory in STATE/git while it lives. The next one in the same checkout looks for those without
# an owner, and makes branches of their commits. What is unfinished there is left to a person: `look` says what there
# is, `hand_over` puts it into their repository. Such a git may run what the agent's settings say, so it runs only
# inside a sandbox.

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
        record = PLACE.load(os.path.join(home, name, RECORD)) if name.isdigit() else None
        if record is not None:
            found.append(Leftover(home, os.path.join(home, name), record))
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
    if await asyncio.to_thread(index_file.release, user, os.path.join(left.directory, LOCK)):
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
            f" `treadle git adopt {name}` takes it over, `treadle gc git:{name}` removes it"
        )
    else:
        await asyncio.to_thread(_remove, left)
    return notes


# Leftovers on request: listed, handed over, dropped.


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
                await asyncio.to_thread(index_file.release, taking.user, os.path.join(left.directory, LOCK))
                notes = await taking.adopt(inside)
        except BadListing as error:
            raise WorkspaceError(f"session {left.record.session} left work that cannot be adopted: {error}") from error
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


# Leftovers as the next session reads them.


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
    """Each commit becomes a branch, whatever its ref was called; what the gate refuses, a ref of ours."""
    made = []
    gate = TreeGate(user)
    for commit in commits:
        name = f"treadle/{left.record.session}-{commit[:8]}"
        words = ["update-ref", "-m", "treadle: from a killed session"]
        waits = bool(waiting(user, gate, [commit]))
        if waits or user.run(*words, f"refs/heads/{name}", commit, check=False).code != 0:  # such as a tag
            name = f"{APART}{left.record.session}/{commit[:8]}"
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
