"""Whether a program runs at all, as the kernel sees it.

A screen that stands still means nothing while the program is stopped, or wants to draw and gets no processor. So before
a screen without a sign of work counts as idle, the processes in the terminal's foreground must have slept. Where there
is no /proc, nothing is known and nothing is delayed.
"""

from treadle.io.process.table import Process
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE = 0.15
"""A program that uses more of a processor than this is computing. Idle agents redraw a clock or blink a cursor."""
TICK = 0.02
"""The kernel counts processor time in steps; two of them say nothing."""


class Pulse:
    def __init__(self, processes: "Callable[[], list[Process]] | None" = None) -> None:
        self.processes = processes
        """The processes in the terminal's foreground; None while there is no program."""
        self.stopped = False
        self._stopped_ms = 0
        self._asleep_since: int | None = None
        self._taken = 0
        self._cpu: dict[int, float] = {}

    def take(self, now: int) -> None:
        """Look at the processes."""
        if self.processes is None:
            return
        found = self.processes()
        used = sum(max(0.0, one.cpu - self._cpu.get(one.pid, one.cpu)) for one in found)
        if self.stopped:
            self._stopped_ms += now - self._taken
        self.stopped = any(one.state in "Tt" for one in found)
        awake = self.stopped or any(one.state in "RD" for one in found)
        awake = awake or used > TICK + SHARE * (now - self._taken) / 1000
        self._taken, self._cpu = now, {one.pid: one.cpu for one in found}
        if awake:
            self._asleep_since = None
        elif self._asleep_since is None:
            self._asleep_since = now

    def asleep(self, now: int) -> int | None:
        """For how many milliseconds every look has found it asleep; None when nothing can be known."""
        if self.processes is None or not self._cpu:
            return None
        return 0 if self._asleep_since is None else now - self._asleep_since

    @property
    def stopped_ms(self) -> int:
        """How long it was stopped in all, as far as the looks tell."""
        return self._stopped_ms
