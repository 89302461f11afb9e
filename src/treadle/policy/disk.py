"""What rules need to know about the file system. The caller passes it in, because policy itself does no I/O.

`treadle.io.disk.DISK` reads the file system of this machine.
"""

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
        """The files in the directory `base` that a shell would put in place of a word with wildcards."""
        ...


class AsWritten:
    """Takes paths as they are written: no links are followed and no wildcards expanded."""

    def __init__(self, disk: Disk) -> None:
        self.expand = disk.expand

    def real(self, path: str) -> str:
        return posixpath.normpath(path)

    def found(self, base: str, pattern: str) -> Iterable[str]:
        return ()
