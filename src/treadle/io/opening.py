"""Files opened, made and renamed as they are, for whoever handles `OSError` in its own way.

Whole files are read by `reading.py`, and written safely by `files.py`.
"""

import io
import os


def opened(file: str | int) -> io.BufferedReader:
    """A file to read bytes from, by its path or as a descriptor, which is then closed with it."""
    return open(file, "rb")


def changing(path: str) -> io.BufferedRandom:
    """A file that is there, to read and to change in place."""
    return open(path, "r+b")


def create(path: str) -> int:
    """A descriptor of a new, empty file that only its owner may read; what was in it before is gone."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def created(path: str) -> io.FileIO:
    """The same, as a file. What is written is written at once."""
    return io.FileIO(create(path), "wb")


def appending(path: str) -> io.FileIO:
    """A file that is added to, made where there is none. What is written is written at once."""
    return io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def write(path: str, data: bytes, *, sync: bool = False) -> None:
    """For a file in a directory that nobody else looks into: one that is half written is not seen."""
    with created(path) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        if sync:
            os.fsync(file.fileno())


def part(path: str, at: int, size: int) -> tuple[bytes, int]:
    """At most `size` bytes from `at` on, and how long the file is."""
    with opened(path) as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(min(at, length))
        return file.read(size), length


def rename(old: str, new: str) -> None:
    os.rename(old, new)


def link_or_copy(old: str, new: str) -> None:
    """A second name for a file; a copy of it on a file system without such links."""
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:
        from shutil import copy2

        copy2(old, new, follow_symlinks=False)
