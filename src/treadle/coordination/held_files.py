"""Looks at the files that others hold before a call whose writes cannot be foreseen, and again after it.

What changed in between is put back from a copy, and that is told, with where the change is now. It is left, and told,
where it may be the holder's own: the holder works in the same worktree, and made a call meanwhile; or it has no hooks
of ours, as a person has none, and nothing in the command speaks for a change.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import sha256

from treadle.coordination.claim import Claim, Overlap
from treadle.coordination.claims import Claims
from treadle.coordination.planning import one_line
from treadle.coordination.record import claim_name, encoded
from treadle.coordination.surfaces import literal_starts
from treadle.errors import TreadleError
from treadle.io.files import move, read, state_numbers, try_remove, write_atomic
from treadle.io.paths import private_dir
from treadle.io.records import FileRecord
from treadle.light import Any
from treadle.policy import patterns
from treadle.wire.common.records import plain_object

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
            return bool(old and new and old[3] == new[3] and old[4] == _sum(_content(path)))
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
        name = _sum(data)
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
    for pattern in {surface.pattern for claim in claims for surface in claim.surfaces}:
        for path in (path for start in literal_starts(pattern) for path in _files(start, found)):
            if path not in files and patterns.match(pattern, path[len(found.top) + 1 :]):
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
        raise OSError(f"{path} is no file")  # a pipe would be waited for
    return read(path)


def _sum(data: bytes) -> str:
    return sha256(data).hexdigest()


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
