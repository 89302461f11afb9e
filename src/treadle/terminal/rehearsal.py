"""Runs a supervisor's code once in the warm parent, before it forks the first one.

When Python runs a function for the first times, it writes to the function's code and to its own caches. Every terminal
would do that in memory of its own; what the warm parent has done already, all share.
"""

import os
import socket
import time

from treadle.errors import TreadleError
from treadle.io import paths
from treadle.io.descriptors import remove_tree
from treadle.io.process.tree import WaitingReaper
from treadle.terminal import lock as locks
from treadle.terminal.places import Place
from treadle.terminal.settings import TerminalSettings, child_environment
from treadle.terminal.supervisor import Supervisor

TIMES = 3
"""Python changes a function's code after several calls, not at the first."""
SHOWN = b"\x1b[2J\x1b[Hhello\n$ "


def rehearse() -> None:
    """A terminal that shows something and in which no program runs, in the current directory. Where that is not
    possible, it is left out."""
    directory = os.path.abspath(f"rehearsal-{os.getpid()}")
    try:
        paths.private_dir(directory)
        try:
            for _ in range(TIMES):
                _once(directory)
        finally:
            remove_tree(directory)
    except (OSError, TreadleError):
        pass


def _once(directory: str) -> None:
    settings = TerminalSettings()
    settings.id, settings.directory, settings.workdir, settings.command = "rehearsal", directory, "/", ["sh"]
    place = Place(directory, settings.id)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        supervisor = Supervisor(settings, place, locks.take(place), WaitingReaper(os.getpid(), ours))
        try:
            supervisor.lock.write(os.getpid())
            supervisor.clients.open()
            child_environment(settings, os.environ)
            os.write(supervisor.pty.slave, SHOWN)
            supervisor.look()
            supervisor.loop.at("rehearsed", time.monotonic(), supervisor.look)
            supervisor.loop.turn()
        finally:
            supervisor.put_away()
            supervisor.history.close()
            os.close(supervisor.pty.master)
            os.close(supervisor.pty.slave)
