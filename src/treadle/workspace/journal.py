"""Changes many files as one step: the new files are written to a directory beside, a journal is kept, then they are
moved into place. If the process is killed half-way, `settle` finishes what the journal says, or undoes it if that is no
longer possible.

    apply.json                      the journal, outside the directory that is changed
    TARGET/.treadle-apply-XXXXXXXX  new-N: the new file N until it is in place; old-N: the file that was there before
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from treadle.errors import StorageError
from treadle.io.files import storage_error, write_atomic
from treadle.io.opening import link_or_copy, rename
from treadle.io.reading import read_if_there, sha256

FORMAT = 2
BESIDE = ".treadle-apply-"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    old: str | None
    """The fingerprint of the existing file; None when there is none."""
    new: str | None
    """The fingerprint of the new file; None when the file is to be deleted."""
    raw: str = ""
    """The path's bytes in hex, where they are not UTF-8; `path` is then only for people."""

    @classmethod
    def of(cls, path: str, old: str | None, new: str | None) -> Step:
        try:
            path.encode()
        except UnicodeEncodeError:
            raw = os.fsencode(path)
            return cls(path=raw.decode("utf-8", "replace"), old=old, new=new, raw=raw.hex())
        return cls(path=path, old=old, new=new)

    def place(self, target: str) -> str:
        return os.path.join(target, os.fsdecode(bytes.fromhex(self.raw)) if self.raw else self.path)


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    format: int = 0
    target: str
    beside: str
    state: Literal["staging", "committed"]
    steps: tuple[Step, ...] = ()


def fingerprint(place: str) -> str | None:
    """The file in one word: its kind, whether it is executable, its content. None when nothing is there."""
    try:
        mode = os.lstat(place).st_mode
        if stat.S_ISDIR(mode):
            return "directory"
        if stat.S_ISLNK(mode):
            return f"link {hashlib.sha256(os.fsencode(os.readlink(place))).hexdigest()}"
        return f"{'program' if mode & 0o100 else 'file'} {sha256(place)}"
    except (FileNotFoundError, NotADirectoryError):
        return None


def carry_out(path: str, target: str, writes: Mapping[str, Callable[[str], None]], deletes: list[str]) -> None:
    """Change all of the files or none. `writes` maps each path to a function that puts its new content into a given
    place; the journal is kept at `path` meanwhile. Deletions come first, because a file may make room for a
    directory of its name, or the other way round."""
    finish(path, stage(path, target, writes, deletes))


def stage(path: str, target: str, writes: Mapping[str, Callable[[str], None]], deletes: list[str]) -> Journal:
    """Make the new files beside, and note in the journal what is to become of them. Nothing has changed yet."""
    beside = os.path.join(target, f"{BESIDE}{secrets.token_hex(4)}")
    journal = Journal(format=FORMAT, target=target, beside=beside, state="staging")
    try:
        _write(path, journal)
        try:
            os.mkdir(beside, 0o700)
            journal = msgspec.structs.replace(
                journal, state="committed", steps=tuple(_staged(beside, target, writes, deletes))
            )
            _write(path, journal)
        except BaseException:
            _clear(path, journal)
            raise
    except OSError as error:
        raise storage_error(error, error.filename2 or error.filename or target, "write") from error
    return journal


def finish(path: str, journal: Journal) -> None:
    """Move what was staged into place: all of it or nothing."""
    try:
        _finish(path, journal)
    except OSError as error:
        raise storage_error(error, error.filename2 or error.filename or journal.target, "write") from error


def abandon(path: str) -> None:
    """Forget what was staged and not yet begun."""
    data = read_if_there(path)
    if data is not None:
        _clear(path, _read(path, data))


def settle(path: str) -> Literal["finished", "undone"] | None:
    """Finish or undo what the journal at `path` says is under way; None when there is no journal."""
    data = read_if_there(path)
    if data is None:
        return None
    journal = _read(path, data)
    if journal.state == "staging" or any(_changed_since(journal, step) for step in journal.steps):
        _undo(path, journal)
        return "undone"
    try:
        _finish(path, journal)
    except OSError:
        return "undone"
    return "finished"


def _read(path: str, data: bytes) -> Journal:
    try:
        journal = msgspec.json.decode(data, type=Journal)
    except msgspec.MsgspecError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    if journal.format > FORMAT:
        raise StorageError(f"{path} was written by a newer treadle", hint="upgrade treadle")
    return journal


def _write(path: str, journal: Journal) -> None:
    write_atomic(path, msgspec.json.encode(journal))


def _staged(beside: str, target: str, writes: Mapping[str, Callable[[str], None]], deletes: list[str]) -> list[Step]:
    steps = []
    for number, path in enumerate([*deletes, *writes]):
        place, new = os.path.join(target, path), os.path.join(beside, f"new-{number}")
        old = fingerprint(place)
        if old not in (None, "directory"):
            link_or_copy(place, os.path.join(beside, f"old-{number}"))
        if path in writes:
            writes[path](new)
        # A directory in its place is emptied by the earlier steps.
        steps.append(Step.of(path, None if old == "directory" else old, fingerprint(new)))
    return steps


def _changed_since(journal: Journal, step: Step) -> bool:
    """Whether somebody has changed this file since."""
    return fingerprint(step.place(journal.target)) not in (step.old, step.new, "directory")


def _finish(path: str, journal: Journal) -> None:
    try:
        for number, step in enumerate(journal.steps):
            place, new = step.place(journal.target), os.path.join(journal.beside, f"new-{number}")
            if step.new is None:
                _delete(journal.target, place)
            elif os.path.lexists(new):
                os.makedirs(os.path.dirname(place), exist_ok=True)
                rename(new, place)
    except OSError:
        _undo(path, journal)
        raise
    _clear(path, journal)


def _undo(path: str, journal: Journal) -> None:
    """Restore what was there, except where somebody has put something else in the meantime."""
    for number, step in reversed(list(enumerate(journal.steps))):
        place, old = step.place(journal.target), os.path.join(journal.beside, f"old-{number}")
        there = fingerprint(place)
        if there == step.old or there not in (step.new, None):
            continue
        if step.old is None:
            _delete(journal.target, place)
        elif os.path.lexists(old):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            rename(old, place)
    _clear(path, journal)


def _clear(path: str, journal: Journal) -> None:
    shutil.rmtree(journal.beside, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _delete(target: str, place: str) -> None:
    """Remove a file, and the directories that this leaves empty."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        os.unlink(place)
    parent = os.path.dirname(place)
    while parent != target:
        try:
            os.rmdir(parent)
        except OSError:
            break
        parent = os.path.dirname(parent)
