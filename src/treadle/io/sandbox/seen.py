"""Checks from outside what a confined program will see, before it begins.

Between our look at a path and bubblewrap's mount, a program that runs in the same workspace, such as a background task,
can replace the path by a link. So each place in the workspace is opened as the program would see it, refusing links,
and must be what we meant: the same file, read-only, or hidden.
"""

import os
import stat
from collections.abc import Callable
from typing import TypeVar

from treadle.errors import LocalError
from treadle.io import pinned
from treadle.io.sandbox.bubblewrap import Mounts
from treadle.io.sandbox.places import is_under

T = TypeVar("T")
_PATH = os.O_PATH | os.O_NOFOLLOW if hasattr(os, "O_PATH") else os.O_RDONLY | os.O_NOFOLLOW


def check(first: int, mounts: Mounts) -> None:
    """`first` is the first process inside. Raises LocalError."""
    here = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    there = os.open(f"/proc/{first}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        protected = [place for place in mounts.inside(mounts.read_only) if not is_under(place, *mounts.hidden)]
        for place in [*mounts.write, *mounts.pins, *protected]:
            if not is_under(place, *mounts.hidden) and _identity(here, place) != _identity(there, place):
                raise _moved(place)
        for shown in mounts.shown:
            if _identity(here, shown.source) != _identity(there, shown.target):
                raise _moved(shown.target)
            if not shown.write and not _is_read_only(there, shown.target):
                raise _moved(shown.target)
        for place in protected:
            if not _is_read_only(there, place):
                raise _moved(place)
        for place in mounts.inside(mounts.hidden):
            if not _is_hidden(there, place):
                raise _moved(place)
    finally:
        os.close(here)
        os.close(there)


def _moved(place: str) -> LocalError:
    problem = f"the sandbox does not hold: {place} was moved while it was made"
    return LocalError(problem, hint="try again; something else is at work in this directory")


def _seen(root: int, place: str, look: Callable[[int], T]) -> T:
    try:
        fd = pinned.open_from(root, place.lstrip("/") or ".", _PATH)
    except OSError as error:
        raise _moved(place) from error
    try:
        return look(fd)
    finally:
        os.close(fd)


def _identity(root: int, place: str) -> tuple[int, int]:
    found = _seen(root, place, os.fstat)
    return found.st_dev, found.st_ino


def _is_read_only(root: int, place: str) -> bool:
    return bool(_seen(root, place, os.fstatvfs).f_flag & os.ST_RDONLY)


def _is_hidden(root: int, place: str) -> bool:
    found = _seen(root, place, os.fstat)
    if stat.S_ISDIR(found.st_mode):
        return stat.S_IMODE(found.st_mode) == 0
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat("/dev/null").st_rdev
