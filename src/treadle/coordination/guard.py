"""Enforces claims on the native agent: before a tool runs, while it writes, and after a shell command.

The one who opens a session makes a `Guarded` and passes its functions on: `judge` is a session.Guard, `writing` a
session.Writing. Around a command whose writes cannot be foreseen, `watch` and `check` compare what others hold.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from treadle.coordination.changes import CommandJudge
from treadle.coordination.claim import Claim, Overlap
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.held_files import HeldFiles
from treadle.coordination.identity import checked
from treadle.coordination.planning import Planning
from treadle.coordination.repository import find
from treadle.coordination.surfaces import Surface, literal_starts
from treadle.errors import Denied
from treadle.io.sandbox.places import Matches
from treadle.policy import patterns
from treadle.policy.guess import CallWrites, written_by
from treadle.session import Access, Decision

# The files and directories that others hold and that exist, as the paths that a sandbox keeps read-only.
#
# A path that does not exist cannot be kept: what a command makes under another's claim is found afterwards
# (`held_files`).

MOST = 128
"""Each path is a mount. If there are more, whole directories of them are kept, although only a part of each is held."""


class HeldPaths:
    def __init__(self, top: str, records: str) -> None:
        """`records`: the directory of the coordination files, which belong to no one."""
        self._top = top
        self._apart = (os.path.join(top, ".git"), records)
        self._known: dict[str, Matches] = {}

    def find(self, claims: Iterable[Claim]) -> dict[str, str]:
        """The outermost paths that these claims cover, each with who holds it, why and until when."""
        found: dict[str, str] = {}
        for claim in claims:
            for text in claim.texts:
                surface = claim.surface(text)
                for path in self._paths(surface.pattern) if surface is not None and not surface.is_outside else ():
                    real = os.path.realpath(path)
                    if _is_under(real, (self._top,)):
                        found.setdefault(real, str(Overlap(os.path.relpath(path, self._top), text, claim)))
        return self._few(_outermost(found))

    def _paths(self, pattern: str) -> Iterator[str]:
        for start in literal_starts(pattern):
            place = os.path.normpath(os.path.join(self._top, start))
            if not patterns.match(pattern, start or ".") and not _covers(pattern, start):
                yield from self._search(pattern, place)
            elif place == self._top:
                # A directory with git's own in it cannot be kept whole: an agent commits to a private one.
                names = os.listdir(place)
                yield from (one for name in names if (one := os.path.join(place, name)) not in self._apart)
            elif os.path.lexists(place) and place not in self._apart:
                yield place

    def _search(self, pattern: str, place: str) -> Iterator[str]:
        if pattern not in self._known:
            self._known[pattern] = Matches(
                [place], lambda path: path not in self._apart and patterns.match(pattern, path[len(self._top) + 1 :])
            )
        yield from (path for path in self._known[pattern].find() if not _is_under(path, self._apart))

    def _few(self, found: dict[str, str]) -> dict[str, str]:
        while len(found) > MOST:
            around = Counter(map(os.path.dirname, found))
            place, number = max(around.items(), key=lambda one: one[1] if one[0] != self._top else 0)
            if place == self._top:
                return found
            inside = next(why for path, why in found.items() if os.path.dirname(path) == place)
            found = _outermost({**found, place: f"{number} paths in it are held, for example: {inside}"})
        return found


def _covers(pattern: str, start: str) -> bool:
    """Whether everything in a directory is covered, by trying names that no pattern means in particular."""
    below = f"{start}/\x01" if start else "\x01"
    return patterns.match(pattern, below) and patterns.match(pattern, f"{below}/\x01")


def _outermost(found: dict[str, str]) -> dict[str, str]:
    outermost: dict[str, str] = {}
    for path in sorted(found, key=lambda path: path.count("/")):
        parent = os.path.dirname(path)
        while parent not in outermost and parent != "/":
            parent = os.path.dirname(parent)
        if parent not in outermost:
            outermost[path] = found[path]
    return outermost


def _is_under(path: str, places: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{place}/") for place in places)


LATELY = 2.0
"""Seconds for which what others hold is remembered while the claims' directory is unchanged; claims also expire without
a change."""


class Guarded:
    """One identity's view of others' claims in the worktree around the planning's project."""

    def __init__(self, planning: Planning, haid: str, *, confined: bool = False) -> None:
        """`confined`: what a command does to `holding` is prevented, so one that cannot be read needs no question."""
        self.haid = checked(haid)
        self._confined = confined
        self.cwd = os.path.realpath(planning.project)
        found = find(self.cwd)
        self.top = found.top if found else self.cwd
        self.claims = Claims(planning, self.top)
        self._held = HeldPaths(self.top, planning.root)
        self._known: tuple[int, float, list[Claim]] = (0, 0.0, [])
        self._files = HeldFiles(self.claims, self.haid)
        self._doubt = ""
        """What speaks for the next command's changing more than it shows."""
        self._reported: list[str] = []
        """What commands that are under way have changed."""

    def judge(self, access: Access) -> Decision:
        """A session.Guard: a write to what another agent holds is denied, saying who holds it and until when.

        If others' claims cannot be seen, a person is asked, because there may be some.
        """
        if self.claims.agents.revoked(self.haid):
            return Decision(verdict="deny", reason=f"{self.haid} is revoked", by="claim")
        named = CallWrites(access.tool, access.args)
        writes, command = written_by(access), access.command or named.command
        if not writes and not command and not named.mentions:
            return Decision(verdict="allow", by="claim")
        surfaces = self._surfaces(writes)
        if found := self.claims.held_by_others(self._own(), surfaces):
            return Decision(verdict="deny", reason=Collision(found, "change").message, by="claim")
        if writes and (unseen := self.claims.unseen()):
            return Decision(verdict="ask", reason=f"what others hold cannot be seen: {'; '.join(unseen)}", by="claim")
        if command:
            return self._judge_command(command, os.path.join(self.cwd, named.where))
        judge = CommandJudge(self.claims, self.haid, self.cwd)
        judge.judge("")
        judge.weigh(named.mentioned(self.cwd))
        return self._asked("call", judge.unseen)

    def _judge_command(self, command: str, where: str) -> Decision:
        judge = CommandJudge(self.claims, self.haid, where)
        judge.judge(command)
        if found := judge.overlaps:
            return Decision(verdict="deny", reason=Collision(found, "change").message, by="claim")
        self._doubt = judge.unseen
        if judge.unseen and not self._confined and (why := judge.lasting or self._files.not_saved() and judge.unseen):
            return self._asked("command", why)
        return Decision(verdict="allow", by="claim")

    def _asked(self, what: str, unseen: str) -> Decision:
        reason = f"others hold files here, and the {what} does not show {unseen}" if unseen else ""
        return Decision(verdict="ask" if unseen else "allow", reason=reason, by="claim")

    def _overlaps(self, paths: tuple[str, ...]) -> list[Overlap]:
        return self.claims.held_by_others(self._own(), self._surfaces(paths))

    def _own(self) -> set[str]:
        return self.claims.bindings.family(self.haid)

    @contextmanager
    def writing(self, paths: tuple[str, ...]) -> Iterator[None]:
        """A session.Writing: while a tool writes these paths, no one can claim them. Denied if another already has."""
        if not os.path.isdir(self.claims.planning.live) and not self.claims.planning.claimed():
            yield  # nothing was ever claimed here
            return
        with self.claims.lock():
            self.claims.agents.require(self.haid)
            if found := self._overlaps(paths):
                raise Collision(found, "change")
            yield
        self.claims.keep(self.haid)

    def holding(self) -> dict[str, str]:
        """A session.Holding."""
        if not self.claims.planning.claimed():
            return {}
        found = self._held.find(self._lately())
        shared = self._shared_files() if found else set()
        return {path: why for path, why in found.items() if path not in shared}

    def _shared_files(self) -> set[str]:
        """The files of which we hold a symbol: others' symbols in them do not keep us out."""
        held = [claim for haid in self.claims.bindings.family(self.haid) if (claim := self.claims.of(haid))]
        return {os.path.join(self.top, one.pattern) for claim in held for one in claim.surfaces if one.symbol}

    def _lately(self) -> list[Claim]:
        """What others hold, read again when a claim was made, changed or released, and every few seconds for those that
        ended by themselves: a running sandbox asks four times a second."""
        try:
            changed, now = os.stat(self.claims.directory).st_mtime_ns, time.monotonic()
        except FileNotFoundError:
            return []  # all were removed just now
        known, until, others = self._known
        if known != changed or now >= until:
            others = self._others()
            self._known = changed, now + LATELY, others
        return others

    def watch(self) -> None:
        """A command begins whose writes cannot be foreseen; another may be under way."""
        self._reported += self._files.end(late=True)
        self._files.begin(self._doubt)

    def check(self) -> None:
        """Raises Denied when a file that another agent held before, and still holds, has changed."""
        reported, self._reported = [*self._reported, *self._files.end()], []
        if reported:
            listed = "".join(f"\n  {what}" for what in reported)
            raise Denied(f"while the command ran, files under another agent's claim changed:{listed}")

    def _others(self) -> list[Claim]:
        own = self.claims.bindings.family(self.haid)
        return self.claims.of_others(own)

    def _surfaces(self, paths: Iterable[str]) -> list[Surface]:
        return [one for path in paths for one in self.claims.surfaces_at(os.path.join(self.cwd, path))]
