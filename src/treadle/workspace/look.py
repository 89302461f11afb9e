"""One look at a directory: its files with their metadata, its tree, and what is odd; and two looks compared."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from operator import attrgetter
from typing import Literal, TypeAlias

import msgspec

from treadle.workspace.changes import TreeEntry
from treadle.workspace.store import Folders, TreeRow

Metadata: TypeAlias = tuple[int, int, int, int, int]
"""Mode, size, mtime, ctime, inode."""
OddityKind: TypeAlias = Literal[
    "unreadable",
    "special",
    "too_large",
    "too_long",
    "moving",
    "git_directory",
    "mode",
    "attributes",
    "link_out",
    "name",
]
MISSING: frozenset[OddityKind] = frozenset({"unreadable", "too_large", "too_long", "moving"})
"""Of these, content that may matter is not in the tree. What the base has of that path stays in it."""
TICK = 50_000_000
"""In nanoseconds: the clocks of file systems are coarser than that of the processor."""
STEP = 1_000_000_000
"""In nanoseconds: if the clock was set by more than this between two looks, every file is hashed."""


class Oddity(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a file that a tree cannot hold, or that a person should know before they use it."""

    kind: OddityKind
    path: str
    note: str


class PermissionChange(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    before: str
    """In octal."""
    after: str


class DirectoryPart:
    """The files of one directory, without those below it."""

    __slots__ = ("by_path", "files", "rows", "seen", "sure")

    def __init__(
        self, path: str, seen: dict[str, Metadata], files: dict[str, TreeEntry], rows: list[TreeRow], since: int
    ) -> None:
        self.seen = seen
        """By name; also files that are not in the tree."""
        self.by_path = {path + name: metadata for name, metadata in seen.items()}
        self.files = files
        self.rows = sorted(rows)
        self.sure = all(metadata[3] < since for metadata in seen.values())
        """Whether each was last changed so long before the look that another change gives it other metadata."""


class Look:
    """One look at a directory: its tree, its files with their metadata, and what is odd."""

    def __init__(self) -> None:
        self.tree = ""
        self.excludes = ""
        self.files: dict[str, TreeEntry] = {}
        self.seen: dict[str, Metadata] = {}
        """Of everything that is not a directory; also of ignored files and of what is in `.git`."""
        self.folders: Folders = {}
        self.parts: dict[str, DirectoryPart] = {}
        """By directory, as in `folders`: what can be taken over in a later look if nothing in it has changed."""
        self.hashes: dict[str, str] = {}
        """Of watched files that are not in the tree."""
        self.oddities: list[Oddity] = []
        self.wall = time.time_ns()
        self.running = _running()

    @property
    def complete(self) -> str | None:
        """The tree, if it has all that a tree can have."""
        return None if any(one.kind in MISSING for one in self.oddities) else self.tree

    def written(self, excludes: str) -> None:
        """All files were just written by us, and nothing else has written there."""
        self.wall, self.running, self.excludes = time.time_ns(), _running(), excludes
        folders: dict[str, dict[str, Metadata]] = {}
        for path, metadata in self.seen.items():
            folder, slash, name = path.rpartition("/")
            folders.setdefault(folder + slash, {})[name] = metadata
        for folder, seen in folders.items():
            files = {folder + name: self.files[folder + name] for name in seen}
            rows = [(os.fsencode(path[len(folder) :]), entry.mode, entry.blob) for path, entry in files.items()]
            self.parts[folder] = DirectoryPart(folder, seen, files, rows, self.wall - TICK)

    def comparable(self, other: Look) -> bool:
        """Whether metadata of both looks can be compared: the clock was not set in between."""
        return abs((self.wall - other.wall) - (self.running - other.running)) < STEP


def _running() -> int:
    """Nanoseconds since the machine was started, also while it slept: this clock cannot be set."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime_ns(clock) if clock is not None else time.monotonic_ns()


metadata_of: Callable[[os.stat_result], Metadata] = attrgetter(
    "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino"
)


def hidden_changes(before: Look, after: Look) -> list[str]:
    """The sorted paths outside the tree that differ: ignored files, and files in `.git`. A watched file with the same
    content counts as unchanged."""
    found = []
    for path in before.seen.keys() | after.seen.keys():
        if path in after.files or (path in before.files and path not in after.seen):
            continue  # the tree shows it
        old, new, known = before.seen.get(path), after.seen.get(path), before.hashes.get(path)
        if known is not None and old is not None and new is not None and old[0] == new[0]:
            if known != after.hashes.get(path):
                found.append(path)
        elif old != new:
            found.append(path)
    return sorted(found)


def permission_changes(before: Look, after: Look) -> list[PermissionChange]:
    """Of files that both looks have in their trees: other permissions, beyond being executable, which trees hold."""
    found = []
    for path in sorted(before.files.keys() & after.files.keys()):
        old, new = before.seen.get(path), after.seen.get(path)
        if old is None or new is None or stat.S_IFMT(old[0]) != stat.S_IFMT(new[0]):
            continue
        if (old[0] ^ new[0]) & 0o7777 & ~0o100:
            found.append(PermissionChange(path=path, before=f"{old[0] & 0o7777:04o}", after=f"{new[0] & 0o7777:04o}"))
    return found


def news(before: Look | None, after: Look) -> list[Oddity]:
    """What is odd now and was not so before."""
    if before is None:
        return after.oddities
    known = set(before.oddities)
    return [one for one in after.oddities if one not in known or before.seen.get(one.path) != after.seen.get(one.path)]
