"""Leases: an agent that writes a file which no one has claimed holds it for a short while, without asking for it.

So two agents in one worktree that never claim anything still notice each other. A lease binds other agents' writes in
the same worktree, and the claims of their sessions. It does not bind a commit, another worktree, or a person's claim,
which is stronger. It ends some minutes after the holder's last write, and at once with the holder's process.
"""

import os
from collections.abc import Iterable, Sequence
from hashlib import sha256

from treadle.coordination.claim import Claim, Held, Overlap
from treadle.coordination.identity import human_of
from treadle.coordination.origin import Key, ancestors
from treadle.coordination.planning import Planning, make_dirs, read_text, write_text
from treadle.coordination.surfaces import Surface
from treadle.errors import TreadleError
from treadle.io.files import try_remove
from treadle.io.process import table
from treadle.light import Any
from treadle.policy import patterns
from treadle.wire.common.jsontext import dumps, loads

MINUTES = 10
RENEW_SECONDS = 60.0
"""A lease is renewed by a further write if the last renewal was this long ago."""
TASK = "writing"
_OFF = "leases-off"


class Leases:
    def __init__(self, planning: Planning, top: str) -> None:
        self.planning = planning
        self.top = top
        """The worktree in which they bind."""
        self.directory = planning.live_path("leases")

    def turn(self, *, on: bool) -> None:
        """Whether writes take leases in this repository."""
        path = self.planning.live_path(_OFF)
        if not on:
            write_text(path, "1\n")
        elif os.path.exists(path):
            os.unlink(path)

    def are_on(self) -> bool:
        return not os.path.exists(self.planning.live_path(_OFF))

    def take(self, haid: str, own: set[str], paths: Sequence[str], process: Key | None) -> list[Overlap]:
        """Take or renew a lease on each of these files, absolute paths, for an agent that is about to write them.

        Returns what others are writing among them; then none is taken. `own`: all identities of the agent; `process`:
        without one that can be seen to end, no lease is taken.
        """
        inside = list(dict.fromkeys(name for path in paths if (name := self._inside(path))))
        if not inside or not self.are_on():
            return []
        make_dirs(self.directory)
        with self.planning.lock("leases"):  # looked and taken as one step: of two who begin to write, one is first
            if found := self.overlaps(own, [Surface.of(name, self.top) for name in inside], process):
                return found
            for name in inside if process else ():
                self._renew(haid, name, process)
        return []

    def overlaps(self, own: set[str], surfaces: Iterable[Surface], process: Key | None) -> list[Overlap]:
        """What others are writing of these, in this worktree.

        An earlier session of the same process, and an agent that started this one, are not others.
        """
        others = [lease for lease in self.active() if lease.haid not in own and lease.fields["worktree"] == self.top]
        if not others:
            return []
        near = {process, *ancestors()}
        return Held(lease for lease in others if _process(lease) not in near).overlaps(surfaces)

    def active(self) -> list[Claim]:
        """All leases, in every worktree, each as a claim with the mode `lease`."""
        if not self.are_on():
            return []
        found = [self._load(path) for path in self._paths()]
        return [lease for lease in found if lease is not None and self._is_active(lease)]

    def drop(self, haid: str) -> None:
        """End all leases of this identity."""
        for path in self._paths():
            lease = self._load(path)
            if lease is not None and lease.haid == haid:
                try_remove(path)

    def _renew(self, haid: str, name: str, process: Key | None) -> None:
        path = os.path.join(self.directory, sha256(os.fsencode(f"{self.top}\0{name}")).hexdigest()[:32] + ".json")
        now = self.planning.now()
        old = self._load(path)
        if old is None:
            self._forget_ended()
        mine = old if old is not None and old.haid == haid and self._is_active(old) else None
        if mine is not None and self.planning.clock() - mine.renewed < RENEW_SECONDS:
            return
        fields: dict[str, Any] = {
            "haid": haid,
            "human": human_of(haid),
            "claimed_surfaces": [_text(name)],
            "task_ref": TASK,
        }
        fields |= {"claimed_at": mine.fields["claimed_at"] if mine else now, "ttl_minutes": MINUTES, "heartbeat": now}
        fields |= {"mode": "lease", "worktree": self.top, "process": list(process or ())}
        write_text(path, dumps(fields, 2) + "\n")
        if mine is None:
            self.planning.note("lease", "take", f"{haid} {name}")

    def _forget_ended(self) -> None:
        for path in self._paths():
            lease = self._load(path)
            if lease is None or not self._is_active(lease):
                try_remove(path)

    def _inside(self, path: str) -> str:
        """The path from the top of the worktree, with links followed; empty for what no lease is for."""
        place = os.path.realpath(path)
        name = os.path.relpath(place, os.path.realpath(self.top))
        records = os.path.realpath(self.planning.root)
        apart = name.split("/")[0] in ("..", ".git") or f"{place}/".startswith(f"{records}/")
        return "" if apart or os.path.isdir(place) else name

    def _is_active(self, lease: Claim) -> bool:
        return self.planning.clock() < lease.ends and table.lives(*_process(lease))

    def _paths(self) -> list[str]:
        try:
            return [os.path.join(self.directory, name) for name in sorted(os.listdir(self.directory))]
        except OSError:
            return []

    def _load(self, path: str) -> Claim | None:
        """None when there is no lease in it: another process is ending it, or it is damaged."""
        try:
            fields = loads(read_text(path) or "")
            pid, start = fields["process"]
            whole = isinstance(pid, int) and isinstance(start, int) and isinstance(fields["worktree"], str)
            return Claim(fields, self.top, path, self.planning.clock()) if whole else None
        except (ValueError, KeyError, TypeError, TreadleError):
            return None


def _text(name: str) -> str:
    """A path as a surface that means just this path."""
    return patterns.escape(name).replace("#", "\\#")


def _process(lease: Claim) -> Key:
    pid, start = lease.fields["process"]
    return pid, start
