"""Reads git's index as data: which files are tracked, and what git last knew of each. No git is started for it."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from treadle.errors import WorkspaceError

_FIXED = struct.Struct(">10L")
EXTENDED = 0x4000
SKIP_WORKTREE = 0x4000
"""In the extended flags: the file is not checked out, as in a sparse checkout."""


class IndexEntry(NamedTuple):
    path: str
    mode: str
    blob: str
    stage: int
    skipped: bool
    """Whether the file is not checked out."""
    metadata: tuple[int, int, int, int]
    """Modification and change time in nanoseconds, inode and size, the last two without what is above 32 bits."""


def parse(data: bytes, hash_size: int) -> list[IndexEntry]:
    """The entries of an index. Raises WorkspaceError for one that is damaged, or in a form that is not read."""
    try:
        return list(_parse(data, hash_size))
    except (struct.error, IndexError, ValueError) as error:
        raise WorkspaceError(f"the index cannot be read: {error}", hint="run git status there") from error


def _parse(data: bytes, hash_size: int) -> Iterator[IndexEntry]:
    magic, version, count = struct.unpack_from(">4sLL", data)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise WorkspaceError(
            f"the index has version {version}, which is not read", hint="git update-index --index-version 2"
        )
    at, before = 12, b""
    for _ in range(count):
        start = at
        ctime, ctime_ns, mtime, mtime_ns, _, inode, mode, _, _, size = _FIXED.unpack_from(data, at)
        blob = data[at + 40 : at + 40 + hash_size]
        at += 40 + hash_size
        (flags,) = struct.unpack_from(">H", data, at)
        at += 2
        more = 0
        if flags & EXTENDED:
            (more,) = struct.unpack_from(">H", data, at)
            at += 2
        if version == 4:
            cut, at = _number(data, at)
            end = data.index(b"\0", at)
            before = before[: len(before) - cut] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            before = data[at:end]
            at = start + (end - start + 8) // 8 * 8
        if mode == 0o40000:
            raise WorkspaceError(
                "the index has whole directories in it", hint="git sparse-checkout reapply --no-sparse-index"
            )
        times = (mtime * 10**9 + mtime_ns, ctime * 10**9 + ctime_ns)
        path = before.decode("utf-8", "surrogateescape")
        skipped = bool(more & SKIP_WORKTREE)
        yield IndexEntry(path, f"{mode:o}", blob.hex(), flags >> 12 & 3, skipped, (*times, inode, size))
    _refuse_parts(data, at, hash_size)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number in git's variable length."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = (value + 1 << 7) | data[at] & 127
    return value, at + 1


def _refuse_parts(data: bytes, at: int, hash_size: int) -> None:
    while at + 8 <= len(data) - hash_size:
        name, size = struct.unpack_from(">4sL", data, at)
        if name == b"link":
            raise WorkspaceError("the index is in two parts", hint="git update-index --no-split-index")
        at += 8 + size
