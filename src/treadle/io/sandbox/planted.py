"""Finds what a command made that a mount could not prevent: names that did not exist when it started, or were links.

A path that does not exist cannot be bound read-only, and neither can a link. So we look afterwards: a protected file
that a command made is moved aside, where a person can find it, before anything outside the sandbox can act on it, and
a link that it changed is restored. Where the sandbox has no mounts at all (Landlock), the same is done for files that
were there: what they held is saved until the command has ended.
"""

import contextlib
import itertools
import os
import stat
from collections.abc import Iterable, Iterator

from treadle.io import pinned

SAVED_FILES, SAVED_BYTES = 500, 1 << 20
"""How many files are saved, and how much of each; what is beyond that is only looked for by name."""


class ProtectedNames:
    """The state of these names before a command; with `keep`, what the files held too."""

    def __init__(self, paths: Iterable[str], *, keep: bool = False) -> None:
        self.absent: list[str] = []
        self.links: dict[str, str] = {}
        paths = [*paths]
        self.held = dict(itertools.islice(_contents(paths), SAVED_FILES)) if keep else {}
        for path in paths:
            if not os.path.lexists(path):
                self.absent.append(path)
            elif os.path.islink(path):
                self.links[path] = os.readlink(path)

    def changed(self) -> list[str]:
        """The names that exist now, and the links that were changed."""
        made = [path for path in self.absent if os.path.lexists(path)]
        made += [path for path, target in self.links.items() if _link(path) != target]
        return made + [path for path, held in self.held.items() if _content(path) != held]

    def restore(self) -> None:
        """Recreate the links, once what took their place has been moved aside."""
        for path, target in self.links.items():
            if not os.path.lexists(path):
                with contextlib.suppress(OSError):
                    os.symlink(target, path)
        for path, held in self.held.items():
            with contextlib.suppress(OSError):
                if _content(path) != held:
                    _write(path, *held)


def _contents(paths: Iterable[str]) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """What is in each of these files, and in those in each of these directories. Git directories are left out: Landlock
    keeps them read-only, and a person's own git may work there meanwhile."""
    for path in paths:
        if ".git" in path.split("/"):
            continue
        inside = [path]
        if os.path.isdir(path) and not os.path.islink(path):
            inside = [os.path.join(place, name) for place, _, names in os.walk(path) for name in sorted(names)]
        for one in inside:
            if (held := _content(one)) is not None:
                yield one, held


def _content(path: str) -> tuple[bytes, int] | None:
    """What is in this file, and its permissions; None for anything else, and for what is too large to keep."""
    try:
        with open(pinned.open_file(path), "rb") as file:
            data = file.read(SAVED_BYTES + 1)
            return (data, stat.S_IMODE(os.fstat(file.fileno()).st_mode)) if len(data) <= SAVED_BYTES else None
    except OSError:
        return None


def _write(path: str, data: bytes, mode: int) -> None:
    folder, name = os.path.split(path)
    with pinned.directory(folder, make=True) as parent:
        with open(pinned.open_in(parent, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)


def _link(path: str) -> str | None:
    return os.readlink(path) if os.path.islink(path) else None


def move_aside(paths: Iterable[str], directory: str) -> list[tuple[str, str]]:
    """Move these out of the workspace. Returns the new place of each.

    What a directory was when we looked may be a link by now, so none is followed: nothing outside is moved.
    """
    moved = []
    for path in paths:
        for number in range(1000):
            target = os.path.join(directory, f"{os.path.basename(path)}.{number}")
            if not os.path.lexists(target):
                break
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            _move(path, target)
        except OSError:
            continue  # gone again, or we may not move it: it is reported anyway
        moved.append((path, target))
    return moved


def _move(path: str, target: str) -> None:
    from shutil import move

    folder, name = os.path.split(path)
    parent = pinned.open_directory(folder)
    try:
        move(f"/proc/self/fd/{parent}/{name}", target)
    finally:
        os.close(parent)
