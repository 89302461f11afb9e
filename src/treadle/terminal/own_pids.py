"""A program with process ids of its own (a PID namespace): the kernel ends all of it when our processes are gone.

    sh ── bwrap ── bwrap, their first process ── the program ── ...

bwrap ends when the reaper does, and with it the namespace's first process, without which the kernel lets nothing in the
namespace live: not even a daemon in a session of its own.
"""

from treadle.errors import Unsupported
from treadle.io.process.programs import find_outside

SPACE = ("--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "--")
OURS_NOT = ("/bin/sh", "-c", 'trap "" INT QUIT; exec "$@"', "sh")
ITS_AGAIN = ("/usr/bin/env", "--default-signal=INT,QUIT")
"""Ctrl-C reaches the whole foreground group. It is meant for the program; bwrap would end by it, with the program."""


def wrapper() -> list[str]:
    """What to put before the command."""
    if (found := find_outside("bwrap")) is None:
        raise Unsupported("process ids of its own need bubblewrap (bwrap), which is not installed")
    return [*OURS_NOT, found, *SPACE, *ITS_AGAIN]
