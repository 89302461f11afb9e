"""Ending a terminal's processes in order: ask, wait, kill, and say what died.

The child's process group is not enough: a job-control shell gives each job a group of its own, and programs start
sessions of their own. What descends from the guard, which adopts whatever the child's tree leaves behind, belongs to
the terminal.
"""

from __future__ import annotations

import os
import signal

from treadle.io.process import table
from treadle.terminal.settings import STATE_FILE_VARIABLE

HANGUP_AFTER = 0.5
"""Interactive shells ignore SIGTERM, but not the loss of their terminal."""
PATIENCE = 5.0
"""Seconds after which one that SIGKILL does not end, being stuck in the kernel or another user's, is left and named."""
PAUSE = 0.02


def members(guard: int, child: int, marker: str = "", apart: int = 0) -> list[table.Process]:
    """The living processes of a terminal, without its supervisor and without `apart`.

    Without a guard, which adopts what leaves the tree, those below the child and those whose environment names the
    terminal's state file: there may be others.
    """
    outside = {os.getpid(), apart}
    if guard:
        return [process for process in table.descendants(guard) if process.pid not in outside]
    if child <= 1:
        return []  # not known, and everything descends from 0 and 1
    every = table.processes()
    found = {process.pid: process for process in every if process.pid == child}  # first, so that it is signalled first
    found |= {process.pid: process for process in table.descendants(child, every)}
    for process in every:
        if (
            marker
            and process.state not in "ZX"
            and table.environment_has(process.pid, f"{STATE_FILE_VARIABLE}={marker}")
        ):
            found.setdefault(process.pid, process)
    return [found[pid] for pid in found if pid not in outside and found[pid].state not in "ZX"]


def exit_code(status: int) -> int:
    """The exit status, or 128 and the signal that ended it."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def signal_group(group: int, number: int) -> None:
    if group > 1:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            pass


class Ending:
    """One ordered end. `step(now)` does what is due and says when to call again, or None when nobody is left."""

    def __init__(self, child: int, guard: int, grace: float, now: float, marker: str = "", apart: int = 0) -> None:
        self.child = child
        self.guard = guard
        self._marker = marker
        self._apart = apart
        self.ended: list[dict[str, object]] = []
        self._left: dict[tuple[int, int], table.Process] = {}
        self._last = signal.SIGTERM
        self._phases = [(now + min(HANGUP_AFTER, grace), signal.SIGHUP), (now + grace, signal.SIGKILL)]
        self._give_up = now + grace + PATIENCE
        self._look()
        self._send(signal.SIGTERM)

    def sooner(self, deadline: float) -> None:
        """Asked again with less patience: the earlier time counts."""
        self._phases = [(min(when, deadline), number) for when, number in self._phases]

    def step(self, now: float) -> float | None:
        self._look()
        if table.HAS_PROC and (not self._left or now >= self._give_up):
            return None
        while self._phases and now >= self._phases[0][0]:
            self._send(self._phases.pop(0)[1])
        if not self._phases:
            if not table.HAS_PROC:
                return None
            self._send(signal.SIGKILL)  # again, as they may fork while they die
        return min(now + PAUSE, self._phases[0][0]) if self._phases else now + PAUSE

    def _send(self, number: signal.Signals) -> None:
        self._last = number
        for process in self._left.values():
            table.send(process, number)
            table.send(process, signal.SIGCONT)  # one that is stopped hears nothing else
        if not table.HAS_PROC:
            signal_group(self.child, number)
            signal_group(self.child, signal.SIGCONT)

    def _look(self) -> None:
        found = {
            (process.pid, process.start): process
            for process in members(self.guard, self.child, self._marker, self._apart)
        }
        for key, process in self._left.items():
            if key not in found:
                by = self._last.name
                self.ended.append({"pid": process.pid, "name": process.name, "by": by})
        self._left = found

    @property
    def survivors(self) -> list[dict[str, object]]:
        return [{"pid": process.pid, "name": process.name} for process in self._left.values()]
