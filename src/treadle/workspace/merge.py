"""Applies the changes between two snapshots to a directory that may have changed too: three-way, all or nothing."""

from __future__ import annotations

import os
import stat
from functools import partial

import msgspec

from treadle.io import scratch
from treadle.io.opening import opened, write
from treadle.workspace.changes import PathChange, TreeEntry
from treadle.workspace.git import git
from treadle.workspace.journal import carry_out
from treadle.workspace.snapshot import Snapshots


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    reason: str


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """With conflicts, nothing was written. Files that already have their new form are not listed."""

    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


class File(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes
    link: bool = False
    executable: bool = False


class _Refused(Exception):
    """This change cannot be applied; the message says why."""


def plan_back(snapshots: Snapshots, before: str, after: str, target: str) -> MergePlan:
    """How to apply the changes between two snapshots to `target`; its `merged` lists the conflicts, if any."""
    changes = snapshots.changes(before, after)
    plan = MergePlan(snapshots, before, after, os.path.realpath(target), changes)
    for change in changes:
        try:
            plan.add(change)
        except _Refused as refusal:
            plan.conflicts.append(Conflict(path=change.path, reason=str(refusal)))
    return plan


class MergePlan:
    def __init__(self, snapshots: Snapshots, before: str, after: str, target: str, changes: list[PathChange]) -> None:
        self.snapshots = snapshots
        self.target = target
        old_paths = [change.old_path or change.path for change in changes]
        self.old = snapshots.entries(before, old_paths)
        self.new = snapshots.entries(after, [change.path for change in changes])
        self.gone = {change.old_path or change.path for change in changes if change.kind in ("deleted", "renamed")}
        self.writes: dict[str, File] = {}
        self.deletes: list[str] = []
        self.conflicts: list[Conflict] = []

    @property
    def merged(self) -> Merged:
        """What carrying out the plan will do."""
        if self.conflicts:
            return Merged(conflicts=tuple(self.conflicts))
        return Merged(written=tuple(self.writes), deleted=tuple(self.deletes))

    def carry_out(self, journal: str) -> Merged:
        """Carry out the whole plan or nothing. If we are killed on the way, `journal` says how to continue."""
        if not self.conflicts and (self.writes or self.deletes):
            writes = {
                path: partial(put_beside, file, os.path.join(self.target, path)) for path, file in self.writes.items()
            }
            carry_out(journal, self.target, writes, self.deletes)
        return self.merged

    def add(self, change: PathChange) -> None:
        source = change.old_path or change.path
        base, theirs = self._file(self.old.get(source)), self._file(self.new.get(change.path))
        if change.kind == "renamed":
            self._add_rename(source, change.path, base, theirs)
            return
        ours = self._there(change.path)
        if ours == theirs:
            return
        if theirs is None:
            if ours != base:
                raise _Refused("deleted by the run, changed here")
            self.deletes.append(change.path)
        else:
            self.writes[change.path] = theirs if ours == base else _three_way(ours, base, theirs)

    def _add_rename(self, source: str, path: str, base: File | None, theirs: File | None) -> None:
        ours, there = self._there(source), self._there(path)
        if ours is None and there == theirs:
            return
        if there is not None and there != theirs:
            raise _Refused(f"renamed from {source} by the run, but here is another file of that name")
        if theirs is None or ours is None:
            raise _Refused(f"renamed from {source} by the run, which is not here any more")
        self.writes[path] = theirs if ours == base else _three_way(ours, base, theirs)
        self.deletes.append(source)

    def _file(self, entry: TreeEntry | None) -> File | None:
        if entry is None:
            return None
        return File(data=self.snapshots.read(entry), link=entry.is_link, executable=entry.executable)

    def _place(self, path: str) -> str:
        place = os.path.join(self.target, path)
        parent = os.path.realpath(os.path.dirname(place))
        if parent != self.target and not parent.startswith(self.target.rstrip("/") + "/"):
            raise _Refused("a symbolic link here leads out of the directory")
        if os.path.isdir(parent) and not os.access(parent, os.W_OK | os.X_OK):
            raise _Refused("its directory here may not be written to")
        return place

    def _there(self, path: str) -> File | None:
        place = self._place(path)
        try:
            if os.path.islink(place):
                return File(data=os.fsencode(os.readlink(place)), link=True)
            with opened(place) as file:
                return File(data=file.read(), executable=bool(os.fstat(file.fileno()).st_mode & 0o100))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            if self._will_be_empty(place):
                return None
            raise _Refused("here is a directory of that name") from None
        except OSError as error:
            raise _Refused(f"cannot be read here: {error.strerror}") from None

    def _will_be_empty(self, place: str) -> bool:
        """Whether the run deletes everything in this directory."""
        for folder, folders, names in os.walk(place):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            inside = {os.path.relpath(os.path.join(folder, name), self.target) for name in (*names, *links)}
            if not inside <= self.gone or not (folders or names):
                return False
        return True


def put_beside(file: File, place: str, beside: str) -> None:
    """Write the file; one that is replaced keeps its permissions."""
    if file.link:
        os.symlink(os.fsdecode(file.data), beside)
        return
    try:
        mode = stat.S_IMODE(os.lstat(place).st_mode) & 0o666 if not os.path.islink(place) else 0o644
    except OSError:
        mode = 0o644
    write(beside, file.data, sync=True)
    os.chmod(beside, mode | (mode & 0o444) >> 2 if file.executable else mode)


def _three_way(ours: File | None, base: File | None, theirs: File) -> File:
    if ours is None:
        raise _Refused("changed by the run, deleted here")
    if base is None:
        raise _Refused("added by the run, and here is another file of that name")
    if ours.link or base.link or theirs.link:
        raise _Refused("a symbolic link was changed on both sides")
    executable = theirs.executable if theirs.executable != base.executable else ours.executable
    if ours.data == base.data:
        return File(data=theirs.data, executable=executable)
    if theirs.data == base.data:
        return File(data=ours.data, executable=executable)
    return File(data=_merge_text(ours.data, base.data, theirs.data), executable=executable)


def _merge_text(ours: bytes, base: bytes, theirs: bytes) -> bytes:
    with scratch.directory("merge") as directory:
        for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            write(os.path.join(directory, name), data)
        done = git("merge-file", "-p", "ours", "base", "theirs", cwd=directory, check=False)
    if done.code == 0:
        return done.stdout
    if done.code >= 128:
        raise _Refused("a binary file was changed on both sides")
    places = f"{done.code} place{'s' if done.code > 1 else ''}"
    raise _Refused(f"changed by the run and here, in the same lines, in {places}")
