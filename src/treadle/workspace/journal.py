"""Changes many files as one step: the new files are written to a directory beside, a journal is kept, then they are
moved into place. If the process is killed half-way, `settle` finishes what the journal says, or undoes it if that is no
longer possible.

    apply.json                the journal, outside the directory that is changed
    .treadle-apply-XXXXXXXX/  beside it; new-N: the new file N until it is in place; old-N: what was there before

An agent may be at work in the directory that is changed. It cannot reach what is staged; each new file is compared
with the journal before it is moved, and no link leads us elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from treadle.errors import StorageError
from treadle.io import descriptors
from treadle.io.descriptors import remove_tree
from treadle.io.files import opened, storage_error
from treadle.io.records import FileRecord
from treadle.workspace.git import is_forbidden

FORMAT = 2
BESIDE = ".treadle-apply-"
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""A path cannot be reached: a part of it is missing, a file, or a link, which is not followed."""


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

    @property
    def real(self) -> str:
        return os.fsdecode(bytes.fromhex(self.raw)) if self.raw else self.path


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    format: int = 0
    target: str
    beside: str
    state: Literal["staging", "committed"]
    steps: tuple[Step, ...] = ()


JOURNAL = FileRecord(Journal, format=FORMAT)


def _fingerprint(parent: int, name: str) -> str | None:
    """The file in one word: its kind, whether it is executable, its content. None when nothing is there."""
    try:
        mode = os.lstat(name, dir_fd=parent).st_mode
        if stat.S_ISDIR(mode):
            return "directory"
        if stat.S_ISLNK(mode):
            return f"link {hashlib.sha256(os.fsencode(os.readlink(name, dir_fd=parent))).hexdigest()}"
        if not stat.S_ISREG(mode):
            return "special"
        with opened(descriptors.open_in(parent, name, _READ)) as file:
            return f"{'program' if mode & 0o100 else 'file'} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except FileNotFoundError:
        return None


def carry_out(path: str, target: str, writes: Mapping[str, Callable[[str], None]], deletes: list[str]) -> None:
    """Change all of the files or none. `writes` maps each path to a function that puts its new content into a given
    place; the journal is kept at `path` meanwhile. Deletions come first, because a file may make room for a
    directory of its name, or the other way round."""
    finish(path, stage(path, target, writes, deletes))


def stage(path: str, target: str, writes: Mapping[str, Callable[[str], None]], deletes: list[str]) -> Journal:
    """Make the new files beside, and note in the journal what is to become of them. Nothing has changed yet."""
    target = os.path.realpath(target)
    beside = os.path.join(os.path.realpath(os.path.dirname(path)), f"{BESIDE}{secrets.token_hex(4)}")
    journal = Journal(format=FORMAT, target=target, beside=beside, state="staging")
    try:
        JOURNAL.save(path, journal)
        try:
            os.mkdir(beside, 0o700)
            with _Places(journal) as places:
                steps = tuple(places.staged(writes, deletes))
            journal = msgspec.structs.replace(journal, state="committed", steps=steps)
            JOURNAL.save(path, journal)
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
    if (journal := JOURNAL.load(path)) is not None:
        _clear(path, journal)


def settle(path: str) -> Literal["finished", "undone"] | None:
    """Finish or undo what the journal at `path` says is under way; None when there is no journal."""
    if (journal := JOURNAL.load(path)) is None:
        return None
    try:
        if journal.state == "staging" or _is_disturbed(journal):
            _undo(path, journal)
            return "undone"
        _finish(path, journal)
    except _Disturbed:
        return "undone"
    except OSError as error:
        if os.path.lexists(path):  # it could not be undone either
            raise storage_error(error, error.filename2 or error.filename or journal.target, "write") from error
        return "undone"
    return "finished"


def _is_disturbed(journal: Journal) -> bool:
    """Whether a file was changed since, so that it is no longer ours to replace."""
    with _Places(journal) as places:
        return any(places.is_disturbed(step) for step in journal.steps)


def _finish(path: str, journal: Journal) -> None:
    try:
        with _Places(journal) as places:
            for number, step in enumerate(journal.steps):
                places.carry_out(number, step)
    except BaseException:
        _undo(path, journal)
        raise
    _clear(path, journal)


def _undo(path: str, journal: Journal) -> None:
    """Restore what was there, except where something else was put in the meantime. What cannot be restored does not
    keep the rest from it; the journal stays then."""
    if journal.steps:
        failed: OSError | None = None
        with _Places(journal) as places:
            for number, step in reversed(list(enumerate(journal.steps))):
                try:
                    places.restore(number, step)
                except OSError as error:
                    failed = failed or error
        if failed is not None:
            raise failed
    _clear(path, journal)


def _clear(path: str, journal: Journal) -> None:
    with contextlib.suppress(StorageError):
        remove_tree(journal.beside)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


class _Disturbed(StorageError):
    """What is there, or what was staged, is not what the journal says."""


class _Places:
    """The directory that is changed and the one beside, each opened once. Nothing in them is reached through a link:
    an agent may be at work in the same checkout, and exchange a directory for a link at any moment."""

    def __init__(self, journal: Journal) -> None:
        self._target = descriptors.open_directory(journal.target)
        try:
            # It is missing if we were killed when all was done but the journal still there.
            self._beside = descriptors.open_directory(journal.beside, make=True)
        except BaseException:
            os.close(self._target)
            raise
        self._beside_path = journal.beside

    def __enter__(self) -> _Places:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._beside)
        os.close(self._target)

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        folder, _, name = path.rpartition("/")
        parent = descriptors.open_below(self._target, folder, make=make)
        try:
            yield parent, name
        finally:
            os.close(parent)

    def _there(self, path: str) -> str | None:
        try:
            with self._parent(path) as (parent, name):
                return _fingerprint(parent, name)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise

    def staged(self, writes: Mapping[str, Callable[[str], None]], deletes: list[str]) -> Iterator[Step]:
        for number, path in enumerate([*deletes, *writes]):
            if any(is_forbidden(name) for name in path.split("/")):
                raise StorageError(f"{path!r} is not a path for a file")
            old = self._there(path)
            if old not in (None, "directory"):
                with self._parent(path) as (parent, name):
                    descriptors.link_or_copy(parent, name, self._beside, f"old-{number}")
            new = f"new-{number}"
            if path in writes:
                writes[path](os.path.join(self._beside_path, new))
            # A directory in its place is emptied by the earlier steps.
            yield Step.of(path, None if old == "directory" else old, _fingerprint(self._beside, new))

    def is_disturbed(self, step: Step) -> bool:
        return self._there(step.real) not in (step.old, step.new, "directory")

    def carry_out(self, number: int, step: Step) -> None:
        new = f"new-{number}"
        if step.new is None:
            self._delete(step.real)
            return
        staged = _fingerprint(self._beside, new)
        if staged is None and self._there(step.real) == step.new:
            return  # done before we were killed
        if staged != step.new:
            raise _Disturbed(f"the new {step.path} is not what was staged")
        with self._parent(step.real, make=True) as (parent, name):
            if _fingerprint(parent, name) not in (step.old, step.new, "directory"):
                raise _Disturbed(f"{step.path} was changed meanwhile")
            descriptors.move(self._beside, new, parent, name)

    def restore(self, number: int, step: Step) -> None:
        there, old = self._there(step.real), f"old-{number}"
        if there == step.old or there not in (step.new, None):
            return
        if step.old is None:
            self._delete(step.real)
        elif _fingerprint(self._beside, old) is not None:
            try:
                with self._parent(step.real, make=True) as (parent, name):
                    descriptors.move(self._beside, old, parent, name)
            except OSError as error:
                if error.errno not in _NOT_THERE:  # otherwise something else is there now that is not a directory
                    raise

    def _delete(self, path: str) -> None:
        """Remove a file, and the directories that this leaves empty."""
        try:
            with self._parent(path) as (parent, name):
                os.unlink(name, dir_fd=parent)
        except IsADirectoryError:
            pass
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
        while folder := path.rpartition("/")[0]:
            try:
                with self._parent(folder) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
            except OSError:
                break
            path = folder
