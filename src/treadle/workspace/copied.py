"""A copy of a person's directory for a run to work in."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from treadle.errors import WorkspaceError
from treadle.io import stopping
from treadle.io.copying import copy_file
from treadle.io.files import storage_error
from treadle.policy.patterns import match

COPY_CAP = 8 * 1024**3


class Copy:
    """A copy of a directory without `.git`, devices, or links that lead out of it."""

    def __init__(self, source: str, target: str, include: Sequence[str], exclude: Sequence[str], cap: int) -> None:
        self.source = source
        self.target = target
        self.include = tuple(include)
        self.exclude = tuple(exclude)
        self.left = cap
        self.cap = cap
        self.notes: list[str] = []

    def run(self) -> list[str]:
        """Make the copy. Returns notes about what was left out and might be missed."""
        self._directory("")
        if self.include and not os.listdir(self.target):
            self.notes.append(f"nothing was copied: no file fits {', '.join(self.include)}")
        return self.notes

    def _directory(self, path: str) -> None:
        try:
            with os.scandir(os.path.join(self.source, path)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except PermissionError as error:
            self.notes.append(f"{path or '.'} was left out: {error.strerror}")
            return
        except OSError as error:
            raise storage_error(error, os.path.join(self.source, path), "read") from error
        if path and not found and not self.include:
            os.makedirs(os.path.join(self.target, path), exist_ok=True)  # a program may expect it
        for entry in found:
            inside = os.path.join(path, entry.name)
            if entry.name == ".git" or os.path.realpath(entry.path) == os.path.realpath(self.target):
                continue
            if any(match(pattern, inside) for pattern in self.exclude):
                continue
            if entry.is_dir(follow_symlinks=False):
                self._directory(inside)
            elif not self.include or any(match(pattern, inside) for pattern in self.include):
                self._entry(entry, inside)

    def _entry(self, entry: os.DirEntry[str], path: str) -> None:
        stopping.check()
        target = os.path.join(self.target, path)
        try:
            if entry.is_symlink():
                self._link(entry, path, target)
            elif entry.is_file(follow_symlinks=False):
                self._file(entry, path, target)
        except PermissionError as error:
            self.notes.append(f"{path} was left out: {error.strerror}")
        except OSError as error:
            raise storage_error(error, target, "copy") from error

    def _link(self, entry: os.DirEntry[str], path: str, target: str) -> None:
        # The real target: `b/../x` is no longer inside if b itself is a link upwards.
        to, end = os.readlink(entry.path), os.path.realpath(entry.path)
        if os.path.isabs(to) or not f"{end}/".startswith(f"{self.source.rstrip('/')}/"):
            self.notes.append(f"{path} was left out: it is a link that leads out of the directory")
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(to, target)

    def _file(self, entry: os.DirEntry[str], path: str, target: str) -> None:
        self.left -= entry.stat(follow_symlinks=False).st_size
        if self.left < 0:
            raise WorkspaceError(
                f"{self.source} holds more than {self.cap} bytes, which is the most that is copied",
                hint="leave things out with --exclude, or use --workspace-mode worktree",
            )
        os.makedirs(os.path.dirname(target), exist_ok=True)
        copy_file(entry.path, target)


def files_under(root: str, name: str) -> list[str]:
    """The paths of all files under `name` in `root`, or of the file that it is."""
    if os.path.isabs(name) or os.path.normpath(name).startswith(".."):
        raise WorkspaceError(f"{name} is not in {root}", hint="what is brought is named by its path in the directory")
    place = os.path.join(root, os.path.normpath(name))
    if not os.path.isdir(place) or os.path.islink(place):
        return [os.path.normpath(name)] if os.path.lexists(place) else []
    found = []
    for folder, folders, names in os.walk(place):
        links = [one for one in folders if os.path.islink(os.path.join(folder, one))]
        found += [os.path.relpath(os.path.join(folder, one), root) for one in (*names, *links)]
    return found


def bring_files(source: str, target: str, paths: Sequence[str], cap: int = COPY_CAP) -> None:
    """Copy these files of `source` to `target`, except what is there already. A link stays a link."""
    left = cap
    for path in paths:
        stopping.check()
        old, new = os.path.join(source, path), os.path.join(target, path)
        try:
            found = os.lstat(old)
            if os.path.lexists(new) or stat.S_IFMT(found.st_mode) not in (stat.S_IFREG, stat.S_IFLNK):
                continue
            os.makedirs(os.path.dirname(new), exist_ok=True)
            if stat.S_ISLNK(found.st_mode):
                os.symlink(os.readlink(old), new)
                continue
            left -= found.st_size
            if left < 0:
                raise WorkspaceError(
                    f"what is to be brought from {source} has more than {cap} bytes",
                    hint="name what the check needs with --bring",
                )
            copy_file(old, new)
        except (FileNotFoundError, PermissionError):
            continue  # the check will miss it, and says so
        except OSError as error:
            raise storage_error(error, new, "copy") from error
