"""Puts right what was removed from or left in a directory of terminals, for `treadle ls --repair`."""

import os
import signal
import time

from treadle.io.process import table
from treadle.terminal.places import TITLE, Place, stale

PATIENCE = 20.0
"""For how many seconds a supervisor that is told of its missing files is waited for. It also looks by itself."""


def repair(where: str) -> list[str]:
    """Have living supervisors make their files again, and remove the sockets of dead ones. Returns what was done."""
    lost = [(place, process) for place, process in _supervisors(where) if not os.path.exists(place.sock)]
    lost = [(place, process) for place, process in lost if table.send(process, signal.SIGUSR1)]
    deadline = time.monotonic() + PATIENCE
    while not all(os.path.exists(place.sock) for place, _ in lost) and time.monotonic() < deadline:
        time.sleep(0.01)
    done = []
    for place, process in lost:
        made = "made again" if os.path.exists(place.sock) else "not yet made again"
        done.append(f"{place.sock}: {made} by process {process.pid}")
    for path in stale(where):
        try:
            os.unlink(path)
            done.append(f"{path}: removed, it was left by a dead supervisor")
        except OSError:
            pass
    return done


def _supervisors(where: str) -> list[tuple[Place, table.Process]]:
    """Those that run with this directory, also if nothing of theirs is left in it: each holds its pid file open."""
    found = []
    for process in table.processes():
        title = " ".join(table.command_line(process.pid)[:1])
        if title.startswith(TITLE):
            path = os.path.join(os.path.abspath(where), f"{title.removeprefix(TITLE)}.pid")
            if path in table.open_files(process.pid):
                found.append((Place(where, title.removeprefix(TITLE)), process))
    return found
