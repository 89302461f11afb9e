"""What a shell command would change that others hold, found before it runs.

Its text tells most of it (`policy/writes.py`); for git the repository is asked: what is staged, what an alias means.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from treadle.coordination import changes
from treadle.coordination.claims import Claims, Overlap
from treadle.coordination.origin import Key
from treadle.errors import TreadleError
from treadle.light import TYPE_CHECKING
from treadle.workspace import uncommitted as working

if TYPE_CHECKING:
    from treadle.policy.writes import CommandWrites

MAX_ALIASES = 4


class CommandJudge:
    """Judges one command for an identity that works in `cwd`."""

    def __init__(
        self, claims: Claims, haid: str, cwd: str, staged: list[str] | None = None, process: Key | None = None
    ) -> None:
        """`staged`: what is about to be committed, if the repository cannot be asked here. `process`: the agent's."""
        self._process = process
        self._claims = claims
        self._haid = haid
        self._own = claims.bindings.family(haid)
        self._cwd = cwd
        self._staged = staged
        self._added: list[str] = []
        self._others = False
        self.written: list[str] = []
        """The files that it names to be written, absolute."""
        self.overlaps: list[Overlap] = []
        self.unseen = ""
        """Why not all that it would change can be seen; empty when it can, or when no one else holds anything."""

    def judge(self, command: str) -> None:
        self._others = any(claim.haid not in self._own for claim in self._claims.active())
        if command and (self._others or self._claims.leases.are_on()):
            self._judge(command, 0)

    def _judge(self, command: str, depth: int) -> None:
        from treadle.policy.writes import of_command  # imported here because it costs more than all else in a hook

        found = of_command(command)
        targets = list(_targets(found, self._cwd))
        self.written += [path for path, glob in targets if not glob and not os.path.isdir(path)]
        surfaces = [one for target in targets for one in self._claims.surfaces_at(*target)]
        self._meet(self._claims.leases.overlaps(self._own, surfaces, self._process))
        if not self._others:
            return
        self._meet(self._claims.held_by_others(self._own, surfaces))
        self._doubt(found.unseen)
        for name, where, *words in found.git:
            try:
                self._git(name, os.path.join(self._cwd, where), words, depth)
            except TreadleError as error:
                self._doubt(f"what git {name} changes: {error}")
        named = [one for word in found.mentions for one in self._claims.surfaces_at(os.path.join(self._cwd, word))]
        if met := self._claims.held_by_others(self._own, named):
            self._doubt(f"whether it writes {met[0].asked}, which {met[0].claim.haid} holds")

    def _doubt(self, why: str) -> None:
        self.unseen = self.unseen or why

    def _meet(self, overlaps: Iterable[Overlap]) -> None:
        known = {(one.asked, one.held, one.claim.haid) for one in self.overlaps}
        self.overlaps += [one for one in overlaps if (one.asked, one.held, one.claim.haid) not in known]

    def _git(self, name: str, where: str, words: list[str], depth: int) -> None:
        if name == "push":
            self._meet(
                changes.check_commits(self._claims, self._haid, changes.commits(where, "HEAD", "--not", "--remotes"))
            )
        elif name == "add":
            self._added += self._changed(where, words)
        elif name == "commit":
            staged = changes.staged(where) if self._staged is None else self._staged
            named = [word for word in words if not word.startswith("-")] if "--" in words else []
            everything = any(word == "--all" or word[:1] == "-" and word[:2] != "--" and "a" in word for word in words)
            more = self._changed(where, [] if everything else named) if everything or named else []
            self._meet(changes.overlaps(self._claims, self._haid, [*staged, *self._added, *more]))
        elif name == "checkout":
            for word in words:
                if word.startswith("-"):
                    continue
                if not os.path.lexists(place := os.path.join(where, word)):
                    self._doubt(f"which files git checkout {word} writes")
                self._meet(self._claims.held_by_others(self._own, self._claims.surfaces_at(place)))
        else:
            self._alias(where, words, depth)

    def _changed(self, where: str, words: list[str]) -> list[str]:
        """The changed and new files under these words; without one, or with an option for all, every one of them."""
        found = working.find(changes.of(where))
        files = [*found.changed, *found.new]
        named = [os.path.normpath(os.path.join(where, word)) for word in words if not word.startswith("-")]
        if not named:
            return files
        full = ((os.path.join(self._claims.top, one), one) for one in files)
        return [one for path, one in full if any(f"{path}/".startswith(f"{place.rstrip('/')}/") for place in named)]

    def _alias(self, where: str, words: list[str], depth: int) -> None:
        asked = changes.of(where).run("config", "--get", f"alias.{words[0]}", check=False)
        means = asked.stdout.decode(errors="replace").strip()
        if asked.code or not means or depth >= MAX_ALIASES:
            self._doubt(f"what git {words[0]} does")
            return
        import shlex

        rest = " ".join(map(shlex.quote, words[1:]))
        self._judge(f"{means[1:]} {rest}" if means.startswith("!") else f"git {means} {rest}", depth + 1)


def _targets(found: CommandWrites, cwd: str) -> Iterable[tuple[str, bool]]:
    for target in found.targets:
        path = os.path.join(cwd, os.path.expanduser(target.path))
        if not (target.inside and os.path.isdir(path)):
            yield path, target.glob
