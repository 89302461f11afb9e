"""Our three standard streams, which whoever started us may have closed.

A descriptor that is not there is given to the next file that is opened: then answers are written into that file, or it
is closed when we let go of "stdin". Light: every command does this first.
"""

from __future__ import annotations

import io
import os
import sys


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
