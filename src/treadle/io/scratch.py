"""Temporary directories. Each holds a lock while its owner lives; those without an owner are removed by who makes a new
one, and at the end of a process: a thread of cancelled work may have written on.

A directory exists for a moment before it can be locked. So it is made under a name that the others leave alone for an
hour, locked, and then renamed: under its final name it was never without a lock while its owner lived.

place = scratch.make("sandbox")
...
scratch.remove(place)
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from treadle.errors import StorageError
from treadle.io.process import lifetime

PREFIX = "treadle-tmp-"
MAKING = ".treadle-tmp-"
"""The prefix of a directory that is being made, before its owner has locked it."""
LONG_AGO = 3600.0
"""Seconds after which a directory that is still being made was left by a process that was killed in between."""

_held: dict[str, int] = {}


def make(kind: str) -> str:
    """A new directory that only this user can see. This process holds it until `remove`."""
    import tempfile  # imported late: a session that starts nothing does not need it

    base = tempfile.gettempdir()
    _remove_left()
    making = tempfile.mkdtemp(prefix=MAKING, dir=base)
    fd = os.open(making, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        made = os.path.join(base, f"{PREFIX}{kind}-{os.path.basename(making).removeprefix(MAKING)}")
        os.rename(making, made)
    except BaseException:
        os.close(fd)
        _remove_tree(making)
        raise
    _clear_at_end()
    _held[made] = fd
    return made


@cache
def _clear_at_end() -> None:
    lifetime.at_end(_remove_left)


def lock_of(path: str) -> int:
    """The descriptor that holds a directory of ours. A process that gets it holds the directory, too."""
    return _held[path]


def remove(path: str) -> None:
    """Remove a directory with its content, as far as possible."""
    _remove_tree(path)
    if (fd := _held.pop(path, None)) is not None:
        os.close(fd)


def remove_all() -> None:
    """Remove what this process still holds, and what processes left that were killed."""
    for path in list(_held):
        remove(path)
    _remove_left()


def _remove_tree(path: str) -> None:
    from treadle.io.descriptors import remove_tree

    try:
        remove_tree(path)  # a program may have made directories in it deeper than `rmtree` can go
    except StorageError:
        from shutil import rmtree

        rmtree(path, ignore_errors=True)


@contextmanager
def directory(kind: str) -> Iterator[str]:
    place = make(kind)
    try:
        yield place
    finally:
        remove(place)


def _remove_left() -> None:
    import tempfile

    base = tempfile.gettempdir()
    for name in os.listdir(base):
        if name.startswith((PREFIX, MAKING)):
            try:
                _remove_unheld(os.path.join(base, name), patient=name.startswith(MAKING))
            except OSError:
                continue  # it is locked, gone, or another user's


def _remove_unheld(path: str, *, patient: bool) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid() or (patient and time.time() - found.st_mtime < LONG_AGO):
            return
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_tree(path)
    finally:
        os.close(fd)
