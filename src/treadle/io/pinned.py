"""Opens exactly the file that a resolved path names: if a link was swapped in since, that is an error, not an escape.

Everything goes through descriptors, so later renames change nothing. The kernel's openat2 refuses links anywhere in the
path in one call. Where it is missing (before Linux 5.6, and in some containers), the path is walked from the root,
directory by directory, with the same result.
"""

import errno
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import groupby

_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""O_PATH, because a directory on the way need not be readable."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
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


def open_from(root: int, path: str, flags: int, mode: int = 0) -> int:
    """Open this relative path in the directory `root`, refusing links anywhere in it. Raises OSError.

    `mode` is that of a file which is created.
    """
    call = _openat2()
    if call is not None:
        return call(root, path, flags | os.O_CLOEXEC, mode)
    *names, last = [name for name in path.split("/") if name] or [""]
    parent = _walk(os.dup(root), names, make=False)
    try:
        return _open_name(parent, last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
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
def _openat2() -> Callable[[int, str, int, int], int] | None:
    """A function that makes the system call; None where it is not available."""
    if sys.platform != "linux":
        return None
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def call(root: int, path: str, flags: int, mode: int) -> int:
        how = struct.pack("QQQ", flags, mode, _NO_LINKS)
        fd = int(syscall(_OPENAT2, root, os.fsencode(path), how, len(how)))
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return fd

    root = os.open("/", _DIRECTORY)
    try:
        os.close(call(root, ".", _DIRECTORY, 0))
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


def _open_name(fd: int, name: str, flags: int, mode: int = 0) -> int:
    """A link where a directory is wanted is ELOOP as openat2 says it: with O_DIRECTORY, open calls it ENOTDIR."""
    try:
        return os.open(name, flags, mode, dir_fd=fd)
    except NotADirectoryError as error:
        if stat.S_ISLNK(os.lstat(name, dir_fd=fd).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from error
        raise
