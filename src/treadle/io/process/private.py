"""Protects what this process holds in memory, above all keys, from other programs of the same user."""

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def hold_secrets() -> None:
    """Write no core file, and keep other programs of this user from reading our memory and environment.

    It affects the whole process: no debugger or profiler of this user can attach any more. So our commands call it, and
    a program that uses Treadle as a library may call it itself: `treadle.hold_secrets()`. Executed programs do not
    inherit it. Root can still look: confined commands that run as root are kept out only by their namespace.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
