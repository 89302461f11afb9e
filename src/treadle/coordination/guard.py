"""Enforces claims: on the native agent while its session runs, and on outside agents by their hooks.

The one who opens a session makes a `Guarded` and passes its functions on: `judge` is a session.Guard, `writing` a
session.Writing. Around a command whose writes cannot be foreseen, `watch` and `check` compare what others hold.

An outside agent's call (`calls`) is judged like one of our own agent's: what it writes is checked. What cannot be seen
before is looked at afterwards (`HeldFiles`): what others hold is put back. Where a look would not show it, or too much
is held, a person is asked; a program that cannot ask has the call refused.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from treadle.coordination import repository
from treadle.coordination.bindings import IdentityBindings
from treadle.coordination.calls import HookAnswer, OutsideCall
from treadle.coordination.changes import CommandJudge
from treadle.coordination.claim import Claim, Overlap, wait_text
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.identity import Key, checked, declared_process, given_process, root, starter
from treadle.coordination.planning import Planning, digest, one_line
from treadle.coordination.record import claim_name, encoded
from treadle.coordination.surfaces import Surface, literal_starts
from treadle.errors import Denied, TreadleError
from treadle.io.files import move, read, state_numbers, try_remove, write_atomic
from treadle.io.paths import private_dir
from treadle.io.records import FileRecord
from treadle.light import TYPE_CHECKING, Any
from treadle.policy import patterns
from treadle.policy.guess import CallWrites, written_by
from treadle.wire.common.records import plain_object

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from treadle.io.sandbox.places import Matches
    from treadle.session import Access, Decision

# Looks at the files that others hold before a call whose writes cannot be foreseen, and again after it.
#
# What changed in between is put back from a copy, and that is told, with where the change is now. It is left, and told,
# where it may be the holder's own: the holder works in the same worktree, and made a call meanwhile; or it has no hooks
# of ours, as a person has none, and nothing in the command speaks for a change.

MOST_FILES = 4000
MOST_BYTES = 64 * 1024 * 1024
UNENDED_SECONDS = 600.0
"""A call of which no end was told for so long, because it was refused for example, is over."""
RETAINED_SECONDS = 7 * 86400.0
CALL = FileRecord(dict[str, Any], format=1, sync=False, decode=plain_object, encode=encoded)
"""The calls of one identity that are under way: the files that others held, and since when it acts."""
Files = dict[str, list[Any]]
"""Path -> inode, size, ctime (which, unlike the mtime, cannot be set back), mode, and the name of its copy."""


class HeldFiles:
    """The files that others hold in the worktree of `claims`, as one identity's calls find and leave them."""

    def __init__(self, claims: Claims, haid: str) -> None:
        self._claims, self._haid = claims, haid
        self._own = claims.bindings.family(haid)
        self._copies = claims.planning.private_path("kept")
        self._path = self._call_path(haid)

    def others(self) -> list[Claim]:
        return self._claims.of_others(self._own)

    def begin(self, doubt: str = "") -> str:
        """A call begins. `doubt`: what speaks for its changing more than it shows. Returns why not everything can be
        put back after it; empty when it can."""
        others, now = self.others(), self._claims.planning.clock()
        if not others and not any(map(self._claims.holds, self._own)) and not os.path.exists(self._path):
            return ""
        private_dir(os.path.dirname(self._path))
        with CALL.locked(self._path):
            call = self._call()
            files, why = self._keep(others, call["files"])
            under_way = call["open"] if now - call["began"] < UNENDED_SECONDS else 0
            call |= {"top": self._claims.top, "files": files, "held": [[one.haid, one.fence] for one in others]}
            call |= {"open": under_way + 1, "ended": 0.0}
            if not under_way:
                call |= {"began": now, "doubt": doubt}
            CALL.save(self._path, {**call, "doubt": call["doubt"] or doubt})
        return why

    def end(self, *, late: bool = False) -> list[str]:
        """What changed while calls were under way and was put back, or left. `late`: the end of the last call was not
        told; another begins."""
        if not os.path.exists(self._path):
            return []
        with CALL.locked(self._path):
            call = self._call()
            if not call["open"]:
                return []  # what changed between calls is no one's here
            reported = self._settle(call, late) if call["top"] == self._claims.top else []
            call["files"] = self._keep(self.others(), call["files"])[0]
            call["open"] = max(0, call["open"] - 1) if not late else call["open"]
            if not call["open"]:
                call["ended"] = self._claims.planning.clock()
            CALL.save(self._path, call)
        for what in reported:
            from treadle.coordination import capsules

            capsules.append(self._claims.planning, "a held file was changed", f"By a call of `{self._haid}`: {what}.")
        return reported

    def not_saved(self) -> str:
        """Why not everything that others hold could be put back now."""
        return self._keep(self.others(), {})[1]

    # Comparing...

    def _settle(self, call: dict[str, Any], late: bool) -> list[str]:
        before: Files = call["files"]
        held = {tuple(one) for one in call["held"]}
        still = [claim for claim in self.others() if (claim.haid, claim.fence) in held]
        now = look(still, self._claims)
        reported = []
        for path in sorted(before.keys() | now.keys()):
            old, new = before.get(path), now.get(path)
            if old and new and old[:4] == new:
                continue
            met = [
                one
                for one in self._claims.held_by_others(self._own, self._claims.surfaces_at(path))
                if held.issuperset([(one.claim.haid, one.claim.fence)])
            ]
            if met and not self._is_same(path, old, new):
                reported.append(self._reported(path, old, new, met[0], call, late))
        return reported

    def _is_same(self, path: str, old: list[Any] | None, new: list[Any] | None) -> bool:
        try:
            return bool(old and new and old[3] == new[3] and old[4] == digest(_content(path)))
        except (OSError, TreadleError):
            return False

    def _reported(
        self, path: str, old: list[Any] | None, new: list[Any] | None, met: Overlap, call: dict[str, Any], late: bool
    ) -> str:
        held = f"{met.asked}, which {met.claim.haid} holds for {one_line(str(met.claim.part(met.held)['task']))},"
        what = f"{held} was {'removed' if not new else 'changed' if old else 'made'}"
        copy = os.path.join(self._copies, old[4]) if old and old[4] else ""
        if self._is_committed(path, met):
            return f"{what}; it is now as in the commit that is checked out"
        if self._at_work(met.claim.haid, call, late):
            return f"{what}, perhaps by its holder, so it was left" + (f"; what it was is in {copy}" if copy else "")
        try:
            if old and not copy:
                return f"{what}; it is too large to be put back"
            asides = [self._aside(place) for place in _in_the_way(path, self._claims.top)]
            if old:
                _restore(path, copy, old[3])
            become = ", ".join(filter(None, asides))
            return f"{what}, and was put back" + (f"; what it had become is in {become}" if become else "")
        except (OSError, TreadleError) as error:
            return f"{what}, and could not be put back: {error}"

    def _aside(self, path: str) -> str:
        """Where the thing at this path is now, taken away; empty if there was none."""
        if not os.path.lexists(path):
            return ""
        place = os.path.join(self._copies, f"changed-{os.urandom(4).hex()}-{os.path.basename(path)}")
        private_dir(self._copies)
        move(path, place)
        return place

    def _is_committed(self, path: str, met: Overlap) -> bool:
        """Whether git put it there for the commit that is checked out, in a worktree that is not the holder's."""
        if self._place(met.claim.haid) in ("", self._claims.top) or not os.path.isfile(path):
            return False
        from hashlib import sha1

        from treadle.coordination import changes

        try:
            name = os.path.relpath(path, self._claims.top)
            listed = changes.read(self._claims.top, "rev-parse", "-q", "--verify", f"HEAD:{name}").decode().strip()
            data = read(path)
            return listed == sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()
        except TreadleError:
            return False

    def _at_work(self, haid: str, call: dict[str, Any], late: bool) -> bool:
        """Whether its holder may have changed it meanwhile."""
        if self._place(haid) not in ("", self._claims.top):
            return False
        binding = self._claims.bindings.of(haid)
        names = [haid, binding.of] if binding and binding.of else [haid]
        theirs = [found for name in names if (found := CALL.load_whole(self._call_path(name)))]
        if not theirs:
            return late or not call["doubt"]
        return any(one["top"] == self._claims.top and (one["open"] or one["ended"] >= call["began"]) for one in theirs)

    def _place(self, haid: str) -> str:
        return self._claims.store.place(haid)

    # Keeping...

    def _keep(self, others: list[Claim], known: Files) -> tuple[Files, str]:
        """The files that others hold, each with its copy; and why some have none."""
        found, left, why, there = look(others, self._claims), MOST_BYTES, "", self._there()
        for path, state in found.items():
            old = known.get(path)
            if old and old[:4] == state and old[4] in there:
                state.append(old[4])
                continue
            try:
                left -= state[1]
                state.append(self._copied(path) if left >= 0 else "")
            except (OSError, TreadleError):
                state.append("")
            why = why or ("" if state[4] else f"{path} cannot be kept")
        if len(found) >= MOST_FILES:
            why = f"more than {MOST_FILES} files are held"
        return found, why

    def _there(self) -> set[str]:
        """The names of all copies. If there are many, what no one has needed for a week goes."""
        try:
            names = set(os.listdir(self._copies))
            if len(names) >= 2 * MOST_FILES:
                calls = os.path.dirname(self._path)
                known = [CALL.load_whole(os.path.join(calls, name)) for name in state_numbers(calls, ".json")]
                used = {one[4] for call in known if call for one in call["files"].values()}
                for path in (os.path.join(self._copies, name) for name in names - used):
                    if self._claims.planning.clock() - os.lstat(path).st_ctime > RETAINED_SECONDS:
                        try_remove(path)
            return names
        except OSError:
            return set()

    def _copied(self, path: str) -> str:
        data = _content(path)
        name = digest(data)
        private_dir(self._copies)
        write_atomic(os.path.join(self._copies, name), data, sync=False)
        return name

    def _call_path(self, haid: str) -> str:
        return self._claims.planning.private_path("calls", claim_name(haid))

    def _call(self) -> dict[str, Any]:
        empty = {"format": 1, "top": self._claims.top, "began": 0.0, "ended": 0.0, "open": 0, "doubt": ""}
        return CALL.load_whole(self._path) or {**empty, "files": {}, "held": []}


def look(claims: Iterable[Claim], found: Claims) -> Files:
    """The current state of the files that these claims cover in a worktree, up to a number."""
    files: Files = {}
    for surface in {surface.pattern: surface for claim in claims for surface in claim.surfaces}.values():
        for path in (path for start in literal_starts(surface.pattern) for path in _files(start, found)):
            if path not in files and surface.covers(path[len(found.top) + 1 :]):
                try:
                    state = os.lstat(path)
                except FileNotFoundError:
                    continue  # removed while we look
                files[path] = [state.st_ino, state.st_size, state.st_ctime_ns, state.st_mode]
                if len(files) >= MOST_FILES:
                    return files
    return files


def _files(start: str, claims: Claims) -> Iterator[str]:
    """Every file at or below a path, without git's own and the coordination files, and what is behind a link: that lies
    elsewhere, and is held there, too, if that is in the repository."""
    place = os.path.join(claims.top, start)
    if next(_in_the_way(place, claims.top)) != place:
        return
    if os.path.lexists(place) and (os.path.islink(place) or not os.path.isdir(place)):
        yield place
        return
    for directory, directories, names in os.walk(place):
        directories[:] = [
            name for name in directories if name != ".git" and os.path.join(directory, name) != claims.planning.root
        ]
        yield from (os.path.join(directory, name) for name in names)
        yield from (path for name in directories if os.path.islink(path := os.path.join(directory, name)))


def _content(path: str) -> bytes:
    """What is in a file, or where a link leads."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return os.fsencode(os.readlink(path))
    if not stat.S_ISREG(mode):
        raise OSError(f"{path} is not a file")  # a pipe would be waited for
    return read(path)


def _in_the_way(path: str, top: str) -> Iterator[str]:
    """What stands in the way of a path, such as a link in place of one of its directories, and then the path itself."""
    place = top
    for name in os.path.relpath(os.path.dirname(path), top).split("/"):
        place = os.path.normpath(os.path.join(place, name))
        if os.path.islink(place) or os.path.lexists(place) and not os.path.isdir(place):
            yield place
    yield path


def _restore(path: str, copy: str, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if stat.S_ISLNK(mode):
        os.symlink(os.fsdecode(read(copy)), path)
    else:
        write_atomic(path, read(copy), stat.S_IMODE(mode), sync=False)


# The files and directories that others hold and that exist, as the paths that a sandbox keeps read-only.
#
# A path that does not exist cannot be kept: what a command makes under another's claim is found afterwards
# (`HeldFiles`).

MOST = 128
"""Each path is a mount. If there are more, whole directories of them are kept, although only a part of each is held."""


class HeldPaths:
    def __init__(self, top: str, records: str) -> None:
        """`records`: the directory of the coordination files, which belong to no one."""
        self._top = top
        self._apart = (os.path.join(top, ".git"), records)
        self._known: dict[tuple[str, str], Matches] = {}

    def find(self, claims: Iterable[Claim]) -> dict[str, str]:
        """The outermost paths that these claims cover, each with who holds it, why and until when."""
        found: dict[str, str] = {}
        for claim in claims:
            for text in claim.texts:
                surface = claim.surface(text)
                for path in self._paths(surface) if surface is not None and not surface.is_outside else ():
                    real = os.path.realpath(path)
                    if _is_under(real, (self._top,)):
                        found.setdefault(real, str(Overlap(os.path.relpath(path, self._top), text, claim)))
        return self._few(_outermost(found))

    def _paths(self, surface: Surface) -> Iterator[str]:
        for start in literal_starts(surface.pattern):
            place = os.path.normpath(os.path.join(self._top, start))
            if not surface.covers(start or ".") and not _covers(surface.pattern, start):
                yield from self._search(surface, place)
            elif place == self._top:
                # A directory with git's own in it cannot be kept whole: an agent commits to a private one.
                names = os.listdir(place)
                yield from (one for name in names if (one := os.path.join(place, name)) not in self._apart)
            elif os.path.lexists(place) and place not in self._apart:
                yield place

    def _search(self, surface: Surface, place: str) -> Iterator[str]:
        from treadle.io.sandbox.places import Matches

        found = self._known.setdefault(
            (surface.pattern, place),
            Matches([place], lambda path: path not in self._apart and surface.covers(path[len(self._top) + 1 :])),
        )
        yield from (path for path in found.find() if not _is_under(path, self._apart))

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
        found = repository.find(self.cwd)
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
        from treadle.session import Decision

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
            return Decision(verdict="ask", reason=f"others' claims cannot be read: {'; '.join(unseen)}", by="claim")
        if command:
            return self._judge_command(command, os.path.join(self.cwd, named.where))
        judge = CommandJudge(self.claims, self.haid, self.cwd)
        judge.judge("")
        judge.weigh(named.mentioned(self.cwd))
        return self._asked("call", judge.unseen)

    def _judge_command(self, command: str, where: str) -> Decision:
        from treadle.session import Decision

        judge = CommandJudge(self.claims, self.haid, where)
        judge.judge(command)
        if found := judge.overlaps:
            return Decision(verdict="deny", reason=Collision(found, "change").message, by="claim")
        self._doubt = judge.unseen
        if judge.unseen and not self._confined and (why := judge.lasting or self._files.not_saved() and judge.unseen):
            return self._asked("command", why)
        return Decision(verdict="allow", by="claim")

    def _asked(self, what: str, unseen: str) -> Decision:
        from treadle.session import Decision

        reason = f"others hold files here, and the {what} does not show {unseen}" if unseen else ""
        return Decision(verdict="ask" if unseen else "allow", reason=reason, by="claim")

    def _overlaps(self, paths: tuple[str, ...]) -> list[Overlap]:
        return self.claims.held_by_others(self._own(), self._surfaces(paths))

    def _own(self) -> set[str]:
        return self.claims.bindings.family(self.haid)

    def writing(self, paths: tuple[str, ...]) -> AbstractContextManager[None]:
        """A session.Writing: while a tool writes these paths, no one can claim them. Denied if another already has."""
        from contextlib import contextmanager  # the hooks load this module at every call, and need none

        return contextmanager(self._writing)(paths)

    def _writing(self, paths: tuple[str, ...]) -> Iterator[None]:
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


# Outside agents, by their hooks.

_ASK = ("claude", "cursor")
"""The programs of which it is known that a hook can make them ask a person; in the others that lets the call run."""
_READS_NOTES = ("claude", "codex")
"""The programs that read a note along with an allowed call."""


def judge(call: OutsideCall, here: bool, tops: list[str]) -> HookAnswer:
    """By the claims of the worktree in which it is made, if `here`, and then of each other one that it names."""
    found = _here(call, Planning(project=call.project)) if here else HookAnswer()
    if found.reason:
        return found
    return next(filter(None, (_elsewhere(call, top) for top in tops)), found)


def _elsewhere(call: OutsideCall, top: str) -> HookAnswer | None:
    planning = Planning(project=top)
    return refusal(Claims(planning, top), None, identity(planning, call), call) if planning.claimed() else None


def _here(call: OutsideCall, planning: Planning) -> HookAnswer:
    found = repository.find(call.project)
    claims = Claims(planning, found.top if found else planning.project)
    haid = identity(planning, call)
    if claims.agents.revoked(haid):
        return HookAnswer(f"{haid} has been revoked")
    held = HeldFiles(claims, haid)
    news = "".join(f"{what}.\n" for what in held.end(late=not call.is_over))
    if news:
        news = f"While {'this call' if call.is_over else 'your last call'} ran:\n{news}Leave what others hold alone.\n"
    if call.is_over:
        return HookAnswer(note=news)
    claims.keep(haid)
    verdict = refusal(claims, held, haid, call) or HookAnswer(note=news + _note(claims, haid, call))
    if verdict.reason or news and call.program not in _READS_NOTES:
        verdict.reason = news + (verdict.reason or "This call was not run: make it again.")
    return verdict


def refusal(claims: Claims, held: HeldFiles | None, haid: str, call: OutsideCall) -> HookAnswer | None:
    writes, command, mentions = call.writes(), call.does.command, call.does.mentioned(call.cwd)
    if not writes and not command and not mentions:
        if held:
            held.begin()  # for its end is told like any other's
        return None
    if (unseen := claims.unseen()) and (writes or command and not _looks(command)):
        return HookAnswer(f"others' claims cannot be read: {'; '.join(unseen)}")
    surfaces = [
        surface
        for path in writes
        for glob in (False, True)[: 2 if re.search(r"[*?\[{]", path) and not os.path.lexists(path) else 1]
        for surface in claims.surfaces_at(path, glob)
    ]
    overlaps = claims.held_by_others(claims.bindings.family(haid), surfaces)
    judged = CommandJudge(claims, haid, call.where, call.staged)
    judged.judge(command)
    judged.weigh(mentions, lasts=True)
    if judged.others and any(map(claims.planning.is_ours, writes)):
        return HookAnswer("git's own files and the record of claims are not an agent's to write")
    overlaps += judged.overlaps
    if overlaps:
        asked = sorted({overlap.asked for overlap in overlaps})
        claims.waits.put(haid, asked, call.tool, [overlap.claim.haid for overlap in overlaps])
        return HookAnswer(
            f"{Collision(overlaps, 'change').message}\nYou are {haid}. Work on something else, or make_claim it later:"
            " the holder is told that you wait."
        )
    if not judged.others:  # nothing can be met, and the command need not be read
        if held:
            held.begin()
        return None
    looks = bool(command) and _looks(command)
    not_saved = held.begin("" if looks else judged.unseen) if held else judged.unseen
    if not looks and judged.unseen and (why := judged.lasting or call.does.goes_on or not_saved and judged.unseen):
        return HookAnswer(
            f"others hold files here, and the command does not show {why}. Name the files plainly in it,"
            f" or use the tool for editing files. You are {haid}.",
            asks=call.program in _ASK,
        )
    return None


def _looks(command: str) -> bool:
    from treadle.policy import shell
    from treadle.policy.writes import only_looks

    return only_looks(shell.read(command))


def identity(planning: Planning, call: OutsideCall) -> str:
    """The identity that makes the call. The session that the hook names has the same identity in everything it does."""
    if declared := os.environ.get("HEIMDALL_HAID"):
        return checked(declared)
    bindings = IdentityBindings(planning, "")
    key = f"{call.program}:{call.session}" if call.session else ""
    process = _process(call)
    if found := bindings.recognise([key] if key else [], [process] if process else []):
        if found.key == key or not key:
            return found.haid
    bindings.root = root(planning.project)
    return bindings.enter(call.program, key or f"{call.program}:{process}", process)


def _process(call: OutsideCall) -> Key | None:
    declared = given_process(os.environ) if os.environ.get("HEIMDALL_HAID") else None
    return declared or declared_process(os.environ, call.program) or starter()


def _note(claims: Claims, haid: str, call: OutsideCall) -> str:
    """Who waits for something that the agent holds, and what it waited for itself and is free. Each is told once."""
    if call.program not in _READS_NOTES:
        return ""
    waiting = [wait for wait in claims.waits.on(haid) if haid not in wait.get("told", ())]
    for wait in waiting:
        claims.waits.mark_notified(wait, haid)
    lines = [f"{wait_text(wait)}. Release it as soon as you are done with it." for wait in waiting]
    if free := claims.freed(haid):
        lines.append(f"What you waited for is free now: {' '.join(free)}. Claim it before you change it.")
    return "\n".join(lines)
