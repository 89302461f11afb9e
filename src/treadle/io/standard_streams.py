"""Our three standard streams, which whoever started us may have closed.

A descriptor that is not there is given to the next file that is opened: then answers are written into that file, or it
is closed when we let go of "stdin". Light: every command does this first.
"""

from __future__ import annotations

import io
import os
import stat
import sys

from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def fill_gaps() -> None:
    """Put something in place of what is missing: stdin has ended, stdout cannot be written to, stderr forgets."""
    for fd, way in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, way)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
            os.set_inheritable(fd, True)
    # Python has None in their place, and `print(file=None)` goes to stdout.
    sys.stdin = sys.stdin or open(os.devnull)
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")
    # Answers and file names can hold what the encoding of a terminal has no place for.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def forget(*fds: int) -> None:
    """Connect these with nothing: what is written there is lost, and there is nothing to read."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(null, fd)
    if null not in fds:
        os.close(null)


def never_wait_for_stderr() -> None:
    """Some programs give us a pipe as stderr and never read it. Once that is full, what we say there is lost.

    The pipe is opened a second time, since it may be shared with others whose writes must go on waiting.
    """
    try:
        if stat.S_ISFIFO(os.fstat(2).st_mode):
            fd = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            sys.stderr = io.TextIOWrapper(_Forgetful(fd, "w"), errors="backslashreplace", write_through=True)
    except OSError:
        pass  # no /proc, or nobody at the other end: then it stays as it is


class _Forgetful(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            super().write(data)
        except OSError:
            pass
        return len(data)
