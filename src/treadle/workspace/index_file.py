"""git's index, read as data and changed entry by entry while git's own lock on it is held."""

import os
import secrets
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import msgspec

from treadle.errors import WorkspaceError
from treadle.io import files, scratch
from treadle.io.descriptors import copy_file
from treadle.io.files import read, read_if_there
from treadle.io.records import FileRecord
from treadle.workspace.private_git import Staged, read_entries
from treadle.workspace.user_repository import UserRepository

# Reads git's index as data: which files are tracked, and what git last knew of each. No git is started for it.

_FIXED = struct.Struct(">10L")
EXTENDED = 0x4000
"""In the flags of an entry: two more bytes of flags follow (index version 3 and later)."""
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
            f"the index has version {version}, which is not supported", hint="git update-index --index-version 2"
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
            raise WorkspaceError("the index is sparse", hint="git sparse-checkout reapply --no-sparse-index")
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
            raise WorkspaceError("the index is split", hint="git update-index --no-split-index")
        at += 8 + size


# Changing it. Our git works on a copy in a directory of ours and never on files: which entries there are is all it is
# told. Entries that stay as they are keep what git knows about their files, and their flags.

Entries: TypeAlias = dict[bytes, Staged]
Conflicts: TypeAlias = Sequence[tuple[bytes, Staged, str]]
PATIENCE = 3.0
"""Seconds to wait for a git of the user to be done with the index."""
_WHOLE = ["-c", "core.splitIndex=false", "-c", "index.sparse=false"]


def entries(user: UserRepository, index: str | None = None) -> Entries:
    """The entries of the user's index, or of a copy; those in conflict are left out."""
    return _listed(user, index or user.file("index"))[0]


def _listed(user: UserRepository, path: str) -> tuple[Entries, frozenset[bytes]]:
    """Those that are not in conflict, and the paths that a sparse checkout leaves out. A git is started only for an
    index in a form that is not read here."""
    data = read_if_there(path)
    if data is None:
        return {}, frozenset()
    try:
        read = [(os.fsencode(one.path), one) for one in parse(data, user.hash_size) if one.stage == 0]
    except WorkspaceError:
        return read_entries(user.run("ls-files", "-t", "--stage", "-z", env={"GIT_INDEX_FILE": path}).stdout)[:2]
    skipped = frozenset(path for path, one in read if one.skipped)
    return {path: Staged(one.mode, one.blob) for path, one in read}, skipped


def whole_index(user: UserRepository) -> tuple[bytes, bytes]:
    """The user's index as one file, also where it is kept in two parts; and when it was written, which git compares."""
    index = os.path.realpath(user.file("index"))
    when = os.stat(index).st_mtime_ns
    stamp = b"%d.%09d" % divmod(when, 10**9)
    if not any(name.startswith("sharedindex.") for name in os.listdir(user.directory)):
        return read(index), stamp
    with scratch.directory("index") as directory:
        copy = os.path.join(directory, "index")
        copy_file(index, copy)
        user.run(*_WHOLE, "update-index", "--no-split-index", env={"GIT_INDEX_FILE": copy})
        return read(copy), stamp


class LockNote(msgspec.Struct, frozen=True, kw_only=True):
    """Of a lock that we hold: how it is known, and what is on the way, for who comes after a kill."""

    mark: bytes
    lock: bytes
    beside: bytes = b""
    """The index that replaces the user's, once the refs have moved."""
    head: bytes = b""
    """Where HEAD is then; empty while `beside` is not written."""
    refs: tuple[tuple[bytes, bytes], ...] = ()
    """What moves with it, all or none of them."""


LOCK_NOTE = FileRecord(LockNote, sync=False)


class HeldIndex:
    def __init__(self, user: UserRepository, directory: str, note: str, lock_note: LockNote) -> None:
        self._user = user
        self._note = note
        self._lock_note = lock_note
        self._keep()
        self._copy = os.path.join(directory, "index")
        self._index = os.path.realpath(user.file("index"))
        self._changed = False
        self._beside = ""

    def copy(self) -> None:
        if os.path.exists(self._index):
            copy_file(self._index, self._copy)

    def change(self, old: Entries, new: Entries, conflicts: Conflicts = ()) -> None:
        """Make the copy's entries those of `new`, given that they are those of `old`. Flags that git has are kept.

        `conflicts`: the entries of files that are not merged yet, each with its stage.
        """
        zero = "0" * len(next(iter({**old, **new}.values())).id) if old or new else ""
        gone = [b"0 %s\t%s\0" % (zero.encode(), path) for path in old if path not in new]
        put = [(path, entry) for path, entry in new.items() if old.get(path) != entry]
        lines = [b"%s %s 0\t%s\0" % (entry.mode.encode(), entry.id.encode(), path) for path, entry in put]
        lines += [b"%s %s %s\t%s\0" % (e.mode.encode(), e.id.encode(), at.encode(), path) for path, e, at in conflicts]
        self._changed = bool(gone or lines)
        if not self._changed:
            return
        left_out = _listed(self._user, self._copy)[1] & {path for path, _ in put}
        self._update("-z", "--index-info", stdin=b"".join([*gone, *lines]))
        if left_out:  # a sparse checkout leaves these out still
            self._update("--skip-worktree", "-z", "--stdin", stdin=b"".join(path + b"\0" for path in sorted(left_out)))

    def _update(self, *options: str, stdin: bytes) -> None:
        self._user.run(*_WHOLE, "update-index", *options, stdin=stdin, env={"GIT_INDEX_FILE": self._copy})

    def write(self, head: str, refs: dict[str, str]) -> None:
        """Write the copy beside the user's index, so that `put` needs no more room. If we are killed between the move
        of these refs and `put`, `release` does the rest."""
        if self._changed:
            self._write_beside()
        moved = tuple((os.fsencode(name), at.encode()) for name, at in refs.items())
        self._keep(beside=os.fsencode(self._beside), head=os.fsencode(head), refs=moved)

    def _keep(self, **known: Any) -> None:
        LOCK_NOTE.save(self._note, msgspec.structs.replace(self._lock_note, **known))

    def _write_beside(self) -> None:
        self._beside = f"{self._index}.{secrets.token_hex(8)}"
        self._keep(beside=os.fsencode(self._beside))
        with files.create_new(self._beside, os.stat(f"{self._index}.lock").st_mode & 0o777) as file:
            file.write(read(self._copy))
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(self._index):
            # Git looks into files that are as new as the index, which may have changed since: so its time stays.
            written = os.stat(self._index).st_mtime_ns
            os.utime(self._beside, ns=(written, written))

    def put(self) -> None:
        """Replace the user's index by what `write` has written."""
        if self._beside:
            files.rename(self._beside, self._index)
            self._beside = ""

    def close(self) -> None:
        if self._beside and os.path.exists(self._beside):
            os.unlink(self._beside)


def _take_lock(path: str, mode: int, mark: bytes) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with files.create_new(path, mode) as file:
                file.write(mark)
            return
        except FileExistsError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)  # git has no way to wait for it either


@contextmanager
def held(user: UserRepository, note: str) -> Iterator[HeldIndex]:
    """Hold git's lock on the index: no git of the user commits, switches or stages now. FileExistsError: one does.

    `note` is a file of ours that says by which mark the lock is known, for `release` after a kill.
    """
    index = os.path.realpath(user.file("index"))
    mode = os.stat(index).st_mode & 0o777 if os.path.exists(index) else 0o644
    lock, mark = f"{index}.lock", f"treadle {secrets.token_hex(16)}\n".encode()
    with scratch.directory("index") as directory:
        made = HeldIndex(user, directory, note, LockNote(mark=mark, lock=os.fsencode(lock)))
        _take_lock(lock, mode, mark)
        try:
            made.copy()
            yield made
        finally:
            made.close()
            os.unlink(lock)
            os.unlink(note)


def release(user: UserRepository, note: str) -> bool:
    """Remove the lock that a killed process of ours has left, and no other. Returns whether there was one.

    If the branches had moved, HEAD and the index follow them first: while the lock is there, no git of the user has
    committed, switched or staged.
    """
    lock_note = LOCK_NOTE.load_whole(note)
    lock, beside = (os.fsdecode(lock_note.lock), os.fsdecode(lock_note.beside)) if lock_note is not None else ("", "")
    if lock_note is None or read_if_there(lock) != lock_note.mark:
        return False
    now = user.refs() if lock_note.head else {}
    if lock_note.head and all(now.get(os.fsdecode(name)) == at.decode() for name, at in lock_note.refs):
        user.set_head(os.fsdecode(lock_note.head), "treadle: after a kill")
        if beside and os.path.exists(beside):
            files.rename(beside, lock.removesuffix(".lock"))
    if beside and os.path.exists(beside):
        os.unlink(beside)
    os.unlink(lock)
    return True
