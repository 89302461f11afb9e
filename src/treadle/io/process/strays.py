"""Ends processes that have no reaper, or another program's: ask, wait, kill, and report who died.

The caller says which processes they are, repeatedly, because they may fork while they die.
"""

import signal
import time
from collections.abc import Callable

from treadle.io.process import reaper, table

PATIENCE = 5.0
"""After this many seconds, a process that SIGKILL does not end (stuck, or another user's) is reported as left."""
PAUSE = 0.02


def end(
    find: Callable[[], list[table.Process]], grace: float
) -> tuple[list[tuple[int, str, int]], list[tuple[int, str]]]:
    """End everything that `find` returns. Gives the dead, with the last signal they got, and those left. Blocks."""
    started = time.monotonic()
    phases = [
        (started, signal.SIGTERM),
        (started + min(reaper.HANGUP_AFTER, grace), signal.SIGHUP),
        (started + grace, signal.SIGKILL),
    ]
    sent: dict[tuple[int, int], tuple[str, int]] = {}
    while (found := find()) and time.monotonic() < started + grace + PATIENCE:
        due = [number for when, number in phases if when <= time.monotonic()][-1]
        for process in found:
            key = (process.pid, process.start)
            if due == signal.SIGKILL or sent.get(key, ("", 0))[1] != due:
                table.send(process, due)
                table.send(process, signal.SIGCONT)  # a stopped process reacts to nothing else
                sent[key] = (process.name, int(due))
        time.sleep(PAUSE)
    left = {(process.pid, process.start) for process in found}
    ended = [(pid, name, by) for (pid, start), (name, by) in sent.items() if (pid, start) not in left]
    return ended, [(process.pid, process.name) for process in found]


def related(pid: int, entry: str, apart: int = 0) -> list[table.Process]:
    """The process, its descendants, and all others that were started with this variable (NAME=VALUE)."""
    if pid <= 1:
        return []  # unknown: everything descends from 0 and 1
    every = table.processes()
    found = {process.pid: process for process in every if process.pid == pid}  # first, so that it is signalled first
    found |= {process.pid: process for process in table.descendants(pid, every)}
    for process in every:
        if process.pid not in found and process.state not in "ZX" and table.environment_has(process.pid, entry):
            found[process.pid] = process
    return [process for process in found.values() if process.pid != apart and process.state not in "ZX"]
