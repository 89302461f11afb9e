"""Finds what a command made that a mount could not prevent: names that did not exist when it started, or were links.

A path that does not exist cannot be bound read-only, and neither can a link. So we look afterwards: a protected file
that a command made is moved aside, where a person can find it, before anything outside the sandbox can act on it, and
a link that it changed is restored.
"""

import contextlib
import os
from collections.abc import Iterable

from treadle.io import pinned


class ProtectedNames:
    """The state of these names before a command."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.absent: list[str] = []
        self.links: dict[str, str] = {}
        for path in paths:
            if not os.path.lexists(path):
                self.absent.append(path)
            elif os.path.islink(path):
                self.links[path] = os.readlink(path)

    def changed(self) -> list[str]:
        """The names that exist now, and the links that were changed."""
        made = [path for path in self.absent if os.path.lexists(path)]
        return made + [path for path, target in self.links.items() if _link(path) != target]

    def restore(self) -> None:
        """Recreate the links, once what took their place has been moved aside."""
        for path, target in self.links.items():
            if not os.path.lexists(path):
                with contextlib.suppress(OSError):
                    os.symlink(target, path)


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
