"""Claims that bind the native agent: judged before a tool runs, held while it writes, looked at after a shell command.

Whoever opens a session gives it `Guarded(...)`'s functions: `judge` is its guard, `writing` its writing. For shell
commands there are two ways. With a sandbox, `writable()` is what the shell may write. Without one:

    before = guarded.watch()
    ... run the command ...
    guarded.check(before)        # raises Denied, naming the files, when it changed what others hold

which the loop calls around each command and turns into a failed tool result.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from treadle.coordination.claims import Claim, Claims, Collision, Held
from treadle.coordination.identity import checked
from treadle.coordination.planning import Planning
from treadle.coordination.repository import find
from treadle.coordination.surfaces import Surface
from treadle.errors import Denied
from treadle.policy import patterns
from treadle.session import Access, Decision

Snapshot = dict[str, tuple[int, int, int]]
"""Path -> inode, size and time of change, of each file that somebody else holds."""


class Guarded:
    """One identity's view of what others hold in the worktree around `project`."""

    def __init__(self, planning: Planning, haid: str) -> None:
        self.haid = checked(haid)
        found = find(planning.project)
        self.top = os.path.realpath(found.top if found else planning.project)
        self.claims = Claims(planning, self.top)

    def judge(self, access: Access) -> Decision:
        """A session.Guard: a write to what somebody else holds is denied, with who and until when."""
        if self.claims.agents.revoked(self.haid):
            return Decision(verdict="deny", reason=f"{self.haid} is revoked", by="claim")
        if access.kind != "write":
            return Decision(verdict="allow", by="claim")
        found = Held(self._others()).overlaps(self._surfaces(access.paths))
        if found:
            return Decision(verdict="deny", reason=Collision(found, "change").message, by="claim")
        return Decision(verdict="allow", by="claim")

    @contextmanager
    def writing(self, paths: tuple[str, ...]) -> Iterator[None]:
        """A session.Writing: while a tool writes these, nobody can claim them, and nobody has."""
        with self.claims.lock():
            self.claims.agents.require(self.haid)
            found = Held(self._others()).overlaps(self._surfaces(paths))
            if found:
                raise Collision(found, "change")
            yield

    def writable(self) -> tuple[str, ...]:
        """The directories and files that a sandboxed shell of this identity may write: those its own claim names.

        A glob is no directory: what it stands for begins where its first wildcard is, so it counts only when it is
        `directory/**`.
        """
        claim = self.claims.of(self.haid)
        if claim is None or claim.shared:
            return ()
        found = []
        for surface in claim.surfaces:
            place = surface.pattern.removesuffix("/**") or "."
            if patterns.is_literal(place):
                found.append(os.path.join(self.top, patterns.normalise(place)))
        return tuple(found)

    def watch(self) -> Snapshot:
        """How everything that others hold looks now."""
        return {path: state for claim in self._others() for path, state in self._held(claim)}

    def check(self, before: Snapshot) -> None:
        """Raises Denied when a file that others hold is not as it was `before`, or is new. It may have been its holder:
        the files say that something changed, and not who did it."""
        now = self.watch()
        changed = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
        held = set(before)
        changed = [path for path in changed if path in held or self._is_held(path)]
        if changed:
            found = Held(self._others()).overlaps(self._surfaces(tuple(changed)))
            listed = "".join(f"\n  {overlap}" for overlap in found) or "\n  " + "\n  ".join(changed)
            raise Denied(
                f"while the command ran, files under somebody else's claim changed:{listed}",
                hint="put them back, or ask their holder",
            )

    def _others(self) -> list[Claim]:
        return [claim for claim in self.claims.active() if claim.haid != self.haid]

    def _surfaces(self, paths: tuple[str, ...]) -> list[Surface]:
        inside = (os.path.relpath(path, self.top) for path in paths)
        return [Surface.of(path, self.top) for path in inside if not path.startswith("..")]

    def _is_held(self, path: str) -> bool:
        return bool(Held(self._others()).overlaps(self._surfaces((path,))))

    def _held(self, claim: Claim) -> Iterator[tuple[str, tuple[int, int, int]]]:
        for surface in claim.surfaces:
            for path in _files(os.path.join(self.top, _start(surface.pattern))):
                if surface.overlaps(Surface.of(os.path.relpath(path, self.top))):
                    state = os.lstat(path)
                    yield path, (state.st_ino, state.st_size, state.st_mtime_ns)


def _start(pattern: str) -> str:
    """The directory below which everything lies that a pattern stands for."""
    names = patterns.normalise(pattern).split("/")
    plain = []
    for name in names:
        if any(char in name for char in "*?[{\\"):
            break
        plain.append(name)
    return "/".join(plain)


def _files(start: str) -> Iterator[str]:
    if os.path.isfile(start):
        yield start
    for directory, directories, names in os.walk(start):
        if ".git" in directories:
            directories.remove(".git")
        for name in names:
            yield os.path.join(directory, name)
