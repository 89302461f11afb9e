"""Directories and trees: a directory looked at, written from a tree, copied, and taken into a store as one tree."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import IO, Literal, TypeAlias

import msgspec

from treadle.errors import WorkspaceError
from treadle.io import descriptors, tasks
from treadle.io.descriptors import copy_file, left_out
from treadle.io.files import is_unfinished, opened, storage_error, write_all
from treadle.policy.patterns import IgnoreRules, match
from treadle.workspace.changes import TreeEntry
from treadle.workspace.git import is_forbidden, is_git
from treadle.workspace.store import GITLINK, PIECE, TREE, Folders, Store, TreeRow

# One look at a directory: its files with their metadata, its tree, and what is odd; and two looks compared.

Metadata: TypeAlias = tuple[int, int, int, int, int]
"""Mode, size, mtime, ctime, inode."""
OddityKind: TypeAlias = Literal[
    "unreadable",
    "special",
    "too_large",
    "too_long",
    "moving",
    "git_directory",
    "mode",
    "attributes",
    "link_out",
    "name",
]
MISSING: frozenset[OddityKind] = frozenset({"unreadable", "too_large", "too_long", "moving"})
"""Of these, content that may matter is not in the tree. What the base has of that path stays in it."""
TICK = 50_000_000
"""In nanoseconds: the clocks of file systems are coarser than that of the processor."""
STEP = 1_000_000_000
"""In nanoseconds: if the clock was set by more than this between two looks, every file is hashed."""


class Oddity(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a file that a tree cannot hold, or that a person should know before they use it."""

    kind: OddityKind
    path: str
    note: str


class PermissionChange(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    before: str
    """In octal."""
    after: str


class DirectoryPart:
    """The files of one directory, without those below it."""

    __slots__ = ("by_path", "files", "rows", "seen", "sure")

    def __init__(
        self, path: str, seen: dict[str, Metadata], files: dict[str, TreeEntry], rows: list[TreeRow], since: int
    ) -> None:
        self.seen = seen
        """By name; also files that are not in the tree."""
        self.by_path = {path + name: metadata for name, metadata in seen.items()}
        self.files = files
        self.rows = sorted(rows)
        self.sure = all(metadata[3] < since for metadata in seen.values())
        """Whether each was last changed so long before the look that another change gives it other metadata."""


class Look:
    """One look at a directory: its tree, its files with their metadata, and what is odd."""

    def __init__(self) -> None:
        self.tree = ""
        self.excludes = ""
        self.files: dict[str, TreeEntry] = {}
        self.seen: dict[str, Metadata] = {}
        """Of everything that is not a directory; also of ignored files and of what is in `.git`."""
        self.folders: Folders = {}
        self.parts: dict[str, DirectoryPart] = {}
        """By directory, as in `folders`: what can be taken over in a later look if nothing in it has changed."""
        self.hashes: dict[str, str] = {}
        """Of watched files that are not in the tree."""
        self.empty: set[str] = set()
        """Directories without any file, each with a slash at the end."""
        self.oddities: list[Oddity] = []
        self.wall = time.time_ns()
        self.running = _running()

    @property
    def complete(self) -> str | None:
        """The tree, if it has all that a tree can have."""
        return None if any(one.kind in MISSING for one in self.oddities) else self.tree

    def written(self, excludes: str) -> None:
        """All files were just written by us, and nothing else has written there."""
        self.wall, self.running, self.excludes = time.time_ns(), _running(), excludes
        folders: dict[str, dict[str, Metadata]] = {}
        for path, metadata in self.seen.items():
            folder, slash, name = path.rpartition("/")
            folders.setdefault(folder + slash, {})[name] = metadata
        for folder, seen in folders.items():
            files = {folder + name: self.files[folder + name] for name in seen}
            rows = [(os.fsencode(path[len(folder) :]), entry.mode, entry.blob) for path, entry in files.items()]
            self.parts[folder] = DirectoryPart(folder, seen, files, rows, self.wall - TICK)

    def comparable(self, other: Look) -> bool:
        """Whether metadata of both looks can be compared: the clock was not set in between."""
        return abs((self.wall - other.wall) - (self.running - other.running)) < STEP


def _running() -> int:
    """Nanoseconds since the machine was started, also while it slept: this clock cannot be set."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime_ns(clock) if clock is not None else time.monotonic_ns()


metadata_of: Callable[[os.stat_result], Metadata] = attrgetter(
    "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino"
)


def hidden_changes(before: Look, after: Look) -> list[str]:
    """The sorted paths outside the tree that differ: ignored files, and files in `.git`. A watched file with the same
    content counts as unchanged."""
    found = []
    for path in before.seen.keys() | after.seen.keys():
        if path in after.files or (path in before.files and path not in after.seen):
            continue  # the tree shows it
        old, new, known = before.seen.get(path), after.seen.get(path), before.hashes.get(path)
        if known is not None and old is not None and new is not None and old[0] == new[0]:
            if known != after.hashes.get(path):
                found.append(path)
        elif old != new:
            found.append(path)
    return sorted(found)


def permission_changes(before: Look, after: Look) -> list[PermissionChange]:
    """Of files that both looks have in their trees: other permissions, beyond being executable, which trees hold."""
    found = []
    for path in sorted(before.files.keys() & after.files.keys()):
        old, new = before.seen.get(path), after.seen.get(path)
        if old is None or new is None or stat.S_IFMT(old[0]) != stat.S_IFMT(new[0]):
            continue
        if (old[0] ^ new[0]) & 0o7777 & ~0o100:
            found.append(PermissionChange(path=path, before=f"{old[0] & 0o7777:04o}", after=f"{new[0] & 0o7777:04o}"))
    return found


def news(before: Look | None, after: Look) -> list[Oddity]:
    """What is odd now and was not so before."""
    if before is None:
        return after.oddities
    known = set(before.oddities)
    return [one for one in after.oddities if one not in known or before.seen.get(one.path) != after.seen.get(one.path)]


# Writes a tree of a store into a fresh directory, byte for byte, each file hashed on the way.
#
# This is no checkout: no filter runs, no line ending changes, and nothing in the directory is followed or replaced.

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def write_files(store: Store, files: Mapping[str, TreeEntry], directory: str) -> dict[str, Metadata]:
    """Write these files into `directory`, which is made if it is missing and must be empty. Returns their metadata.

    Links come last, so that no path leads through one. A submodule becomes an empty directory. Raises WorkspaceError
    for a path that would leave the directory, an object that is missing, or one that does not match its hash.
    """
    if wrong := {name for name in {name for path in files for name in path.split("/")} if is_forbidden(name)}:
        path = next(path for path in files if not wrong.isdisjoint(path.split("/")))
        raise WorkspaceError(f"{path!r} is not a path for a file")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if os.listdir(directory):
            raise WorkspaceError(f"{directory} is not empty")
        root = descriptors.open_directory(os.path.realpath(directory))
        try:
            writing = _Writing(store, root)
            writing.run(files)
        finally:
            os.close(root)
    except OSError as error:
        raise storage_error(error, error.filename or directory, "write") from error
    return writing.seen


class _Writing:
    def __init__(self, store: Store, root: int) -> None:
        self._store = store
        self._root = root
        self._made = {""}
        self.seen: dict[str, Metadata] = {}

    def run(self, files: Mapping[str, TreeEntry]) -> None:
        links: list[tuple[str, str]] = []
        for path, entry in files.items():
            folder = path if entry.mode == GITLINK else path.rpartition("/")[0]
            if folder not in self._made:
                self._make(folder)
        content = [(path, entry) for path, entry in files.items() if entry.mode != GITLINK]
        content.sort(key=lambda item: item[0].rpartition("/"))
        blobs = self._store.stream([entry.blob for _, entry in content], lent=True)
        with closing(blobs):
            for folder, inside in groupby(content, key=lambda item: item[0].rpartition("/")[0]):
                fd = descriptors.open_from(self._root, folder or ".", os.O_RDONLY | os.O_DIRECTORY)
                try:
                    for path, entry in inside:
                        _, _, pieces = next(blobs)
                        if entry.is_link:
                            links.append((path, os.fsdecode(b"".join(pieces))))
                        else:
                            self.seen[path] = _write(fd, path[len(folder) + bool(folder) :], entry, pieces)
                finally:
                    os.close(fd)
        for path, target in links:
            self._link(path, target)

    def _make(self, folder: str) -> None:
        missing = []
        while folder not in self._made:
            missing.append(folder)
            folder = folder.rpartition("/")[0]
        for each in reversed(missing):
            os.mkdir(each, dir_fd=self._root)
            self._made.add(each)

    def _link(self, path: str, target: str) -> None:
        folder, _, name = path.rpartition("/")
        fd = descriptors.open_from(self._root, folder or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.symlink(target, name, dir_fd=fd)
            self.seen[path] = metadata_of(os.lstat(name, dir_fd=fd))
        finally:
            os.close(fd)


def _write(fd: int, name: str, entry: TreeEntry, pieces: Iterator[bytes]) -> Metadata:
    file = descriptors.open_in(fd, name, _NEW, 0o777 if entry.executable else 0o666)
    try:
        for piece in pieces:
            write_all(file, piece)
        return metadata_of(os.fstat(file))
    finally:
        os.close(file)


# A copy of a person's directory for a run to work in.

COPY_CAP = 8 * 1024**3
DEPTH_CAP = 200
"""How many directories deep a file may lie that is copied or taken. No project needs more, and programs that a person
uses on the result may fail long before the kernel does."""


class Copy:
    """A copy of a directory without `.git`, devices, or links that lead out of it."""

    def __init__(self, source: str, target: str, include: Sequence[str], exclude: Sequence[str], cap: int) -> None:
        self.source = source
        self.target = target
        self.include = tuple(include)
        self.exclude = tuple(exclude)
        self.left = cap
        self.cap = cap
        self.notes: list[str] = []

    def run(self) -> list[str]:
        """Make the copy. Returns notes about what was left out and might be missed."""
        self._directory("")
        if self.include and not os.listdir(self.target):
            self.notes.append(f"nothing was copied: no file fits {', '.join(self.include)}")
        return self.notes

    def _directory(self, path: str) -> None:
        if path.count("/") >= DEPTH_CAP:
            self.notes.append(f"{path[:200]}... was left out: it lies more than {DEPTH_CAP} directories deep")
            return
        try:
            with os.scandir(os.path.join(self.source, path)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except PermissionError as error:
            self.notes.append(f"{path or '.'} was left out: {error.strerror}")
            return
        except OSError as error:
            raise storage_error(error, os.path.join(self.source, path), "read") from error
        if path and not found and not self.include:
            os.makedirs(os.path.join(self.target, path), exist_ok=True)  # a program may expect it
        for entry in found:
            inside = os.path.join(path, entry.name)
            if entry.name == ".git" or os.path.realpath(entry.path) == os.path.realpath(self.target):
                continue
            if any(match(pattern, inside) for pattern in self.exclude):
                continue
            if entry.is_dir(follow_symlinks=False):
                self._directory(inside)
            elif not self.include or any(match(pattern, inside) for pattern in self.include):
                self._entry(entry, inside)

    def _entry(self, entry: os.DirEntry[str], path: str) -> None:
        tasks.check()
        target = os.path.join(self.target, path)
        try:
            if entry.is_symlink():
                self._link(entry, path, target)
            elif entry.is_file(follow_symlinks=False):
                self._file(entry, path, target)
        except PermissionError as error:
            self.notes.append(f"{path} was left out: {error.strerror}")
        except OSError as error:
            raise storage_error(error, target, "copy") from error

    def _link(self, entry: os.DirEntry[str], path: str, target: str) -> None:
        # The real target: `b/../x` is no longer inside if b itself is a link upwards.
        to, end = os.readlink(entry.path), os.path.realpath(entry.path)
        if os.path.isabs(to) or not f"{end}/".startswith(f"{self.source.rstrip('/')}/"):
            self.notes.append(f"{path} was left out: it is a link that leads out of the directory")
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(to, target)

    def _file(self, entry: os.DirEntry[str], path: str, target: str) -> None:
        self.left -= entry.stat(follow_symlinks=False).st_size
        if self.left < 0:
            raise WorkspaceError(
                f"{self.source} holds more than {self.cap} bytes, the limit for a copy",
                hint="exclude files with --exclude, or use --workspace-mode worktree",
            )
        os.makedirs(os.path.dirname(target), exist_ok=True)
        copy_file(entry.path, target)


def files_under(root: str, name: str) -> list[str]:
    """The paths of all files under `name` in `root`, or of the file that it is."""
    if os.path.isabs(name) or os.path.normpath(name).startswith(".."):
        raise WorkspaceError(f"{name} is not in {root}", hint="--bring needs a path inside the directory")
    place = os.path.join(root, os.path.normpath(name))
    if not os.path.isdir(place) or os.path.islink(place):
        return [os.path.normpath(name)] if os.path.lexists(place) else []
    found = []
    for folder, folders, names in os.walk(place):
        links = [one for one in folders if os.path.islink(os.path.join(folder, one))]
        found += [os.path.relpath(os.path.join(folder, one), root) for one in (*names, *links)]
    return found


def bring_files(source: str, target: str, paths: Sequence[str], cap: int = COPY_CAP, *, linked: bool = False) -> None:
    """Copy these files of `source` to `target`, except what is there already. A link stays a link.

    With `linked`, a link of the source is followed, and a directory becomes a link to it. No link in `target`, where an
    agent's result may be, is ever followed: what would have to go through one is left out.
    """
    os.makedirs(target, exist_ok=True)
    left = cap
    with descriptors.directory(os.path.realpath(source)) as old, descriptors.directory(os.path.realpath(target)) as new:
        for path in paths:
            tasks.check()
            try:
                left -= _bring(source if linked else old, new, os.path.normpath(path), left)
            except _TooMuch:
                raise WorkspaceError(
                    f"the files to copy from {source} have more than {cap} bytes",
                    hint="name what the check needs with --bring",
                ) from None
            except OSError as error:
                if error.errno not in _LEFT_OUT:
                    raise storage_error(error, os.path.join(target, path), "copy") from error


class _TooMuch(Exception):
    """There is no room for it within the limit."""


_LEFT_OUT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EEXIST, errno.EACCES, errno.EPERM}
"""A check that misses it says so."""


def _bring(source: str | int, target: int, path: str, most: int) -> int:
    """Bring one file. Returns how many bytes it has."""
    folder, _, name = path.rpartition("/")
    if any(is_forbidden(each) for each in path.split("/")):
        return 0
    if isinstance(source, str):
        place = os.path.realpath(os.path.join(source, path))
        old, old_name = descriptors.open_directory(os.path.dirname(place)), os.path.basename(place)
    else:
        place, old, old_name = "", descriptors.open_below(source, folder), name
    try:
        found = os.lstat(old_name, dir_fd=old)
        size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        if size > most:
            raise _TooMuch
        new = descriptors.open_below(target, folder, make=True)
        try:
            if place and stat.S_ISDIR(found.st_mode):
                os.symlink(place, name, dir_fd=new)
            elif stat.S_IFMT(found.st_mode) in (stat.S_IFREG, stat.S_IFLNK):
                descriptors.copy(old, old_name, new, name)
        finally:
            os.close(new)
    finally:
        os.close(old)
    return size


# Takes the files of a directory into a store as one tree, and states what is odd about them.
#
# The directory may be an agent's: every file is reached through descriptors without following a link, no program is
# started on it and no git runs in it. `.gitignore` files are read as data. A file whose metadata are the same as in
# an earlier look has not changed since: only the kernel can set the ctime. When that is in doubt, the file is hashed.
#
# Ignored files, everything that git takes for `.git`, and files of ours that are about to be put in place are not
# part of the tree, but are looked at: `hidden_changes` tells which of them changed.

Watched: TypeAlias = Callable[[str], bool]
FILE_CAP = 2 << 30
"""The largest file, in bytes, that is taken; a sparse one counts with its holes."""
TOTAL_CAP = 8 << 30
"""The most bytes that one look puts into a store."""
PATH_CAP = 4000
"""The longest path, in bytes. The kernel opens paths of up to 4095 bytes."""
RULES_CAP = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFBLK: "a device", stat.S_IFCHR: "a device"}
_BITS = {stat.S_ISUID: "setuid", stat.S_ISGID: "setgid", stat.S_ISVTX: "the sticky bit"}
_USUAL = {"security.selinux"}
_Levels: TypeAlias = tuple[tuple[int, IgnoreRules], ...]
"""Where the path relative to a file of rules begins, and its rules; the innermost first."""


def take(
    store: Store,
    root: str,
    *,
    base: Mapping[str, TreeEntry] | None = None,
    earlier: Look | None = None,
    excludes: str = "",
    watched: Watched | None = None,
    lent: Collection[str] = (),
    git_files: bool = True,
    cap: int = FILE_CAP,
) -> Look:
    """Take the directory `root` into the store.

    Files in `base` are taken even where `.gitignore` names them, and keep their entry there if they cannot be read.
    `earlier` is a look at the same directory with the same store. `excludes` are further rules, below those of any
    `.gitignore`. The blobs `lent` need not be put into the store, because a lender has them. Without `git_files`, the
    directory's own `.git` is not looked at. A file of more bytes than `cap` is too large.
    """
    return _Taking(store, base if base is not None else {}, earlier, excludes, watched, lent, git_files, cap).run(root)


class _Folder:
    __slots__ = ("hidden", "levels", "path", "same")

    def __init__(self, path: str, levels: _Levels, hidden: bool, same: bool) -> None:
        self.same = same
        """Whether the rules about it are those of the earlier look."""
        self.path = path
        """With a slash at the end; empty for the root."""
        self.levels = levels
        self.hidden = hidden
        """Whether it is ignored, or in `.git`: of what is in it, only files of the base are taken."""


class _Taking:
    def __init__(
        self,
        store: Store,
        base: Mapping[str, TreeEntry],
        earlier: Look | None,
        excludes: str,
        watched: Watched | None,
        lent: Collection[str],
        git_files: bool,
        cap: int,
    ) -> None:
        self.look = Look()
        self._store = store
        self._base = base
        self._earlier = earlier if earlier is not None and self.look.comparable(earlier) else None
        self._watched = watched
        self._lent = lent
        self._git_files = git_files
        self._cap = cap
        self._left = TOTAL_CAP
        self._rows: dict[str, list[TreeRow]] = {}
        self._hidden: set[str] = set()
        """Of the directories, those that are ignored."""
        self.look.excludes = excludes
        same = self._earlier is not None and self._earlier.excludes == excludes
        self._waiting = [_Folder("", ((0, IgnoreRules(excludes)),) if excludes else (), False, same)]

    def run(self, root: str) -> Look:
        try:
            self._root = descriptors.open_directory(os.path.realpath(root))
        except OSError as error:
            raise storage_error(error, root, "read") from error
        try:
            while self._waiting:
                tasks.check()
                self._folder(self._waiting.pop())
        finally:
            os.close(self._root)
        self.look.tree = self._trees()
        return self.look

    def _state(self, kind: OddityKind, path: str, note: str) -> None:
        self.look.oddities.append(Oddity(kind=kind, path=path, note=note))

    # Directories...

    def _folder(self, folder: _Folder) -> None:
        self._rows[folder.path] = []
        if folder.hidden:
            self._hidden.add(folder.path)
        try:
            fd = descriptors.open_from(self._root, folder.path or ".", _FOLDER)
        except FileNotFoundError:
            return  # gone since it was listed
        except OSError as error:
            self._unreadable(folder, error)
            return
        try:
            self._entries(fd, folder)
        except OSError as error:
            self._unreadable(folder, error)
        finally:
            os.close(fd)

    def _unreadable(self, folder: _Folder, error: OSError) -> None:
        # An entry of its own, so that making a directory unreadable is a change.
        self.look.seen[f"{folder.path}."] = (0, 0, 0, 0, 0)
        if folder.hidden and not any(path.startswith(folder.path) for path in self._base):
            return
        self._state("unreadable", folder.path or ".", error.strerror or str(error))
        self._keep_base(folder.path)

    def _keep_base(self, folder: str) -> None:
        """What the base has of a directory that cannot be looked at stays in the tree."""
        self._rows[folder] = []
        for path, entry in self._base.items():
            if path.startswith(folder):
                _add(self._rows, path, entry)
                self.look.files[path] = entry

    def _entries(self, fd: int, folder: _Folder) -> None:
        with os.scandir(fd) as listed:
            files, folders = _metadata(listed)
        levels, same = folder.levels, folder.same
        known = self._earlier.parts.get(folder.path) if self._earlier is not None else None
        if ".gitignore" in files or ".gitignore" in folders:
            same = same and known is not None and known.seen.get(".gitignore") == files.get(".gitignore")
            if not folder.hidden:
                levels = ((len(folder.path), self._read_rules(fd)), *levels)
        elif known is not None and ".gitignore" in known.seen:
            same = False
        for name in folders:
            self._inner(folder, folder.path + name, name, levels, same)
        if same and known is not None and known.sure and known.seen == files:
            self._repeat(folder.path, known)
        else:
            self._each(fd, folder, files, levels)

    def _repeat(self, path: str, known: DirectoryPart) -> None:
        """Nothing in this directory has changed, and neither have the rules about it."""
        self._rows[path] += known.rows
        self.look.files.update(known.files)
        self.look.seen.update(known.by_path)
        self.look.parts[path] = known

    def _each(self, fd: int, folder: _Folder, files: dict[str, Metadata], levels: _Levels) -> None:
        look, rows, taken = self.look, self._rows[folder.path], {}
        before = len(look.oddities) + len(look.hashes)
        for name, metadata in files.items():
            path = folder.path + name
            if self._is_too_long(path):
                row = self._base.get(path)
            else:
                row = self._entry(fd, folder, path, name, metadata, levels)
            if row is not None:
                rows.append((os.fsencode(name), row.mode, row.blob))
                taken[path] = row
        look.files.update(taken)
        if len(look.oddities) + len(look.hashes) == before:
            look.parts[folder.path] = DirectoryPart(folder.path, files, taken, rows, look.wall - TICK)

    def _is_too_long(self, path: str) -> bool:
        if path.count("/") > DEPTH_CAP:
            why = f"it lies more than {DEPTH_CAP} directories deep"
        elif len(path) > PATH_CAP // 4 and len(os.fsencode(path)) > PATH_CAP:
            why = f"its path has more than {PATH_CAP} bytes"
        else:
            return False
        self._state("too_long", path if len(path) <= 200 else f"{path[:200]}...", why)
        return True

    def _inner(self, folder: _Folder, path: str, name: str, levels: _Levels, same: bool) -> None:
        if path == ".git" and not self._git_files:
            return
        if self._is_too_long(path):
            self._keep_base(f"{path}/")
            return
        hidden = folder.hidden or self._is_git(folder, path, name) or left_out(path, name, levels, folder=True)
        self._waiting.append(_Folder(f"{path}/", levels, hidden, same))

    def _is_git(self, folder: _Folder, path: str, name: str) -> bool:
        """Whether it makes its directory a repository for git. One below the top, or with another name, is stated."""
        if not is_git(name):
            return False
        if path != ".git":
            why = "a git directory, or names one" if name == ".git" else "some systems take it for .git"
            self._state("git_directory", path, f"{why}; it is not in the tree")
        return True

    def _trees(self) -> str:
        """Put the trees, from the innermost to the root: a directory was listed before those in it."""
        old = self._earlier.folders if self._earlier is not None else {}
        made = ""
        for path in reversed(self._rows):
            rows, mode = sorted(self._rows[path]), TREE
            known = old.get(path)
            if rows or not path:
                made = known[1] if known is not None and known[0] == rows else self._store.put_tree(rows)
                self.look.folders[path] = (rows, made)
            elif (link := self._base.get(path[:-1])) is not None and link.mode == GITLINK:
                made, mode = link.blob, GITLINK  # an empty directory is what a submodule looks like here
                self.look.files[path[:-1]] = link
            elif path not in self._hidden:
                self.look.empty.add(path)
            if path and (rows or mode == GITLINK):
                above, _, name = path[:-1].rpartition("/")
                self._rows[f"{above}/" if above else ""].append((os.fsencode(name), mode, made))
        return made

    # ... and what is in them

    def _entry(
        self, fd: int, folder: _Folder, path: str, name: str, metadata: Metadata, levels: _Levels
    ) -> TreeEntry | None:
        self.look.seen[path] = metadata
        if path not in self._base and (
            folder.hidden or self._is_git(folder, path, name) or is_unfinished(name) or left_out(path, name, levels)
        ):
            if self._watched is not None and self._watched(path):
                self.look.hashes[path] = self._hidden_hash(fd, name, metadata)
            return None
        earlier = self._earlier
        if earlier is not None and earlier.seen.get(path) == metadata and metadata[3] < earlier.wall - TICK:
            known = earlier.files.get(path)
            if known is not None:
                return known
        before = len(self.look.oddities)
        taken = self._read(fd, path, name, stat.S_IFMT(metadata[0]))
        if taken is None and any(one.kind in MISSING for one in self.look.oddities[before:]):
            return self._base.get(path)
        return taken

    def _read(self, fd: int, path: str, name: str, kind: int) -> TreeEntry | None:
        if not _is_utf8(name):
            self._state("name", path, "its name is not UTF-8")
        try:
            if kind == stat.S_IFLNK:
                return self._read_link(fd, path, name)
            if kind != stat.S_IFREG:
                self._state("special", path, f"{_KINDS.get(kind, 'a special file')}; it is not in the tree")
                return None
            return self._read_file(fd, path, name)
        except FileNotFoundError:
            return None  # gone since it was listed
        except OSError as error:
            self._state("unreadable", path, error.strerror or str(error))
            return None

    def _read_link(self, fd: int, path: str, name: str) -> TreeEntry:
        target = os.readlink(name, dir_fd=fd)
        if os.path.isabs(target) or f"{os.path.normpath(os.path.join(os.path.dirname(path), target))}/".startswith(
            "../"
        ):
            self._state("link_out", path, f"a link that leads out of the directory, to {target[:200]}")
        return TreeEntry(mode="120000", blob=self._put(os.fsencode(target)))

    def _read_file(self, fd: int, path: str, name: str) -> TreeEntry | None:
        with opened(descriptors.open_in(fd, name, _FILE)) as content:
            found = os.fstat(content.fileno())
            size = found.st_size
            if not stat.S_ISREG(found.st_mode):
                self._state("moving", path, "it was replaced while it was read")
                return None
            if size > self._cap or size > self._left:
                most = f"at most {self._cap} of one file and {TOTAL_CAP} of all are taken"
                self._state("too_large", path, f"it has {size} bytes; {most}")
                return None
            self._left -= size
            self._state_extras(content.fileno(), path, found)
            try:
                blob = self._put(content.read()) if size <= PIECE else self._put_large(content, size)
            except WorkspaceError as error:
                self._state("moving", path, str(error))
                return None
        return TreeEntry(mode="100755" if found.st_mode & 0o100 else "100644", blob=blob)

    def _put(self, data: bytes) -> str:
        if self._lent:
            blob = self._store.id_of("blob", data)
            if blob in self._lent:
                return blob
        return self._store.put("blob", data)

    def _put_large(self, content: IO[bytes], size: int) -> str:
        return self._store.put_pieces(_pieces(content, size), size)

    def _state_extras(self, file: int, path: str, found: os.stat_result) -> None:
        if bits := [name for bit, name in _BITS.items() if found.st_mode & bit]:
            self._state("mode", path, f"has {' and '.join(bits)}; a tree does not hold that")
        try:
            names = sorted(set(os.listxattr(file)) - _USUAL) if hasattr(os, "listxattr") else []
        except OSError:
            return  # this file system has none
        if names:
            self._state("attributes", path, f"has {', '.join(names)[:200]}; a tree does not hold that")

    def _hidden_hash(self, fd: int, name: str, found: Metadata) -> str:
        """For comparing only: it does not enter the store."""
        try:
            if stat.S_ISLNK(found[0]):
                return os.readlink(name, dir_fd=fd)
            if not stat.S_ISREG(found[0]):
                return ""
            made = hashlib.sha256()
            with opened(descriptors.open_in(fd, name, _FILE)) as content:
                for piece in _pieces(content, found[1]):
                    made.update(piece)
            return made.hexdigest()
        except OSError as error:  # an unreadable file is marked by its error
            return f"unread: {error.errno}"

    def _read_rules(self, fd: int) -> IgnoreRules:
        """A file that cannot be read, or is not an ordinary file, has no rules."""
        try:
            with opened(descriptors.open_in(fd, ".gitignore", _FILE)) as content:
                if stat.S_ISREG(os.fstat(content.fileno()).st_mode):
                    return IgnoreRules(content.read(RULES_CAP).decode("utf-8", "surrogateescape"))
        except OSError:
            pass
        return IgnoreRules("")


def _metadata(listed: Iterable[os.DirEntry[str]]) -> tuple[dict[str, Metadata], list[str]]:
    """Of all that is not a directory, by name; and the names of the directories."""
    seen, folders = {}, []
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
            continue
        try:
            seen[entry.name] = metadata_of(entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            continue  # gone since it was listed
    return seen, folders


def _add(rows: dict[str, list[TreeRow]], path: str, entry: TreeEntry) -> None:
    """Add a file to the rows of its directory, which need not be listed."""
    folder, _, name = path.rpartition("/")
    above = folder
    missing = []
    while above and f"{above}/" not in rows:
        missing.append(f"{above}/")
        above = above.rpartition("/")[0]
    rows.update({one: [] for one in reversed(missing)})
    row = (os.fsencode(name), entry.mode, entry.blob)
    if row not in rows[f"{folder}/" if folder else ""]:
        rows[f"{folder}/" if folder else ""].append(row)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _pieces(content: IO[bytes], size: int) -> Iterator[bytes]:
    """At most `size` bytes, piece by piece; a file that grows meanwhile is not followed."""
    while size > 0 and (piece := content.read(min(PIECE, size))):
        tasks.check()
        size -= len(piece)
        yield piece
