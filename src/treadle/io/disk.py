"""This machine's file system, as permission rules ask about it."""

from __future__ import annotations

import glob
import os.path
from collections.abc import Iterator


class _Disk:
    """A `policy.disk.Disk`."""

    def expand(self, path: str) -> str:
        return os.path.expanduser(path)

    def real(self, path: str) -> str:
        return os.path.realpath(path)

    def found(self, base: str, pattern: str) -> Iterator[str]:
        return glob.iglob(os.path.join(glob.escape(base), pattern))


DISK = _Disk()
