"""A copy of a person's directory for a run to work in."""

import errno
import os
import stat
from collections.abc import Sequence

from treadle.errors import WorkspaceError
from treadle.io import moving, pinned, stopping
from treadle.io.copying import copy_file
from treadle.io.files import storage_error
from treadle.policy.patterns import match
from treadle.workspace.git_names import is_forbidden

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
        stopping.check()
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
                f"{self.source} holds more than {self.cap} bytes, which is the most that is copied",
                hint="leave things out with --exclude, or use --workspace-mode worktree",
            )
        os.makedirs(os.path.dirname(target), exist_ok=True)
        copy_file(entry.path, target)


def files_under(root: str, name: str) -> list[str]:
    """The paths of all files under `name` in `root`, or of the file that it is."""
    if os.path.isabs(name) or os.path.normpath(name).startswith(".."):
        raise WorkspaceError(f"{name} is not in {root}", hint="what is brought is named by its path in the directory")
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
    with pinned.directory(os.path.realpath(source)) as old, pinned.directory(os.path.realpath(target)) as new:
        for path in paths:
            stopping.check()
            try:
                left -= _bring(source if linked else old, new, os.path.normpath(path), left)
            except _TooMuch:
                raise WorkspaceError(
                    f"what is to be brought from {source} has more than {cap} bytes",
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
        old, old_name = pinned.open_directory(os.path.dirname(place)), os.path.basename(place)
    else:
        place, old, old_name = "", pinned.open_below(source, folder), name
    try:
        found = os.lstat(old_name, dir_fd=old)
        size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        if size > most:
            raise _TooMuch
        new = pinned.open_below(target, folder, make=True)
        try:
            if place and stat.S_ISDIR(found.st_mode):
                os.symlink(place, name, dir_fd=new)
            elif stat.S_IFMT(found.st_mode) in (stat.S_IFREG, stat.S_IFLNK):
                moving.copy(old, old_name, new, name)
        finally:
            os.close(new)
    finally:
        os.close(old)
    return size
