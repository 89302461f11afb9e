"""Finds the files of a directory that have changed, independently of git: ignored files count, and so does `.git`.

The first look records the metadata of every file (kind, size, times, inode), and the hash of those that are `watched`.
The second look compares; only a watched file whose metadata differ is read again. Only the kernel can set the ctime, so
a file that was changed and given its old mtime is still found. The record stays in memory, where no other process can
write.
"""

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from treadle.io.opening import opened

Entry: TypeAlias = tuple[int, int, int, int, int]
"""Mode, size, mtime, ctime, inode."""
Watched: TypeAlias = Callable[[str], bool]
CHUNK = 1 << 20
TICK = 50_000_000
"""In nanoseconds: the clocks of file systems are coarser than that of the processor."""


class Scan:
    def __init__(self, root: str, watched: Watched | None = None, beside: Mapping[str, str] | None = None) -> None:
        """`beside`: further files and directories to look at, from the name they get here to where they are."""
        self.root = root
        self.watched = watched
        self.beside = dict(beside or {})
        self._recent = time.time_ns() - TICK
        self.entries = dict(self._look())
        self.hashes = {path: self._hash(path) for path in self.entries if watched is not None and watched(path)}

    def changed(self) -> list[str]:
        """The sorted paths that differ now. A watched file with the same content counts as unchanged."""
        now = dict(self._look())
        found = {path for path, entry in now.items() if self.entries.get(path) != entry}
        found |= self.entries.keys() - now.keys()
        # A file written again within the same tick of the file system's clock can have the same metadata.
        found |= {path for path in self.hashes if self.entries[path][3] >= self._recent}
        return sorted(path for path in found if not self._has_same_content(path, now.get(path)))

    def _has_same_content(self, path: str, entry: Entry | None) -> bool:
        known = self.hashes.get(path)
        if known is None or entry is None or entry[0] != self.entries[path][0]:
            return False
        return self._hash(path) == known

    def _look(self) -> Iterator[tuple[str, Entry]]:
        yield from _walk(self.root, "")
        for name, place in self.beside.items():
            try:
                found = os.lstat(place)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode):
                yield from _walk(place, name)
            else:
                yield name, _entry(found)

    def _place(self, path: str) -> str:
        for name, place in self.beside.items():
            if path == name or path.startswith(f"{name}/"):
                return place + path[len(name) :]
        return os.path.join(self.root, path)

    def _hash(self, path: str) -> bytes:
        place = self._place(path)
        made = hashlib.sha256()
        try:
            mode = os.lstat(place).st_mode
            if stat.S_ISLNK(mode):
                made.update(os.fsencode(os.readlink(place)))
            elif stat.S_ISREG(mode):
                with opened(place) as file:
                    while data := file.read(CHUNK):
                        made.update(data)
        except OSError as error:  # an unreadable file is marked by its error
            made.update(f"unread: {error.errno}".encode())
        return made.digest()


def _entry(found: os.stat_result) -> Entry:
    return found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _walk(root: str, name: str) -> Iterator[tuple[str, Entry]]:
    """Everything that is not a directory, by its path under `root`, with `name` in front."""
    waiting = [(root, f"{name}/" if name else "")]
    while waiting:
        folder, prefix = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, f"{prefix}{entry.name}/"))
                        continue
                    try:
                        yield prefix + entry.name, _entry(entry.stat(follow_symlinks=False))
                    except FileNotFoundError:
                        pass  # gone since it was listed
        except (FileNotFoundError, NotADirectoryError):
            pass
        except PermissionError:
            # An unreadable directory is an entry of its own, so that making one unreadable is a change.
            yield f"{prefix}.", (0, 0, 0, 0, 0)
