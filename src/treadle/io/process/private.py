"""Keep what this process holds in memory from other programs of the same user: keys above all."""

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def hold_secrets() -> None:
    """Write no core file, and keep other programs of this user from reading our memory and environment.

    It holds for the whole process: no debugger or profiler of this user can attach any more. So our commands call it,
    and a program that uses Treadle as a library calls it itself, if it wants that: `treadle.hold_secrets()`. It is not
    inherited by what is executed. Root can look all the same: only the namespace that confined commands live in keeps
    them from it.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
