"""Files read whole, with one kind of error. Writing, and logs line by line, are in `files.py`."""

from __future__ import annotations

from treadle.io.files import storage_error


def read(path: str) -> bytes:
    """All that is in the file; StorageError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise storage_error(error, path, "read") from error


def read_if_there(path: str) -> bytes | None:
    """All that is in the file, or None when there is none; StorageError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "read") from error


def sha256(path: str) -> str:
    """The hash of what is in the file. Raises OSError."""
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
