"""Our three standard streams, which the process that started us may have closed.

A missing descriptor would be given to the next file that is opened: answers would be written into that file, or closing
"stdin" would close it. Light: every command does this first.
"""

import io
import os
import stat
import sys

from treadle.light import Any


def fill_gaps() -> None:
    """Replace missing streams: stdin is at its end, stdout cannot be written to, stderr discards."""
    for fd, way in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, way)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
            os.set_inheritable(fd, True)
    # Python uses None for them, and `print(file=None)` goes to stdout.
    sys.stdin = sys.stdin or open(os.devnull)
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")
    # Answers and file names can hold characters that the terminal's encoding lacks.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def forget(*fds: int) -> None:
    """Connect these to nothing: writes are lost, and there is nothing to read."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(null, fd)
    if null not in fds:
        os.close(null)


def never_wait_for_stderr() -> None:
    """Some programs give us a pipe as stderr and never read it. Once it is full, drop what we write there.

    The pipe is opened a second time, because it may be shared with others whose writes must still wait.
    """
    try:
        if stat.S_ISFIFO(os.fstat(2).st_mode):
            fd = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            sys.stderr = io.TextIOWrapper(_Forgetful(fd, "w"), errors="backslashreplace", write_through=True)
    except OSError:
        pass  # no /proc, or no one at the other end: leave it as it is


class _Forgetful(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            super().write(data)
        except OSError:
            pass
        return len(data)
