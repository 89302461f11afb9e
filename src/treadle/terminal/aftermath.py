"""Cleans up after a supervisor that was killed: records how the terminal ended, and removes its files.

The reaper of the terminal's processes (`io.process.reaper`) has ended them all by then, and executes this program. It
still holds the lock on the pid file, so that no one can take the id before this is done.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence

from treadle.errors import StorageError
from treadle.io.files import try_remove
from treadle.terminal.history import EXIT, Log
from treadle.terminal.lock import Lock
from treadle.terminal.places import Place
from treadle.wire.common.jsontext import timestamp

LOCK = 3
"""The first descriptor after the standard streams: the reaper passes the lock on as this one."""
KILLED: int = 128 + signal.SIGKILL
"""The exit code that shells report for a program that SIGKILL has ended."""
REASON = "its supervisor was killed, so everything in the terminal was killed"
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from treadle.terminal import aftermath; aftermath.main(sys.argv[2:])"
)


def program(place: Place, log: str, command: Sequence[str]) -> list[str]:
    """The command line of this program. It gets the lock's descriptor as 3; the pids that were killed are appended."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    rest = [root, place.directory, place.id, log, *command]
    return [sys.executable, "-I", "-S", "-c", _START, *rest]


def main(arguments: list[str]) -> None:
    directory, name, log, *command, killed = arguments
    place = Place(directory, name)
    lock = Lock(place, LOCK)
    ended = [int(pid) for pid in killed.split(",") if pid]
    Log(log, place.id)("error", "supervisor died", reason=REASON, ended=ended)
    if not lock.replaced:
        _leave_record(place, command)
    lock.remove()


def _leave_record(place: Place, command: list[str]) -> None:
    record = {
        "format": 1,
        "id": place.id,
        "code": KILLED,
        "reason": REASON,
        "command": command,
        "pid": place.pids()[1],
        "ended": timestamp(time.time()),
    }
    try:
        if not os.path.exists(place.exit):
            EXIT.save(place.exit, record)
    except StorageError:
        pass
    for path in (place.sock, place.state, place.summary):
        try_remove(path)
