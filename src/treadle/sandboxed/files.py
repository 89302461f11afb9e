"""What programs leave in the workspaces that other programs obey: let through as the gate says, or taken out again.

    gate = FileGate("session-1", places)
    with gate.journal(write, known, loose):       # while a program runs
        ...
    gate.refused(new, loose)                       # afterwards: what does not pass
    gate.take_out(...)

A protected file cannot be changed inside, but for one that is as HEAD has it while another ref of the person has
something else there: git has to change that when it switches, merges or rebases. What was done to such a file, and
what is new, is compared afterwards (`workspace/gate.py`). If we are killed before that, the journal says what was
there, and the next session in the same directory takes out what came while the program ran.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from treadle.errors import Busy, TreadleError
from treadle.io.files import locked
from treadle.io.paths import private_dir, state_dir
from treadle.io.records import FileRecord
from treadle.io.sandbox.places import is_under, move, move_aside, open_above, open_up, put_back
from treadle.policy.patterns import IgnoreRules

if TYPE_CHECKING:
    from treadle.workspace.gate import TreeGate
    from treadle.workspace.in_place import InPlace
    from treadle.workspace.private_git import Staged

log = logging.getLogger(__name__)
BEAT = 1.0
"""Seconds between two signs of life in the journal."""
Loose = Mapping[str, Mapping[str, "Staged"]]
"""Protected paths that a program may change, each with the files that HEAD has there."""


class TakenOut(NamedTuple):
    path: str
    to: str
    """Where it is now; empty when it was gone already."""
    problem: str
    """Why it is still there; empty when it is not."""


class JournalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was there when a program was started. The time of its file is our last sign of life."""

    format: int = 0
    session: str
    write: tuple[str, ...]
    began: float
    known: tuple[str, ...]
    loose: dict[str, dict[str, tuple[str, str]]]


JOURNAL = FileRecord(JournalRecord, format=1, sync=False)


class FileGate:
    def __init__(self, session: str, places: Callable[[], Sequence[InPlace]]) -> None:
        self._session = session
        self._places = places
        self._gates: dict[str, tuple[object, TreeGate, IgnoreRules]] = {}
        self._several: dict[str, tuple[TreeGate, tuple[str, ...], list[str]]] = {}
        self._listed: dict[tuple[str, str], dict[str, Staged]] = {}

    # What may change

    def _gate(self, place: InPlace) -> tuple[TreeGate, IgnoreRules]:
        from treadle.workspace.gate import TreeGate

        key = (place.head, tuple(place.refs.items()))
        known = self._gates.get(place.user.top)
        if known is None or known[0] != key:
            own = place.user.run("cat-file", "blob", f"{place.start}:.gitignore", check=False).stdout
            rules = IgnoreRules(f"{place.user.excludes(everywhere=True)}\n{own.decode('utf-8', 'surrogateescape')}")
            known = self._gates[place.user.top] = (key, TreeGate(place.user), rules)
        return known[1], known[2]

    def is_new_at_top(self, path: str) -> bool:
        """Whether this is a dot file at the top of a checkout that neither the project nor its ignore rules know."""
        top, name = os.path.split(path)
        place = next((one for one in self._places() if one.user.top == top), None)
        if place is None or not name.startswith("."):
            return False
        gate, rules = self._gate(place)
        shown = f"{name}/" if os.path.isdir(path) else name
        return gate.is_new_at_top(name) and not rules.ignored(shown, shown)

    def is_run(self, path: str) -> bool:
        """Whether the settings of a person's git name it as a program."""
        return any(path in place.programs for place in self._places())

    def loose(self, paths: Iterable[str]) -> dict[str, dict[str, Staged]]:
        found: dict[str, dict[str, Staged]] = {}
        paths = list(paths)
        for place in self._places():
            head, top = place.refs.get(place.head, place.head), place.user.top
            inside = {os.path.relpath(path, top): path for path in paths if is_under(path, top) and path != top}
            if not inside or head.startswith("refs/"):
                continue
            for name in self._differing(place, tuple(inside)):
                listed = self._in_head(place, head, name)
                if listed and listed == _entries(inside[name], place):
                    found[inside[name]] = listed
        return found

    def _differing(self, place: InPlace, names: tuple[str, ...]) -> list[str]:
        """Those that are not the same in all refs of the person."""
        gate, _ = self._gate(place)
        known = self._several.get(place.user.top)
        if known is None or known[0] is not gate or known[1] != names:
            held = gate.held(names)
            several = [one for one in names if len(held[one]) > 1]
            known = self._several[place.user.top] = (gate, names, several)
        return known[2]

    def _in_head(self, place: InPlace, head: str, name: str) -> dict[str, Staged]:
        from treadle.workspace.private_git import Staged

        if (head, name) not in self._listed:
            rows = os.fsdecode(place.user.run("ls-tree", "-r", "-z", head, "--", name).stdout).split("\0")[:-1]
            parts = [(path, *words.split(" ")) for words, _, path in (row.partition("\t") for row in rows)]
            found = {os.path.join(place.user.top, path): Staged(mode, name) for path, mode, _, name in parts}
            self._listed[head, name] = found
        return self._listed[head, name]

    # What passes

    def state(self, roots: Iterable[str]) -> Loose:
        """The files at and below these paths, as git would store them."""
        found = {root: _entries(root, self._place(root)) for root in roots}
        return {root: {path: one for path, one in files.items() if one is not None} for root, files in found.items()}

    def refused(self, new: Iterable[str], loose: Loose) -> dict[str, Staged | None]:
        """The files that do not pass, each with what was there before."""
        found: dict[str, Staged | None] = {}
        together: dict[str, tuple[InPlace, list[str]]] = {}
        for root in dict.fromkeys((*new, *loose)):
            open_up(root)
            place = self._place(root)
            if place is None:
                found[root] = None
            else:
                together.setdefault(place.worktree_around(root), (place, []))[1].append(root)
        for base, (place, roots) in together.items():
            found.update(self._refused(place, base, roots, loose))
        return found

    def _place(self, path: str) -> InPlace | None:
        return next((one for one in self._places() if is_under(path, one.user.top)), None)

    def _refused(
        self, place: InPlace, base: str, roots: Sequence[str], loose: Loose
    ) -> Iterator[tuple[str, Staged | None]]:
        from treadle.workspace.private_git import Staged

        now = {root: _entries(root, place) for root in roots}
        strange = Staged("", "")
        changes: dict[str, Staged | None] = {}
        for root, files in now.items():
            before = loose.get(root, {})
            changes |= {path: one or strange for path, one in files.items() if before.get(path, strange) != one}
            changes |= dict.fromkeys(path for path in before if path not in files)
        try:
            waiting = self._waiting(place, base, changes)
            unknown = {root for root in roots if root not in loose and not self._is_doubted(place, root, now[root])}
        except Exception:  # whatever a planted name does to the gate: then nothing passes
            log.exception("the gate failed in %s", base)
            waiting, unknown = set(changes), set()
        for root, files in now.items():
            mine = [path for path in dict.fromkeys((*files, *loose.get(root, {}))) if path in waiting]
            if root in loose or len(mine) < len(files) and root not in unknown:
                yield from ((path, loose.get(root, {}).get(path)) for path in mine)
            elif os.path.lexists(root):  # nothing of it passes, or it is an empty directory, which git never makes
                yield root, None

    def _is_doubted(self, place: InPlace, root: str, files: Mapping[str, Staged | None]) -> bool:
        """Whether the gate knows why it is kept; what something else keeps does not pass."""
        return bool(self._gate(place)[0].doubt(os.path.relpath(root, place.user.top), files.get(root)))

    def _waiting(self, place: InPlace, base: str, changes: Mapping[str, Staged | None]) -> set[str]:
        from treadle.workspace.gate import Crossing, TreeGate

        gate, _ = self._gate(place)
        crossing = [Crossing(os.path.relpath(path, base), entry) for path, entry in changes.items()]
        refused = gate.refused(crossing)
        if refused and (commit := place.visited(gate.tips())):
            refused = TreeGate(place.user, also=[commit]).refused(crossing)
        return {os.path.join(base, path) for path in refused}

    def take_out(self, found: Mapping[str, Staged | None]) -> list[TakenOut]:
        """Move these out of the workspaces, and put back what was there before."""
        aside = os.path.join(os.path.realpath(private_dir(os.path.join(state_dir(), "removed"))), self._session)
        for path in found:
            open_above(path)
            open_up(path)
        moved = dict(move_aside([path for path in found if os.path.lexists(path)], aside))
        done = []
        for path, before in found.items():
            problem = "it could not be moved" if os.path.lexists(path) else ""
            if before is not None and not problem:
                try:
                    self._put_back(path, before)
                except (TreadleError, OSError) as error:
                    problem = f"it is gone, and what was there could not be written: {error}"
            done.append(TakenOut(path, moved.get(path, ""), problem))
        return done

    def give_back(self, path: str, source: str) -> bool:
        """Move what was taken out to where it was; what is there now is moved out in its place."""
        aside = os.path.dirname(source)
        if os.path.lexists(path) and not move_aside([path], aside):
            return False
        try:
            move(source, path)
        except OSError:
            return False
        return True

    def _put_back(self, path: str, entry: Staged) -> None:
        place = next(one for one in self._places() if is_under(path, one.user.top))
        data = place.user.run("cat-file", "blob", entry.id).stdout
        put_back(path, data, {"100755": 0o777, "120000": None}.get(entry.mode, 0o666))

    # If we are killed

    @contextmanager
    def journal(self, write: Sequence[str], known: Iterable[str], loose: Loose) -> Iterator[None]:
        """While a program runs: what was there before it, and that we live."""
        place = os.path.join(private_dir(os.path.join(state_dir(), "gate")), f"{self._session}-{secrets.token_hex(4)}")
        before = {root: {path: (one.mode, one.id) for path, one in files.items()} for root, files in loose.items()}
        record = JournalRecord(
            format=1, session=self._session, write=tuple(write), began=time.time(), known=tuple(known), loose=before
        )
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT):
                with suppress(OSError):
                    os.utime(place)

        beating = threading.Thread(target=beat, name="journal", daemon=True)
        with locked(f"{place}.lock", 0):
            JOURNAL.save(place, record)
            beating.start()
            try:
                yield
            finally:
                over.set()
                beating.join()
                for path in (place, f"{place}.lock"):
                    with suppress(FileNotFoundError):
                        os.unlink(path)

    def recover(self, write: Sequence[str], find: Callable[[], Iterable[str]]) -> list[str]:
        """Take out what programs of killed sessions have left here. `find`: all that is protected now. Returns what a
        person should know."""
        from treadle.workspace.private_git import Staged

        base, notes = os.path.join(state_dir(), "gate"), []
        names = [name for name in os.listdir(base) if not name.endswith(".lock")] if os.path.isdir(base) else []
        for place in (os.path.join(base, name) for name in names):
            try:
                with locked(f"{place}.lock", 0):
                    record = JOURNAL.load(place)
                    if record is None or not set(record.write) & set(write):
                        continue
                    until = os.stat(place).st_mtime + 2 * BEAT
                    loose = {
                        root: {path: Staged(*one) for path, one in files.items()}
                        for root, files in record.loose.items()
                    }
                    came = [path for path in find() if path not in record.known and _changed(path, record.began, until)]
                    found = self.refused(came, {r: f for r, f in loose.items() if _changed(r, record.began, until)})
                    notes += [_sentence(one, record.session) for one in self.take_out(found)]
                    for path in (place, f"{place}.lock"):
                        os.unlink(path)
            except Busy:
                continue  # it lives
            except (TreadleError, OSError) as error:
                notes.append(f"what a killed session left in {', '.join(write)} was not looked at: {error}")
        return notes


def _sentence(one: TakenOut, session: str) -> str:
    if one.problem:
        return f"{one.path} was written by session {session}, which was killed: {one.problem}"
    return f"{one.path} was written by session {session}, which was killed: it is now {one.to or 'as it was'}"


def _changed(root: str, began: float, until: float) -> bool:
    """Whether something here was changed in this time, or is gone. No program can set the time of a change."""
    paths = [root]
    if os.path.isdir(root) and not os.path.islink(root):
        paths += [os.path.join(at, name) for at, folders, names in os.walk(root) for name in (*folders, *names)]
    try:
        return any(began <= os.lstat(path).st_ctime <= until for path in paths)
    except FileNotFoundError:
        return True


def _entries(root: str, place: InPlace | None) -> dict[str, Staged | None]:
    """The files at and below a path, as git would store them; None for one that it could not."""
    from treadle.workspace.gate import on_disk

    size = place.user.hash_size if place is not None else 20
    if os.path.islink(root) or not os.path.isdir(root):
        return {root: on_disk(root, size)} if os.path.lexists(root) else {}
    found: dict[str, Staged | None] = {}
    for at, folders, names in os.walk(root):
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        for name in (*names, *links):
            path = os.path.join(at, name)
            found[path] = on_disk(path, size)
    return found
