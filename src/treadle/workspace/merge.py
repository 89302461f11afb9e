"""Applies the changes between two trees to a directory that may have changed too: three-way, all or nothing.

What is written was hashed when it was read from the store. However many files change, git is started the same number
of times: to compare the trees, to read the content, and to merge what changed on both sides.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from treadle.io import descriptors
from treadle.io.files import opened, write
from treadle.workspace.changes import Delta, TreeEntry
from treadle.workspace.directories import Look
from treadle.workspace.git import is_forbidden
from treadle.workspace.journal import carry_out
from treadle.workspace.store import GITLINK, Store

BINARY = 8000
"""A file with a NUL in its first bytes, so many, is binary to git."""


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    reason: str


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """With conflicts, nothing was written. Files that already have their new form are not listed."""

    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    before: str | None = None
    """The tree of the directory before anything was written to it; None when not all of it could be read."""
    after: str | None = None
    """Its tree afterwards, as it was found: whatever else was changed there meanwhile is in it."""


class File(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes
    link: bool = False
    executable: bool = False


class _Refused(Exception):
    """This change cannot be applied; the message says why."""


def plan_back(
    store: Store,
    before: str,
    after: str,
    target: str,
    refused: Callable[[list[Delta]], Mapping[str, str]] = lambda deltas: {},
) -> MergePlan:
    """How to apply the changes between two trees to `target`; its `merged` lists the conflicts, if any.

    `refused` tells which paths must not be changed, each with the reason.
    """
    deltas = store.deltas(before, after)
    plan = MergePlan(store, os.path.realpath(target), deltas)
    waiting = refused(deltas)
    for delta in deltas:
        try:
            for path in (delta.change.path, delta.change.old_path):
                if path and path in waiting:
                    raise _Refused(f"{path} {waiting[path]}: look at the patch and change it yourself")
            plan.add(delta)
        except _Refused as refusal:
            plan.conflicts.append(Conflict(path=delta.change.path, reason=str(refusal)))
    plan.join_texts()
    return plan


class MergePlan:
    def __init__(self, store: Store, target: str, deltas: list[Delta]) -> None:
        self.store = store
        self.target = target
        entries = [entry for delta in deltas for entry in (delta.old, delta.new) if entry is not None]
        self.content = store.blobs(entry.blob for entry in entries if entry.mode != GITLINK)
        changes = [delta.change for delta in deltas]
        self.gone = {change.old_path or change.path for change in changes if change.kind in ("deleted", "renamed")}
        self.writes: dict[str, File] = {}
        self.deletes: list[str] = []
        self.conflicts: list[Conflict] = []
        self.found: Look | None = None
        """The target as it was found, if there are no conflicts."""
        self._texts: dict[str, _Sides] = {}
        """Texts that changed on both sides, by their path."""

    @property
    def merged(self) -> Merged:
        """What carrying out the plan will do."""
        if self.conflicts:
            return Merged(conflicts=tuple(self.conflicts))
        before = self.found.complete if self.found is not None else None
        return Merged(written=tuple(self.writes), deleted=tuple(self.deletes), before=before)

    def carry_out(self, journal: str) -> Merged:
        """Carry out the whole plan or nothing. If we are killed on the way, `journal` says how to continue."""
        if not self.conflicts and (self.writes or self.deletes):
            writes = {
                path: partial(put_beside, file, os.path.join(self.target, path)) for path, file in self.writes.items()
            }
            carry_out(journal, self.target, writes, self.deletes)
        return self.merged

    def add(self, delta: Delta) -> None:
        change = delta.change
        source = change.old_path or change.path
        base, theirs = self._file(delta.old), self._file(delta.new)
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
            self._write(change.path, ours, base, theirs)

    def _add_rename(self, source: str, path: str, base: File | None, theirs: File | None) -> None:
        ours, there = self._there(source), self._there(path)
        if ours is None and there == theirs:
            return
        if there is not None and there != theirs:
            raise _Refused(f"renamed from {source} by the run, but here is another file of that name")
        if theirs is None or ours is None:
            raise _Refused(f"renamed from {source} by the run, which is not here any more")
        self._write(path, ours, base, theirs)
        self.deletes.append(source)

    def _write(self, path: str, ours: File | None, base: File | None, theirs: File) -> None:
        if ours == base:
            self.writes[path] = theirs
            return
        sides = _three_way(ours, base, theirs)
        self.writes[path] = sides if isinstance(sides, File) else File(data=b"", executable=sides.executable)
        if isinstance(sides, _Sides):
            self._texts[path] = sides

    def join_texts(self) -> None:
        """Merge the texts that changed on both sides, all by one start of git."""
        if not self._texts:
            return
        merged = self.store.merge(*self._commits())
        files = self.store.files(merged.tree)
        found = self.store.blobs((entry.blob for entry in files.values()), lent=False)
        for number, path in enumerate(self._texts):
            name = str(number)
            data = found[files[name].blob]
            if name in merged.conflicts:
                places = max(1, data.count(b"\n<<<<<<< ") + data.startswith(b"<<<<<<< "))
                where = f"{places} place{'s' if places > 1 else ''}"
                reason = f"changed by the run and here, in the same lines, in {where}"
                self.conflicts.append(Conflict(path=path, reason=reason))
            else:
                self.writes[path] = msgspec.structs.replace(self.writes[path], data=data)

    def _commits(self) -> tuple[str, str]:
        """Commits with the texts of both sides, under numbers for names, on top of one with those of the base."""

        def tree(texts: list[bytes]) -> str:
            blobs = [self.store.put("blob", text) for text in texts]
            return self.store.put_files({str(n): TreeEntry(mode="100644", blob=blob) for n, blob in enumerate(blobs)})

        sides = list(self._texts.values())
        base = self.store.loose_commit(tree([one.base for one in sides]))
        ours = self.store.loose_commit(tree([one.ours for one in sides]), [base])
        return ours, self.store.loose_commit(tree([one.theirs for one in sides]), [base])

    def _file(self, entry: TreeEntry | None) -> File | None:
        if entry is None:
            return None
        if entry.mode == GITLINK:
            raise _Refused("a submodule was changed, which cannot be merged")
        return File(data=self.content[entry.blob], link=entry.is_link, executable=entry.executable)

    def _check_place(self, path: str) -> None:
        """Refuse a path that leads through a link, to git's own files, or to where nothing may be written."""
        names = path.split("/")
        if any(is_forbidden(name) for name in names):
            raise _Refused("it belongs to git itself")
        for number in range(1, len(names)):
            above = "/".join(names[:number])
            place = os.path.join(self.target, above)
            if os.path.islink(place):
                if above in self.gone:
                    return  # it makes room
                raise _Refused(f"{above} is a symbolic link here, which may lead anywhere")
            if not os.path.isdir(place):
                return
        if not os.access(os.path.join(self.target, os.path.dirname(path)), os.W_OK | os.X_OK):
            raise _Refused("its directory here may not be written to")

    def _there(self, path: str) -> File | None:
        self._check_place(path)
        try:
            return self._read(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            if self._will_be_empty(os.path.join(self.target, path)):
                return None
            raise _Refused("here is a directory of that name") from None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link that the run deletes; if it is another, carrying out stops at it
                return None
            raise _Refused(f"cannot be read here: {error.strerror}") from None

    def _read(self, path: str) -> File:
        folder, _, name = path.rpartition("/")
        with descriptors.directory(self.target) as root:
            parent = descriptors.open_below(root, folder)
        try:
            mode = os.lstat(name, dir_fd=parent).st_mode
            if stat.S_ISLNK(mode):
                return File(data=os.fsencode(os.readlink(name, dir_fd=parent)), link=True)
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, "a directory", path)
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not an ordinary file", path)
            with opened(descriptors.open_in(parent, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)) as file:
                return File(data=file.read(), executable=bool(os.fstat(file.fileno()).st_mode & 0o100))
        finally:
            os.close(parent)

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
        found = descriptors.lstat(place).st_mode
        mode = stat.S_IMODE(found) & 0o666 if not stat.S_ISLNK(found) else 0o644
    except OSError:
        mode = 0o644
    write(beside, file.data, sync=True)
    os.chmod(beside, mode | (mode & 0o444) >> 2 if file.executable else mode)


class _Sides(msgspec.Struct, frozen=True, kw_only=True):
    """A text that changed on both sides."""

    ours: bytes
    base: bytes
    theirs: bytes
    executable: bool


def _three_way(ours: File | None, base: File | None, theirs: File) -> File | _Sides:
    if ours is None:
        raise _Refused("changed by the run, deleted here")
    if base is None:
        raise _Refused("added by the run, and here is another file of that name")
    if ours.link or base.link or theirs.link:
        raise _Refused("a symbolic link was changed on both sides")
    executable = theirs.executable if theirs.executable != base.executable else ours.executable
    if ours.data == base.data:
        return File(data=theirs.data, executable=executable)
    if theirs.data in (base.data, ours.data):
        return File(data=ours.data, executable=executable)
    if any(b"\0" in side.data[:BINARY] for side in (ours, base, theirs)):
        raise _Refused("a binary file was changed on both sides")
    return _Sides(ours=ours.data, base=base.data, theirs=theirs.data, executable=executable)
