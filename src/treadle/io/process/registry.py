"""All process trees under keepers of this user, read from the notes that their reapers leave in the state directory;
and the end of processes that have no reaper.

A note is a file named after its reaper, with fields separated by NULs: format, owner, keeper, reaper, the reaper's
start time, the command's pid, when it was started, and the command. A reader removes the note of a dead reaper.
"""

import os
import signal
import time
from collections.abc import Callable

from treadle.io import paths
from treadle.io.files import try_remove
from treadle.io.process import reaper, table

FORMAT = b"1"


class KeeperTree:
    """One tree. `pid` is the command itself, which may have ended before those it started."""

    __slots__ = ("command", "keeper", "owner", "pid", "processes", "started", "reaper")

    def __init__(self, fields: list[bytes], processes: list[table.Process]) -> None:
        self.owner, self.keeper, self.reaper, _, self.pid, self.started = map(int, fields[1:7])
        self.command = [os.fsdecode(part) for part in fields[7:]]
        self.processes = processes

    @property
    def running(self) -> bool:
        return any(process.pid == self.pid for process in self.processes)

    @property
    def rss(self) -> int:
        return sum(process.rss for process in self.processes)

    @property
    def age(self) -> float:
        return max(0.0, time.time() - self.started)


def keeper_trees() -> list[KeeperTree]:
    """All trees, oldest first."""
    directory = os.path.join(paths.state_dir(), "keepers")
    try:
        names = [name for name in os.listdir(directory) if name.isdigit()]
    except FileNotFoundError:
        return []
    running = table.processes()
    found = [tree for name in names if (tree := _read(os.path.join(directory, name), int(name), running))]
    return sorted(found, key=lambda tree: (tree.started, tree.reaper))


def _read(path: str, reaper: int, running: list[table.Process]) -> KeeperTree | None:
    try:
        with open(path, "rb") as file:
            fields = file.read().split(b"\0")
    except OSError:
        return None  # its tree has just ended
    if fields[0] != FORMAT:
        return None  # of another version, or being written right now
    tree = KeeperTree(fields, table.descendants(reaper, running)) if len(fields) > 7 else None
    if tree is None or not _alive(reaper, int(fields[4])):
        try_remove(path)
        return None
    return tree


def _alive(reaper: int, start: int) -> bool:
    if table.HAS_PROC:
        return table.lives(reaper, start)
    try:
        os.kill(reaper, 0)
    except OSError:
        return False
    return True


# Ends processes that have no reaper, or another program's: ask, wait, kill, and report who died.
#
# The caller says which processes they are, repeatedly, because they may fork while they die.

PATIENCE = 5.0
"""After this many seconds, a process that SIGKILL does not end (stuck, or another user's) is reported as left."""
PAUSE = 0.02
"""Seconds between two looks: most of these are not our children, so nothing tells us of their end."""


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
