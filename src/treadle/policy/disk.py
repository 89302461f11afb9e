"""What rules need to know of the file system, handed in by whoever asks: policy itself opens and looks at nothing.

`treadle.io.disk.DISK` looks at this machine's.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Protocol


class Disk(Protocol):
    def expand(self, path: str) -> str:
        """The path with `~` and `~name` replaced by the home directory."""
        ...

    def real(self, path: str) -> str:
        """Where an absolute path leads, with every link followed."""
        ...

    def found(self, base: str, pattern: str) -> Iterable[str]:
        """The files that the shell puts in place of a word with wildcards, in the directory `base`."""
        ...


class AsWritten:
    """No links, no wildcards looked up: for judging names alone."""

    def __init__(self, disk: Disk) -> None:
        self.expand = disk.expand

    def real(self, path: str) -> str:
        return posixpath.normpath(path)

    def found(self, base: str, pattern: str) -> Iterable[str]:
        return ()
