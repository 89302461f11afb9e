"""What the native agent's programs are confined to: its workspace, its rules, and what a person asked for."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from treadle.agent.sealing import Sealing
from treadle.confinement import ResourceLimits
from treadle.errors import Denied
from treadle.events import Event, Warned
from treadle.io import scratch
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.programs import distrust
from treadle.io.sandbox import caches, methods, places
from treadle.io.sandbox.matches import Matches
from treadle.policy import patterns
from treadle.policy.network import GROUPS, named, parse_network, permitted, refusal
from treadle.policy.protected import PACKAGES, begins
from treadle.policy.rules import RuleSet
from treadle.session import Confinement, Holding, Mode, SessionSpec, Watching
from treadle.settings.config import Settings
from treadle.settings.sandboxing import size

if TYPE_CHECKING:
    from treadle.io.sandbox.planted import ProtectedNames
    from treadle.io.sandbox.registries import FoundHosts


def settled(asked: Confinement, settings: Settings) -> Confinement:
    """What is asked for; where that is left open, what the settings say."""
    sandbox = settings.sandbox
    if asked.use in ("auto", "possible") and sandbox.use is not None:
        asked = msgspec.structs.replace(asked, use="on" if sandbox.use else "off")
    readable = (*asked.readable, *map(os.path.expanduser, sandbox.read))
    sockets = (*asked.sockets, *filter(os.path.isabs, map(_expanded, sandbox.sockets)))
    asked = msgspec.structs.replace(asked, readable=readable, sockets=sockets)
    if asked.limits == ResourceLimits():
        limits = ResourceLimits(memory=size(sandbox.memory), processes=sandbox.processes, disk=size(sandbox.disk))
        asked = msgspec.structs.replace(asked, limits=limits)
    if asked.network == "auto" and settings.network is not None:
        network, hosts = parse_network(settings.network)
        asked = msgspec.structs.replace(asked, network=network, hosts=hosts)
    return asked


def _expanded(place: str) -> str:
    return os.path.expanduser(os.path.expandvars(place))


MOST_PROTECTED = 100
"""Files that other programs obey and that are mounted read-only one by one, those nearest to the top. Each costs time
at every command, and more than the one before."""


def _is_obeyed(path: str) -> bool:
    return begins(path) and os.path.basename(path) != ".git"  # of which there is a private one


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
        self._temp: str | None = None
        self._hidden = Matches((), lambda path: False)
        self._read_only = Matches((), lambda path: False)
        self._obeyed = Matches(self._write, _is_obeyed, PACKAGES)
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
        self._allowed = rules.names_for_writing

    def _matches(self, wanted: list[str]) -> Matches:
        """Files that match: a pattern with a fixed beginning is searched there, any other in all writable places."""
        roots: list[str] = []
        for start in (start for pattern in wanted for start in patterns.starts(pattern)):
            roots += [place for place in self._write if places.is_under(place, start)] or [start]
        outermost = [one for one in roots if not any(places.is_under(one, other) and one != other for other in roots)]
        return Matches(dict.fromkeys(outermost), lambda path: any(patterns.match(one, path) for one in wanted))

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
            from treadle.io.sandbox import registries  # imported here because few sessions name a group

            self._registries = await asyncio.to_thread(registries.found, self.hosts)

    def unenforced(self) -> str:
        """What the sandbox of this mode cannot enforce on this machine; recorded once."""
        if self._warned or not methods.asked_for(self.asked, self._mode):
            return ""
        self._warned = True
        found = methods.available()
        if found.method is None:
            return "commands run without a sandbox: " + "; ".join(found.problems)
        return f"the sandbox ({found.method}) cannot {', '.join(found.cannot)}" if found.cannot else ""

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
        return msgspec.structs.replace(made, network=reach, hosts=self.hosts, public=tuple(self.granted))

    def now(self) -> Confinement | None:
        """None: programs run unconfined. Raises ConfigError when a required sandbox cannot be made."""
        if not self.wanted:
            self.leave()
            return None
        self._entered = True
        read_only = dict.fromkeys((*self._protected(), *self._read_only.find(), *self.asked.read_only))
        held = {path: why for path, why in self.held().items() if path not in read_only}
        return msgspec.structs.replace(
            self.asked,
            network="off" if self.asked.network == "off" else "on",
            write=tuple(dict.fromkeys((*self._write, *self.asked.write))),
            mounts=(*self.asked.mounts, *self.sealing.mounts()),
            read_only=(*read_only, *held),
            held=tuple(held.items()),
            hidden=tuple(dict.fromkeys((*self._hidden.find(), *self.asked.hidden, *self._credentials()))),
            temp=self._temporary(),
        )

    def held(self) -> dict[str, str]:
        """What others hold in the workspaces, each with who, why and until when."""
        return {path: why for path, why in self._holding().items() if places.is_under(path, *self._write)}

    def _credentials(self) -> list[str]:
        return places.credentials([*self.asked.readable, *self.asked.write], self._write)

    def _temporary(self) -> str:
        """One /tmp for the session: what a command leaves there is there for the next."""
        if self._temp is None:
            self._temp = scratch.make("sandbox")
            caches.prepare(self._temp)
        return self._temp

    def watching(self, other: Watching | None, *, ruled: bool = True) -> Watching:
        """`other`, plus a look for protected files that a command has made; with `ruled` also for those of rules."""

        def watch() -> Callable[[], None]:
            check = other() if other is not None else None
            before = self._before(ruled)

            def after() -> None:
                if check is not None:
                    check()
                self._undo(before, ruled)

            return after

        return watch

    def _before(self, ruled: bool) -> tuple[ProtectedNames, set[str]]:
        """The state of the protected names, and what exists of what may only be looked for."""
        from treadle.io.sandbox.planted import ProtectedNames

        if not self.wanted:
            return ProtectedNames(()), set()
        keep = methods.available().method == "landlock"
        return ProtectedNames(self._protected(), keep=keep), self._searched(ruled)

    def _searched(self, ruled: bool) -> set[str]:
        obeyed = [path for path in self._in_place() if not self._is_granted(path)]
        return {*obeyed, *(self._read_only.find() if ruled else ())}

    def _in_place(self) -> list[str]:
        """The files in a person's own directory that other programs obey, at every depth. What an order changes in a
        directory of its own is seen before it is applied."""
        found = self._obeyed.find() if self._mode is not None else []
        return sorted(found, key=lambda path: (path.count("/"), path))

    def _protected(self) -> list[str]:
        found = dict.fromkeys(path for place in self._write for path in places.protected_in(place))
        found |= dict.fromkeys((*self.sealing.read_only(), *self._in_place()[:MOST_PROTECTED]))
        covered = [mount.target for mount in self.sealing.mounts()]
        return [path for path in found if not self._is_granted(path) and not places.is_under(path, *covered)]

    def _is_granted(self, path: str) -> bool:
        """Whether a person's rule allows it, or it is a driven agent's own."""
        return self._allowed(path) or places.is_under(path, *self.asked.write)

    def _undo(self, before: tuple[ProtectedNames, set[str]], ruled: bool) -> None:
        names, there = before
        if not self.wanted:
            return
        found = [*dict.fromkeys((*names.changed(), *sorted(self._searched(ruled) - there)))]
        if not found:
            return
        moved = self._move_aside(found)
        names.restore()
        listed = "".join(f"\n  {path}" + (f" (now {moved[path]})" if path in moved else "") for path in found)
        raise Denied(
            "the command wrote files that it may not write, so they were taken out of the workspace; what was there "
            f"before is as it was:{listed}",
            hint="a person can move them back, or allow them with a rule",
            details={"files": found},
        )

    def _move_aside(self, found: list[str]) -> dict[str, str]:
        from treadle.io.sandbox.planted import move_aside

        aside = os.path.join(private_dir(os.path.join(state_dir(), "removed")), self._session)
        return dict(move_aside(found, aside))

    async def ready(self, say: Callable[[str], None]) -> None:
        """Before a turn: the agent's repository follows what the user has done meanwhile."""
        for note in await self.sealing.ready():
            say(note)

    async def settle(self, say: Callable[[str], None]) -> str:
        """After a command: take over what was committed. Returns what the agent should know about it."""
        notes = await self.sealing.settle()
        for note in notes:
            say(note)
        return "".join(f"\n[{note}]" for note in notes)

    async def finish(self, say: Callable[[str], None]) -> None:
        """After a turn: take over what was committed, and move aside the git directories that programs have made."""
        await self.settle(say)
        for path, place in (await asyncio.to_thread(self._remove_repositories)).items():
            say(
                f"a command made {path}; your own git would act on what it says, so it is now {place}. "
                f"Move it back if you trust it, or allow it with the rule Write({path}/**)"
            )
        if self._closed:
            self.close()

    def _remove_repositories(self) -> dict[str, str]:
        if not self.wanted:
            return {}
        found = [path for path in self.sealing.new_repositories() if not self._allowed(path)]
        return self._move_aside(found) if found else {}

    def close(self) -> None:
        self._closed = True
        self.sealing.close()
        if self._temp is not None:
            scratch.remove(self._temp)
            self._temp = None
