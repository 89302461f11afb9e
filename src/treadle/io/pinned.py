"""Open exactly the file that a resolved path names: a link that was swapped in since is an error and not a way out.

The path is walked from the root, directory by directory, without following any link, and what is then done goes
through the descriptors, whatever happens to the names meanwhile. The kernel's openat2 does the same in one call; it is
younger than systems that we run on, some containers refuse it, and the walk costs a few microseconds more.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby

_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""A directory that may be passed through need not be readable; O_PATH asks for no more."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_directory(path: str, *, make: bool = False) -> int:
    """A descriptor for the directory at this absolute, resolved path, made where missing. Raises OSError."""
    fd = os.open("/", _DIRECTORY)
    for name in path.strip("/").split("/") if path.strip("/") else []:
        try:
            inner = _enter(fd, name, make)
        finally:
            os.close(fd)
        fd = inner
    return fd


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
    """Those of the paths that really are what they name, with no link on the way to them."""
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
        return os.open(name, _DIRECTORY, dir_fd=fd)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(name, dir_fd=fd)
    except FileExistsError:
        pass  # somebody else made it just now
    return os.open(name, _DIRECTORY, dir_fd=fd)
