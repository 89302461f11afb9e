"""Reads files whole, with one kind of error, or follows them as they grow. `files.py` has writing and finished logs."""

import os
import time
from collections.abc import Callable, Iterator

from treadle.io.files import storage_error


def read(path: str) -> bytes:
    """The content of the file; StorageError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise storage_error(error, path, "read") from error


def read_if_there(path: str) -> bytes | None:
    """The content of the file, or None when it does not exist; StorageError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "read") from error


def read_ends(path: str, size: int) -> bytes:
    """At most `size` bytes from each end of the file, on lines of their own; StorageError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            first = file.read(size)
            length = os.fstat(file.fileno()).st_size
            if length <= size:
                return first
            file.seek(max(size, length - size))
            return first + b"\n" + file.read(size)
    except OSError as error:
        raise storage_error(error, path, "read") from error


def pieces(path: str, size: int) -> Iterator[bytes]:
    """The content of the file in pieces of `size` bytes; StorageError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            while piece := file.read(size):
                yield piece
    except OSError as error:
        raise storage_error(error, path, "read") from error


def sha256(path: str) -> str:
    """The hash of the file's content. Raises OSError."""
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def state_numbers(directory: str, ending: str) -> dict[str, int]:
    """For each file in a directory whose name ends with `ending`, a number that differs after any change of the file.

    Empty when the directory does not exist.
    """
    found = {}
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # faster access to its files
    except FileNotFoundError:
        return {}
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.name.endswith(ending):
                    try:
                        found[entry.name] = _number(entry.stat())
                    except FileNotFoundError:
                        pass  # removed while we look
    finally:
        os.close(fd)
    return found


def state_number(path: str) -> int:
    return _number(os.stat(path))


def _number(state: os.stat_result) -> int:
    return hash((state.st_ctime_ns, state.st_size, state.st_ino))


def follow_lines(path: str, going_on: Callable[[], bool], every: float) -> Iterator[bytes]:
    """The lines of a growing file as they come, until `going_on` returns False and all has been read. The file need
    not exist yet, and may be removed meanwhile: it is read to the end."""
    while not os.path.exists(path):
        if not going_on():
            return
        time.sleep(every)
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        return  # removed between the two checks
    with file:
        rest = b""
        while True:
            more_may_come = going_on()
            *lines, rest = (rest + file.read()).split(b"\n")
            yield from lines
            if not lines:
                if not more_may_come:
                    return
                time.sleep(every)


def text_if_there(path: str) -> str | None:
    """The same as text; what is not UTF-8 in it is replaced."""
    data = read_if_there(path)
    return None if data is None else data.decode(errors="replace")
