"""What a session's programs are confined to, and how its repositories are kept out of their reach. One per session."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from treadle.confinement import ResourceLimits
from treadle.errors import Denied, TreadleError
from treadle.events import Event, Warned
from treadle.io import scratch
from treadle.io.files import locked
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.programs import distrust
from treadle.io.sandbox import methods, places
from treadle.io.tasks import limited, start_held
from treadle.policy import patterns
from treadle.policy.network import GROUPS, named, parse_network, permitted, refusal
from treadle.policy.protected import PACKAGES, begins, is_protected, leads
from treadle.policy.rules import RuleSet
from treadle.sandboxed.files import FileGate, Loose, TakenOut
from treadle.session import Confinement, Holding, Mode, Mount, SessionSpec, Watching
from treadle.settings.config import Settings, size

if TYPE_CHECKING:
    from treadle.io.sandbox.places import ProtectedNames
    from treadle.io.sandbox.proxy import FoundHosts
    from treadle.workspace.in_place import InPlace
    from treadle.workspace.private_git import Staged


# Keeps the git repositories of a session's workspaces out of its programs' reach, and takes over what they commit.
#
# Each workspace with a repository gets a private one, made once for the session; `workspace/in_place.py` does the
# rest. Git directories below the top of a workspace cannot be changed, and one that a program made is moved aside
# after a turn.

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
        self._nested = places.Matches(write, _is_repository, opens=places.open_up)
        self.theirs: set[str] = set()
        """The git directories below the workspaces that were there before, or that the user has made since."""
        self._last = _RepositoryLook()
        self._lock = asyncio.Lock()
        """One look at the repositories, or one takeover from them, at a time: commands that run side by side share
        them, and a branch and its index move together."""
        self._taking = False
        """Whether what programs commit is taken over at all; what a check does to git is not."""
        self._notes: list[str] = []
        self._settling: set[asyncio.Task[None]] = set()
        self.allowed: Callable[[str], bool] = lambda path: False
        self.files_pass = False
        self._held: locked | None = None
        """Locked while this session lives: its repositories are not to be taken for those of a killed one."""

    @property
    def made(self) -> list[InPlace]:
        return self._made or []

    def begin(self) -> list[InPlace]:
        """Make the private repositories, the first time."""
        if self._made is None:
            self.theirs = set(self._look())
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
        found = [*map(_git_directory, self.theirs), *(path for place in sealed for path in place.read_only())]
        found += [os.path.join(link, ".git") for link in links]
        # The user's git enters a submodule even if there is nothing in it yet, so nothing may come to be there.
        found += [link for link in links if os.path.isdir(link) and not os.path.lexists(os.path.join(link, ".git"))]
        tops = [place for place in found if places.is_under(place, *self._write)]
        return [place for place in dict.fromkeys(tops) if not places.is_under(place, *covered)]

    def new_repositories(self) -> list[str]:
        """Git directories that a program has made since the session began."""
        if self._made is None:
            return []
        mounted = {mount.target for place in self.made for mount in place.mounts}
        new = [path for path in self._look() if path not in self.theirs and path not in mounted]
        return [path for path in new if not any(place.is_worktree(path) for place in self.made)]

    def find(self) -> list[str]:
        """The git directories in the workspaces, but for those that are mounted over."""
        mounted = {mount.target for place in self.made for mount in place.mounts}
        return [path for path in self._nested.find() if path not in mounted]

    def _look(self) -> list[str]:
        """The git directories in the workspaces now. What came since the last look, while no program of ours ran, the
        user has made. What came while one ran may be the program's."""
        began, last = time.monotonic(), self._last
        starts, running = places.activity(self._write)
        found = self._nested.find()
        if last.starts == starts and not running:
            new = set(found) - last.found
            self.theirs |= {path for path in new if not places.is_under(path, *last.unread)}
        quiet = not running and methods.available().method == "bubblewrap"
        took = time.monotonic() - began
        self._last = _RepositoryLook(starts if quiet else -1, set(found), tuple(self._nested.unread), took)
        return found

    def _look_again(self, after: bool) -> None:
        """Before or after a command, if that can tell us something and takes no time that a person would notice."""
        last = self._last
        if self._made is not None and (
            last.seconds < QUICK or not after and last.starts == places.activity(self._write)[0]
        ):
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
            from treadle.sandboxed.repositories import adopt

            notes += [note for place in self._write for note in await adopt(place)]
        if os.path.isdir(os.path.join(state_dir(), "worktrees")):
            from treadle.sandboxed.repositories import take_over

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
                        place.allowed, place.files_pass = self.allowed, self.files_pass
                        self._notes += await place.settle(partial(self._inside, place))
            if self._wanted():
                await asyncio.to_thread(self._look_again, True)

    def _limited(self) -> AbstractContextManager[None]:
        """For all steps together: the time that the turn has left, or a little if it has none."""
        left = self._time_left()
        return limited(None if left is None else max(left, LEAST_SECONDS))

    async def _inside(self, place: InPlace, script: str, given: Mapping[str, bytes]) -> dict[str, bytes]:
        from treadle.sandboxed.repositories import run_inside

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
    if os.path.basename(path) != "HEAD":
        return _named_git(path)
    beside = os.path.dirname(path)
    return any(os.path.lexists(os.path.join(beside, one)) for one in ("commondir", "objects", "refs"))


def _git_directory(path: str) -> str:
    return path if _named_git(path) else os.path.dirname(path)


def _named_git(path: str) -> bool:
    from treadle.workspace.git import is_git  # imported here because few sessions have a sandbox to seal

    return is_git(os.path.basename(path))


# What the native agent's programs are confined to: its workspace, its rules, and what a person asked for.


def settled(asked: Confinement, settings: Settings) -> Confinement:
    """What is asked for; where that is left open, what the settings say."""
    sandbox = settings.sandbox
    if asked.use in ("auto", "possible") and sandbox.use is not None:
        asked = msgspec.structs.replace(asked, use="on" if sandbox.use else "off")
    readable = (*asked.readable, *map(os.path.expanduser, sandbox.read), *places.mentioned(_set_up(settings)))
    sockets = (*asked.sockets, *filter(os.path.isabs, map(_expanded, sandbox.sockets)))
    asked = msgspec.structs.replace(asked, readable=readable, sockets=sockets)
    if asked.limits == ResourceLimits():
        limits = ResourceLimits(memory=size(sandbox.memory), processes=sandbox.processes, disk=size(sandbox.disk))
        asked = msgspec.structs.replace(asked, limits=limits)
    if asked.network == "auto" and settings.network is not None:
        network, hosts = parse_network(settings.network)
        asked = msgspec.structs.replace(asked, network=network, hosts=hosts)
    return asked


def _set_up(settings: Settings) -> str:
    """What a person has set up to be started: a script of theirs in the home directory is shown to itself."""
    hooks = settings.hooks
    lines = [hook.command for hook in (*hooks.pre_tool, *hooks.post_tool, *hooks.turn_end)]
    lines += [hook.command for hook in hooks.events]
    return "\n".join((*lines, *(" ".join((one.command, *one.args)) for one in settings.mcp_servers.values())))


def _expanded(place: str) -> str:
    return os.path.expanduser(os.path.expandvars(place))


MOST_PROTECTED = 100
"""Files that other programs obey and that are mounted read-only one by one, first those that the person
had, and those nearest to the top. Each costs time at every command, and more than the one before. All others are
compared afterwards."""


class _Before(NamedTuple):
    """What there was before a program was started."""

    names: ProtectedNames
    loose: Loose
    open: Loose
    """The obeyed files beyond `MOST_PROTECTED`."""
    denied: frozenset[str]
    """Files that a rule denies."""
    watched: bool
    """Whether it is in a person's own directory: what an order changes in its own is seen before it is applied."""


def _in_words(done: Sequence[TakenOut]) -> str:
    out = "".join(f"\n  {one.path}" + (f" (now {one.to})" if one.to else "") for one in done if not one.problem)
    left = "".join(f"\n  {one.path}: {one.problem}" for one in done if one.problem)
    text = (
        "the command wrote files that it may not write, so they were taken out of the workspace; what was there "
        f"before is as it was:{out}"
    )
    failed = f"the command wrote files that it may not write, and they could not be taken out:{left}"
    return "\n".join([*([text] if out else []), *([failed] if left else [])])


class Confining:
    """The confinement of one session's programs: `now` returns that of a program that is started now."""

    def __init__(
        self,
        cwd: str,
        add_dirs: tuple[str, ...],
        asked: Confinement,
        *,
        session: str,
        holding: Holding | None = None,
        seconds: float | None = None,
    ) -> None:
        self.asked = asked
        self.seconds = seconds
        """How long a turn may take, from `begin_turn` on."""
        self._began = time.monotonic()
        self._holding: Holding = holding if holding is not None else dict
        self._write = tuple(dict.fromkeys(os.path.realpath(os.path.join(cwd, one)) for one in (cwd, *add_dirs)))
        self._session = session
        distrust(*self._write, *asked.write)
        self.sealing = Sealing(self._write, session, self.now, lambda: self.wanted, self._time_left)
        self.shown: tuple[str, ...] = ()
        """Further places of the home directory that are shown, such as those of skills."""
        self._temp: str | None = None
        self._home: str | None = None
        self._hidden = places.Matches((), lambda path: False)
        self._read_only = places.Matches((), lambda path: False)
        self.files = FileGate(session, lambda: self.sealing.made)
        self._obeyed = places.Matches(self._write, self._is_obeyed, PACKAGES, opens=places.open_up)
        self._known: set[str] | None = None
        """The obeyed names that are there by the person's will, or have passed the gate; None before the first look."""
        self._stuck: set[str] = set()
        """What did not pass, and could not be taken out."""
        self._out: dict[str, str] = {}
        """What was taken out, and where it is now."""
        self._passed: set[str] = set()
        """Those that have passed the gate."""
        self.lasting = False
        """Whether one program runs for the whole session: what comes between its turns is taken for the person's."""
        self._agreed: set[str] = set()
        """What a person has let a tool write since the last look."""
        self._starts = 0
        """How many programs had been started when this was last looked at."""
        self._allowed: Callable[[str], bool] = lambda path: False
        """Whether a person's rule allows this protected file to be written."""
        self.granted: set[str] = set()
        """Hosts that a person has allowed for the rest of the session."""
        self._registries: FoundHosts | None = None
        self._mode: Mode | None = None
        self._warned = False
        self.above: Confining | None = None
        """That of the session which this one is a subagent of."""
        self._entered = False
        """Whether a program was started inside walls."""
        self._left = False
        """Whether a program was started without walls."""
        self._closed = False

    @classmethod
    def of(cls, spec: SessionSpec, add_dirs: tuple[str, ...], asked: Confinement, session: str) -> Confining:
        seconds = spec.limits.max_seconds
        return Confining(spec.cwd, add_dirs, asked, session=session, holding=spec.guards.holding, seconds=seconds)

    def begin_turn(self) -> None:
        self._began = time.monotonic()

    def _time_left(self) -> float | None:
        return None if self.seconds is None else self._began + self.seconds - time.monotonic()

    def obey(self, rules: RuleSet, mode: Mode | None) -> None:
        """Use these rules and this mode from now on."""
        self._mode = mode
        self._hidden = self._matches(rules.hidden_patterns())
        self._read_only = self._matches(rules.protected_patterns())
        self._allowed = self.sealing.allowed = rules.names_for_writing
        self._allow_commits()

    def _allow_commits(self) -> None:
        """A commit may have what is on the disk, if all of that has passed."""
        self.sealing.files_pass = self._mode is not None and not any(map(os.path.lexists, self._stuck))

    def _matches(self, wanted: list[str]) -> places.Matches:
        """Files that match: a pattern with a fixed beginning is searched there, any other in all writable places."""
        roots: list[str] = []
        for start in (start for pattern in wanted for start in patterns.starts(pattern)):
            roots += [place for place in self._write if places.is_under(place, start)] or [start]
        outermost = [one for one in roots if not any(places.is_under(one, other) and one != other for other in roots)]
        return places.Matches(dict.fromkeys(outermost), lambda path: any(patterns.match(one, path) for one in wanted))

    @property
    def wanted(self) -> bool:
        return methods.wanted(self.asked, self._mode)

    @property
    def sealed(self) -> bool | None:
        """Whether every program that was started is confined, and the next one will be. None where one is to be, and
        none was started yet: whether this machine can confine it is found out then, because it takes time."""
        if self._left or not methods.asked_for(self.asked, self._mode):
            return False
        return self.wanted if self._entered else None

    def leave(self) -> None:
        """A program is about to run outside, because a person allowed it."""
        self._left = True
        if self.above is not None:
            self.above.leave()

    @property
    def offline(self) -> bool:
        """Whether a command can reach nothing but the workspace, so that there is nothing to ask about."""
        return self.wanted and self.asked.network == "off" and not self.asked.hosts and methods.available().network

    def in_words(self) -> str:
        """The limits of a command that is started now, in words; empty when it is not confined."""
        if not self.wanted:
            return ""
        network = "no network" if self.is_limited else "network open"
        if self.is_limited and self.hosts:
            network = f"network only to {', '.join(self.hosts)}"
        return f"by {methods.available().method}: writes only to {', '.join(self._write)} and a private /tmp; {network}"

    @property
    def is_limited(self) -> bool:
        """Whether commands can reach only `hosts`: as was asked for, else where few are seen before they run, as in
        orders, which have no mode."""
        if self.asked.network == "auto":
            unseen = self._mode is None or self._mode in methods.CONFINED_MODES
            return unseen and self.wanted and methods.available().network
        return self.asked.network == "off"

    @property
    def hosts(self) -> tuple[str, ...]:
        return (*self.asked.hosts, *sorted(self.granted))

    @property
    def asks(self) -> bool:
        """Whether a person who is there is asked about other hosts. Who says `off` wants no questions, and an order
        waits for no one by default."""
        return self.is_limited and (bool(self.asked.hosts) or self.asked.network == "auto" and self._mode is not None)

    def unreachable(self, url: str) -> str:
        """Why this address may not be fetched, by the list that holds for commands; empty when it may."""
        if not self.is_limited or not self.wanted:
            return ""
        try:
            name, port = named(url)
        except ValueError:
            return ""  # the tool takes it apart in the same way, and says what is wrong with it
        found = self._registries
        if permitted((*self.hosts, *(found.hosts if found is not None else ())), name, port):
            return ""
        return refusal(self.hosts, name) + (f". {found.missing}" if found is not None and found.missing else "")

    async def look_up(self) -> None:
        """Ask the tools, once, which registries the groups in the list stand for: `unreachable` then knows them."""
        if self.is_limited and any(group in self.hosts for group in GROUPS):
            from treadle.io.sandbox import proxy  # imported here because few sessions name a group

            self._registries = await asyncio.to_thread(proxy.registry_hosts, self.hosts)

    def unenforced(self) -> str:
        """What the sandbox of this mode cannot enforce on this machine; recorded once."""
        if self._warned or not methods.asked_for(self.asked, self._mode):
            return ""
        self._warned = True
        found = methods.available()
        if found.method is None:
            return "commands run without a sandbox: " + "; ".join(found.problems)
        cannot = [*found.cannot, *filter(None, [places.not_replaced()])]
        return f"the sandbox ({found.method}) cannot {', '.join(cannot)}" if cannot else ""

    def announced(self, emit: Callable[[Event], None]) -> Confinement | None:
        """`for_command`, after a warning, once, of what the sandbox cannot do here."""
        if warning := self.unenforced():
            emit(Warned(message=warning, code="sandbox"))
        return self.for_command()

    def for_command(self) -> Confinement | None:
        """For a command that the model chose. What a person has set up, such as hooks and servers, has the network
        unless they switched it off."""
        made = self.now()
        reach: Literal["on", "off"] = "off" if self.is_limited else "on"
        if made is None:
            return None
        return msgspec.structs.replace(
            made, network=reach, hosts=self.hosts, public=tuple(self.granted), variables=self.asked.variables
        )

    def now(self) -> Confinement | None:
        """None: programs run unconfined. Raises ConfigError when a required sandbox cannot be made."""
        if not self.wanted:
            self.leave()
            return None
        self._entered = True
        mounts, ruled = self.sealing.mounts(), self._read_only.find()
        # A rule about a git directory is about the one that is mounted there, which is not the person's.
        covered = [mount.target for mount in mounts]
        mounts = tuple(
            mount._replace(write=mount.write and not places.is_under(mount.target, *ruled)) for mount in mounts
        )
        ruled = [path for path in ruled if not places.is_under(path, *covered)]
        read_only = dict.fromkeys((*self._protected()[0], *ruled, *self.asked.read_only))
        held = {path: why for path, why in self.held().items() if path not in read_only}
        return msgspec.structs.replace(
            self.asked,
            network="off" if self.asked.network == "off" else "on",
            write=tuple(dict.fromkeys((*self._write, *self.asked.write))),
            mounts=(*self.asked.mounts, *mounts),
            read_only=(*read_only, *held),
            held=tuple(held.items()),
            hidden=tuple(dict.fromkeys((*self._hidden.find(), *self.asked.hidden, *self._dot_files()))),
            readable=(*self.asked.readable, *self.shown),
            temp=self._temporary(),
            home=self._home,
            variables=None,  # what a person has set up has its own
        )

    def held(self) -> dict[str, str]:
        """What others hold in the workspaces, each with who, why and until when."""
        return {path: why for path, why in self._holding().items() if places.is_under(path, *self._write)}

    def _dot_files(self) -> list[str]:
        inside = any(places.is_under(home, *self._write) for home in places.real_homes())
        return places.dot_files(self._write, [*self.asked.readable, *self.asked.write]) if inside else []

    def _temporary(self) -> str:
        """One /tmp and one home directory for the session: what a command leaves there is there for the next."""
        if self._temp is None:
            from treadle.workspace.private_git import for_everything

            self._temp, self._home = scratch.make("sandbox"), scratch.make("home")
            places.prepare(self._home, for_everything())
        return self._temp

    def watching(self, other: Watching | None, *, ruled: bool = True) -> Watching:
        """`other`, plus the gate for what a program leaves that other programs obey; with `ruled` also for what a rule
        denies."""

        def watch() -> Callable[[], None]:
            check = other() if other is not None else None
            before = self._before(ruled)
            journal = self.files.journal(
                self._write, (*(self._known or ()), *self.sealing.theirs), {**before.loose, **before.open}
            )
            if before.watched:
                journal.__enter__()

            def after() -> None:
                with ExitStack() as last:
                    if before.watched:
                        last.push(journal)
                    last.callback(self._pass, before, ruled)
                    if check is not None:
                        check()

            return after

        return watch

    def _before(self, ruled: bool) -> _Before:
        from treadle.io.sandbox.places import ProtectedNames

        if not self.wanted:
            return _Before(ProtectedNames(()), {}, {}, frozenset(), watched=False)
        if self.lasting and self._starts >= 0:
            self._known = None
        self._look()
        protected, loose = self._protected()
        shut = (*protected, *(mount.target for mount in self.sealing.mounts()))
        rest = [path for path in sorted(self._known or ()) if path not in loose and not places.is_under(path, *shut)]
        keep = (*rest, *(protected if methods.available().method == "landlock" else ()))
        names, state = ProtectedNames(protected, keep=keep), self.files.state(rest)
        return _Before(names, loose, state, self._denied(ruled), watched=self._mode is not None)

    def _look(self) -> set[str]:
        """What there is of the obeyed names. What came while no program of ours ran is the person's."""
        found = (
            {path for path in self._obeyed.find() if not self._is_granted(path)} if self._mode is not None else set()
        )
        starts, running = places.activity(self._write)
        if self._known is None or starts == self._starts and not running:
            self._known = found
        self._known |= {path for path in found if any(places.is_under(one, path) for one in self._agreed)}
        self._known &= found  # what is gone and comes again is new
        self._passed &= found
        self._agreed -= {one for one in self._agreed if places.is_under(one, *found)}
        self._starts = starts
        return found

    def _looked_again(self) -> set[str]:
        try:
            return self._look()
        except BaseException:
            self._starts = -1  # what there is now is not taken for the person's
            raise

    def _watched(self) -> list[str]:
        return [*self._obeyed.find(), *self.sealing.find()]

    def _denied(self, ruled: bool) -> frozenset[str]:
        return frozenset(self._read_only.find() if ruled else ())

    def _is_obeyed(self, path: str) -> bool:
        if begins(path):
            return os.path.basename(path) != ".git"  # of which there is a private one
        return leads(path) and os.path.islink(path) or self.files.is_new_at_top(path) or self.files.is_run(path)

    def _protected(self) -> tuple[list[str], Loose]:
        """What is mounted read-only, and what git may change although it is protected."""
        named = dict.fromkeys(path for place in self._write for path in places.protected_in(place))
        named |= dict.fromkeys(self.sealing.read_only())
        there = self._obeyed.find() if self._mode is not None else ()
        obeyed = sorted(there, key=lambda path: (path in self._passed, path.count("/"), path))
        covered = [mount.target for mount in self.sealing.mounts()]
        found = [path for path in dict.fromkeys((*named, *obeyed)) if not self._is_granted(path)]
        loose = self.files.loose(path for path in found if path in obeyed)
        most = {*named, *[path for path in obeyed if path not in loose][:MOST_PROTECTED]}
        shut = [path for path in found if path in most and path not in loose and not places.is_under(path, *covered)]
        return shut, loose

    def _is_granted(self, path: str) -> bool:
        """Whether a person's rule allows it, or it is a driven agent's own."""
        return self._allowed(path) or places.is_under(path, *self.asked.write)

    def _pass(self, before: _Before, ruled: bool) -> None:
        """Let through what passes the gate, and take out the rest. Raises Denied about that."""
        if not self.wanted:
            return
        self.sealing.files_pass = False
        now = self._looked_again() if self._mode is not None else set()
        came = now - (self._known or set())
        new = dict.fromkeys((*before.names.changed(), *sorted(came)))
        after = self.files.state(before.open)
        changed = {root: files for root, files in before.open.items() if after[root] != files}
        refused = {**self.files.refused(new, {**before.loose, **changed})}
        refused |= dict.fromkeys(path for path in refused if path in before.names.held)  # which has what was there
        refused |= dict.fromkeys(self._denied(ruled) - before.denied)
        done = self._take_out(refused) if refused else []
        left = {path for path in came if any(places.is_under(one, path) for one in self._stuck)}
        self._known = now - set(refused) - left
        self._passed |= came & self._known
        self._allow_commits()
        if not refused:
            return
        before.names.restore()
        raise Denied(
            _in_words(done),
            hint="a person can move them back, or allow them with a rule",
            details={"files": [one.path for one in done]},
        )

    def edited(self, paths: Iterable[str]) -> None:
        """A tool of ours is about to write these files, which a person may have been asked about."""
        if not self.wanted:
            return
        self._look()
        places.count_start(self._write)
        self._agreed |= {path for path in paths if is_protected(path)}

    async def ready(self, say: Callable[[str], None]) -> None:
        """Before a turn: the agent's repository follows what the user has done meanwhile."""
        for note in await self.sealing.ready():
            say(note)
        if self._known is None and self.wanted and self._mode is not None:
            for note in await asyncio.to_thread(self.files.recover, self._write, self._watched):
                say(note)

    async def settle(self, say: Callable[[str], None]) -> str:
        """After a command: take over what was committed. Returns what the agent should know about it."""
        notes = await self.sealing.settle()
        for note in notes:
            say(note)
        return "".join(f"\n[{note}]" for note in notes)

    async def finish(self, say: Callable[[str], None]) -> None:
        """After a turn: what is left passes the gate, first files and repositories, then commits."""
        for one in await asyncio.to_thread(self._sweep):
            say(
                f"{one.path} could not be taken out of the workspace: {one.problem}"
                if one.problem
                else f"the agent made {one.path}; your own programs would act on what it says, so it is now"
                f" {one.to or 'gone'}. Move it back if you trust it, or allow it with the rule Write({one.path}/**)"
            )
        await self.settle(say)
        if self._closed:
            self.close()

    def _sweep(self) -> list[TakenOut]:
        if not self.wanted:
            return []
        found = dict.fromkeys(path for path in self.sealing.new_repositories() if not self._allowed(path))
        now = self._look() if self._known is not None else set()
        found |= self.files.refused(sorted(now - (self._known or set())), {})
        done = self._take_out(found)
        self._allow_commits()
        return done

    def _take_out(self, found: Mapping[str, Staged | None]) -> list[TakenOut]:
        done = self.files.take_out(found)
        self._stuck |= {one.path for one in done if one.problem}
        self._out.update({one.path: one.to for one in done if one.to})
        return done

    def taken_out(self, refused: TreadleError) -> list[str]:
        """The files of a refusal that could be given back."""
        return [path for path in (refused.details or {}).get("files", ()) if path in self._out]

    def give_back(self, paths: Sequence[str]) -> bool:
        """A person agrees to what was taken out. Returns whether all of it is there again."""
        given = [self.files.give_back(path, self._out.pop(path)) for path in paths if path in self._out]
        self._agreed |= {path for path in paths if os.path.lexists(path)}
        self._look()
        self._allow_commits()
        return all(given)

    def close(self) -> None:
        self._closed = True
        self.sealing.close()
        for made in filter(None, (self._temp, self._home)):
            scratch.remove(made)
        self._temp = self._home = None
