"""Copies a file piece by piece, so that copying can be stopped and holes in the file stay holes."""

import errno
import os
import shutil
import stat

from treadle.io import stopping

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
        stopping.check()
        data = os.pread(reading, min(PIECE, end - at), at)
        if not data:
            return  # the file has become shorter
        done = 0
        while done < len(data):
            done += os.pwrite(writing, data[done:], at + done)
        at += len(data)
