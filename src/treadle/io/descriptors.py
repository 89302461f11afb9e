"""Files by open descriptors, so that no link leads elsewhere: opened, copied, moved, removed and walked."""

import errno
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import groupby
from typing import TypeAlias

from treadle.io import tasks
from treadle.io.files import read_at_most, storage_error, try_remove
from treadle.policy.patterns import IgnoreRules

# Opens exactly the file that a resolved path names: if a link was swapped in since, that is an error, not an escape.
#
# Everything goes through descriptors, so later renames change nothing. The kernel's openat2 refuses links anywhere in
# the path in one call. Where it is missing (before Linux 5.6, and in some containers), the path is walked from the
# root, directory by directory, with the same result.

_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""O_PATH, because a directory on the way need not be readable."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""O_NONBLOCK, because opening a FIFO would otherwise wait for a writer; O_NOCTTY, because a terminal that is opened
could become ours."""
_OPENAT2 = 437
"""The number of the system call, the same on every architecture."""
_NO_LINKS = 0x02 | 0x04
"""RESOLVE_NO_MAGICLINKS and RESOLVE_NO_SYMLINKS."""


def open_directory(path: str, *, make: bool = False) -> int:
    """A descriptor for the directory at this absolute, resolved path, created if `make`. Raises OSError."""
    fd = os.open("/", _DIRECTORY)
    names = [name for name in path.split("/") if name]
    if make or not names:
        return _walk(fd, names, make)
    try:
        return open_from(fd, "/".join(names), _DIRECTORY)
    finally:
        os.close(fd)


def open_from(root: int, path: str, flags: int) -> int:
    """Open this relative path in the directory `root`, refusing links anywhere in it. Raises OSError."""
    call = _openat2()
    if call is not None:
        return call(root, path, flags | os.O_CLOEXEC)
    *names, last = [name for name in path.split("/") if name] or [""]
    parent = _walk(os.dup(root), names, make=False)
    try:
        return _open_name(parent, last, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
    finally:
        os.close(parent)


def open_below(root: int, path: str, *, make: bool = False) -> int:
    """A descriptor for the directory at this path in the directory `root`, itself if the path is empty; created if
    `make`. Links are refused anywhere in it. Raises OSError."""
    if make or not path:
        return _walk(os.dup(root), [name for name in path.split("/") if name], make)
    return open_from(root, path, _DIRECTORY)


def open_in(directory: int, name: str, flags: int, mode: int = 0) -> int:
    """Open this name, without a slash, in an open directory; a link of that name is refused. Raises OSError."""
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=directory)


def _walk(fd: int, names: list[str], make: bool) -> int:
    """Open directory after directory. Takes over `fd` and closes it."""
    for name in names:
        try:
            inner = _enter(fd, name, make)
        finally:
            os.close(fd)
        fd = inner
    return fd


@cache
def _openat2() -> Callable[[int, str, int], int] | None:
    """A function that makes the system call; None where it is not available."""
    if sys.platform != "linux":
        return None
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def call(root: int, path: str, flags: int) -> int:
        how = struct.pack("QQQ", flags, 0, _NO_LINKS)
        fd = int(syscall(_OPENAT2, root, os.fsencode(path), how, len(how)))
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return fd

    root = os.open("/", _DIRECTORY)
    try:
        os.close(call(root, ".", _DIRECTORY))
    except OSError:
        return None
    finally:
        os.close(root)
    return call


@contextmanager
def directory(path: str, *, make: bool = False) -> Iterator[int]:
    fd = open_directory(path, make=make)
    try:
        yield fd
    finally:
        os.close(fd)


def lstat(path: str) -> os.stat_result:
    with directory(os.path.dirname(path)) as parent:
        return os.lstat(os.path.basename(path) or "/", dir_fd=parent)


def open_file(path: str) -> int:
    """A descriptor for reading the ordinary file at this path. Raises OSError, EINVAL for anything else."""
    with directory(os.path.dirname(path)) as parent:
        name = os.path.basename(path) or "/"
        if not stat.S_ISREG(os.lstat(name, dir_fd=parent).st_mode):
            raise OSError(errno.EINVAL, "not an ordinary file", path)
        fd = os.open(name, _FILE, dir_fd=parent)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not an ordinary file", path)
    return fd


def there(paths: Iterable[str]) -> set[str]:
    """Those of the paths that exist without a link anywhere in them."""
    found = set()
    for parent, names in groupby(sorted(paths), os.path.dirname):
        try:
            with directory(parent) as fd:
                for path in names:
                    try:
                        os.lstat(os.path.basename(path), dir_fd=fd)
                    except OSError:
                        continue
                    found.add(path)
        except OSError:
            continue
    return found


def _enter(fd: int, name: str, make: bool) -> int:
    try:
        return _open_name(fd, name, _DIRECTORY)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(name, dir_fd=fd)
    except FileExistsError:
        pass  # another process created it just now
    return _open_name(fd, name, _DIRECTORY)


def _open_name(fd: int, name: str, flags: int) -> int:
    """A link where a directory is wanted is ELOOP as openat2 says it: with O_DIRECTORY, open calls it ENOTDIR."""
    try:
        return os.open(name, flags, dir_fd=fd)
    except NotADirectoryError as error:
        if stat.S_ISLNK(os.lstat(name, dir_fd=fd).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from error
        raise


# Copies a file piece by piece, so that copying can be stopped and holes in the file stay holes.

PIECE = 8 << 20


def copy_file(source: str, target: str) -> None:
    """Copy an ordinary file, not a link, with its times and permissions. Raises OSError, or Cancelled."""
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            copy_between(reading, writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    import shutil  # imported here because few copy files

    shutil.copystat(source, target, follow_symlinks=False)


def copy_between(reading: int, writing: int) -> None:
    """The same for open files. Raises OSError, or Cancelled."""
    found = os.fstat(reading)
    at = 0
    while (data := _next_data(reading, at, found.st_size)) is not None:
        start, end = data
        _copy(reading, writing, start, end)
        at = end
    os.ftruncate(writing, found.st_size)
    os.fchmod(writing, stat.S_IMODE(found.st_mode))
    os.utime(writing, ns=(found.st_atime_ns, found.st_mtime_ns))


def _next_data(fd: int, at: int, size: int) -> tuple[int, int] | None:
    if at >= size:
        return None
    if not hasattr(os, "SEEK_DATA"):
        return at, size
    try:
        start = os.lseek(fd, at, os.SEEK_DATA)
        return start, min(os.lseek(fd, start, os.SEEK_HOLE), size)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None  # only a hole is left
        return at, size  # the file system does not report holes


def _copy(reading: int, writing: int, at: int, end: int) -> None:
    while at < end:
        tasks.check()
        data = os.pread(reading, min(PIECE, end - at), at)
        if not data:
            return  # the file has become shorter
        done = 0
        while done < len(data):
            done += os.pwrite(writing, data[done:], at + done)
        at += len(data)


# Moves and copies files between directories that are open, so that no link leads elsewhere.

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
"""O_EXCL also refuses a link that someone put there first: it is not followed."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


def move(old: int, name: str, new: int, to: str) -> None:
    """Move a file or a link from the directory `old` to `new`, where it replaces a file of that name. On another file
    system it is copied first, and appears in one step all the same. Raises OSError."""
    try:
        os.rename(name, to, src_dir_fd=old, dst_dir_fd=new)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    beside = f".treadle-{os.urandom(8).hex()}"
    try:
        copy(old, name, new, beside, sync=True)
        os.rename(beside, to, src_dir_fd=new, dst_dir_fd=new)
    except BaseException:
        try_remove(beside, new)
        raise
    os.unlink(name, dir_fd=old)


def link_or_copy(old: int, name: str, new: int, to: str) -> None:
    """Give a file a second name in another directory, or copy it where no hard link can be made. Raises OSError."""
    try:
        os.link(name, to, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        copy(old, name, new, to, sync=True)


def copy(old: int, name: str, new: int, to: str, *, sync: bool = False) -> None:
    """Copy an ordinary file or a link; EINVAL for anything else, EEXIST if the name is taken."""
    mode = os.lstat(name, dir_fd=old).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=old), to, dir_fd=new)
        return
    reading = open_in(old, name, _READ)
    try:
        if not stat.S_ISREG(os.fstat(reading).st_mode):
            raise OSError(errno.EINVAL, "not an ordinary file", name)
        writing = open_in(new, to, _NEW, 0o600)
        try:
            copy_between(reading, writing)
            if sync:
                os.fsync(writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


# Removes a directory with all that is in it, whatever its permissions and however deep it is.
#
# Deep directories are moved up before they are removed, so no path gets too long and no recursion too deep.

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove a directory of ours, or a file; nothing if it is not there. Raises StorageError."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            _empty(path)
            os.rmdir(path)
        elif os.path.lexists(path):
            os.unlink(path)
    except OSError as error:
        raise storage_error(error, path, "remove") from error


def _empty(path: str) -> None:
    with suppress(PermissionError):  # it is another user's; perhaps it can be emptied all the same
        os.chmod(path, stat.S_IRWXU)
    root = os.open(path, _FOLDER)
    number = 0
    try:
        while found := _listed(root):
            for name, is_folder in found:
                if not is_folder:
                    os.unlink(name, dir_fd=root)
                    continue
                with _opened(root, name) as folder:
                    for inner, is_inner_folder in _listed(folder):
                        if not is_inner_folder:
                            os.unlink(inner, dir_fd=folder)
                            continue
                        _make_ours(folder, inner)  # a directory that cannot be written to cannot be moved
                        number = _free(root, number)
                        os.rename(inner, f"{number}.removed", src_dir_fd=folder, dst_dir_fd=root)
                os.rmdir(name, dir_fd=root)
    finally:
        os.close(root)


def _listed(folder: int) -> list[tuple[str, bool]]:
    with os.scandir(folder) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


@contextmanager
def _opened(root: int, name: str) -> Iterator[int]:
    _make_ours(root, name)
    folder = os.open(name, _FOLDER, dir_fd=root)
    try:
        yield folder
    finally:
        os.close(folder)


def _make_ours(parent: int, name: str) -> None:
    if os.lstat(name, dir_fd=parent).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IRWXU, dir_fd=parent)


def _free(root: int, number: int) -> int:
    """The next number whose name is free in the directory."""
    while True:
        number += 1
        try:
            os.lstat(f"{number}.removed", dir_fd=root)
        except FileNotFoundError:
            return number


# A walk over the files that no `.gitignore` leaves out. Links are never followed, `.git` is never entered.
#
# Light, because a child process of the agent uses it alone.

_MAX_RULES = 1 << 20
"""How many bytes of one `.gitignore` are read."""

Level: TypeAlias = tuple[int, "IgnoreRules"]
"""Where the path relative to a `.gitignore` begins in an absolute path, and its rules."""
_Opened: TypeAlias = tuple[str, Iterator["os.DirEntry[str]"], tuple[Level, ...]]


class Walk:
    """The ordinary files under `root` that are not ignored, as paths relative to it, in the order of their names.

    With `links`, symbolic links too. `excludes` are further rules, below those of any `.gitignore`.
    """

    def __init__(self, root: str, *, ignore: bool = True, links: bool = False, excludes: str = "") -> None:
        self.root = root
        self._links = links
        self._excludes = excludes
        self.unreadable = 0
        self._ignore = ignore
        self.stopped = False
        """Set by another thread to end the walk."""

    def __iter__(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        levels = parents(self.root) if self._ignore else ()
        if self._excludes:
            levels = (*levels, (len(self.root.rstrip("/")) + 1, IgnoreRules(self._excludes)))
        stack = [self._open("", self.root, levels)]
        while stack and not self.stopped:
            inside, entries, levels = stack[-1]
            for entry in entries:
                is_directory = entry.is_dir(follow_symlinks=False)
                if entry.name == ".git" or (levels and left_out(entry.path, entry.name, levels, folder=is_directory)):
                    continue
                if is_directory:
                    stack.append(self._open(f"{inside}{entry.name}/", entry.path, levels))
                    break  # the rest of this directory comes when that one is done
                if entry.is_file(follow_symlinks=False) or (self._links and entry.is_symlink()):
                    yield inside + entry.name, entry
            else:
                stack.pop()

    def _open(self, inside: str, directory: str, levels: tuple[Level, ...]) -> _Opened:
        entries = self._entries(directory)
        if self._ignore and any(entry.name == ".gitignore" for entry in entries):
            levels = ((len(directory.rstrip("/")) + 1, read_rules(directory)), *levels)
        return inside, iter(entries), levels

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                return sorted(entries, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            self.unreadable += 1
            return []


def left_out(path: str, name: str, levels: tuple[Level, ...], *, folder: bool = False) -> bool:
    """Whether ignore files exclude it: the innermost file with a matching rule decides."""
    if folder:
        path, name = path + "/", name + "/"
    for start, rules in levels:
        verdict = rules.ignored(path[start:], name)
        if verdict is not None:
            return verdict
    return False


def parents(root: str) -> tuple[Level, ...]:
    """The rules above `root`, up to the top of its repository, innermost first."""
    levels: list[Level] = []
    directory = root
    while directory != "/" and not os.path.lexists(os.path.join(directory, ".git")):
        directory = os.path.dirname(directory)
        if os.path.lexists(os.path.join(directory, ".gitignore")):
            levels.append((len(directory.rstrip("/")) + 1, read_rules(directory)))
    return tuple(levels)


def read_rules(directory: str) -> IgnoreRules:
    """A file that cannot be read, or is not an ordinary file, has no rules."""
    try:
        text = read_at_most(os.path.join(directory, ".gitignore"), _MAX_RULES)
        return IgnoreRules(text.decode("utf-8", "surrogateescape"))
    except OSError:
        return IgnoreRules("")
