"""Keep what this process holds in memory from other programs of the same user: keys above all."""

from __future__ import annotations

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def hold_secrets() -> None:
    """No core file, no debugger, and `/proc/PID/environ` is closed to others of this user. For programs, not libraries.

    Not inherited by what is executed, so every process that holds a key calls it itself. Root can look all the same:
    only the namespace that confined commands live in keeps them from it.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
