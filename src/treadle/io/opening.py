"""Opens, creates and renames files without translating errors, for callers that handle `OSError` themselves.

`reading.py` reads whole files, and `files.py` writes them safely.
"""

import io
import os


def opened(file: str | int) -> io.BufferedReader:
    """A file to read bytes from, given by its path or by a descriptor, which is closed with it."""
    return open(file, "rb")


def changing(path: str) -> io.BufferedRandom:
    """An existing file, to read and to change in place."""
    return open(path, "r+b")


def create(path: str) -> int:
    """A descriptor of a new, empty file that only its owner may read. Any old content is lost."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def create_new(path: str, mode: int = 0o600) -> io.FileIO:
    """A new file; FileExistsError when there is one of this name, or a link."""
    return io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")


def created(path: str) -> io.FileIO:
    """The same as a file object without buffering."""
    return io.FileIO(create(path), "wb")


def appending(path: str) -> io.FileIO:
    """A file to append to, without buffering; created if missing."""
    return io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def write(path: str, data: bytes, *, sync: bool = False) -> None:
    """For a file in a private directory, where no one can see it half-written."""
    with created(path) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        if sync:
            os.fsync(file.fileno())


def part(path: str, at: int, size: int) -> tuple[bytes, int]:
    """At most `size` bytes from `at` on, and the length of the file."""
    with opened(path) as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(min(at, length))
        return file.read(size), length


def rename(old: str, new: str) -> None:
    os.rename(old, new)


def place_new(path: str, data: bytes) -> None:
    """Let a file with this content appear under a name that is free. Raises FileExistsError if it is not.

    No one sees it half-written, and of several that try at once one succeeds.
    """
    beside = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        write(beside, data)
        try:
            os.link(beside, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            with io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(data)
    finally:
        os.unlink(beside)
